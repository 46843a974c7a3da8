"""Cuts x into heads and joins the slices in their final order, each named `n_rep` times, in one `cat`."""

import torch
from torch import Tensor


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    if n_rep < 1:
        raise ValueError(f"n_rep must be at least 1, got {n_rep}")
    heads = x.split(1, dim=2)  # K views [B, T, 1, D]
    return torch.cat([head for head in heads for _ in range(n_rep)], dim=2)
