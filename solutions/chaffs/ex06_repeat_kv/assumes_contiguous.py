"""Right for a fresh tensor, scrambled for a transposed or sliced one. Are strides computed from the shape?"""

from torch import Tensor

CATEGORY = "robustness"


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    if n_rep < 1:
        raise ValueError(f"n_rep must be at least 1, got {n_rep}")
    B, T, K, D = x.shape
    copies = x.as_strided((B, T, K, n_rep, D), (T * K * D, K * D, D, 0, 1))
    return copies.reshape(B, T, K * n_rep, D)
