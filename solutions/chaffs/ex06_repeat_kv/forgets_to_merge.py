"""The copies are there, but on an axis of their own. How do K groups of n_rep heads become one axis of heads?"""

from torch import Tensor

CATEGORY = "shape"


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    if n_rep < 1:
        raise ValueError(f"n_rep must be at least 1, got {n_rep}")
    B, T, K, D = x.shape
    return x[:, :, :, None, :].expand(B, T, K, n_rep, D)
