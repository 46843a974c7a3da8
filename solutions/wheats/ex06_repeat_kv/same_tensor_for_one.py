"""Returns x itself when there is nothing to repeat, as multi-head attention (K = H) needs."""

from torch import Tensor


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    if n_rep < 1:
        raise ValueError(f"n_rep must be at least 1, got {n_rep}")
    if n_rep == 1:
        return x
    return x.unsqueeze(3).expand(-1, -1, -1, n_rep, -1).flatten(2, 3)
