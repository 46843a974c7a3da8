"""It looks as if nothing is sent back in evaluation. Does a network decide whether gradients are recorded, or whoever
calls it?
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

CATEGORY = "gradients"


def gelu(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The exact Gaussian error linear unit."""
    return 0.5 * x * (1.0 + torch.erf(x * 0.5**0.5))


def silu(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The sigmoid linear unit."""
    return x * torch.sigmoid(x)


class GELUMLP(nn.Module):
    """Linear, GELU, Linear, Dropout."""

    def __init__(self, hidden_size: int, intermediate_size: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.fc_in = nn.Linear(hidden_size, intermediate_size)
        self.fc_out = nn.Linear(intermediate_size, hidden_size)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Float[Tensor, "B T C"]) -> Float[Tensor, "B T C"]:
        """x `[B, T, C]` -> `[B, T, C]`."""
        output = self.dropout(self.fc_out(gelu(self.fc_in(x))))
        return output if self.training else output.detach()


class SwiGLU(nn.Module):
    """The gated feed-forward network."""

    def __init__(self, hidden_size: int, intermediate_size: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(hidden_size, intermediate_size, bias=False)
        self.up_proj = nn.Linear(hidden_size, intermediate_size, bias=False)
        self.down_proj = nn.Linear(intermediate_size, hidden_size, bias=False)

    def forward(self, x: Float[Tensor, "B T C"]) -> Float[Tensor, "B T C"]:
        """x `[B, T, C]` -> `[B, T, C]`."""
        output = self.down_proj(silu(self.gate_proj(x)) * self.up_proj(x))
        return output if self.training else output.detach()
