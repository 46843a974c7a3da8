"""08 · masks: which keys a query may see. Boolean everywhere, True = may attend."""

import torch
from jaxtyping import Bool, Shaped
from torch import Tensor


def causal_mask(q_len: int, k_len: int, device: torch.device | str | None = None) -> Bool[Tensor, "T S"]:
    """Let every query see itself and the past, never the future.

    The T = q_len queries are the newest of the S = k_len tokens: query i stands at position S - T + i and sees
    the keys 0 .. S - T + i. The last query sees every key ("bottom-right aligned").

    Args:
        q_len: T, the number of new tokens.
        k_len: S, the number of all keys, past and new; at least T.
        device: where the mask is made; None is PyTorch's default device.

    Returns:
        [T, S] bool, a tensor of its own: writing into it changes no later result.

    Raises:
        ValueError: `q_len` is greater than `k_len`; the message names `q_len` and gives the values of both.

    Example:
        >>> causal_mask(2, 3)
        tensor([[ True,  True, False],
                [ True,  True,  True]])
    """
    # BEGIN SOLUTION
    if q_len > k_len:
        raise ValueError(f"q_len must not exceed k_len, got q_len={q_len} and k_len={k_len}")
    past = k_len - q_len  # keys that every query may see
    return torch.ones(q_len, k_len, dtype=torch.bool, device=device).tril(diagonal=past)
    # END SOLUTION


def padding_mask(attention_mask: Shaped[Tensor, "B S"]) -> Bool[Tensor, "B 1 1 S"]:
    """Hide padding from every head and every query.

    Args:
        attention_mask: [B, S], 1 (or True) at real tokens and 0 (or False) at pads, as bool, uint8, int8, int16,
            int32, int64, float16, bfloat16, float32 or float64. Pads may stand left, right or scattered. It is not
            changed.

    Returns:
        [B, 1, 1, S] bool, True at real tokens; broadcasts over heads and queries.

    Example:
        >>> padding_mask(torch.tensor([[0, 1, 1]])).shape, padding_mask(torch.tensor([[0, 1, 1]])).flatten().tolist()
        (torch.Size([1, 1, 1, 3]), [False, True, True])
    """
    # BEGIN SOLUTION
    return attention_mask.bool()[:, None, None, :]
    # END SOLUTION


def combine_masks(causal: Bool[Tensor, "T S"] | None, padding: Bool[Tensor, "B 1 1 S"] | None) -> Bool[Tensor, "B 1 T S"] | None:
    """Let a query see a key only where every given mask allows it.

    Args:
        causal: [T, S] bool, from `causal_mask` or another rule about positions (a sliding window), or None.
        padding: [B, 1, 1, S] bool, as `padding_mask` returns it, or None.

    Returns:
        Both: [B, 1, T, S] bool. Only `causal`: [1, 1, T, S]. Only `padding`: [B, 1, 1, S]. Neither: None.
        A row may end up with no visible key; it stays that way. The arguments are not changed.

    Example:
        >>> combine_masks(causal_mask(2, 3), padding_mask(torch.tensor([[0, 1, 1]])))
        tensor([[[[False,  True, False],
                  [False,  True,  True]]]])
    """
    # BEGIN SOLUTION
    if causal is None:
        return padding
    causal = causal[None, None]  # [1, 1, T, S]
    return causal if padding is None else causal & padding  # [B, 1, T, S]
    # END SOLUTION


def show_mask(mask: Bool[Tensor, "T S"]) -> str:
    """Draw a mask: one line a query, one character a key.

    Args:
        mask: [T, S] bool.

    Returns:
        T lines of S characters, `#` where the key is visible and `.` where it is hidden; no spaces, lines joined by
        a newline, none at the end.

    Example:
        >>> print(show_mask(causal_mask(2, 3)))
        ##.
        ###
    """
    # BEGIN SOLUTION
    return "\n".join("".join("#" if visible else "." for visible in row) for row in mask.tolist())
    # END SOLUTION
