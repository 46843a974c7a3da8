"""The root mean square from the vector's length, |x| / sqrt(dim); LayerNorm is an RMSNorm of what is left of the mean."""

import torch
from jaxtyping import Float
from torch import Tensor, nn


def root_mean_square(x: Tensor, eps: float) -> Tensor:
    length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    return (length**2 / x.shape[-1] + eps) ** 0.5


class RMSNorm(nn.Module):
    """Root mean square norm over the last axis."""

    def __init__(self, dim: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.register_parameter("weight", nn.Parameter(torch.full((dim,), 1.0)))
        self.eps = eps

    def forward(self, x: Float[Tensor, "... dim"]) -> Float[Tensor, "... dim"]:
        """Norm each token on its own."""
        wide = x.to(torch.float64)
        return (wide / root_mean_square(wide, self.eps) * self.weight.to(torch.float64)).to(x.dtype)


class LayerNorm(RMSNorm):
    """Layer norm over the last axis."""

    def __init__(self, dim: int, eps: float = 1e-5) -> None:
        super().__init__(dim, eps)
        self.bias = nn.Parameter(torch.full((dim,), 0.0))

    def forward(self, x: Float[Tensor, "... dim"]) -> Float[Tensor, "... dim"]:
        """Norm each token on its own."""
        wide = x.to(torch.float64)
        centred = wide - wide.mean(-1, keepdim=True)
        scaled = centred / root_mean_square(centred, self.eps) * self.weight.to(torch.float64)
        return (scaled + self.bias.to(torch.float64)).to(x.dtype)
