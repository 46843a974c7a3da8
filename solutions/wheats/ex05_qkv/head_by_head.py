"""A loop over the heads: each takes its rows of the weight, is normed alone, and is stacked at the end."""

import torch
from torch import Tensor, nn

from .ex03_norm import RMSNorm


class QKVProjection(nn.Module):
    """Slow, and right."""

    def __init__(self, hidden_size: int, num_heads: int, num_kv_heads: int, head_dim: int, eps: float = 1e-6) -> None:
        super().__init__()
        if num_kv_heads < 1:
            raise ValueError(f"num_kv_heads ({num_kv_heads}) < 1")
        if num_heads % num_kv_heads:
            raise ValueError(f"num_kv_heads ({num_kv_heads}) does not divide num_heads ({num_heads})")
        self.num_heads, self.num_kv_heads, self.head_dim = num_heads, num_kv_heads, head_dim
        for name, heads in (("q_proj", num_heads), ("k_proj", num_kv_heads), ("v_proj", num_kv_heads)):
            self.add_module(name, nn.Linear(hidden_size, heads * head_dim, bias=False))
        for name in ("q_norm", "k_norm"):
            self.add_module(name, RMSNorm(head_dim, eps))

    def _head(self, x: Tensor, projection: nn.Linear, head: int) -> Tensor:
        rows = projection.weight[head * self.head_dim : (head + 1) * self.head_dim]
        return x @ rows.mT

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """One head after the other."""
        q = [self.q_norm(self._head(x, self.q_proj, head)) for head in range(self.num_heads)]
        k = [self.k_norm(self._head(x, self.k_proj, head)) for head in range(self.num_kv_heads)]
        v = [self._head(x, self.v_proj, head) for head in range(self.num_kv_heads)]
        return torch.stack(q, dim=-2), torch.stack(k, dim=-2), torch.stack(v, dim=-2)
