"""The last call's queries stay behind in the layer. Who needs them once they were handed over, and how long do they take
room?
"""

from jaxtyping import Float
from torch import Tensor, nn

from .ex03_norm import RMSNorm

CATEGORY = "robustness"


class QKVProjection(nn.Module):
    """Three linear maps without bias, cut into heads; queries and keys then go through a norm of their own (QK-Norm)."""

    def __init__(self, hidden_size: int, num_heads: int, num_kv_heads: int, head_dim: int, eps: float = 1e-6) -> None:
        super().__init__()
        if num_kv_heads < 1:
            raise ValueError(f"num_kv_heads must be at least 1, but num_kv_heads is {num_kv_heads}")
        if num_heads % num_kv_heads:
            raise ValueError(f"num_heads must be a multiple of num_kv_heads, but they are {num_heads} and {num_kv_heads}")
        self.head_dim = head_dim
        self.q_proj = nn.Linear(hidden_size, num_heads * head_dim, bias=False)
        self.k_proj = nn.Linear(hidden_size, num_kv_heads * head_dim, bias=False)
        self.v_proj = nn.Linear(hidden_size, num_kv_heads * head_dim, bias=False)
        self.q_norm = RMSNorm(head_dim, eps)
        self.k_norm = RMSNorm(head_dim, eps)

    def forward(
        self, x: Float[Tensor, "B T C"]
    ) -> tuple[Float[Tensor, "B T H D"], Float[Tensor, "B T K D"], Float[Tensor, "B T K D"]]:
        """Project, split into heads, norm queries and keys (values stay as they are)."""
        q = self.q_norm(self.q_proj(x).unflatten(-1, (-1, self.head_dim)))  # [B, T, H, D]
        k = self.k_norm(self.k_proj(x).unflatten(-1, (-1, self.head_dim)))  # [B, T, K, D]
        v = self.v_proj(x).unflatten(-1, (-1, self.head_dim))  # [B, T, K, D]
        self.last_q = q
        return q, k, v
