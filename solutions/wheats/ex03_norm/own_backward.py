"""Forward and backward both written out, in one autograd function that serves both norms."""

import torch
from jaxtyping import Float
from torch import Tensor, nn


class Normalise(torch.autograd.Function):
    """x / sqrt(mean(x^2) + eps), with or without the mean of x taken away first."""

    @staticmethod
    def forward(ctx, x: Tensor, eps: float, centre: bool) -> Tensor:
        if centre:
            x = x - x.mean(-1, keepdim=True)
        scale = ((x * x).mean(-1, keepdim=True) + eps).rsqrt()
        normed = x * scale
        ctx.save_for_backward(normed, scale)
        ctx.centre = centre
        return normed

    @staticmethod
    def backward(ctx, gradient: Tensor):
        normed, scale = ctx.saved_tensors
        # d normed_i / d x_j = scale * (i == j) - scale * normed_i * normed_j / dim
        of_x = scale * (gradient - normed * (gradient * normed).mean(-1, keepdim=True))
        if ctx.centre:
            of_x = of_x - of_x.mean(-1, keepdim=True)
        return of_x, None, None


class RMSNorm(nn.Module):
    """Root mean square norm over the last axis."""

    def __init__(self, dim: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x: Float[Tensor, "... dim"]) -> Float[Tensor, "... dim"]:
        """Norm each token on its own."""
        wide = x if x.dtype == torch.float64 else x.float()
        return (Normalise.apply(wide, self.eps, False) * self.weight).to(x.dtype)


class LayerNorm(nn.Module):
    """Layer norm over the last axis."""

    def __init__(self, dim: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.bias = nn.Parameter(torch.zeros(dim))
        self.eps = eps

    def forward(self, x: Float[Tensor, "... dim"]) -> Float[Tensor, "... dim"]:
        """Norm each token on its own."""
        wide = x if x.dtype == torch.float64 else x.float()
        return torch.addcmul(self.bias, Normalise.apply(wide, self.eps, True), self.weight).to(x.dtype)
