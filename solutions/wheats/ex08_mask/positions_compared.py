"""Compares the position of every key with that of every query; draws row by row."""

import torch
from torch import Tensor


def causal_mask(q_len: int, k_len: int, device: torch.device | str | None = None) -> Tensor:
    if q_len > k_len:
        raise ValueError(f"q_len must not exceed k_len, got q_len={q_len} and k_len={k_len}")
    queries = torch.arange(k_len - q_len, k_len, device=device)[:, None]  # [T, 1]
    keys = torch.arange(k_len, device=device)[None, :]  # [1, S]
    return keys <= queries


def padding_mask(attention_mask: Tensor) -> Tensor:
    return (attention_mask != 0).unsqueeze(1).unsqueeze(1)


def combine_masks(causal: Tensor | None, padding: Tensor | None) -> Tensor | None:
    if causal is None or padding is None:
        return padding if causal is None else causal.unsqueeze(0).unsqueeze(0)
    return torch.logical_and(causal, padding)


def show_mask(mask: Tensor) -> str:
    lines = []
    for row in mask:
        line = ""
        for visible in row:
            line += "#" if visible else "."
        lines.append(line)
    return "\n".join(lines)
