"""Fills with -inf and turns the NaN of a hidden row into 0 afterwards: the fill stops its gradient too."""

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
    dtype = torch.promote_types(q.dtype, torch.float32)
    scores = (q.to(dtype) * scale) @ k.to(dtype).mT
    if mask is not None:
        scores = scores.masked_fill(mask.logical_not(), -torch.inf)
    return scores.softmax(-1).nan_to_num(0.0).to(q.dtype)


def scaled_dot_product_attention(
    q: Float[Tensor, "B H T D"],
    k: Float[Tensor, "B H S D"],
    v: Float[Tensor, "B H S E"],
    mask: Bool[Tensor, "..."] | None = None,
    scale: float | None = None,
) -> Float[Tensor, "B H T E"]:
    """The values, summed with the attention weights as their shares."""
    return attention_weights(q, k, mask, scale) @ v
