"""Right only while every pad stands on the left. Are the real tokens counted, and then assumed to come last?"""

import torch
from torch import Tensor

CATEGORY = "numerics"


def causal_mask(q_len: int, k_len: int, device: torch.device | str | None = None) -> Tensor:
    if q_len > k_len:
        raise ValueError(f"q_len must not exceed k_len, got q_len={q_len} and k_len={k_len}")
    past = k_len - q_len
    return torch.ones(q_len, k_len, dtype=torch.bool, device=device).tril(diagonal=past)


def padding_mask(attention_mask: Tensor) -> Tensor:
    k_len = attention_mask.shape[1]
    lengths = attention_mask.long().sum(dim=1, keepdim=True)  # [B, 1]
    keys = torch.arange(k_len, device=attention_mask.device)
    return (keys >= k_len - lengths)[:, None, None, :]


def combine_masks(causal: Tensor | None, padding: Tensor | None) -> Tensor | None:
    if causal is None:
        return padding
    causal = causal[None, None]  # [1, 1, T, S]
    return causal if padding is None else causal & padding  # [B, 1, T, S]


def show_mask(mask: Tensor) -> str:
    return "\n".join("".join("#" if visible else "." for visible in row) for row in mask.tolist())
