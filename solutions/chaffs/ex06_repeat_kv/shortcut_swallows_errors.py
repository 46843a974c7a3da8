"""The shortcut for "nothing to repeat" also catches 0 and negative numbers. Which values of n_rep should it let
through?
"""

from torch import Tensor

CATEGORY = "robustness"


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    if n_rep <= 1:
        return x
    return x.repeat_interleave(n_rep, dim=2)
