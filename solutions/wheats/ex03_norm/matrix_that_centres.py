"""The mean is taken away by a matrix, 1 - 1/dim, that is a buffer outside of the state dict; einsum for the squares."""

import torch
from jaxtyping import Float
from torch import Tensor, nn


class RMSNorm(nn.Module):
    """Root mean square norm over the last axis."""

    def __init__(self, dim: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x: Float[Tensor, "... dim"]) -> Float[Tensor, "... dim"]:
        """Norm each token on its own."""
        wide = x.double()
        mean_square = torch.einsum("...c,...c->...", wide, wide)[..., None] / x.shape[-1]
        return (wide * (mean_square + self.eps) ** -0.5 * self.weight).to(x.dtype)


class LayerNorm(nn.Module):
    """Layer norm over the last axis."""

    def __init__(self, dim: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.bias = nn.Parameter(torch.zeros(dim))
        self.register_buffer("positions", torch.arange(dim), persistent=False)
        self.eps = eps

    def forward(self, x: Float[Tensor, "... dim"]) -> Float[Tensor, "... dim"]:
        """Norm each token on its own."""
        wide = x.double()
        same = (self.positions[:, None] == self.positions).double()
        centred = wide @ (same - 1 / len(self.positions))
        variance = torch.einsum("...c,...c->...", centred, centred)[..., None] / len(self.positions)
        return (centred * (variance + self.eps) ** -0.5 * self.weight + self.bias).to(x.dtype)
