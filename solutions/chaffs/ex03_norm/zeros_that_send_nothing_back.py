"""It looks as if tokens of nothing but zeros are answered ahead of the computation. What do their gradients hang on then?"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

CATEGORY = "gradients"


class RMSNorm(nn.Module):
    """Root mean square norm over the last axis."""

    def __init__(self, dim: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x: Float[Tensor, "... dim"]) -> Float[Tensor, "... dim"]:
        """Norm each token on its own."""
        if not x.any():
            return torch.zeros_like(x)
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        mean_square = wide.square().mean(dim=-1, keepdim=True)  # [..., 1]
        return (wide * (mean_square + self.eps).rsqrt() * self.weight).to(x.dtype)


class LayerNorm(nn.Module):
    """Layer norm over the last axis."""

    def __init__(self, dim: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.bias = nn.Parameter(torch.zeros(dim))
        self.eps = eps

    def forward(self, x: Float[Tensor, "... dim"]) -> Float[Tensor, "... dim"]:
        """Norm each token on its own."""
        if not x.any():
            return torch.zeros_like(x) + self.bias.detach().to(x.dtype)
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        centred = wide - wide.mean(dim=-1, keepdim=True)
        variance = centred.square().mean(dim=-1, keepdim=True)  # [..., 1]
        return (centred * (variance + self.eps).rsqrt() * self.weight + self.bias).to(x.dtype)
