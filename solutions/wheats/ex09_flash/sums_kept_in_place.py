"""Writes its running sums in place, as a kernel does, a column for the sum beside the output; attention a head at a time."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from .ex08_mask import causal_mask, combine_masks, padding_mask


@torch.no_grad()
def online_softmax_attention(q: Tensor, k: Tensor, v: Tensor, block_size: int, is_causal: bool = False) -> Tensor:
    """The sum of the shares is the output for a value of 1, so it is carried as one more column of v."""
    if block_size < 1:
        raise ValueError("block_size must be 1 or more, got %d" % block_size)
    B, H, T, D = q.shape
    S, E = k.shape[2], v.shape[3]
    dtype = torch.promote_types(q.dtype, torch.float32)
    q = q.to(dtype).mul(1 / math.sqrt(D))
    best = q.new_full((B, H, T, 1), torch.finfo(dtype).min)
    sums = q.new_zeros(B, H, T, E + 1)
    for start in range(0, S, block_size):
        width = min(block_size, S - start)
        scores = q @ k.narrow(2, start, width).to(dtype).transpose(2, 3)
        if is_causal:
            seen = torch.arange(T, device=q.device).sub_(start - (S - T))[:, None] >= torch.arange(width, device=q.device)
            scores.masked_fill_(~seen, -math.inf)
        previous = best.clone()
        torch.maximum(best, scores.amax(3, keepdim=True), out=best)
        values = torch.cat([v.narrow(2, start, width).to(dtype), q.new_ones(B, H, width, 1)], dim=3)
        sums.mul_(previous.sub_(best).exp_()).add_(scores.sub_(best).exp_() @ values)
    return sums[..., :E].div(sums[..., E:]).to(q.dtype if v.dtype == dtype else v.dtype)


def select_backend(q_len: int, k_len: int, attention_mask: Tensor | None = None, flash_available: bool = True) -> str:
    """The smallest mark of the mask decides."""
    lowest = 1 if attention_mask is None else attention_mask.to(torch.int64).min().item()
    return "flash" if lowest and flash_available and k_len == q_len != 1 else "manual"


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
    """By hand one head after the other; a row that sees nothing is found before the softmax."""
    T, S = q.shape[2], k.shape[2]
    if select_backend(T, S, attention_mask, use_flash) == "flash":
        return F.scaled_dot_product_attention(q, k, v, is_causal=is_causal, dropout_p=dropout_p * int(training))
    mask = combine_masks(
        causal_mask(T, S, device=q.device) if is_causal else None,
        None if attention_mask is None else padding_mask(attention_mask),
    )
    dtype = torch.promote_types(q.dtype, torch.float32)
    heads = []
    for head in range(q.shape[1]):
        scores = q[:, head].to(dtype) @ k[:, head].to(dtype).transpose(1, 2) / math.sqrt(q.shape[3])
        if mask is not None:
            allowed = mask[:, 0].expand_as(scores)
            blind = ~allowed.any(-1, keepdim=True)
            scores = scores.masked_fill(~(allowed | blind), -math.inf)
            weights = scores.softmax(-1).masked_fill(blind, 0.0)
        else:
            weights = scores.softmax(-1)
        weights = F.dropout(weights, p=dropout_p, training=training)
        heads.append(weights @ v[:, head].to(dtype))
    return torch.stack(heads, dim=1).to(v.dtype)
