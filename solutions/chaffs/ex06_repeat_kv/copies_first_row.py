"""Every row of the batch looks like the first one. Does the batch axis take part in the copy?"""

from torch import Tensor

CATEGORY = "numerics"


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    if n_rep < 1:
        raise ValueError(f"n_rep must be at least 1, got {n_rep}")
    B, T, K, D = x.shape
    return x[:1].repeat_interleave(n_rep, dim=2).expand(B, T, K * n_rep, D)
