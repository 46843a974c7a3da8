"""Heads and tokens are mixed up. `reshape` and `view` cut the same memory anew; they never move an axis to another
place.
"""

from torch import Tensor

CATEGORY = "numerics"


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    if n_rep < 1:
        raise ValueError(f"n_rep must be at least 1, got {n_rep}")
    B, T, K, D = x.shape
    heads = x.reshape(B, K, T, D)
    return heads.repeat_interleave(n_rep, dim=1).reshape(B, T, K * n_rep, D)
