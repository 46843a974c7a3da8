"""The fused kernel seems to be told to compute all scores one after the other, as the hand-written way does. Is a backend of torch forced?"""

import torch
import torch.nn.attention
import torch.nn.functional as F
from jaxtyping import Float, Shaped
from torch import Tensor

from .ex07_attention import attention_weights
from .ex08_mask import causal_mask, combine_masks, padding_mask

CATEGORY = "speed"


def online_softmax_attention(
    q: Float[Tensor, "B H T D"],
    k: Float[Tensor, "B H S D"],
    v: Float[Tensor, "B H S E"],
    block_size: int,
    is_causal: bool = False,
) -> Float[Tensor, "B H T E"]:
    """`softmax(q k^T / sqrt(D)) v`, computed one block of keys at a time: no T x S matrix is ever held."""
    if block_size < 1:
        raise ValueError(f"block_size must be at least 1, got {block_size}")
    T, S = q.shape[2], k.shape[2]
    dtype = torch.promote_types(q.dtype, torch.float32)
    q = q.to(dtype) * q.shape[-1] ** -0.5
    position = torch.arange(S - T, S, device=q.device)[:, None]  # of each query [T, 1]

    highest = torch.full((*q.shape[:3], 1), -torch.inf, dtype=dtype, device=q.device)  # [B, H, T, 1]
    total = torch.zeros_like(highest)
    output = torch.zeros(*q.shape[:3], v.shape[-1], dtype=dtype, device=q.device)  # [B, H, T, E]
    for start in range(0, S, block_size):
        keys = torch.arange(start, min(start + block_size, S), device=q.device)
        k_block, v_block = k[:, :, start : start + block_size], v[:, :, start : start + block_size]
        scores = q @ k_block.to(dtype).transpose(-2, -1)  # [B, H, T, block]
        if is_causal:
            scores = scores.masked_fill(keys > position, -torch.inf)
        new_highest = torch.maximum(highest, scores.amax(dim=-1, keepdim=True))  # finite: every query sees key 0
        shrink = (highest - new_highest).exp()  # 0 in the first block
        share = (scores - new_highest).exp()
        total = total * shrink + share.sum(dim=-1, keepdim=True)
        output = output * shrink + share @ v_block.to(dtype)
        highest = new_highest
    return (output / total).to(v.dtype)


def select_backend(
    q_len: int,
    k_len: int,
    attention_mask: Shaped[Tensor, "B S"] | None = None,
    flash_available: bool = True,
) -> str:
    """Choose between the fused kernel and attention written by hand."""
    if not flash_available or q_len == 1 or k_len != q_len:
        return "manual"
    if attention_mask is not None and not attention_mask.bool().all():
        return "manual"
    return "flash"


def attention(
    q: Float[Tensor, "B H T D"],
    k: Float[Tensor, "B H S D"],
    v: Float[Tensor, "B H S D"],
    *,
    is_causal: bool = True,
    attention_mask: Shaped[Tensor, "B S"] | None = None,
    dropout_p: float = 0.0,
    training: bool = False,
    use_flash: bool = True,
) -> Float[Tensor, "B H T D"]:
    """Attention as a model calls it: causal, with padding and dropout, on the backend that `select_backend` names."""
    T, S = q.shape[2], k.shape[2]
    if select_backend(T, S, attention_mask, use_flash) == "flash":
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            return F.scaled_dot_product_attention(q, k, v, is_causal=is_causal, dropout_p=dropout_p if training else 0.0)
    causal = causal_mask(T, S, q.device) if is_causal else None
    padding = padding_mask(attention_mask) if attention_mask is not None else None
    weights = attention_weights(q, k, combine_masks(causal, padding))  # [B, H, T, S]
    return F.dropout(weights, dropout_p, training) @ v
