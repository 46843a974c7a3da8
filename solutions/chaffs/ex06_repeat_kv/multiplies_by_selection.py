"""The copies are made by arithmetic, a product with zeros and ones, and 0 * inf is nan. Can values be moved without
computing with them?
"""

import torch
from torch import Tensor

CATEGORY = "robustness"


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    if n_rep < 1:
        raise ValueError(f"n_rep must be at least 1, got {n_rep}")
    select = torch.eye(x.shape[2], dtype=x.dtype, device=x.device).repeat_interleave(n_rep, dim=0)  # [H, K]
    return (x[:, :, None] * select[:, :, None]).sum(dim=3, dtype=x.dtype)  # [B, T, H, K, D] -> [B, T, H, D]
