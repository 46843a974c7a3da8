"""The gradient is right only if what flows in is contiguous. After a transpose it is not: does your backward compute
strides from a shape?
"""

import torch
from torch import Tensor

CATEGORY = "gradients"


class _Repeat(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, n_rep: int) -> Tensor:
        ctx.n_rep = n_rep
        return x.repeat_interleave(n_rep, dim=2)

    @staticmethod
    def backward(ctx, g: Tensor) -> tuple[Tensor, None]:
        B, T, H, D = g.shape
        groups = g.as_strided((B, T, H // ctx.n_rep, ctx.n_rep, D), (T * H * D, H * D, ctx.n_rep * D, D, 1))
        return groups.sum(dim=3), None


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    if n_rep < 1:
        raise ValueError(f"n_rep must be at least 1, got {n_rep}")
    return _Repeat.apply(x, n_rep)
