"""Walks over the tokens one by one, with dot products for the sums, and stacks what comes out."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn


class RMSNorm(nn.Module):
    """Root mean square norm over the last axis."""

    def __init__(self, dim: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def one(self, token: Tensor) -> Tensor:
        mean_square = torch.dot(token, token) / len(token)
        return token / torch.sqrt(mean_square + self.eps) * self.weight

    def forward(self, x: Float[Tensor, "... dim"]) -> Float[Tensor, "... dim"]:
        """Norm each token on its own."""
        tokens = x.reshape(math.prod(x.shape[:-1]), x.shape[-1]).float()
        return torch.stack([self.one(token) for token in tokens]).reshape(x.shape).to(x.dtype)


class LayerNorm(RMSNorm):
    """Layer norm over the last axis."""

    def __init__(self, dim: int, eps: float = 1e-5) -> None:
        super().__init__(dim, eps)
        self.bias = nn.Parameter(torch.zeros(dim))

    def one(self, token: Tensor) -> Tensor:
        return super().one(token - token.sum() / len(token)) + self.bias
