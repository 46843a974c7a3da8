"""No nn.Linear at all: parameters in modules of their own, products by einsum, dropout drawn by hand."""

import torch
from jaxtyping import Float
from torch import Tensor, nn


class Weights(nn.Module):
    """A weight and perhaps a bias, used from outside."""

    def __init__(self, inputs: int, outputs: int, bias: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs) / inputs**0.5)
        self.bias = nn.Parameter(torch.zeros(outputs)) if bias else None

    def apply_to(self, x: Tensor) -> Tensor:
        """x times the weight, plus the bias."""
        y = torch.einsum("btc,fc->btf", x, self.weight)
        return y if self.bias is None else y + self.bias


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
        self.fc_in = Weights(hidden_size, intermediate_size, True)
        self.fc_out = Weights(intermediate_size, hidden_size, True)
        self.rate = dropout

    def forward(self, x: Float[Tensor, "B T C"]) -> Float[Tensor, "B T C"]:
        """x `[B, T, C]` -> `[B, T, C]`."""
        y = self.fc_out.apply_to(gelu(self.fc_in.apply_to(x)))
        if not self.training or self.rate == 0:
            return y
        kept = torch.rand_like(y) >= self.rate
        return torch.where(kept, y / max(1 - self.rate, 1e-9), torch.zeros_like(y))


class SwiGLU(nn.Module):
    """The gated feed-forward network."""

    def __init__(self, hidden_size: int, intermediate_size: int) -> None:
        super().__init__()
        self.gate_proj = Weights(hidden_size, intermediate_size, False)
        self.up_proj = Weights(hidden_size, intermediate_size, False)
        self.down_proj = Weights(intermediate_size, hidden_size, False)

    def forward(self, x: Float[Tensor, "B T C"]) -> Float[Tensor, "B T C"]:
        """x `[B, T, C]` -> `[B, T, C]`."""
        return self.down_proj.apply_to(silu(self.gate_proj.apply_to(x)) * self.up_proj.apply_to(x))
