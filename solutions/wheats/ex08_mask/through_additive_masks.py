"""Thinks in scores (0 or -inf, as attention adds them) and turns the result into booleans at the end."""

import torch
from torch import Tensor


def causal_mask(q_len: int, k_len: int, device: torch.device | str | None = None) -> Tensor:
    if q_len > k_len:
        raise ValueError(f"q_len must not exceed k_len, got q_len={q_len} and k_len={k_len}")
    scores = torch.full((q_len, k_len), float("-inf"), device=device)
    return scores.triu(diagonal=k_len - q_len + 1) == 0


def padding_mask(attention_mask: Tensor) -> Tensor:
    scores = torch.zeros(attention_mask.shape, device=attention_mask.device)
    scores = scores.masked_fill(attention_mask == 0, float("-inf"))
    return torch.isfinite(scores)[:, None, None, :]


def combine_masks(causal: Tensor | None, padding: Tensor | None) -> Tensor | None:
    if causal is None:
        return padding
    if padding is None:
        return causal[None, None]
    hidden = ~causal | ~padding
    return ~hidden


def show_mask(mask: Tensor) -> str:
    return "\n".join("".join(row) for row in [["#" if j else "." for j in row] for row in mask.int().tolist()])
