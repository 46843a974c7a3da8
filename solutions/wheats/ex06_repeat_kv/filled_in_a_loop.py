"""Allocates the result once and fills one head at a time."""

from torch import Tensor


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    if n_rep < 1:
        raise ValueError(f"n_rep must be at least 1, got {n_rep}")
    B, T, K, D = x.shape
    result = x.new_empty(B, T, K * n_rep, D)
    for j in range(K * n_rep):
        result[:, :, j] = x[:, :, j // n_rep]
    return result
