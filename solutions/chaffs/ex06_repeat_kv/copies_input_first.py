"""For a transposed input the memory of a whole copy of x comes on top of the result. Is `contiguous()` needed
before the heads are spread?
"""

from torch import Tensor

CATEGORY = "memory"


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    if n_rep < 1:
        raise ValueError(f"n_rep must be at least 1, got {n_rep}")
    B, T, K, D = x.shape
    x = x.contiguous()
    return x[:, :, :, None, :].expand(B, T, K, n_rep, D).reshape(B, T, K * n_rep, D)
