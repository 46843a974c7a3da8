"""The key/value heads are tiled (0, 1, 0, 1), not repeated next to themselves. Which query heads share key/value
head 0?
"""

from torch import Tensor

CATEGORY = "numerics"


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    if n_rep < 1:
        raise ValueError(f"n_rep must be at least 1, got {n_rep}")
    return x.repeat(1, 1, n_rep, 1)
