"""09 · flash attention: the same answer without the table of all scores, and when to fall back to the hand-written one."""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Shaped
from torch import Tensor

from .ex07_attention import attention_weights
from .ex08_mask import causal_mask, combine_masks, padding_mask


def online_softmax_attention(
    q: Float[Tensor, "B H T D"],
    k: Float[Tensor, "B H S D"],
    v: Float[Tensor, "B H S E"],
    block_size: int,
    is_causal: bool = False,
) -> Float[Tensor, "B H T E"]:
    """`softmax(q k^T / sqrt(D)) v`, computed one block of keys at a time: no T x S matrix is ever held.

    For each query three things are carried from block to block: the highest score so far, the sum of
    `exp(score - highest)`, and the sum of `exp(score - highest) * value`. When a later block brings a higher score, both
    sums are shrunk by `exp(old highest - new highest)`. (Milakov and Gimelshein 2018; FlashAttention, Dao et al. 2022.)

    Args:
        q: queries `[B, H, T, D]`.
        k: keys `[B, H, S, D]`.
        v: values `[B, H, S, E]`; E may differ from D.
        block_size: how many keys are looked at together, at least 1. The last block may be shorter; one larger than S
            holds them all.
        is_causal: hide the future. Query i of T stands at position S - T + i and sees the keys 0 .. S - T + i
            (bottom-right aligned); S is at least T then. Without it, S and T may be anything.

    Returns:
        `[B, H, T, E]` in the dtype of the inputs: the numbers of `scaled_dot_product_attention` (07). Scores and sums are
        computed in at least float32, and any finite score in float32 is handled. No argument is changed.

    Memory:
        Never a matrix of T x S, not even a mask: what is made besides the result is as large as T x block_size, T x D
        or T x E for each head. With T fixed it does not grow with S. (Measured without autograd; gradients are not asked
        of this function.)

    Raises:
        ValueError: `block_size < 1`; the message names `block_size` and the value.

    Example:
        Scores 0 and ln 3 in two blocks of one key: after the second, the sums are 1/3 + 1 and 1/3 * [8, 0] + [0, 4].

        >>> q = torch.tensor([[[[2.0, 0.0, 0.0, 0.0]]]])
        >>> k = torch.tensor([[[[0.0, 0.0, 0.0, 0.0], [1.0986, 0.0, 0.0, 0.0]]]])
        >>> v = torch.tensor([[[[8.0, 0.0], [0.0, 4.0]]]])
        >>> online_softmax_attention(q, k, v, block_size=1)
        tensor([[[[2.0000, 3.0000]]]])
    """
    # BEGIN SOLUTION
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
    # END SOLUTION


def select_backend(
    q_len: int,
    k_len: int,
    attention_mask: Shaped[Tensor, "B S"] | None = None,
    flash_available: bool = True,
) -> str:
    """Choose between the fused kernel and attention written by hand.

    Args:
        q_len: T, the number of queries.
        k_len: S, the number of keys.
        attention_mask: `[B, S]` of 1 and 0 or True and False, of any dtype that `padding_mask` (08) takes, or None.
        flash_available: whether there is a fused kernel that may be used.

    Returns:
        "manual" if one of these holds, else "flash":

        - `k_len != q_len`: there are past keys, and the kernel's causal mask is aligned at the top left;
        - `q_len == 1`: a single token, nothing to gain;
        - `attention_mask` has a zero anywhere: the kernel is called without a mask;
        - `flash_available` is False.

    Example:
        >>> select_backend(6, 6, torch.ones(2, 6)), select_backend(1, 1), select_backend(2, 6)
        ('flash', 'manual', 'manual')
    """
    # BEGIN SOLUTION
    if not flash_available or q_len == 1 or k_len != q_len:
        return "manual"
    if attention_mask is not None and not attention_mask.bool().all():
        return "manual"
    return "flash"
    # END SOLUTION


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
    """Attention as a model calls it: causal, with padding and dropout, on the backend that `select_backend` names.

    On "flash" it calls `F.scaled_dot_product_attention`, on "manual" it does not; the two agree. From about a thousand tokens
    on "flash" is several times faster, because the kernel never holds the table of all scores.

    Args:
        q: queries `[B, H, T, D]`.
        k, v: keys and values `[B, H, S, D]`, already with H heads; S counts past and new keys.
        is_causal: hide the future, bottom-right aligned; S is at least T then.
        attention_mask: `[B, S]` over all S keys, 1 or True = real token, as for `padding_mask` (08). None: all are real.
        dropout_p: the probability with which a weight is set to 0, after the softmax and each for itself; those that are
            kept are divided by `1 - dropout_p`, so that the mean stays.
        training: nothing is dropped unless this is True.
        use_flash: False forces "manual".

    Returns:
        `[B, H, T, D]` in the dtype of the inputs. A query with no allowed key gets zeros, and gradients stay finite.
        No argument is changed.

    Example:
        The second token may look at both; the scores are all 0.

        >>> q = k = torch.zeros(1, 1, 2, 4)
        >>> v = torch.tensor([[[[8.0, 0.0], [0.0, 4.0]]]])
        >>> attention(q, k, v)
        tensor([[[[8., 0.],
                  [4., 2.]]]])
        >>> attention(q, k, v, attention_mask=torch.tensor([[0, 1]]))
        tensor([[[[0., 0.],
                  [0., 4.]]]])
    """
    # BEGIN SOLUTION
    T, S = q.shape[2], k.shape[2]
    if select_backend(T, S, attention_mask, use_flash) == "flash":
        return F.scaled_dot_product_attention(q, k, v, is_causal=is_causal, dropout_p=dropout_p if training else 0.0)
    causal = causal_mask(T, S, q.device) if is_causal else None
    padding = padding_mask(attention_mask) if attention_mask is not None else None
    weights = attention_weights(q, k, combine_masks(causal, padding))  # [B, H, T, S]
    return F.dropout(weights, dropout_p, training) @ v
    # END SOLUTION
