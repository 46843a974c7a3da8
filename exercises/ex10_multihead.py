"""10 · multi-head attention: the steps of 04 to 09 in a row, in one module with trained weights."""

from typing import Protocol

from jaxtyping import Float, Shaped
from torch import Tensor

from .config import ModelConfig
from .ex05_qkv import QKVProjection


class Cache(Protocol):
    """What `Attention` asks of a cache; exercise 13 writes two."""

    def update(
        self, k: Float[Tensor, "B T K D"], v: Float[Tensor, "B T K D"], layer_idx: int
    ) -> tuple[Float[Tensor, "B S K D"], Float[Tensor, "B S K D"]]:
        """Take in the keys and values of new tokens; return those of all tokens so far."""
        ...


class Attention(QKVProjection):
    """Causal self-attention with grouped heads, QK-Norm and rotary positions, as in Qwen3 and MiniMind.

    Eight steps: project, QK-Norm, RoPE, (cache), `repeat_kv`, attention, merge the heads, `o_proj`. It keeps nothing from
    one call to the next.

    Args:
        config: reads `hidden_size` (C), `num_heads` (H), `num_kv_heads` (K), `head_dim` (D, so H * D need not be C),
            `rms_norm_eps` (of the QK-Norm), `dropout` (on the attention weights, in training) and `use_flash`.
        layer_idx: which layer this is; only a cache asks for it.

    Parameters, without any bias:
        `q_proj.weight` `[H*D, C]`, `k_proj.weight` and `v_proj.weight` `[K*D, C]`, `q_norm.weight` and `k_norm.weight`
        `[D]`, `o_proj.weight` `[C, H*D]`. These are all: they are Hugging Face's names, and so a Qwen3 layer can be loaded.

    Example:
        >>> module = Attention(ModelConfig(hidden_size=64, num_heads=4, num_kv_heads=2, head_dim=8))
        >>> cos, sin = precompute_rotary(8, max_len=32)  # from 04
        >>> module(torch.randn(1, 5, 64), (cos[:5], sin[:5])).shape
        torch.Size([1, 5, 64])
    """

    def __init__(self, config: ModelConfig, layer_idx: int = 0) -> None:
        raise NotImplementedError("EX10: Attention.__init__")

    def forward(
        self,
        x: Float[Tensor, "B T C"],
        position_embeddings: tuple[Float[Tensor, "..."], Float[Tensor, "..."]],
        attention_mask: Shaped[Tensor, "B S"] | None = None,
        cache: Cache | None = None,
    ) -> Float[Tensor, "B T C"]:
        """Let every token gather from the tokens up to itself.

        Args:
            x: `[B, T, C]`, the new tokens.
            position_embeddings: `(cos, sin)`, each `[T, D]` or `[B, T, D]`, taken at the positions of these T tokens.
            attention_mask: `[B, S]` over past and new keys, 1 or True = real token; None: all are real.
            cache: where keys and values of earlier tokens are. `cache.update(k, v, layer_idx)` is called exactly once,
                with the new ones `[B, T, K, D]`, after RoPE and before `repeat_kv`; what it returns, `[B, S, K, D]`, is
                attended to and not changed. None (and nothing else, an empty cache may count as false): there is no past.

        Returns:
            `[B, T, C]`. A token that may see nothing gets zeros.
        """
        raise NotImplementedError("EX10: Attention.forward")
