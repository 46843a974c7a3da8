"""Repeats along the channels: [B, T, K, n_rep * D] has the same order in memory as the result."""

from torch import Tensor


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    if n_rep < 1:
        raise ValueError(f"n_rep must be at least 1, got {n_rep}")
    B, T, K, D = x.shape
    return x.repeat(1, 1, 1, n_rep).view(B, T, K * n_rep, D)
