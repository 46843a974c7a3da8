"""Only one copy of each head sends its gradient back. Every query head of the group should have its say: are the
other copies detached?
"""

import torch
from torch import Tensor

CATEGORY = "gradients"


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    if n_rep < 1:
        raise ValueError(f"n_rep must be at least 1, got {n_rep}")
    B, T, K, D = x.shape
    copies = [x] + [x.detach()] * (n_rep - 1)
    return torch.stack(copies, dim=3).reshape(B, T, K * n_rep, D)
