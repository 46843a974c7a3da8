"""n_rep = 1 is refused, but it is plain multi-head attention: K = H. Where exactly does the bad range begin?"""

from torch import Tensor

CATEGORY = "robustness"


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    if n_rep <= 1:
        raise ValueError(f"n_rep must be at least 2, got {n_rep}")
    return x.repeat_interleave(n_rep, dim=2)
