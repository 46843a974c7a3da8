"""Both activations with a backward of their own, from the slope in a closed form."""

import torch
from jaxtyping import Float
from torch import Tensor, nn


class ExactGELU(torch.autograd.Function):
    """x * P(Z <= x)."""

    @staticmethod
    def forward(context, x: Tensor) -> Tensor:
        context.save_for_backward(x)
        wide = x.float() if x.dtype != torch.float64 else x
        return (wide * (1 + torch.erf(wide * 0.5**0.5)) / 2).to(x.dtype)

    @staticmethod
    def backward(context, gradient: Tensor) -> Tensor:
        (x,) = context.saved_tensors
        wide = x.float() if x.dtype != torch.float64 else x
        density = torch.exp(-wide * wide / 2) * 0.3989422804014327
        slope = (1 + torch.erf(wide * 0.5**0.5)) / 2 + wide * density
        return gradient * slope.to(x.dtype)


class Swish(torch.autograd.Function):
    """x * sigmoid(x)."""

    @staticmethod
    def forward(context, x: Tensor) -> Tensor:
        share = torch.sigmoid(x)
        context.save_for_backward(x, share)
        return x * share

    @staticmethod
    def backward(context, gradient: Tensor) -> Tensor:
        x, share = context.saved_tensors
        return gradient * share * (1 + x * (1 - share))


def gelu(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The exact Gaussian error linear unit."""
    return ExactGELU.apply(x)


def silu(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The sigmoid linear unit."""
    return Swish.apply(x)


class GELUMLP(nn.Module):
    """Linear, GELU, Linear, Dropout."""

    def __init__(self, hidden_size: int, intermediate_size: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.fc_in = nn.Linear(hidden_size, intermediate_size)
        self.fc_out = nn.Linear(intermediate_size, hidden_size)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Float[Tensor, "B T C"]) -> Float[Tensor, "B T C"]:
        """x `[B, T, C]` -> `[B, T, C]`."""
        return self.dropout(self.fc_out(gelu(self.fc_in(x))))


class SwiGLU(nn.Module):
    """The gated feed-forward network."""

    def __init__(self, hidden_size: int, intermediate_size: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(hidden_size, intermediate_size, bias=False)
        self.up_proj = nn.Linear(hidden_size, intermediate_size, bias=False)
        self.down_proj = nn.Linear(intermediate_size, hidden_size, bias=False)

    def forward(self, x: Float[Tensor, "B T C"]) -> Float[Tensor, "B T C"]:
        """x `[B, T, C]` -> `[B, T, C]`."""
        return self.down_proj(silu(self.gate_proj(x)) * self.up_proj(x))
