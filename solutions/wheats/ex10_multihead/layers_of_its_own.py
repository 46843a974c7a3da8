"""A module of its own layers, with nothing inherited; reshapes by view, and hands the heads on in one stack."""

import torch
from torch import Tensor, nn

from .config import ModelConfig
from .ex03_norm import RMSNorm
from .ex04_positions import rotate_half
from .ex06_repeat_kv import repeat_kv
from .ex09_flash import attention


class Attention(nn.Module):
    """Built from linear layers and norms."""

    def __init__(self, config: ModelConfig, layer_idx: int = 0) -> None:
        super().__init__()
        self.heads, self.groups, self.head_dim = config.num_heads, config.num_kv_heads, config.head_dim
        self.dropout_p, self.use_flash, self.index = config.dropout, config.use_flash, layer_idx
        for name, heads in (("q_proj", self.heads), ("k_proj", self.groups), ("v_proj", self.groups)):
            setattr(self, name, nn.Linear(config.hidden_size, heads * self.head_dim, bias=False))
        self.o_proj = nn.Linear(self.heads * self.head_dim, config.hidden_size, bias=False)
        self.q_norm = RMSNorm(self.head_dim, config.rms_norm_eps)
        self.k_norm = RMSNorm(self.head_dim, config.rms_norm_eps)

    def forward(self, x: Tensor, position_embeddings, attention_mask=None, cache=None) -> Tensor:
        """The eight steps, one line each."""
        batch, new = x.shape[:2]
        q = self.q_norm(self.q_proj(x).view(batch, new, self.heads, self.head_dim))
        k = self.k_norm(self.k_proj(x).view(batch, new, self.groups, self.head_dim))
        v = self.v_proj(x).view(batch, new, self.groups, self.head_dim)
        cos, sin = (table[..., None, :] for table in position_embeddings)
        q, k = ((one * cos + rotate_half(one) * sin).to(x.dtype) for one in (q, k))
        if cache is not None:
            k, v = cache.update(k, v, layer_idx=self.index)
        k, v = repeat_kv(torch.stack([k, v]).flatten(0, 1), self.heads // self.groups).chunk(2)
        q, k, v = q.permute(0, 2, 1, 3), k.permute(0, 2, 1, 3), v.permute(0, 2, 1, 3)
        drop = {"dropout_p": self.dropout_p, "training": self.training}
        mixed = attention(q, k, v, attention_mask=attention_mask, use_flash=self.use_flash, **drop)
        return self.o_proj(mixed.permute(0, 2, 1, 3).reshape(batch, new, self.heads * self.head_dim))
