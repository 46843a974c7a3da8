"""Activations computed in float64 and cast back; torch's functional layers with the modules' weights."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn


def gelu(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The exact Gaussian error linear unit."""
    wide = x.double()
    return (wide * 0.5 * (1 + torch.erf(wide / math.sqrt(2)))).to(x.dtype)


def silu(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The sigmoid linear unit."""
    wide = x.double()
    positive = wide >= 0
    small = torch.exp(-wide.abs())  # never above 1
    return (wide * torch.where(positive, 1 / (1 + small), small / (1 + small))).to(x.dtype)


class GELUMLP(nn.Module):
    """Linear, GELU, Linear, Dropout."""

    def __init__(self, hidden_size: int, intermediate_size: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.fc_in = nn.Linear(hidden_size, intermediate_size)
        self.fc_out = nn.Linear(intermediate_size, hidden_size)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Float[Tensor, "B T C"]) -> Float[Tensor, "B T C"]:
        """x `[B, T, C]` -> `[B, T, C]`."""
        out = gelu(nn.functional.linear(x, self.fc_in.weight, self.fc_in.bias))
        out = nn.functional.linear(out, self.fc_out.weight, self.fc_out.bias)
        return nn.functional.dropout(out, self.dropout.p, self.training)


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
