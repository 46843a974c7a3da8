"""Picks head j // n_rep for every head j with an index tensor."""

import torch
from torch import Tensor


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    if n_rep < 1:
        raise ValueError(f"n_rep must be at least 1, got {n_rep}")
    index = torch.arange(x.shape[2] * n_rep, device=x.device) // n_rep  # [H]: 0, 0, 1, 1, ...
    return x.index_select(2, index)
