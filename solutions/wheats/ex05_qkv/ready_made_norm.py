"""Uses torch's own RMSNorm and plain views; the order of checks is the other way round."""

from torch import Tensor, nn


class QKVProjection(nn.Module):
    """Linear layers, views, and `nn.RMSNorm`."""

    def __init__(self, hidden_size: int, num_heads: int, num_kv_heads: int, head_dim: int, eps: float = 1e-6) -> None:
        if num_kv_heads < 1:
            raise ValueError(f"there must be a key head, but num_kv_heads = {num_kv_heads}")
        groups, rest = divmod(num_heads, num_kv_heads)
        if rest:
            raise ValueError(f"num_heads = {num_heads} cannot be shared out evenly among num_kv_heads = {num_kv_heads}")
        super().__init__()
        self.num_heads, self.num_kv_heads, self.groups = num_heads, num_kv_heads, groups
        self.k_norm = nn.RMSNorm(head_dim, eps=eps)
        self.q_norm = nn.RMSNorm(head_dim, eps=eps)
        self.v_proj = nn.Linear(hidden_size, self.num_kv_heads * head_dim, bias=False)
        self.k_proj = nn.Linear(hidden_size, self.num_kv_heads * head_dim, bias=False)
        self.q_proj = nn.Linear(hidden_size, self.num_heads * head_dim, bias=False)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Values first, for no reason."""
        B, T, _ = x.size()
        v = self.v_proj(x).view(B, T, self.num_kv_heads, -1)
        k = self.k_norm(self.k_proj(x).view(B, T, self.num_kv_heads, -1))
        q = self.q_norm(self.q_proj(x).view(B, T, self.num_heads, -1))
        return q, k, v
