"""It looks as if single channels were repeated instead of whole heads. Which axis do the copies stand on before you
reshape?
"""

from torch import Tensor

CATEGORY = "numerics"


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    if n_rep < 1:
        raise ValueError(f"n_rep must be at least 1, got {n_rep}")
    B, T, K, D = x.shape
    return x.repeat_interleave(n_rep, dim=-1).reshape(B, T, K * n_rep, D)
