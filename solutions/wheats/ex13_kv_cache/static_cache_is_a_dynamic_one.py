"""StaticCache extends DynamicCache and replaces what joining means: a pair of cut-outs is moved on within one big tensor."""

import torch
from torch import Tensor

from .config import ModelConfig


def _sizes(x: Tensor) -> tuple[int, int, int]:
    batch, _, heads, head_dim = x.shape
    return batch, heads, head_dim


def append_kv(past, k: Tensor, v: Tensor):
    """Into a new tensor: past tokens in front, new ones behind."""
    if past is None:
        return k, v
    for x in (k, v):
        if _sizes(x) != _sizes(past[0]):
            names = "(batch, heads, head_dim)"
            raise ValueError(f"{names} of the new tokens are {_sizes(x)}, those of the past {_sizes(past[0])}")
    joined = []
    for old, new in zip(past, (k, v)):
        length = old.shape[1]
        both = old.new_empty(old.shape[0], length + new.shape[1], *old.shape[2:])
        both[:, :length], both[:, length:] = old, new
        joined.append(both)
    return tuple(joined)


class DynamicCache:
    """Pairs in a list of (number, k, v)."""

    def __init__(self) -> None:
        self.pairs = []

    @property
    def length(self) -> int:
        """Of the longest pair."""
        return max([k.shape[1] for _, k, _ in self.pairs] or [0])

    def update(self, k: Tensor, v: Tensor, layer_idx: int) -> tuple[Tensor, Tensor]:
        """Look the layer up and put the joined pair in its place."""
        self.check(layer_idx)
        place = next((index for index, pair in enumerate(self.pairs) if pair[0] == layer_idx), None)
        past = None if place is None else self.pairs[place][1:]
        joined = self.join(past, k, v, layer_idx)
        if place is not None:
            self.pairs.pop(place)
        self.pairs.append((layer_idx, *joined))
        return joined

    def check(self, layer_idx: int) -> None:
        """Layers count from 0."""
        if layer_idx < 0:
            raise ValueError(f"layer_idx = {layer_idx}")

    def join(self, past, k: Tensor, v: Tensor, layer_idx: int) -> tuple[Tensor, Tensor]:
        """A longer pair."""
        return append_kv(past, k, v)

    def reset(self) -> None:
        """No pairs."""
        self.pairs = []


class StaticCache(DynamicCache):
    """All pairs are parts of one tensor [B, max_len, L, 2, K, D]."""

    def __init__(self, num_layers, batch_size, max_len, num_kv_heads, head_dim, dtype, device) -> None:
        super().__init__()
        self.room = torch.zeros(batch_size, max_len, num_layers, 2, num_kv_heads, head_dim, dtype=dtype, device=device)

    def check(self, layer_idx: int) -> None:
        """Layers end at num_layers."""
        super().check(layer_idx)
        if layer_idx >= self.room.shape[2]:
            raise ValueError(f"layer_idx = {layer_idx}, num_layers = {self.room.shape[2]}")

    def join(self, past, k: Tensor, v: Tensor, layer_idx: int) -> tuple[Tensor, Tensor]:
        """The next places are written and the cut-outs made longer."""
        batch, max_len, _, _, heads, head_dim = self.room.shape
        start = 0 if past is None else past[0].shape[1]
        end = start + k.shape[1]
        if end > max_len:
            raise ValueError(f"max_len = {max_len} is less than {end}")
        for index, x in enumerate((k, v)):
            if _sizes(x) != (batch, heads, head_dim):
                raise ValueError(f"batch, heads, head_dim = {_sizes(x)} do not fit {(batch, heads, head_dim)}")
        with torch.no_grad():
            for index, x in enumerate((k, v)):
                self.room[:, start:end, layer_idx, index].copy_(x)
        return self.room[:, :end, layer_idx, 0], self.room[:, :end, layer_idx, 1]


def kv_cache_bytes(config: ModelConfig, batch_size: int, seq_len: int, dtype: torch.dtype) -> int:
    """By tensors: one layer's keys, then twice as much for every layer."""
    keys = torch.empty(1, dtype=dtype).expand(batch_size, seq_len, config.num_kv_heads, config.head_dim)
    return sum(2 * keys.numel() * keys.element_size() for _ in range(config.num_layers))
