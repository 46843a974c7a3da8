"""Flattens batch and tokens into rows, norms flat heads with a norm of its own, and keeps its sizes in a buffer that is not saved."""

import torch
from torch import Tensor, nn


class HeadNorm(nn.Module):
    """Divides a vector by its length and multiplies by the square root of D."""

    def __init__(self, dim: int, eps: float) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        """The length has D * eps under its root."""
        wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
        length = (torch.linalg.vecdot(wide, wide) + wide.shape[-1] * self.eps).sqrt().unsqueeze(-1)
        return (wide / length * wide.shape[-1] ** 0.5).to(x.dtype) * self.weight


class QKVProjection(nn.Module):
    """Rows, products, rows of heads, and back."""

    def __init__(self, hidden_size: int, num_heads: int, num_kv_heads: int, head_dim: int, eps: float = 1e-6) -> None:
        super().__init__()
        if num_kv_heads < 1:
            raise ValueError(f"num_kv_heads < 1: {num_kv_heads}")
        if num_heads % num_kv_heads:
            raise ValueError(f"num_heads {num_heads} % num_kv_heads {num_kv_heads} is {num_heads % num_kv_heads}, not 0")
        self.register_buffer("sizes", torch.tensor([num_heads, num_kv_heads, head_dim]), persistent=False)
        self.q_proj = nn.Linear(hidden_size, num_heads * head_dim, False)
        self.k_proj = nn.Linear(hidden_size, num_kv_heads * head_dim, False)
        self.v_proj = nn.Linear(hidden_size, num_kv_heads * head_dim, False)
        self.q_norm = HeadNorm(head_dim, eps)
        self.k_norm = HeadNorm(head_dim, eps)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """[B * T * heads, D] is where the norms work."""
        B, T, C = x.shape
        H, K, D = self.sizes.long().tolist()
        rows = x.reshape(B * T, C)
        q = self.q_norm(self.q_proj(rows).reshape(B * T * H, D)).reshape(B, T, H, D)
        k = self.k_norm(self.k_proj(rows).reshape(B * T * K, D)).reshape(B, T, K, D)
        v = self.v_proj(rows).reshape(B, T, K, D)
        return q, k, v
