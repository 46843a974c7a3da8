"""A whole softmax for every block, and blocks merged by their log-sum-exp: no running maximum of its own."""

import torch
from torch import Tensor
from torch.nn.functional import dropout
from torch.nn.functional import scaled_dot_product_attention as fused

from .ex07_attention import attention_weights
from .ex08_mask import causal_mask, padding_mask


def online_softmax_attention(q: Tensor, k: Tensor, v: Tensor, block_size: int, is_causal: bool = False) -> Tensor:
    """`log(e^a + e^b)` of two blocks says how much of the answer each of them has found."""
    if not block_size >= 1:
        raise ValueError(f"block_size must be positive, not {block_size}")
    T, S = q.shape[-2], k.shape[-2]
    dtype = torch.promote_types(q.dtype, torch.float32)
    q = q.to(dtype)
    answer, size = None, None
    for start in range(0, S, block_size):
        stop = min(S, start + block_size)
        scores = (q @ k[..., start:stop, :].to(dtype).transpose(-1, -2)).div_(k.shape[-1] ** 0.5)
        if is_causal:
            last = torch.arange(S - T, S, device=q.device).view(T, 1)
            scores.masked_fill_(torch.arange(start, stop, device=q.device) > last, torch.finfo(dtype).min)
        size_here = scores.logsumexp(-1, keepdim=True)
        answer_here = scores.softmax(-1) @ v[..., start:stop, :].to(dtype)
        if answer is None:
            answer, size = answer_here, size_here
        else:
            answer = torch.lerp(answer, answer_here, torch.sigmoid(size_here - size))
            size = torch.logaddexp(size, size_here)
    return answer.to(v.dtype)


def select_backend(q_len: int, k_len: int, attention_mask: Tensor | None = None, flash_available: bool = True) -> str:
    """A list of reasons against the kernel."""
    against = [not flash_available, q_len < 2, q_len != k_len]
    if attention_mask is not None:
        against.append(not bool((attention_mask > 0).all()))
    return ["flash", "manual"][any(against)]


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
    """Masks are multiplied instead of combined."""
    rate = dropout_p * training
    queries, keys = q.shape[-2], k.shape[-2]
    if select_backend(queries, keys, attention_mask, use_flash) == "flash":
        return fused(q, k, v, dropout_p=rate, is_causal=is_causal)
    mask = torch.ones(queries, keys, dtype=torch.bool, device=q.device)
    if is_causal:
        mask = mask & causal_mask(queries, keys, device=q.device)
    if attention_mask is not None:
        mask = mask & padding_mask(attention_mask)
    return torch.matmul(dropout(attention_weights(q, k, mask), rate, training=True), v)
