"""0 is refused but a negative n_rep is not. In `expand`, -1 has a meaning of its own."""

from torch import Tensor

CATEGORY = "robustness"


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    if n_rep == 0:
        raise ValueError(f"n_rep must be at least 1, got {n_rep}")
    B, T, K, D = x.shape
    return x[:, :, :, None, :].expand(B, T, K, n_rep, D).flatten(2, 3)
