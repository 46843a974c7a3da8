"""GPT's attention walks over its heads, with a triangle of its own and dropout drawn by hand; the layers sit in a
ModuleDict.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from .config import ModelConfig
from .ex03_norm import LayerNorm, RMSNorm
from .ex10_multihead import Attention
from .ex11_ffn import GELUMLP, SwiGLU


def thin_out(x: Tensor, p: float, training: bool) -> Tensor:
    """Dropout, written out."""
    if not training or p == 0:
        return x
    kept = torch.rand(x.shape, dtype=torch.float32) >= p
    return torch.where(kept, x / max(1.0 - p, 1e-6), 0.0)


def attend(block: nn.Module, x: Tensor) -> Tensor:
    """Causal attention, head by head."""
    C, T = x.shape[-1], x.shape[1]
    D = C // block.heads
    qkv = block.attn["qkv_proj"](x)
    outputs = []
    for head in range(block.heads):
        q, k, v = (qkv[..., part * C + head * D : part * C + (head + 1) * D] for part in range(3))
        scores = torch.einsum("btd,bsd->bts", q, k).float() / D**0.5
        scores = scores + torch.full((T, T), -torch.inf).triu(1)
        outputs.append(torch.softmax(scores, dim=-1).to(v.dtype) @ v)
    return thin_out(block.attn["out_proj"](torch.cat(outputs, dim=-1)), block.p, block.training)


class TransformerBlock(nn.Module):
    """One layer of a Qwen3-style decoder, pre-norm."""

    def __init__(self, config: ModelConfig, layer_idx: int = 0) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.self_attn = Attention(config, layer_idx)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.mlp = SwiGLU(config.hidden_size, config.intermediate_size)
        self.config = config

    def forward(self, x, position_embeddings, attention_mask=None, cache=None):
        """x `[B, T, C]` -> `[B, T, C]`."""
        attended = self.self_attn(self.input_layernorm(x), position_embeddings, attention_mask, cache)
        h = x + thin_out(attended, self.config.dropout, self.training)  # [B, T, C]
        return h + thin_out(self.mlp(self.post_attention_layernorm(h)), self.config.dropout, self.training)


class GPTBlock(nn.Module):
    """One layer of GPT-2, pre-norm or post-norm."""

    def __init__(self, hidden_size: int, num_heads: int, dropout: float = 0.0, norm_first: bool = True) -> None:
        super().__init__()
        if hidden_size // num_heads * num_heads < hidden_size:
            raise ValueError(f"num_heads={num_heads} does not divide hidden_size={hidden_size}")
        self.heads, self.p, self.norm_first = num_heads, dropout, norm_first
        self.attn = nn.ModuleDict(
            {"qkv_proj": nn.Linear(hidden_size, 3 * hidden_size), "out_proj": nn.Linear(hidden_size, hidden_size)}
        )
        self.mlp = GELUMLP(hidden_size, 4 * hidden_size, dropout=dropout)
        self.ln_1, self.ln_2 = LayerNorm(hidden_size), LayerNorm(hidden_size)

    def forward(self, x: Float[Tensor, "B T C"]) -> Float[Tensor, "B T C"]:
        """x `[B, T, C]` -> `[B, T, C]`."""
        if self.norm_first:
            h = x + attend(self, self.ln_1(x))
            return h + self.mlp(self.ln_2(h))
        h = self.ln_1(x + attend(self, x))
        return self.ln_2(h + self.mlp(h))
