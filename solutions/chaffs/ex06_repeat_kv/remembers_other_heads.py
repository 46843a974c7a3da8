"""A second call with as many query heads, but other groups, is answered with the groups of the first. What is kept
between calls, and under which key?
"""

import torch
from torch import Tensor

CATEGORY = "robustness"

_INDEX: dict[int, Tensor] = {}


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    if n_rep < 1:
        raise ValueError(f"n_rep must be at least 1, got {n_rep}")
    H = x.shape[2] * n_rep
    if H not in _INDEX:
        _INDEX[H] = torch.arange(H) // n_rep  # [H], the key/value head of every query head
    return x[:, :, _INDEX[H].to(x.device)]
