"""Goes over the keys twice: first for the maximum and the sum, then for the output. Attention is written out with einsum."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def online_softmax_attention(q: Tensor, k: Tensor, v: Tensor, block_size: int, is_causal: bool = False) -> Tensor:
    """Maximum and sum of every row in a first pass, shares and output in a second."""
    if block_size <= 0:
        raise ValueError(f"block_size is {block_size}, but a block needs at least one key")
    past = k.size(2) - q.size(2)
    wide = q.double() if q.dtype == torch.float64 else q.float()
    queries = torch.arange(q.size(2), device=q.device).add(past).view(-1, 1)

    def blocks():
        first = 0
        for k_block, v_block in zip(k.split(block_size, dim=2), v.split(block_size, dim=2), strict=True):
            scores = torch.einsum("bhtd,bhsd->bhts", wide, k_block.to(wide.dtype)) / q.size(-1) ** 0.5
            if is_causal:
                names = first + torch.arange(k_block.size(2), device=q.device)
                scores = torch.where(names <= queries, scores, float("-inf"))
            first += k_block.size(2)
            yield scores, v_block.to(wide.dtype)

    highest = total = None
    for scores, _ in blocks():
        top = scores.max(dim=-1, keepdim=True).values
        if highest is None:
            highest = top
            total = (scores - highest).exp().sum(-1, keepdim=True)
        else:
            new = torch.where(top > highest, top, highest)
            total = total * (highest - new).exp() + (scores - new).exp().sum(-1, keepdim=True)
            highest = new
    return sum(((scores - highest).exp() / total) @ values for scores, values in blocks()).to(q.dtype)


def select_backend(q_len: int, k_len: int, attention_mask: Tensor | None = None, flash_available: bool = True) -> str:
    """Four questions, one after the other."""
    if not flash_available:
        return "manual"
    if q_len != k_len:
        return "manual"
    if q_len == 1:
        return "manual"
    if attention_mask is not None and (attention_mask == 0).any():
        return "manual"
    return "flash"


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
    """Scores by einsum, the allowed pairs from positions, dropout by a module."""
    drop = nn.Dropout(dropout_p).train(training)
    if select_backend(q.size(2), k.size(2), attention_mask, flash_available=use_flash) == "flash":
        if drop.training:
            return F.scaled_dot_product_attention(q, k, v, None, dropout_p, is_causal)
        return F.scaled_dot_product_attention(q, k, v, is_causal=is_causal)
    dtype = torch.float64 if q.dtype == torch.float64 else torch.float32
    scores = torch.einsum("bhtd,bhsd->bhts", q.to(dtype), k.to(dtype)) / q.size(-1) ** 0.5
    keys = torch.arange(k.size(2), device=q.device)
    allowed = torch.ones_like(scores, dtype=torch.bool)
    if is_causal:
        allowed &= keys <= keys[k.size(2) - q.size(2) :].unsqueeze(-1)
    if attention_mask is not None:
        allowed &= (attention_mask != 0).unsqueeze(1).unsqueeze(1)
    scores = scores.masked_fill(~allowed, -1e30)
    weights = scores.softmax(-1) * allowed
    return torch.einsum("bhts,bhsd->bhtd", drop(weights), v.to(dtype)).to(q.dtype)
