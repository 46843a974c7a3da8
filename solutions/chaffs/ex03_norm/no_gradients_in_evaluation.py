"""It looks as if nothing is sent back in evaluation. Does a module decide whether gradients are recorded, or whoever
calls it?
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

    def forward(self, x: Float[Tensor, "... dim"]) -> Float[Tensor, "... dim"]:
        """Norm each token on its own."""
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        mean_square = wide.square().mean(dim=-1, keepdim=True)  # [..., 1]
        output = (wide * (mean_square + self.eps).rsqrt() * self.weight).to(x.dtype)
        return output if self.training else output.detach()


class LayerNorm(nn.Module):
    """Layer norm over the last axis."""

    def __init__(self, dim: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.bias = nn.Parameter(torch.zeros(dim))
        self.eps = eps

    def forward(self, x: Float[Tensor, "... dim"]) -> Float[Tensor, "... dim"]:
        """Norm each token on its own."""
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        centred = wide - wide.mean(dim=-1, keepdim=True)
        variance = centred.square().mean(dim=-1, keepdim=True)  # [..., 1]
        output = (centred * (variance + self.eps).rsqrt() * self.weight + self.bias).to(x.dtype)
        return output if self.training else output.detach()
