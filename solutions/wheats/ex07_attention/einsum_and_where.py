"""Two einsums in float32 for every input, float64 too; `where` with -inf only in rows that see something."""

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
    if mask is not None and not mask.any():
        return q.new_zeros(*q.shape[:3], k.shape[2])
    scores = torch.einsum("bhtd,bhsd->bhts", q.float() * scale, k.float())
    if mask is not None:
        sees_nothing = ~mask.any(dim=-1, keepdim=True)
        scores = torch.where(mask | sees_nothing, scores, float("-inf"))
    weights = torch.softmax(scores, dim=-1)
    if mask is not None:
        weights = torch.where(sees_nothing, 0.0, weights)
    return weights.to(q.dtype)


def scaled_dot_product_attention(
    q: Float[Tensor, "B H T D"],
    k: Float[Tensor, "B H S D"],
    v: Float[Tensor, "B H S E"],
    mask: Bool[Tensor, "..."] | None = None,
    scale: float | None = None,
) -> Float[Tensor, "B H T E"]:
    """The values, summed with the attention weights as their shares."""
    return torch.einsum("bhts,bhse->bhte", attention_weights(q, k, mask, scale), v)
