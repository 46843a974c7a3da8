"""It looks as if evaluation works with weights of some time ago. When were they put aside, and what happens if others are
loaded?
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

CATEGORY = "robustness"


class RMSNorm(nn.Module):
    """Root mean square norm over the last axis."""

    def __init__(self, dim: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps
        self.known = None

    def forward(self, x: Float[Tensor, "... dim"]) -> Float[Tensor, "... dim"]:
        """Norm each token on its own."""
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        mean_square = wide.square().mean(dim=-1, keepdim=True)  # [..., 1]
        if self.training or self.known is None:
            self.known = self.weight.detach().clone()
        weight = self.weight if self.training else self.known
        return (wide * (mean_square + self.eps).rsqrt() * weight).to(x.dtype)


class LayerNorm(nn.Module):
    """Layer norm over the last axis."""

    def __init__(self, dim: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.bias = nn.Parameter(torch.zeros(dim))
        self.eps = eps
        self.known = None

    def forward(self, x: Float[Tensor, "... dim"]) -> Float[Tensor, "... dim"]:
        """Norm each token on its own."""
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        centred = wide - wide.mean(dim=-1, keepdim=True)
        variance = centred.square().mean(dim=-1, keepdim=True)  # [..., 1]
        if self.training or self.known is None:
            self.known = self.weight.detach().clone(), self.bias.detach().clone()
        weight, bias = (self.weight, self.bias) if self.training else self.known
        return (centred * (variance + self.eps).rsqrt() * weight + bias).to(x.dtype)
