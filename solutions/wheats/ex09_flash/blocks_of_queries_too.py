"""Cuts the queries into blocks as well and stops at the first block of keys that lies in the future, as FlashAttention does."""

import torch
import torch.nn.functional as F
from torch import Tensor

from .ex07_attention import scaled_dot_product_attention
from .ex08_mask import causal_mask, combine_masks, padding_mask


def _rows(q: Tensor, k: Tensor, v: Tensor, block_size: int, first: int | None) -> Tensor:
    """The output of some queries; `first` is the position of the first of them, None if nothing is hidden."""
    T, S = q.shape[2], k.shape[2]
    end = S if first is None else min(S, first + T)
    best, mass, mixed = None, 0.0, 0.0
    for start in range(0, end, block_size):
        stop = min(start + block_size, end)
        scores = q @ k[:, :, start:stop].to(q.dtype).mT
        if first is not None and stop > first + 1:
            future = torch.arange(start, stop, device=q.device) - first > torch.arange(T, device=q.device)[:, None]
            scores = scores.masked_fill(future, float("-inf"))
        top = scores.amax(-1, keepdim=True)
        if best is not None:
            top = top.maximum(best)
            old = torch.exp(best - top)
            mass, mixed = mass * old, mixed * old
        share = torch.exp(scores - top)
        mass = mass + share.sum(-1, keepdim=True)
        mixed = mixed + share @ v[:, :, start:stop].to(q.dtype)
        best = top
    return mixed / mass


def online_softmax_attention(q: Tensor, k: Tensor, v: Tensor, block_size: int, is_causal: bool = False) -> Tensor:
    """A block of queries at a time; each goes over the blocks of keys that it may see."""
    if block_size < 1:
        raise ValueError(f"cannot cut keys with block_size={block_size}")
    scaled = q.to(torch.promote_types(q.dtype, torch.float32)) * q.shape[-1] ** -0.5
    past = k.shape[2] - q.shape[2]
    step = max(64, block_size)
    rows = [
        _rows(scaled[:, :, start : start + step], k, v, block_size, past + start if is_causal else None)
        for start in range(0, q.shape[2], step)
    ]
    return torch.cat(rows, dim=2).to(v.dtype)


def select_backend(q_len: int, k_len: int, attention_mask: Tensor | None = None, flash_available: bool = True) -> str:
    """All that speaks for the kernel at once."""
    no_pads = attention_mask is None or int((attention_mask != 0).sum()) == attention_mask.numel()
    return "flash" if flash_available and q_len == k_len > 1 and no_pads else "manual"


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
    """Dropout by hand on an identity of values: the weights are what attention makes of unit vectors."""
    p = dropout_p if training else 0.0
    T, S = q.shape[2], k.shape[2]
    if select_backend(T, S, attention_mask, use_flash) == "flash":
        return F.scaled_dot_product_attention(q, k, v, dropout_p=p, is_causal=is_causal)
    padding = None if attention_mask is None else padding_mask(attention_mask)
    mask = combine_masks(causal_mask(T, S, q.device) if is_causal else None, padding)
    if not p:
        return scaled_dot_product_attention(q, k, v, mask)
    units = torch.eye(S, dtype=q.dtype, device=q.device).expand(*q.shape[:2], S, S)
    weights = scaled_dot_product_attention(q, k, units, mask)
    kept = torch.rand(weights.shape, device=q.device) >= p
    return (weights * kept / (1 - p)) @ v
