"""A bad n_rep is not noticed, or fails somewhere inside PyTorch. Check it first and say which argument is wrong."""

from torch import Tensor

CATEGORY = "robustness"


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    B, T, K, D = x.shape
    return x[:, :, :, None, :].expand(B, T, K, n_rep, D).flatten(2, 3)
