"""Both caches are modules, and what they hold are buffers that are not saved; room is taken at the first update; `length` is an attribute."""

import torch
from torch import Tensor, nn

from .config import ModelConfig

AXES = {"batch": 0, "heads": 2, "head_dim": 3}


def _check(held: dict[str, int], k: Tensor, v: Tensor) -> None:
    for name, x in {"k": k, "v": v}.items():
        for axis, index in AXES.items():
            if x.shape[index] != held[axis]:
                raise ValueError(f"{name}: {axis} must be {held[axis]}, got {x.shape[index]}")


def append_kv(past: tuple[Tensor, Tensor] | None, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """hstack joins on dim 1."""
    if past is None:
        return k.clone(), v.clone()
    _check({axis: past[0].shape[index] for axis, index in AXES.items()}, k, v)
    return torch.hstack((past[0], k)), torch.hstack((past[1], v))


class DynamicCache(nn.Module):
    """One pair of buffers per layer."""

    def __init__(self) -> None:
        super().__init__()
        self.length = 0

    def update(self, k: Tensor, v: Tensor, layer_idx: int) -> tuple[Tensor, Tensor]:
        """Replace the layer's buffers by longer ones."""
        if layer_idx < 0:
            raise ValueError(f"layer_idx: {layer_idx} < 0")
        names = f"k{layer_idx}", f"v{layer_idx}"
        past = tuple(getattr(self, name) for name in names) if hasattr(self, names[0]) else None
        joined = append_kv(past, k, v)
        for name, value in zip(names, joined):
            self.register_buffer(name, value, persistent=False)
        self.length = max(self.length, joined[0].shape[1])
        return joined

    def reset(self) -> None:
        """Delete the buffers."""
        for name in list(self._buffers):
            delattr(self, name)
        self.length = 0


class StaticCache(nn.Module):
    """Two buffers, tokens in front: [max_len, L, B, K, D]."""

    def __init__(self, num_layers, batch_size, max_len, num_kv_heads, head_dim, dtype, device):
        super().__init__()
        self.sizes = {"batch": batch_size, "heads": num_kv_heads, "head_dim": head_dim}
        self.num_layers, self.max_len, self.dtype, self.where = num_layers, max_len, dtype, device
        self.register_buffer("room", None, persistent=False)
        self.reset()

    def update(self, k: Tensor, v: Tensor, layer_idx: int) -> tuple[Tensor, Tensor]:
        """Write, and return views with the batch in front again."""
        if not -1 < layer_idx < self.num_layers:
            raise ValueError(f"no layer {layer_idx}: layer_idx ends at {self.num_layers - 1}")
        _check(self.sizes, k, v)
        held = self.held.get(layer_idx, 0)
        now = held + k.shape[1]
        if now > self.max_len:
            raise ValueError(f"{now} tokens, but max_len is {self.max_len}")
        if self.room is None:
            shape = (2, self.max_len, self.num_layers, *self.sizes.values())
            self.room = torch.empty(shape, dtype=self.dtype, device=self.where)
        for place, x in zip(self.room, (k, v)):
            place[held:now, layer_idx].copy_(x.detach().transpose(0, 1))
        self.held[layer_idx] = now
        self.length = max(self.length, now)
        return self.room[0, :now, layer_idx].transpose(0, 1), self.room[1, :now, layer_idx].transpose(0, 1)

    def reset(self) -> None:
        """Start counting anew."""
        self.held: dict[int, int] = {}
        self.length = 0


def kv_cache_bytes(config, batch_size, seq_len, dtype):
    """K D is `kv_size`."""
    return torch.empty(0, dtype=dtype).element_size() * config.kv_size * seq_len * batch_size * config.num_layers * 2
