"""Axes of length one have disappeared. A batch of one, one new token and one shared head are all everyday cases:
does your code squeeze?
"""

from torch import Tensor

CATEGORY = "shape"


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    if n_rep < 1:
        raise ValueError(f"n_rep must be at least 1, got {n_rep}")
    return x.repeat_interleave(n_rep, dim=2).squeeze()
