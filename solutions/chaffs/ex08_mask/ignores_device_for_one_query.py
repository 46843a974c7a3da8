"""For a single query `device` is forgotten. Does the shortcut pass on all that the long way does?"""

import torch
from torch import Tensor

CATEGORY = "robustness"


def causal_mask(q_len: int, k_len: int, device: torch.device | str | None = None) -> Tensor:
    if q_len > k_len:
        raise ValueError(f"q_len must not exceed k_len, got q_len={q_len} and k_len={k_len}")
    if q_len == 1:
        return torch.ones(1, k_len, dtype=torch.bool)
    return torch.ones(q_len, k_len, dtype=torch.bool, device=device).tril(diagonal=k_len - q_len)


def padding_mask(attention_mask: Tensor) -> Tensor:
    return attention_mask.bool()[:, None, None, :]


def combine_masks(causal: Tensor | None, padding: Tensor | None) -> Tensor | None:
    if causal is None:
        return padding
    causal = causal[None, None]  # [1, 1, T, S]
    return causal if padding is None else causal & padding  # [B, 1, T, S]


def show_mask(mask: Tensor) -> str:
    return "\n".join("".join("#" if visible else "." for visible in row) for row in mask.tolist())
