"""It looks as if LayerNorm takes the mean in the dtype of the input. Near 60 the next bfloat16 is 0.25 away: how
exact can a mean be there?
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

CATEGORY = "numerics"


class RMSNorm(nn.Module):
    """Root mean square norm over the last axis."""

    def __init__(self, dim: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x: Float[Tensor, "... dim"]) -> Float[Tensor, "... dim"]:
        """Norm each token on its own."""
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
        centred = (x - x.mean(dim=-1, keepdim=True)).to(torch.promote_types(x.dtype, torch.float32))
        variance = centred.square().mean(dim=-1, keepdim=True)  # [..., 1]
        return (centred * (variance + self.eps).rsqrt() * self.weight + self.bias).to(x.dtype)
