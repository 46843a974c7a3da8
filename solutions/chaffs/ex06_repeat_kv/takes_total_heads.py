"""It looks as if n_rep were read as the number of query heads. It is H // K: how many query heads share one
key/value head.
"""

from torch import Tensor

CATEGORY = "shape"


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    if n_rep < 1:
        raise ValueError(f"n_rep must be at least 1, got {n_rep}")
    return x.repeat_interleave(n_rep // x.shape[2], dim=2)
