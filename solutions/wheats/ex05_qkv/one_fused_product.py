"""Joins the three weights when it is called, multiplies once, and splits the result."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .ex03_norm import RMSNorm


class QKVProjection(nn.Module):
    """One matrix product for queries, keys and values."""

    def __init__(self, hidden_size: int, num_heads: int, num_kv_heads: int, head_dim: int, eps: float = 1e-6) -> None:
        super().__init__()
        if num_kv_heads <= 0 or num_heads % num_kv_heads != 0:
            raise ValueError(f"num_kv_heads={num_kv_heads} must be positive and divide num_heads={num_heads}")
        self.shape = (num_heads, num_kv_heads, num_kv_heads)
        self.head_dim = head_dim
        self.q_proj = nn.Linear(hidden_size, num_heads * head_dim, bias=False)
        self.k_proj = nn.Linear(hidden_size, num_kv_heads * head_dim, bias=False)
        self.v_proj = nn.Linear(hidden_size, num_kv_heads * head_dim, bias=False)
        self.q_norm = RMSNorm(head_dim, eps=eps)
        self.k_norm = RMSNorm(head_dim, eps=eps)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Splits along the heads, after the reshape."""
        fused = torch.cat((self.q_proj.weight, self.k_proj.weight, self.v_proj.weight))
        heads = F.linear(x, fused).reshape(*x.shape[:-1], sum(self.shape), self.head_dim)
        q, k, v = heads.split(self.shape, dim=-2)
        return self.q_norm(q), self.k_norm(k), v
