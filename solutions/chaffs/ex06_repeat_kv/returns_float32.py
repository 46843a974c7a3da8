"""The result is float32 whatever came in. Is there a `.float()`, or a product with a float tensor, on the way?"""

from torch import Tensor

CATEGORY = "robustness"


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    if n_rep < 1:
        raise ValueError(f"n_rep must be at least 1, got {n_rep}")
    return x.float().repeat_interleave(n_rep, dim=2)
