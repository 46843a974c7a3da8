"""Works with the tokens as columns, and puts the axes in place at the very end: what it returns is not contiguous."""

from torch import Tensor, nn

from .ex03_norm import RMSNorm


class QKVProjection(nn.Module):
    """[heads, D, T] inside, [T, heads, D] outside."""

    def __init__(self, hidden_size: int, num_heads: int, num_kv_heads: int, head_dim: int, eps: float = 1e-6) -> None:
        super().__init__()
        if num_kv_heads < 1 or num_heads % num_kv_heads:
            raise ValueError(f"num_heads, num_kv_heads = {num_heads}, {num_kv_heads} do not make groups")
        self.head_dim = head_dim
        self.q_proj = nn.Linear(hidden_size, num_heads * head_dim, bias=None)
        self.k_proj = nn.Linear(hidden_size, num_kv_heads * head_dim, bias=None)
        self.v_proj = nn.Linear(hidden_size, num_kv_heads * head_dim, bias=None)
        self.q_norm = RMSNorm(head_dim, eps)
        self.k_norm = RMSNorm(head_dim, eps)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """weight @ x^T, for every sequence."""
        columns = x.transpose(1, 2)  # [B, C, T]
        made = [projection.weight.matmul(columns) for projection in (self.q_proj, self.k_proj, self.v_proj)]
        q, k, v = (one.unflatten(1, (-1, self.head_dim)).permute(0, 3, 1, 2) for one in made)  # [B, T, heads, D]
        return self.q_norm(q), self.k_norm(k), v
