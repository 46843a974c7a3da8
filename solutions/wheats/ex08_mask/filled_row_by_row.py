"""Starts from nothing visible and fills one row at a time; the pads are struck out of a copy."""

import torch
from torch import Tensor


def causal_mask(q_len: int, k_len: int, device: torch.device | str | None = None) -> Tensor:
    if q_len > k_len:
        raise ValueError(f"q_len must not exceed k_len, got q_len={q_len} and k_len={k_len}")
    mask = torch.zeros(q_len, k_len, dtype=torch.bool, device=device)
    for i in range(q_len):
        mask[i, : k_len - q_len + i + 1] = True
    return mask


def padding_mask(attention_mask: Tensor) -> Tensor:
    real = torch.ones(attention_mask.shape, dtype=torch.bool, device=attention_mask.device)
    real[attention_mask == 0] = False
    return real[:, None, None]


def combine_masks(causal: Tensor | None, padding: Tensor | None) -> Tensor | None:
    if padding is None:
        return None if causal is None else causal[None, None].clone()
    if causal is None:
        return padding.clone()
    return causal.masked_fill(~padding, False)


def show_mask(mask: Tensor) -> str:
    canvas = [["."] * mask.shape[1] for _ in range(mask.shape[0])]
    for i, j in mask.nonzero().tolist():
        canvas[i][j] = "#"
    return "\n".join("".join(line) for line in canvas)
