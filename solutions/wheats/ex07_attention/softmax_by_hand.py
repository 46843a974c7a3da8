"""Own softmax (maximum, exp, sum) whose sum is guarded, and the weights are multiplied with v before they are cast."""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def _float_weights(q: Tensor, k: Tensor, mask: Tensor | None, scale: float | None) -> Tensor:
    q, k = (x.double() if x.dtype == torch.float64 else x.float() for x in (q, k))
    if scale is None:
        scale = 1.0 / math.sqrt(q.size(-1))
    scores = torch.matmul(q, k.mT) * scale
    if mask is None:
        mask = torch.ones((), dtype=torch.bool, device=q.device)
    highest = scores.masked_fill(~mask, -1e30).amax(dim=-1, keepdim=True).detach()
    grown = torch.exp(torch.where(mask, scores - highest, 0.0)) * mask
    return grown / grown.sum(dim=-1, keepdim=True).clamp(min=1e-30)


def attention_weights(
    q: Float[Tensor, "B H T D"],
    k: Float[Tensor, "B H S D"],
    mask: Bool[Tensor, "..."] | None = None,
    scale: float | None = None,
) -> Float[Tensor, "B H T S"]:
    """How much of each key's value every query takes."""
    if mask is not None and mask.dtype != torch.bool:
        raise ValueError(f"mask must be bool (True = may attend), but its dtype is {mask.dtype}")
    return _float_weights(q, k, mask, scale).to(q.dtype)


def scaled_dot_product_attention(
    q: Float[Tensor, "B H T D"],
    k: Float[Tensor, "B H S D"],
    v: Float[Tensor, "B H S E"],
    mask: Bool[Tensor, "..."] | None = None,
    scale: float | None = None,
) -> Float[Tensor, "B H T E"]:
    """The values, summed with the attention weights as their shares."""
    if mask is not None and mask.dtype != torch.bool:
        raise ValueError(f"mask must be bool (True = may attend), but its dtype is {mask.dtype}")
    weights = _float_weights(q, k, mask, scale)
    return (weights @ v.to(weights.dtype)).to(v.dtype)
