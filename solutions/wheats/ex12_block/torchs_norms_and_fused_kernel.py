"""Norms are torch's own, GPT's attention is torch's fused kernel on three chunks, dropout is a function."""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from .config import ModelConfig
from .ex10_multihead import Attention
from .ex11_ffn import GELUMLP, SwiGLU


class TransformerBlock(nn.Module):
    """One layer of a Qwen3-style decoder, pre-norm."""

    def __init__(self, config: ModelConfig, layer_idx: int = 0) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.self_attn = Attention(config, layer_idx)
        self.post_attention_layernorm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.mlp = SwiGLU(config.hidden_size, config.intermediate_size)
        self.p = config.dropout

    def forward(self, x, position_embeddings, attention_mask=None, cache=None):
        """x `[B, T, C]` -> `[B, T, C]`."""
        h = self.self_attn(self.input_layernorm(x), position_embeddings, attention_mask=attention_mask, cache=cache)
        h = F.dropout(h, self.p, self.training) + x
        return F.dropout(self.mlp(self.post_attention_layernorm(h)), self.p, self.training) + h


class CausalSelfAttention(nn.Module):
    """GPT-2's attention."""

    def __init__(self, hidden_size: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.qkv_proj = nn.Linear(hidden_size, 3 * hidden_size)
        self.out_proj = nn.Linear(hidden_size, hidden_size)

    def forward(self, x: Float[Tensor, "B T C"]) -> Float[Tensor, "B T C"]:
        """Every token asks itself and those before it."""
        q, k, v = (part.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for part in self.qkv_proj(x).chunk(3, dim=-1))
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out_proj(out.transpose(1, 2).reshape(x.shape))


class GPTBlock(nn.Module):
    """One layer of GPT-2, pre-norm or post-norm."""

    def __init__(self, hidden_size: int, num_heads: int, dropout: float = 0.0, norm_first: bool = True) -> None:
        super().__init__()
        if hidden_size % num_heads != 0:
            raise ValueError(f"hidden_size must be a multiple of num_heads, but they are {hidden_size} and {num_heads}")
        self.norm_first = norm_first
        self.ln_1 = nn.LayerNorm(hidden_size)
        self.attn = CausalSelfAttention(hidden_size, num_heads)
        self.ln_2 = nn.LayerNorm(hidden_size)
        self.mlp = GELUMLP(hidden_size, 4 * hidden_size, dropout)
        self.p = dropout

    def forward(self, x: Float[Tensor, "B T C"]) -> Float[Tensor, "B T C"]:
        """x `[B, T, C]` -> `[B, T, C]`."""
        if self.norm_first:
            x = x + F.dropout(self.attn(self.ln_1(x)), self.p, self.training)
            return x + self.mlp(self.ln_2(x))
        x = self.ln_1(x + F.dropout(self.attn(x), self.p, self.training))
        return self.ln_2(x + self.mlp(x))
