"""Walks from the newest keys to the oldest, so rows start with nothing visible; by hand it uses the blocks where nothing is dropped."""

import torch
import torch.nn.functional as F
from torch import Tensor

from .ex07_attention import attention_weights
from .ex08_mask import causal_mask, combine_masks, padding_mask


def online_softmax_attention(q: Tensor, k: Tensor, v: Tensor, block_size: int, is_causal: bool = False) -> Tensor:
    """The maximum stays at minus infinity until a row sees its first key; shifting by 0 keeps NaN away until then."""
    if block_size < 1:
        raise ValueError(f"block_size={block_size} is below 1")
    T, S = q.shape[2], k.shape[2]
    dtype = torch.promote_types(q.dtype, torch.float32)
    scale = q.shape[-1] ** -0.5
    limit = torch.arange(T, device=q.device)[:, None] + (S - T)
    highest = torch.full(q.shape[:3], float("-inf"), dtype=dtype, device=q.device).unsqueeze(-1)
    total, output = torch.zeros_like(highest), 0.0
    for end in range(S, 0, -block_size):
        start = max(0, end - block_size)
        scores = torch.matmul(q.to(dtype), k[:, :, start:end].to(dtype).transpose(-1, -2)) * scale
        if is_causal:
            scores = scores.where(torch.arange(start, end, device=q.device) <= limit, float("-inf"))
        highest_now = torch.maximum(highest, scores.amax(-1, keepdim=True))
        shift = highest_now.masked_fill(highest_now.isinf(), 0.0)
        shrink, share = (highest - shift).exp(), (scores - shift).exp()
        total = total * shrink + share.sum(-1, keepdim=True)
        output = output * shrink + share @ v[:, :, start:end].to(dtype)
        highest = highest_now
    return (output / total).to(v.dtype)


def select_backend(q_len: int, k_len: int, attention_mask: Tensor | None = None, flash_available: bool = True) -> str:
    """Counts past keys, tokens and pads."""
    past, pads = k_len - q_len, 0
    if attention_mask is not None:
        pads = attention_mask.logical_not().sum().item()
    return "manual" if past or pads or q_len == 1 or not flash_available else "flash"


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    is_causal: bool = True,
    attention_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    training: bool = False,
    use_flash: bool = True,
) -> Tensor:
    """Without pads and dropout the walk over blocks is the hand-written backend."""
    T, S = q.shape[2], k.shape[2]
    rate = dropout_p if training else 0.0
    if select_backend(T, S, attention_mask, use_flash) == "flash":
        return F.scaled_dot_product_attention(q, k, v, attn_mask=None, dropout_p=rate, is_causal=is_causal)
    if rate == 0.0 and (attention_mask is None or bool(attention_mask.all())):
        return online_softmax_attention(q, k, v, 128, is_causal)
    causal = causal_mask(T, S).to(q.device) if is_causal else None
    mask = combine_masks(causal, None if attention_mask is None else padding_mask(attention_mask))
    return F.dropout(attention_weights(q, k, mask), rate) @ v
