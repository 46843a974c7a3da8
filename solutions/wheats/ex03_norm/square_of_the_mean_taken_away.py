"""The variance as E[x^2] - E[x]^2, kept from falling below 0; always float32, for float64 input too."""

import torch
from jaxtyping import Float
from torch import Tensor, nn


class RMSNorm(nn.Module):
    """Root mean square norm over the last axis."""

    def __init__(self, dim: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.dim, self.eps = dim, eps
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x: Float[Tensor, "... dim"]) -> Float[Tensor, "... dim"]:
        """Norm each token on its own."""
        wide = x.float()
        scale = torch.rsqrt((wide * wide).sum(-1, keepdim=True) / self.dim + self.eps)
        return (wide * (scale * self.weight)).type_as(x)


class LayerNorm(nn.Module):
    """Layer norm over the last axis."""

    def __init__(self, dim: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.dim, self.eps = dim, eps
        self.weight = nn.Parameter(torch.ones(dim))
        self.bias = nn.Parameter(torch.zeros(dim))

    def forward(self, x: Float[Tensor, "... dim"]) -> Float[Tensor, "... dim"]:
        """Norm each token on its own."""
        wide = x.float()
        mean = wide.sum(-1, keepdim=True) / self.dim
        variance = ((wide * wide).sum(-1, keepdim=True) / self.dim - mean * mean).clamp(min=0.0)
        return ((wide - mean) / torch.sqrt(variance + self.eps) * self.weight + self.bias).type_as(x)
