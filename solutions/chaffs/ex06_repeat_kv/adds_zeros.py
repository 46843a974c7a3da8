"""-0.0 has become 0.0. Are zeros added to make the copies? Values can be moved without computing with them."""

from torch import Tensor

CATEGORY = "robustness"


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    if n_rep < 1:
        raise ValueError(f"n_rep must be at least 1, got {n_rep}")
    return (x[:, :, :, None, :] + x.new_zeros(n_rep, 1)).flatten(2, 3)
