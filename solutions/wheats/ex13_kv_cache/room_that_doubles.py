"""DynamicCache writes into room that doubles when it is full, and returns views; StaticCache is the same with room that may not grow."""

import torch
from torch import Tensor

from .config import ModelConfig


def _misfit(x: Tensor, batch: int, heads: int, head_dim: int) -> str | None:
    wanted = {"batch": (x.shape[0], batch), "heads": (x.shape[2], heads), "head_dim": (x.shape[3], head_dim)}
    wrong = [f"{name} is {new} instead of {held}" for name, (new, held) in wanted.items() if new != held]
    return "; ".join(wrong) or None


def append_kv(past, k, v):
    """By hand: an empty tensor of the right size, two slices written."""
    if past is None:
        return (k, v)
    result = []
    for old, new in zip(past, (k, v)):
        if wrong := _misfit(new, past[0].shape[0], past[0].shape[2], past[0].shape[3]):
            raise ValueError(wrong)
        room = old.new_empty(old.shape[0], old.shape[1] + new.shape[1], *old.shape[2:])
        room[:, : old.shape[1]] = old
        room[:, old.shape[1] :] = new
        result.append(room)
    return tuple(result)


class _Layer:
    """Room for one layer's tokens."""

    def __init__(self, k: Tensor, v: Tensor) -> None:
        self.k, self.v, self.count = k, v, 0

    def write(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        start, self.count = self.count, self.count + k.shape[1]
        self.k[:, start : self.count] = k
        self.v[:, start : self.count] = v
        return self.k[:, : self.count], self.v[:, : self.count]


class DynamicCache:
    """Layers with room for a power of two of tokens."""

    def __init__(self) -> None:
        self.by_number: dict[int, _Layer] = {}

    @property
    def length(self) -> int:
        return max([0, *(layer.count for layer in self.by_number.values())])

    def update(self, k: Tensor, v: Tensor, layer_idx: int) -> tuple[Tensor, Tensor]:
        if layer_idx < 0:
            raise ValueError(f"layer_idx must be 0 or more, not {layer_idx}")
        layer = self.by_number.get(layer_idx)
        if layer is None:
            layer = _Layer(k.new_empty(k.shape[0], 0, *k.shape[2:]), v.new_empty(v.shape[0], 0, *v.shape[2:]))
        for x in (k, v):
            if wrong := _misfit(x, layer.k.shape[0], layer.k.shape[2], layer.k.shape[3]):
                raise ValueError(wrong)
        needed = layer.count + k.shape[1]
        if needed > layer.k.shape[1]:
            room = 1 << (needed - 1).bit_length()
            grown = _Layer(k.new_empty(k.shape[0], room, *k.shape[2:]), v.new_empty(v.shape[0], room, *v.shape[2:]))
            grown.write(layer.k[:, : layer.count], layer.v[:, : layer.count])
            layer = grown
        self.by_number[layer_idx] = layer
        return layer.write(k, v)

    def reset(self) -> None:
        self.by_number = {}


class StaticCache:
    """Layers with room for max_len tokens."""

    def __init__(
        self,
        num_layers: int,
        batch_size: int,
        max_len: int,
        num_kv_heads: int,
        head_dim: int,
        dtype: torch.dtype,
        device: torch.device | str,
    ) -> None:
        self.shape = (batch_size, max_len, num_kv_heads, head_dim)
        nan = float("nan")
        self.layers = [
            _Layer(*(torch.full(self.shape, nan, dtype=dtype, device=device) for _ in "kv")) for _ in range(num_layers)
        ]

    @property
    def length(self) -> int:
        return max(layer.count for layer in self.layers)

    def update(self, k: Tensor, v: Tensor, layer_idx: int) -> tuple[Tensor, Tensor]:
        if layer_idx not in range(len(self.layers)):
            raise ValueError(f"layer_idx={layer_idx} is not in 0..{len(self.layers) - 1}")
        batch_size, max_len, num_kv_heads, head_dim = self.shape
        layer = self.layers[layer_idx]
        if layer.count + k.shape[1] > max_len:
            raise ValueError(f"room for {max_len} tokens (max_len), of which {layer.count} are used; {k.shape[1]} do not fit")
        for x in (k, v):
            if wrong := _misfit(x, batch_size, num_kv_heads, head_dim):
                raise ValueError(wrong)
        return layer.write(k.detach(), v.detach())

    def reset(self) -> None:
        for layer in self.layers:
            layer.count = 0


def kv_cache_bytes(config: ModelConfig, batch_size: int, seq_len: int, dtype: torch.dtype) -> int:
    """A meta tensor is asked for its size."""
    shape = (2, config.num_layers, batch_size, seq_len, config.num_kv_heads, config.head_dim)
    return torch.empty(shape, dtype=dtype, device="meta").nbytes
