"""Joins the three weight matrices and projects once; rotates pairs as complex numbers."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .config import ModelConfig
from .ex05_qkv import QKVProjection
from .ex09_flash import attention


class Attention(QKVProjection):
    """One linear map for q, k and v; one complex product for every pair of channels."""

    def __init__(self, config: ModelConfig, layer_idx: int = 0) -> None:
        sizes = (config.hidden_size, config.num_heads, config.num_kv_heads, config.head_dim)
        super().__init__(*sizes, eps=config.rms_norm_eps)
        self.o_proj = nn.Linear(config.num_heads * config.head_dim, config.hidden_size, bias=False)
        self.cfg = config
        self.number = layer_idx

    def turn(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """(a + ib)(cos + i sin), where a and b are the two halves of a head."""
        half = x.shape[-1] // 2
        wide = torch.float64 if x.dtype == torch.float64 else torch.float32
        pairs = torch.complex(x[..., :half].to(wide).contiguous(), x[..., half:].to(wide).contiguous())
        angles = torch.complex(cos[..., :half].to(wide).contiguous(), sin[..., :half].to(wide).contiguous())
        turned = pairs * angles.unsqueeze(-2)
        return torch.cat([turned.real, turned.imag], dim=-1).to(x.dtype)

    def forward(self, x: Tensor, position_embeddings, attention_mask=None, cache=None) -> Tensor:
        """Split after the product; groups are an axis of their own until attention."""
        c = self.cfg
        weight = torch.cat([self.q_proj.weight, self.k_proj.weight, self.v_proj.weight])
        heads = F.linear(x, weight).unflatten(2, (c.num_heads + 2 * c.num_kv_heads, c.head_dim))
        q, k, v = heads.split([c.num_heads, c.num_kv_heads, c.num_kv_heads], dim=2)
        q, k = self.turn(self.q_norm(q), *position_embeddings), self.turn(self.k_norm(k), *position_embeddings)
        if cache is None:
            pass
        else:
            k, v = cache.update(k, v, self.number)
        k, v = (one.repeat_interleave(c.n_rep, dim=2) for one in (k, v))
        out = attention(
            q.transpose(1, 2),
            k.transpose(1, 2),
            v.transpose(1, 2),
            is_causal=True,
            attention_mask=attention_mask,
            dropout_p=c.dropout if self.training else 0.0,
            training=True,
            use_flash=c.use_flash,
        )
        return torch.einsum("bhtd,chd->btc", out, self.o_proj.weight.unflatten(1, (c.num_heads, c.head_dim)))
