"""DynamicCache keeps the portions themselves and joins them at every update; StaticCache writes with index_copy_ and counts in a tensor."""

import torch
from torch import Tensor

from .config import ModelConfig


def _refuse_misfit(k: Tensor, v: Tensor, batch: int, heads: int, head_dim: int) -> None:
    for x in (k, v):
        if (x.size(0), x.size(2), x.size(3)) != (batch, heads, head_dim):
            raise ValueError(
                f"batch, heads and head_dim are {batch}, {heads} and {head_dim} here, but {list(x.shape)} came in, [B, T, K, D]"
            )


def append_kv(past, k, v):
    """Past first."""
    if past is None:
        return k, v
    batch, _, heads, head_dim = past[0].shape
    _refuse_misfit(k, v, batch, heads, head_dim)
    return tuple(torch.concat(pair, 1) for pair in zip(past, (k, v)))


class DynamicCache:
    """A list of portions for each layer."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """An empty dict."""
        self.portions: dict[int, list[tuple[Tensor, Tensor]]] = {}
        self.length = 0

    def update(self, k: Tensor, v: Tensor, layer_idx: int) -> tuple[Tensor, Tensor]:
        """All portions, joined."""
        if layer_idx < 0:
            raise ValueError(f"layer_idx = {layer_idx} is negative")
        portions = self.portions.get(layer_idx, [])
        if portions:
            batch, _, heads, head_dim = portions[0][0].shape
            _refuse_misfit(k, v, batch, heads, head_dim)
        self.portions[layer_idx] = [*portions, (k, v)]
        keys, values = (torch.cat(part, dim=1) for part in zip(*self.portions[layer_idx]))
        self.length = max(self.length, keys.size(1))
        return keys, values


class StaticCache:
    """A tensor for each layer, keys and values side by side in it."""

    def __init__(self, num_layers, batch_size, max_len, num_kv_heads, head_dim, dtype, device) -> None:
        self.max_len = max_len
        self.rooms = [
            torch.zeros(2, batch_size, max_len, num_kv_heads, head_dim, dtype=dtype, device=device) for _ in range(num_layers)
        ]
        self.counts = torch.zeros(num_layers, dtype=torch.int64)

    @property
    def length(self) -> int:
        """The largest count."""
        return int(self.counts.max())

    @torch.no_grad()
    def update(self, k: Tensor, v: Tensor, layer_idx: int) -> tuple[Tensor, Tensor]:
        """Write at the next indices."""
        if layer_idx < 0 or layer_idx >= len(self.rooms):
            raise ValueError(f"layer_idx {layer_idx}: there are {len(self.rooms)} layers")
        room = self.rooms[layer_idx]
        _refuse_misfit(k, v, room.size(1), room.size(3), room.size(4))
        start, new = int(self.counts[layer_idx]), k.size(1)
        if start + new > self.max_len:
            raise ValueError(f"{start} + {new} tokens are more than max_len = {self.max_len}")
        places = torch.arange(start, start + new, device=room.device)
        room[0].index_copy_(1, places, k.to(room.dtype))
        room[1].index_copy_(1, places, v.to(room.dtype))
        self.counts[layer_idx] += new
        return room[0].narrow(1, 0, start + new), room[1].narrow(1, 0, start + new)

    def reset(self) -> None:
        """Only the counts."""
        self.counts.zero_()


def kv_cache_bytes(config: ModelConfig, batch_size: int, seq_len: int, dtype: torch.dtype) -> int:
    """By the size of a token."""
    one_head = torch.finfo(dtype).bits // 8 * config.head_dim
    token = 2 * config.num_layers * config.num_kv_heads * one_head
    return token * batch_size * seq_len
