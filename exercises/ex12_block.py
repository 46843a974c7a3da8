"""12 · block: attention lets the tokens talk, the feed-forward network lets each one think; a residual around both."""

from typing import Any

from jaxtyping import Float, Shaped
from torch import Tensor, nn

from .config import ModelConfig


class TransformerBlock(nn.Module):
    """One layer of a Qwen3-style decoder, pre-norm: `h = x + attention(norm(x))`, then `h + mlp(norm(h))`.

    Args:
        config: the sizes. Used here are hidden_size C, intermediate_size F, rms_norm_eps of both norms, and dropout.
        layer_idx: this layer's number in the model, handed on to `Attention`, which tells it to the cache.

    Parameters, by the modules that hold them (names as in the state dict):
        input_layernorm: `RMSNorm` over C, in front of attention.
        self_attn: `Attention`.
        post_attention_layernorm: `RMSNorm` over C, in front of the feed-forward network.
        mlp: `SwiGLU`, from C to F and back.

    In training each branch's output is dropped (`nn.Dropout` with config.dropout), once, before it is added. What `Attention`
    does with config.dropout inside is its own affair.

    Example:
        With `self_attn.o_proj.weight` and `mlp.down_proj.weight` zero, both branches are zero, and the block returns x.
    """

    def __init__(self, config: ModelConfig, layer_idx: int = 0) -> None:
        super().__init__()
        raise NotImplementedError("EX12: TransformerBlock.__init__")

    def forward(
        self,
        x: Float[Tensor, "B T C"],
        position_embeddings: tuple[Float[Tensor, "..."], Float[Tensor, "..."]],
        attention_mask: Shaped[Tensor, "B S"] | None = None,
        cache: Any = None,
    ) -> Float[Tensor, "B T C"]:
        """Let the tokens exchange information, then let each one work on it alone.

        Args:
            x: hidden states `[B, T, C]` of the T new tokens; not changed.
            position_embeddings, attention_mask, cache: handed on to `Attention` as they are.

        Returns:
            `[B, T, C]`, the tensor alone, in x's dtype.
        """
        raise NotImplementedError("EX12: TransformerBlock.forward")


class GPTBlock(nn.Module):
    """One layer of GPT-2, or with `norm_first=False` of the original Transformer (Vaswani et al., 2017) with GELU.

    Pre-norm: `h = x + attn(ln_1(x))`, then `h + mlp(ln_2(h))`. Post-norm: `h = ln_1(x + attn(x))`, then `ln_2(h + mlp(h))`.

    Args:
        hidden_size: C, a multiple of num_heads.
        num_heads: H; each head is D = C / H wide, and heads are contiguous blocks of D.
        dropout: in training each branch's output is dropped (`nn.Dropout`), once, before it is added: attention's here, the
            feed-forward network's by `GELUMLP` itself. Attention weights are not dropped.
        norm_first: pre-norm (True) or post-norm (False).

    Parameters, by the modules that hold them (names as in the state dict):
        ln_1, ln_2: `LayerNorm` over C with its default eps, 1e-5.
        attn: qkv_proj.weight `[3 C, C]` and qkv_proj.bias `[3 C]`, the rows of q first, then those of k, then those of v;
            out_proj.weight `[C, C]` and out_proj.bias `[C]`. Causal, scaled by 1 / sqrt(D), without positions.
        mlp: `GELUMLP`, 4 C wide inside.

    Raises:
        ValueError: hidden_size is not a multiple of num_heads; the message names both and gives their values.

    Example:
        With `attn.out_proj` and `mlp.fc_out` zero, weights and biases, the pre-norm block returns x, and the post-norm block
        `ln_2(ln_1(x))`.
    """

    def __init__(self, hidden_size: int, num_heads: int, dropout: float = 0.0, norm_first: bool = True) -> None:
        super().__init__()
        raise NotImplementedError("EX12: GPTBlock.__init__")

    def forward(self, x: Float[Tensor, "B T C"]) -> Float[Tensor, "B T C"]:
        """x `[B, T, C]`, which is not changed -> `[B, T, C]` in x's dtype. No token sees the ones after it."""
        raise NotImplementedError("EX12: GPTBlock.forward")
