"""Twice the memory of the result is taken. Are there pieces that are joined once, and then joined again?"""

import torch
from torch import Tensor

CATEGORY = "memory"


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    if n_rep < 1:
        raise ValueError(f"n_rep must be at least 1, got {n_rep}")
    groups = [torch.cat([head] * n_rep, dim=2) for head in x.split(1, dim=2)]  # K tensors [B, T, n_rep, D]
    return torch.cat(groups, dim=2)
