"""The number of copies is a power of two whatever n_rep is. What does the loop do for n_rep = 3?"""

import torch
from torch import Tensor

CATEGORY = "shape"


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    if n_rep < 1:
        raise ValueError(f"n_rep must be at least 1, got {n_rep}")
    copies = x[:, :, :, None, :]
    while copies.shape[3] < n_rep:
        copies = torch.cat([copies, copies], dim=3)
    return copies.flatten(2, 3)
