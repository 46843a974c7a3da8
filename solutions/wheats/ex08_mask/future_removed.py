"""Marks the future with `triu` and negates it; multiplies masks; translates digits into characters."""

import torch
from torch import Tensor


def causal_mask(q_len: int, k_len: int, device: torch.device | str | None = None) -> Tensor:
    if q_len > k_len:
        raise ValueError(f"q_len must not exceed k_len, got q_len={q_len} and k_len={k_len}")
    future = torch.ones(q_len, k_len, device=device).triu(diagonal=k_len - q_len + 1)
    return future == 0


def padding_mask(attention_mask: Tensor) -> Tensor:
    batch, k_len = attention_mask.shape
    return (attention_mask == 1).view(batch, 1, 1, k_len)


def combine_masks(causal: Tensor | None, padding: Tensor | None) -> Tensor | None:
    if causal is None and padding is None:
        return None
    if padding is None:
        return causal.view(1, 1, *causal.shape)
    if causal is None:
        return padding
    return causal * padding


def show_mask(mask: Tensor) -> str:
    digits = ["".join(str(int(visible)) for visible in row) for row in mask.tolist()]
    return "\n".join(digits).replace("1", "#").replace("0", ".")
