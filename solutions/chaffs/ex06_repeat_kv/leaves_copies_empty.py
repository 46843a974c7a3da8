"""Only the first head of each group holds values. What do the other query heads of the group get?"""

from torch import Tensor

CATEGORY = "numerics"


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    if n_rep < 1:
        raise ValueError(f"n_rep must be at least 1, got {n_rep}")
    B, T, K, D = x.shape
    result = x.new_zeros(B, T, K, n_rep, D)
    result[:, :, :, 0] = x
    return result.flatten(2, 3)
