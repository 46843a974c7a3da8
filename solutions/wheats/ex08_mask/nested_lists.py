"""Writes the rule down in plain Python lists, and only then makes a tensor of it."""

import torch
from torch import Tensor


def causal_mask(q_len: int, k_len: int, device: torch.device | str | None = None) -> Tensor:
    if q_len > k_len:
        raise ValueError(f"q_len must not exceed k_len, got q_len={q_len} and k_len={k_len}")
    rows = [[j - i <= k_len - q_len for j in range(k_len)] for i in range(q_len)]
    return torch.tensor(rows, dtype=torch.bool, device=device)


def padding_mask(attention_mask: Tensor) -> Tensor:
    rows = [[[[bool(token) for token in row]]] for row in attention_mask.tolist()]
    return torch.tensor(rows, dtype=torch.bool, device=attention_mask.device)


def combine_masks(causal: Tensor | None, padding: Tensor | None) -> Tensor | None:
    masks = [mask for mask in (None if causal is None else causal[None, None], padding) if mask is not None]
    if not masks:
        return None
    visible = masks[0]
    for mask in masks[1:]:
        visible = visible & mask
    return visible


def show_mask(mask: Tensor) -> str:
    text = ""
    for i, row in enumerate(mask.tolist()):
        text += "\n" * (i > 0) + "".join(".#"[visible] for visible in row)
    return text
