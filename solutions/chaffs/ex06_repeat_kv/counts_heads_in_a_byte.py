"""With more than 255 query heads the wrong heads are lent. Which dtype counts them, and how far does it count?"""

import torch
from torch import Tensor

CATEGORY = "numerics"


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    if n_rep < 1:
        raise ValueError(f"n_rep must be at least 1, got {n_rep}")
    heads = torch.arange(x.shape[2] * n_rep, device=x.device).to(torch.uint8) // n_rep
    return x[:, :, heads.long()]
