"""A token takes the longer the more came before it: are all portions joined again, one by one, at every update? What is joined already can be kept."""

import torch
from jaxtyping import Shaped
from torch import Tensor

from .config import ModelConfig

CATEGORY = "speed"

KeysValues = tuple[Shaped[Tensor, "B S K D"], Shaped[Tensor, "B S K D"]]


def _check_fit(k: Tensor, v: Tensor, batch_size: int, num_kv_heads: int, head_dim: int) -> None:
    """Refuse keys or values whose batch, heads or head_dim differ from those that are held."""
    for name, x in (("k", k), ("v", v)):
        found = (x.shape[0], x.shape[2], x.shape[3])
        for axis, new, held in zip(("batch", "heads", "head_dim"), found, (batch_size, num_kv_heads, head_dim), strict=True):
            if new != held:
                raise ValueError(f"{name} has {axis} {new}, but the cache holds {axis} {held}")


def append_kv(past: KeysValues | None, k: Shaped[Tensor, "B T K D"], v: Shaped[Tensor, "B T K D"]) -> KeysValues:
    """Join the keys and values of new tokens to those of the past ones, on the token axis (1), past first."""
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
        self.portions: dict[int, list[KeysValues]] = {}

    @property
    def length(self) -> int:
        """Tokens held by the fullest layer."""
        return max((k.shape[1] for k, _ in self.layers.values()), default=0)

    def update(self, k: Shaped[Tensor, "B T K D"], v: Shaped[Tensor, "B T K D"], layer_idx: int) -> KeysValues:
        """Keep the keys and values of a layer's new tokens."""
        if layer_idx < 0:
            raise ValueError(f"layer_idx must not be negative, but layer_idx is {layer_idx}")
        append_kv(self.layers.get(layer_idx), k[:, :0], v[:, :0])  # refuses what does not fit
        portions = self.portions.setdefault(layer_idx, [])
        portions.append((k, v))
        joined = None
        for portion in portions:
            joined = append_kv(joined, *portion)
        self.layers[layer_idx] = joined
        return joined

    def reset(self) -> None:
        """Forget everything: the cache is as new and may be used for another batch."""
        self.layers.clear()
        self.portions.clear()


class StaticCache:
    """Keys and values in memory that is taken once, for up to max_len tokens a layer; an update writes the new ones only."""

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
        self.k = torch.empty(shape, dtype=dtype, device=device)  # [L, B, max_len, K, D]
        self.v = torch.empty(shape, dtype=dtype, device=device)
        self.lengths = [0] * num_layers  # tokens held, per layer: what lies behind them is never shown

    @property
    def length(self) -> int:
        """Tokens held by the fullest layer."""
        return max(self.lengths, default=0)

    def update(self, k: Shaped[Tensor, "B T K D"], v: Shaped[Tensor, "B T K D"], layer_idx: int) -> KeysValues:
        """Write the keys and values of a layer's new tokens behind those it holds."""
        num_layers, batch_size, max_len, num_kv_heads, head_dim = self.k.shape
        if not 0 <= layer_idx < num_layers:
            raise ValueError(f"layer_idx must be 0 .. {num_layers - 1}, but layer_idx is {layer_idx}")
        _check_fit(k, v, batch_size, num_kv_heads, head_dim)
        start = self.lengths[layer_idx]
        end = start + k.shape[1]
        if end > max_len:
            raise ValueError(f"max_len is {max_len}, but {start} tokens are held and {k.shape[1]} more came")
        with torch.no_grad():
            self.k[layer_idx, :, start:end] = k
            self.v[layer_idx, :, start:end] = v
        self.lengths[layer_idx] = end
        return self.k[layer_idx, :, :end], self.v[layer_idx, :, :end]  # views: nothing is copied

    def reset(self) -> None:
        """Forget all tokens and keep the memory: the cache is as new. Results of earlier updates are no longer valid."""
        self.lengths = [0] * len(self.lengths)


def kv_cache_bytes(config: ModelConfig, batch_size: int, seq_len: int, dtype: torch.dtype) -> int:
    """The bytes that the keys and values of a whole model take: 2 L B S K D times the bytes of one number."""
    numbers = 2 * config.num_layers * batch_size * seq_len * config.num_kv_heads * config.head_dim
    return numbers * dtype.itemsize
