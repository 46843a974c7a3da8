"""Draws the full square mask of all S tokens and keeps its last T rows, as views; expands before it combines."""

import torch
from torch import Tensor


def causal_mask(q_len: int, k_len: int, device: torch.device | str | None = None) -> Tensor:
    if q_len > k_len:
        raise ValueError(f"q_len must not exceed k_len, got q_len={q_len} and k_len={k_len}")
    full = torch.ones(k_len, k_len, dtype=torch.bool, device=device).tril()
    return full[k_len - q_len :]


def padding_mask(attention_mask: Tensor) -> Tensor:
    return attention_mask.to(torch.bool).reshape(attention_mask.shape[0], 1, 1, -1)


def combine_masks(causal: Tensor | None, padding: Tensor | None) -> Tensor | None:
    if causal is None:
        return padding
    if padding is None:
        return causal.expand(1, 1, -1, -1)
    shape = (padding.shape[0], 1, *causal.shape)
    return causal.expand(shape) & padding.expand(shape)


def show_mask(mask: Tensor) -> str:
    symbols = {True: "#", False: "."}
    lines = [[symbols[visible] for visible in row] for row in mask.tolist()]
    return "\n".join(map("".join, lines))
