"""Sees each weight as one matrix per head, and lets einsum do the rest."""

import torch
from torch import Tensor, nn

from .ex03_norm import RMSNorm


class Heads(nn.Module):
    """The weight of a linear layer that makes heads: `[heads * D, C]`, used as `[heads, D, C]`."""

    def __init__(self, channels: int, heads: int, head_dim: int) -> None:
        super().__init__()
        self.heads = heads
        self.weight = nn.Parameter(torch.randn(heads * head_dim, channels) / channels**0.5)

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, C] -> [B, T, heads, D]."""
        return torch.einsum("btc,hdc->bthd", x, self.weight.unflatten(0, (self.heads, -1)))


class QKVProjection(nn.Module):
    """Three of them and two norms."""

    def __init__(self, hidden_size: int, num_heads: int, num_kv_heads: int, head_dim: int, eps: float = 1e-6) -> None:
        super().__init__()
        if num_kv_heads < 1:
            raise ValueError(f"num_kv_heads: {num_kv_heads}")
        if num_heads // num_kv_heads * num_kv_heads != num_heads:
            raise ValueError(f"num_kv_heads: {num_kv_heads} does not divide {num_heads}")
        self.q_proj = Heads(hidden_size, num_heads, head_dim)
        self.k_proj = Heads(hidden_size, num_kv_heads, head_dim)
        self.v_proj = Heads(hidden_size, num_kv_heads, head_dim)
        self.q_norm, self.k_norm = RMSNorm(head_dim, eps), RMSNorm(head_dim, eps)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Every head's matrix at once."""
        return self.q_norm(self.q_proj(x)), self.k_norm(self.k_proj(x)), self.v_proj(x)
