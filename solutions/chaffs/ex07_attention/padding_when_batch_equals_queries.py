"""A 2-D mask is read as [T, S], but as [B, S] once its first axis is as long as the batch. It looks as if the size
decides: what do the last two axes of [B, H, T, S] say?
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

CATEGORY = "numerics"


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
    scores = q.to(dtype) @ k.to(dtype).transpose(-2, -1) * scale  # [B, H, T, S]
    if mask is None:
        return scores.softmax(dim=-1).to(q.dtype)
    if mask.shape == (q.shape[0], k.shape[2]):
        mask = mask[:, None, None, :]
    weights = scores.masked_fill(~mask, torch.finfo(dtype).min).softmax(dim=-1)
    return weights.masked_fill(~mask, 0.0).to(q.dtype)


def scaled_dot_product_attention(
    q: Float[Tensor, "B H T D"],
    k: Float[Tensor, "B H S D"],
    v: Float[Tensor, "B H S E"],
    mask: Bool[Tensor, "..."] | None = None,
    scale: float | None = None,
) -> Float[Tensor, "B H T E"]:
    """The values, summed with the attention weights as their shares."""
    return attention_weights(q, k, mask, scale) @ v
