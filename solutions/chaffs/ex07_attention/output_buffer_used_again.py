"""It looks as if a later call of the same shape writes over the result of an earlier one. Who owns a tensor once it was
returned?
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

CATEGORY = "robustness"

BUFFERS: dict[tuple, Tensor] = {}


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
    weights = attention_weights(q, k, mask, scale)
    if weights.requires_grad or v.requires_grad:
        return weights @ v
    key = (weights.shape, v.shape, v.dtype)
    if key not in BUFFERS:
        BUFFERS[key] = v.new_empty(*weights.shape[:-1], v.shape[-1])
    return torch.matmul(weights, v, out=BUFFERS[key])
