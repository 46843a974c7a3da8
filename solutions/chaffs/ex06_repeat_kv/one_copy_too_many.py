"""Each head comes once too often. Is the original one of the n_rep, or are there n_rep copies beside it?"""

from torch import Tensor

CATEGORY = "shape"


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    if n_rep < 1:
        raise ValueError(f"n_rep must be at least 1, got {n_rep}")
    return x.repeat_interleave(n_rep + 1, dim=2)
