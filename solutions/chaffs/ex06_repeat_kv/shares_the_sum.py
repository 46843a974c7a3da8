"""The values of a head are divided among its copies. Is a head shared out, or lent whole to every query head?"""

from torch import Tensor

CATEGORY = "numerics"


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    if n_rep < 1:
        raise ValueError(f"n_rep must be at least 1, got {n_rep}")
    return (x / n_rep).to(x.dtype).repeat_interleave(n_rep, dim=2)
