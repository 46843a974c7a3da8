"""Casts back before the product with the weight, as Llama does, and converts the weight to the input's dtype for it."""

import torch
from jaxtyping import Float
from torch import Tensor, nn


class RMSNorm(nn.Module):
    """Root mean square norm over the last axis."""

    def __init__(self, dim: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.variance_epsilon = eps

    def forward(self, x: Float[Tensor, "... dim"]) -> Float[Tensor, "... dim"]:
        """Norm each token on its own."""
        hidden = x.to(torch.float32)
        variance = hidden.pow(2).mean(-1, keepdim=True)
        hidden = hidden * torch.rsqrt(variance + self.variance_epsilon)
        return self.weight.to(x.dtype) * hidden.to(x.dtype)


class LayerNorm(nn.Module):
    """Layer norm over the last axis."""

    def __init__(self, dim: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.bias = nn.Parameter(torch.zeros(dim))
        self.eps = eps

    def forward(self, x: Float[Tensor, "... dim"]) -> Float[Tensor, "... dim"]:
        """Norm each token on its own."""
        hidden = x.to(torch.float32)
        variance, mean = torch.var_mean(hidden, dim=-1, keepdim=True, correction=0)
        hidden = (hidden - mean) * torch.rsqrt(variance + self.eps)
        return self.weight.to(x.dtype) * hidden.to(x.dtype) + self.bias.to(x.dtype)
