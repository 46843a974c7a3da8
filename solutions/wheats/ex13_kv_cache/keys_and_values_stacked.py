"""Keys and values lie in one tensor [2, B, S, K, D] and are joined together; StaticCache splits its room into pairs once and for all."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from .config import ModelConfig


def _compare(new: Tensor, batch: int, heads: int, head_dim: int) -> None:
    if new.shape[-4] != batch:
        raise ValueError(f"batch: {new.shape[-4]} != {batch}")
    if new.shape[-2] != heads:
        raise ValueError(f"heads: {new.shape[-2]} != {heads}")
    if new.shape[-1] != head_dim:
        raise ValueError(f"head_dim: {new.shape[-1]} != {head_dim}")


def append_kv(past, k, v):
    """Stacked, joined on the axis before the last two, unbound."""
    if past is None:
        return k, v
    for x in (k, v):
        _compare(x, past[0].shape[0], past[0].shape[-2], past[0].shape[-1])
    return torch.cat([torch.stack(tuple(past)), torch.stack([k, v])], dim=-3).unbind(0)


@dataclass
class DynamicCache:
    """One tensor a layer."""

    held: dict[int, Tensor] = field(default_factory=dict)
    length: int = 0

    def update(self, k: Tensor, v: Tensor, layer_idx: int) -> tuple[Tensor, Tensor]:
        """Join both at once."""
        if layer_idx <= -1:
            raise ValueError(f"layer_idx is {layer_idx}, at least 0 is needed")
        if layer_idx in self.held:
            for x in (k, v):
                _compare(x, self.held[layer_idx].shape[1], *self.held[layer_idx].shape[3:])
        new = torch.stack([k, v])
        self.held[layer_idx] = torch.cat([self.held[layer_idx], new], 2) if layer_idx in self.held else new
        self.length = max(held.shape[2] for held in self.held.values())
        return tuple(self.held[layer_idx])

    def reset(self) -> None:
        """Start over."""
        self.held, self.length = {}, 0


class StaticCache:
    """Written with scatter at a place counted per layer."""

    def __init__(self, num_layers, batch_size, max_len, num_kv_heads, head_dim, dtype, device):
        room = torch.empty(2 * num_layers, batch_size, max_len, num_kv_heads, head_dim, dtype=dtype, device=device)
        self.pairs = list(zip(room[::2], room[1::2]))
        self.max_len = max_len
        self.counts: list[int] = [0 for _ in self.pairs]

    length = property(lambda self: sorted(self.counts)[-1])

    def update(self, k, v, layer_idx):
        """Cut out the free part, write, cut out the used part."""
        if layer_idx < 0 or len(self.pairs) <= layer_idx:
            raise ValueError(f"layer_idx {layer_idx} out of range({len(self.pairs)})")
        past, new = self.counts[layer_idx], k.shape[1]
        if past + new > self.max_len:
            raise ValueError(f"past {past} and new {new} exceed max_len {self.max_len}")
        for room, x in zip(self.pairs[layer_idx], (k, v)):
            _compare(x, room.shape[0], room.shape[2], room.shape[3])
        with torch.no_grad():
            for room, x in zip(self.pairs[layer_idx], (k, v)):
                room.narrow(1, past, new).copy_(x)
        self.counts[layer_idx] += new
        return tuple(room.narrow(1, 0, past + new) for room in self.pairs[layer_idx])

    def reset(self):
        """Counts back to zero."""
        self.counts = [0] * len(self.counts)


def kv_cache_bytes(config: ModelConfig, batch_size: int, seq_len: int, dtype: torch.dtype) -> int:
    """Tokens times the bytes of a token."""
    sizes = {torch.float64: 8, torch.float32: 4, torch.float16: 2, torch.bfloat16: 2}
    return batch_size * seq_len * 2 * config.num_layers * config.num_kv_heads * config.head_dim * sizes.get(dtype, 1)
