"""Stacks `n_rep` references to x on a new axis behind the heads and flattens the two axes."""

import torch
from torch import Tensor


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    if n_rep < 1:
        raise ValueError(f"n_rep must be at least 1, got {n_rep}")
    return torch.stack([x] * n_rep, dim=3).flatten(2, 3)
