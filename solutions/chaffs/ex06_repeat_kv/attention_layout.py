"""Heads and time have changed places. Keys stay in [B, T, heads, D] here; who transposes for attention?"""

from torch import Tensor

CATEGORY = "shape"


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    if n_rep < 1:
        raise ValueError(f"n_rep must be at least 1, got {n_rep}")
    return x.repeat_interleave(n_rep, dim=2).transpose(1, 2)
