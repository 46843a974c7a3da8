"""The output by a running maximum and sum over blocks of keys, without attention_weights; masks are added as half the lowest number."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def _at_least_float32(x: Tensor) -> torch.dtype:
    return torch.float64 if x.dtype == torch.float64 else torch.float32


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
    scores = q.to(_at_least_float32(q)) @ k.to(_at_least_float32(k)).transpose(2, 3)
    scores = scores.mul(scale)
    if mask is None:
        return torch.softmax(scores, -1).to(q.dtype)
    scores += (~mask).to(scores.dtype) * (torch.finfo(scores.dtype).min / 2)
    return (torch.softmax(scores, -1) * mask).to(q.dtype)


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
    if scale is None:
        scale = q.shape[-1] ** -0.5
    dtype = _at_least_float32(q)
    q = q.to(dtype) * scale
    if mask is None:
        mask = torch.ones(1, dtype=torch.bool, device=q.device)
    mask = mask.expand(*q.shape[:3], k.shape[2])  # [B, H, T, S]
    lowest = torch.finfo(dtype).min / 2
    highest = torch.full((*q.shape[:3], 1), lowest, dtype=dtype, device=q.device)
    total = torch.zeros_like(highest)
    output = torch.zeros(*q.shape[:3], v.shape[-1], dtype=dtype, device=q.device)
    for k_block, v_block, seen in zip(k.split(3, 2), v.split(3, 2), mask.split(3, 3), strict=True):
        scores = (q @ k_block.to(dtype).transpose(2, 3)).masked_fill(~seen, lowest)  # [B, H, T, 3]
        new_highest = torch.maximum(highest, scores.amax(-1, keepdim=True))
        share = (scores - new_highest).exp() * seen
        shrink = (highest - new_highest).exp()
        total = total * shrink + share.sum(-1, keepdim=True)
        output = output * shrink + share @ v_block.to(dtype)
        highest = new_highest
    return (output / total.masked_fill(total == 0, 1.0)).to(v.dtype)
