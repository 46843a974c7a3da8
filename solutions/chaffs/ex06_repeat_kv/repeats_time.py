"""The time axis has grown and the heads have not. Code with this name is often written for [B, heads, T, D]: which
layout comes in here?
"""

from torch import Tensor

CATEGORY = "shape"


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    if n_rep < 1:
        raise ValueError(f"n_rep must be at least 1, got {n_rep}")
    return x.repeat_interleave(n_rep, dim=1)
