"""Right for a whole tensor, wrong for a part cut out of a larger one. Where in memory does a slice begin, and what does
`as_strided` take for granted there?
"""

from torch import Tensor

CATEGORY = "robustness"


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    if n_rep < 1:
        raise ValueError(f"n_rep must be at least 1, got {n_rep}")
    B, T, K, D = x.shape
    row, token, head, channel = x.stride()
    return x.as_strided((B, T, K, n_rep, D), (row, token, head, 0, channel), 0).flatten(2, 3)
