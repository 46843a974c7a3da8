"""12 · block: attention lets the tokens talk, the feed-forward network lets each one think; a residual around both."""

from typing import Any

from jaxtyping import Float, Shaped
from torch import Tensor, nn

from .config import ModelConfig
from .ex03_norm import LayerNorm, RMSNorm
from .ex09_flash import attention
from .ex10_multihead import Attention
from .ex11_ffn import GELUMLP, SwiGLU


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
        # BEGIN SOLUTION
        self.input_layernorm = RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.self_attn = Attention(config, layer_idx)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.mlp = SwiGLU(config.hidden_size, config.intermediate_size)
        self.dropout = nn.Dropout(config.dropout)
        # END SOLUTION

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
        # BEGIN SOLUTION
        attended = self.self_attn(self.input_layernorm(x), position_embeddings, attention_mask, cache)
        h = x + self.dropout(attended)  # [B, T, C]
        return h + self.dropout(self.mlp(self.post_attention_layernorm(h)))
        # END SOLUTION


# BEGIN SOLUTION
class CausalSelfAttention(nn.Module):
    """GPT-2's attention: as many key/value heads as query heads, biases, no positions of its own."""

    def __init__(self, hidden_size: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.qkv_proj = nn.Linear(hidden_size, 3 * hidden_size)
        self.out_proj = nn.Linear(hidden_size, hidden_size)

    def forward(self, x: Float[Tensor, "B T C"]) -> Float[Tensor, "B T C"]:
        """Every token asks itself and those before it."""
        q, k, v = self.qkv_proj(x).unflatten(-1, (3, self.num_heads, -1)).permute(2, 0, 3, 1, 4)  # each [B, H, T, D]
        return self.out_proj(attention(q, k, v).transpose(1, 2).flatten(2))  # [B, T, H, D] -> [B, T, C]


# END SOLUTION


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
        # BEGIN SOLUTION
        if hidden_size % num_heads != 0:
            raise ValueError(f"hidden_size must be a multiple of num_heads, but they are {hidden_size} and {num_heads}")
        self.norm_first = norm_first
        self.ln_1 = LayerNorm(hidden_size)
        self.attn = CausalSelfAttention(hidden_size, num_heads)
        self.ln_2 = LayerNorm(hidden_size)
        self.mlp = GELUMLP(hidden_size, 4 * hidden_size, dropout)
        self.dropout = nn.Dropout(dropout)
        # END SOLUTION

    def forward(self, x: Float[Tensor, "B T C"]) -> Float[Tensor, "B T C"]:
        """x `[B, T, C]`, which is not changed -> `[B, T, C]` in x's dtype. No token sees the ones after it."""
        # BEGIN SOLUTION
        if self.norm_first:
            h = x + self.dropout(self.attn(self.ln_1(x)))
            return h + self.mlp(self.ln_2(h))
        h = self.ln_1(x + self.dropout(self.attn(x)))
        return self.ln_2(h + self.mlp(h))
        # END SOLUTION
