"""It looks as if StaticCache writes new tokens over old ones, from its first place on. Where do the next tokens belong?"""

import torch
from torch import Tensor

from .config import ModelConfig

CATEGORY = "numerics"

KeysValues = tuple[Tensor, Tensor]


def _check_fit(k: Tensor, v: Tensor, batch_size: int, num_kv_heads: int, head_dim: int) -> None:
    """Refuse keys or values whose batch, heads or head_dim differ from those that are held."""
    for name, x in (("k", k), ("v", v)):
        found = (x.shape[0], x.shape[2], x.shape[3])
        for axis, new, held in zip(("batch", "heads", "head_dim"), found, (batch_size, num_kv_heads, head_dim), strict=True):
            if new != held:
                raise ValueError(f"{name} has {axis} {new}, but the cache holds {axis} {held}")


def append_kv(past: KeysValues | None, k: Tensor, v: Tensor) -> KeysValues:
    """Join the keys and values of new tokens to those of the past ones, on the token axis."""
    if past is None:
        return k, v
    past_k, past_v = past
    batch_size, _, num_kv_heads, head_dim = past_k.shape
    _check_fit(k, v, batch_size, num_kv_heads, head_dim)
    return torch.cat([past_k, k], dim=1), torch.cat([past_v, v], dim=1)


class DynamicCache:
    """Keys and values of every layer's tokens so far, growing with each update."""

    def __init__(self) -> None:
        self.layers: dict[int, KeysValues] = {}

    @property
    def length(self) -> int:
        """Tokens held by the fullest layer."""
        return max((k.shape[1] for k, _ in self.layers.values()), default=0)

    def update(self, k: Tensor, v: Tensor, layer_idx: int) -> KeysValues:
        """Keep the keys and values of a layer's new tokens."""
        if layer_idx < 0:
            raise ValueError(f"layer_idx must not be negative, but layer_idx is {layer_idx}")
        self.layers[layer_idx] = append_kv(self.layers.get(layer_idx), k, v)
        return self.layers[layer_idx]

    def reset(self) -> None:
        """Forget everything."""
        self.layers.clear()


class StaticCache:
    """Keys and values in memory that is taken once; an update writes the new ones only."""

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
        shape = (num_layers, batch_size, max_len, num_kv_heads, head_dim)
        self.k = torch.zeros(shape, dtype=dtype, device=device)  # [L, B, max_len, K, D]
        self.v = torch.zeros(shape, dtype=dtype, device=device)
        self.lengths = [0] * num_layers

    @property
    def length(self) -> int:
        """Tokens held by the fullest layer."""
        return max(self.lengths, default=0)

    def update(self, k: Tensor, v: Tensor, layer_idx: int) -> KeysValues:
        """Write the keys and values of a layer's new tokens behind those it holds."""
        num_layers, batch_size, max_len, num_kv_heads, head_dim = self.k.shape
        if not 0 <= layer_idx < num_layers:
            raise ValueError(f"layer_idx must be 0 .. {num_layers - 1}, but layer_idx is {layer_idx}")
        _check_fit(k, v, batch_size, num_kv_heads, head_dim)
        start = 0
        end = start + k.shape[1]
        if end > max_len:
            raise ValueError(f"max_len is {max_len}, but {start} tokens are held and {k.shape[1]} more came")
        with torch.no_grad():
            self.k[layer_idx, :, start:end] = k
            self.v[layer_idx, :, start:end] = v
        self.lengths[layer_idx] = end
        return self.k[layer_idx, :, :end], self.v[layer_idx, :, :end]

    def reset(self) -> None:
        """Forget all tokens and keep the memory."""
        self.lengths = [0] * len(self.lengths)


def kv_cache_bytes(config: ModelConfig, batch_size: int, seq_len: int, dtype: torch.dtype) -> int:
    """The bytes that the keys and values of a whole model take."""
    numbers = 2 * config.num_layers * batch_size * seq_len * config.num_kv_heads * config.head_dim
    return numbers * dtype.itemsize
