"""13 · kv_cache: what has been computed once is kept: the keys and values of all past tokens, layer by layer."""

import torch
from jaxtyping import Shaped
from torch import Tensor

from .config import ModelConfig

KeysValues = tuple[Shaped[Tensor, "B S K D"], Shaped[Tensor, "B S K D"]]


def append_kv(past: KeysValues | None, k: Shaped[Tensor, "B T K D"], v: Shaped[Tensor, "B T K D"]) -> KeysValues:
    """Join the keys and values of new tokens to those of the past ones, on the token axis (1), past first.

    Args:
        past: None, or (k, v) of the S - T tokens so far, `[B, S - T, K, D]` each. Not changed.
        k, v: keys and values `[B, T, K, D]` of the new tokens, of any dtype, contiguous or not. Not changed.

    Returns:
        (k, v), a tuple of `[B, S, K, D]` each, in the dtype and on the device of what went in. Without a past they are k
        and v. Gradients flow back to all four tensors.

    Raises:
        ValueError: k or v does not fit the past. The message names what differs, `batch`, `heads` or `head_dim`, and gives
            both sizes.

    Example:
        >>> old, new = torch.zeros(1, 2, 4, 96), torch.ones(1, 1, 4, 96)
        >>> k, v = append_kv((old, old), new, new)
        >>> k.shape, k[0, :, 0, 0].tolist()
        (torch.Size([1, 3, 4, 96]), [0.0, 0.0, 1.0])
    """
    raise NotImplementedError("EX13: append_kv")


class DynamicCache:
    """Keys and values of every layer's tokens so far, growing with each update.

    It starts empty and asks for no sizes: they, the dtype and the device are those of what comes in, in each layer its own.
    An update joins once: it does not go through all earlier updates again.
    Layers may come in any order, and each holds as many tokens as it was given, whatever the others hold. Two caches share
    nothing.

    Attributes:
        length: int, the tokens held by the fullest layer; 0 when empty. An attribute or a property.

    Example:
        >>> cache = DynamicCache()
        >>> prompt, token = torch.zeros(1, 5, 4, 96), torch.ones(1, 1, 4, 96)
        >>> _ = cache.update(prompt, prompt, layer_idx=0)
        >>> k, v = cache.update(token, token, layer_idx=0)
        >>> k.shape, cache.length
        (torch.Size([1, 6, 4, 96]), 6)
    """

    def __init__(self) -> None:
        raise NotImplementedError("EX13: DynamicCache.__init__")

    def update(self, k: Shaped[Tensor, "B T K D"], v: Shaped[Tensor, "B T K D"], layer_idx: int) -> KeysValues:
        """Keep the keys and values of a layer's new tokens.

        Args:
            k, v: `[B, T, K, D]` of the new tokens, with K heads as projected, not repeated. Not changed.
            layer_idx: the layer's number, 0 or more.

        Returns:
            (k, v), a tuple of `[B, S, K, D]` each: all tokens of this layer so far, the oldest first. They keep their values
            until `reset()`, whatever is added later. Gradients flow back through them, to earlier tokens too.

        Raises:
            ValueError: `layer_idx < 0` (the message names `layer_idx` and its value), or k or v does not fit what this layer
                holds (it names what differs, `batch`, `heads` or `head_dim`, and both sizes). The cache is then as before.
        """
        raise NotImplementedError("EX13: DynamicCache.update")

    def reset(self) -> None:
        """Forget everything: the cache is as new and may be used for another batch."""
        raise NotImplementedError("EX13: DynamicCache.reset")


class StaticCache:
    """Keys and values in memory that is taken once, for up to max_len tokens a layer; an update writes the new ones only.

    Each layer counts its own tokens, whatever the others hold.

    Args:
        num_layers: L.
        batch_size: B.
        max_len: the most tokens that a layer may hold.
        num_kv_heads: K, not H.
        head_dim: D.
        dtype, device: of what is held and returned; k and v are converted if theirs differ.

    Attributes:
        length: int, the tokens held by the fullest layer; 0 when empty. An attribute or a property.

    Example:
        >>> cache = StaticCache(8, 1, 100, 4, 96, torch.bfloat16, "cpu")
        >>> k, v = cache.update(torch.zeros(1, 5, 4, 96), torch.ones(1, 5, 4, 96), layer_idx=0)
        >>> k.shape, k.dtype, cache.length
        (torch.Size([1, 5, 4, 96]), torch.bfloat16, 5)
    """

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
        raise NotImplementedError("EX13: StaticCache.__init__")

    def update(self, k: Shaped[Tensor, "B T K D"], v: Shaped[Tensor, "B T K D"], layer_idx: int) -> KeysValues:
        """Write the keys and values of a layer's new tokens behind those it holds.

        Args:
            k, v: `[B, T, K, D]` of the new tokens, with K heads as projected, not repeated. Not changed.
            layer_idx: the layer's number, 0 .. num_layers - 1.

        Returns:
            (k, v), a tuple of `[B, S, K, D]` each: the S tokens of this layer so far, the oldest first, and no unused place.
            They may be views of the cache's memory. They keep their values until `reset()`, whatever is added later. No
            gradient need flow back. An update takes no memory that grows with the tokens held.

        Raises:
            ValueError: `layer_idx < 0` or `layer_idx >= num_layers` (the message names `layer_idx` and its value); more than
                `max_len` tokens (it names `max_len` and its value); k or v does not fit the cache (it names what differs, `batch`,
                `heads` or `head_dim`, and both sizes). The cache is then as before.
        """
        raise NotImplementedError("EX13: StaticCache.update")

    def reset(self) -> None:
        """Forget all tokens and keep the memory: the cache is as new. Results of earlier updates are no longer valid."""
        raise NotImplementedError("EX13: StaticCache.reset")


def kv_cache_bytes(config: ModelConfig, batch_size: int, seq_len: int, dtype: torch.dtype) -> int:
    """The bytes that the keys and values of a whole model take: 2 L B S K D times the bytes of one number.

    Args:
        config: its num_layers L, num_kv_heads K and head_dim D count; the query heads do not.
        batch_size: B.
        seq_len: S, tokens held.
        dtype: any floating-point dtype, those of 8 bits included.

    Returns:
        An int.

    Example:
        MiniMind keeps 12 KiB for each token: 2 tensors, 8 layers, 4 heads, 96 channels, 2 bytes.

        >>> kv_cache_bytes(ModelConfig(), 1, 1, torch.bfloat16)
        12288
    """
    raise NotImplementedError("EX13: kv_cache_bytes")
