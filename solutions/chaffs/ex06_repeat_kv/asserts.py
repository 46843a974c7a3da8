"""The check is an `assert`, which raises AssertionError and vanishes under `python -O`. Which exception does the
contract name?
"""

from torch import Tensor

CATEGORY = "robustness"


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    assert n_rep >= 1, f"n_rep must be at least 1, got {n_rep}"
    return x.repeat_interleave(n_rep, dim=2)
