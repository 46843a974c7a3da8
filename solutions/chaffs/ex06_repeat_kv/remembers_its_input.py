"""The same tensor with new values gets the answer of the old ones. Is a result kept between calls, and found again by
which tensor x is instead of by what it holds?
"""

from torch import Tensor

CATEGORY = "robustness"

_LAST: list[tuple[Tensor, int, Tensor]] = []


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    if n_rep < 1:
        raise ValueError(f"n_rep must be at least 1, got {n_rep}")
    if not (_LAST and _LAST[0][0] is x and _LAST[0][1] == n_rep):
        _LAST[:] = [(x, n_rep, x.repeat_interleave(n_rep, dim=2))]
    return _LAST[0][2]
