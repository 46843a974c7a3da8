"""Merges batch and heads for baddbmm with a bias of 0 or half the lowest number; softmax as exp(score - logsumexp)."""

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
    B, H, T, D = q.shape
    S = k.shape[2]
    dtype = torch.promote_types(q.dtype, torch.float32)
    bias = torch.zeros(B, H, T, S, dtype=dtype, device=q.device)
    if mask is not None:
        bias = bias.masked_fill(~mask, torch.finfo(dtype).min / 2)
    flat_q, flat_k = q.reshape(B * H, T, D).to(dtype), k.reshape(B * H, S, D).to(dtype)
    scores = torch.baddbmm(bias.flatten(0, 1), flat_q, flat_k.transpose(1, 2), alpha=scale).reshape(B, H, T, S)
    weights = (scores - scores.logsumexp(dim=-1, keepdim=True)).exp()
    if mask is not None:
        weights = weights * mask.any(dim=-1, keepdim=True)
    return weights.to(q.dtype)


def scaled_dot_product_attention(
    q: Float[Tensor, "B H T D"],
    k: Float[Tensor, "B H S D"],
    v: Float[Tensor, "B H S E"],
    mask: Bool[Tensor, "..."] | None = None,
    scale: float | None = None,
) -> Float[Tensor, "B H T E"]:
    """The values, summed with the attention weights as their shares."""
    B, H = q.shape[:2]
    weights = attention_weights(q, k, mask, scale)
    output = torch.bmm(weights.reshape(B * H, *weights.shape[2:]), v.reshape(B * H, *v.shape[2:]))
    return output.reshape(B, H, -1, v.shape[-1])
