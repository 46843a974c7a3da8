"""In eval mode, without a cache, the attention mask has no influence. Are there no pads then?"""

from jaxtyping import Float
from torch import Tensor, nn

from .config import ModelConfig
from .ex03_norm import LayerNorm, RMSNorm
from .ex09_flash import attention
from .ex10_multihead import Attention
from .ex11_ffn import GELUMLP, SwiGLU

CATEGORY = "numerics"


class TransformerBlock(nn.Module):
    """One layer of a Qwen3-style decoder, pre-norm."""

    def __init__(self, config: ModelConfig, layer_idx: int = 0) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.self_attn = Attention(config, layer_idx)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.mlp = SwiGLU(config.hidden_size, config.intermediate_size)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x, position_embeddings, attention_mask=None, cache=None):
        """x `[B, T, C]` -> `[B, T, C]`."""
        if cache is None and not self.training:
            attention_mask = None
        attended = self.self_attn(self.input_layernorm(x), position_embeddings, attention_mask, cache)
        h = x + self.dropout(attended)  # [B, T, C]
        return h + self.dropout(self.mlp(self.post_attention_layernorm(h)))


class CausalSelfAttention(nn.Module):
    """GPT-2's attention."""

    def __init__(self, hidden_size: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.qkv_proj = nn.Linear(hidden_size, 3 * hidden_size)
        self.out_proj = nn.Linear(hidden_size, hidden_size)

    def forward(self, x: Float[Tensor, "B T C"]) -> Float[Tensor, "B T C"]:
        """Every token asks itself and those before it."""
        q, k, v = self.qkv_proj(x).unflatten(-1, (3, self.num_heads, -1)).permute(2, 0, 3, 1, 4)  # each [B, H, T, D]
        return self.out_proj(attention(q, k, v).transpose(1, 2).flatten(2))  # [B, T, H, D] -> [B, T, C]


class GPTBlock(nn.Module):
    """One layer of GPT-2, pre-norm or post-norm."""

    def __init__(self, hidden_size: int, num_heads: int, dropout: float = 0.0, norm_first: bool = True) -> None:
        super().__init__()
        if hidden_size % num_heads != 0:
            raise ValueError(f"hidden_size must be a multiple of num_heads, but they are {hidden_size} and {num_heads}")
        self.norm_first = norm_first
        self.ln_1 = LayerNorm(hidden_size)
        self.attn = CausalSelfAttention(hidden_size, num_heads)
        self.ln_2 = LayerNorm(hidden_size)
        self.mlp = GELUMLP(hidden_size, 4 * hidden_size, dropout)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Float[Tensor, "B T C"]) -> Float[Tensor, "B T C"]:
        """x `[B, T, C]` -> `[B, T, C]`."""
        if self.norm_first:
            h = x + self.dropout(self.attn(self.ln_1(x)))
            return h + self.mlp(self.ln_2(h))
        h = self.ln_1(x + self.dropout(self.attn(x)))
        return self.ln_2(h + self.mlp(h))
