"""The same tensors with new values get the answer of the old ones. Is a result found again by which tensors came in,
instead of by what they hold?
"""

import torch
from torch import Tensor

CATEGORY = "robustness"

_LAST: list[tuple[Tensor, Tensor]] = []


def causal_mask(q_len: int, k_len: int, device: torch.device | str | None = None) -> Tensor:
    if q_len > k_len:
        raise ValueError(f"q_len must not exceed k_len, got q_len={q_len} and k_len={k_len}")
    past = k_len - q_len
    return torch.ones(q_len, k_len, dtype=torch.bool, device=device).tril(diagonal=past)


def padding_mask(attention_mask: Tensor) -> Tensor:
    if not (_LAST and _LAST[0][0] is attention_mask):
        _LAST[:] = [(attention_mask, attention_mask.ne(0)[:, None, None, :])]
    return _LAST[0][1]


def combine_masks(causal: Tensor | None, padding: Tensor | None) -> Tensor | None:
    if causal is None:
        return padding
    causal = causal[None, None]  # [1, 1, T, S]
    return causal if padding is None else causal & padding  # [B, 1, T, S]


def show_mask(mask: Tensor) -> str:
    return "\n".join("".join("#" if visible else "." for visible in row) for row in mask.tolist())
