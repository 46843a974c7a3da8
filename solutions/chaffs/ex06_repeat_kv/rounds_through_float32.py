"""The dtype is right, but large integers and float64 come back rounded. Does the data pass through a narrower dtype
and back?
"""

from torch import Tensor

CATEGORY = "robustness"


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    if n_rep < 1:
        raise ValueError(f"n_rep must be at least 1, got {n_rep}")
    return x.float().repeat_interleave(n_rep, dim=2).to(x.dtype)
