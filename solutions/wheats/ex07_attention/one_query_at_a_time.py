"""The plain loop: each query picks the keys it may see, so there is nothing to fill; its own output function, too."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def attention_weights(
    q: Float[Tensor, "B H T D"],
    k: Float[Tensor, "B H S D"],
    mask: Bool[Tensor, "..."] | None = None,
    scale: float | None = None,
) -> Float[Tensor, "B H T S"]:
    """How much of each key's value every query takes."""
    if mask is not None and mask.dtype != torch.bool:
        raise ValueError(f"mask must be bool (True = may attend), but its dtype is {mask.dtype}")
    if scale is None:
        scale = q.shape[-1] ** -0.5
    B, H, T, _ = q.shape
    S = k.shape[2]
    allowed = (torch.ones(1, dtype=torch.bool) if mask is None else mask).broadcast_to(B, H, T, S)
    rows = []
    for b in range(B):
        for h in range(H):
            for t in range(T):
                seen = allowed[b, h, t].nonzero().flatten()
                scores = (k[b, h, seen].float() * q[b, h, t].float()).sum(-1) * scale
                row = torch.zeros(S).index_add(0, seen, scores.softmax(0))
                rows.append(row)
    return torch.stack(rows).reshape(B, H, T, S).to(q.dtype)


def scaled_dot_product_attention(
    q: Float[Tensor, "B H T D"],
    k: Float[Tensor, "B H S D"],
    v: Float[Tensor, "B H S E"],
    mask: Bool[Tensor, "..."] | None = None,
    scale: float | None = None,
) -> Float[Tensor, "B H T E"]:
    """The values, summed with the attention weights as their shares."""
    return attention_weights(q, k, mask, scale) @ v
