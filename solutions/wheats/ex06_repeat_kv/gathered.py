"""Gathers with an index that is a stride-0 view, in the [B, K, T, D] layout, and transposes back."""

import torch
from torch import Tensor


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    if n_rep < 1:
        raise ValueError(f"n_rep must be at least 1, got {n_rep}")
    B, T, K, D = x.shape
    heads = x.transpose(1, 2)  # [B, K, T, D]
    index = torch.arange(K * n_rep, device=x.device) // n_rep
    index = index[None, :, None, None].expand(B, K * n_rep, T, D)
    return heads.gather(1, index).transpose(1, 2)
