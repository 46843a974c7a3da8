"""05 · qkv: every token's query, keys and values, split into heads, with queries and keys brought to one size."""

from jaxtyping import Float
from torch import Tensor, nn


class QKVProjection(nn.Module):
    """Three linear maps without bias, cut into heads; queries and keys then go through a norm of their own (QK-Norm).

    Query heads may outnumber key/value heads (grouped-query attention), and H * D need not be C. Nothing is repeated
    and nothing is rotated here. (Ainslie et al., 2023, for the groups; Henry et al., 2020, and
    Dehghani et al., 2023, for QK-Norm; the names are those of Qwen3.)

    Args:
        hidden_size: C, the channels of x.
        num_heads: H, the query heads; a multiple of K.
        num_kv_heads: K, the key/value heads, at least 1.
        head_dim: D, the channels of one head.
        eps: goes to both norms.

    Attributes:
        q_proj: linear, `weight [H*D, C]`; its rows h*D .. h*D + D - 1 make head h.
        k_proj, v_proj: linear, `weight [K*D, C]` each.
        q_norm, k_norm: `RMSNorm` over the D channels of each head, `weight [D]` each, ones at the start.
            As `RMSNorm` does, they compute in at least float32.

        These five weights are all the parameters, and all of the state dict.

    Raises:
        ValueError: `num_kv_heads < 1`, or num_heads is no multiple of num_kv_heads. The message names `num_kv_heads` and
            gives its value, and in the second case that of num_heads too.

    Example:
        >>> q, k, v = QKVProjection(768, 8, 4, 96)(torch.randn(1, 100, 768))
        >>> q.shape, k.shape, v.shape
        (torch.Size([1, 100, 8, 96]), torch.Size([1, 100, 4, 96]), torch.Size([1, 100, 4, 96]))

        A single head with D = 2, and q_proj the identity: [3, 4] has the mean square 12.5, so q is [3, 4] / 3.5355.

        >>> layer = QKVProjection(2, 1, 1, 2)
        >>> _ = nn.init.eye_(layer.q_proj.weight)
        >>> layer(torch.tensor([[[3.0, 4.0]]]))[0]
        tensor([[[[0.8485, 1.1314]]]], grad_fn=<...>)
    """

    def __init__(self, hidden_size: int, num_heads: int, num_kv_heads: int, head_dim: int, eps: float = 1e-6) -> None:
        super().__init__()
        raise NotImplementedError("EX05: QKVProjection.__init__")

    def forward(
        self, x: Float[Tensor, "B T C"]
    ) -> tuple[Float[Tensor, "B T H D"], Float[Tensor, "B T K D"], Float[Tensor, "B T K D"]]:
        """Project, split into heads, norm queries and keys (values stay as they are).

        Args:
            x: `[B, T, C]`, in the parameters' dtype. Not changed.

        Returns:
            (q, k, v): q `[B, T, H, D]`, k and v `[B, T, K, D]`, in x's dtype.
        """
        raise NotImplementedError("EX05: QKVProjection.forward")
