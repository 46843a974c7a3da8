"""Fails on a transposed or sliced tensor. Which of your calls insists that axes lie next to each other in memory?"""

from torch import Tensor

CATEGORY = "robustness"


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    if n_rep < 1:
        raise ValueError(f"n_rep must be at least 1, got {n_rep}")
    B, T, K, D = x.shape
    heads = x.view(B * T * K, 1, D)
    return heads.repeat(1, n_rep, 1).view(B, T, K * n_rep, D)
