"""11 · feed-forward: each token on its own is widened, bent, and brought back to its width."""

from jaxtyping import Float
from torch import Tensor, nn


def gelu(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The exact Gaussian error linear unit (Hendrycks, Gimpel, 2016): `x * P(Z <= x)` for a standard normal Z.

    In numbers `0.5 * x * (1 + erf(x / sqrt(2)))`, element by element. The tanh form is an approximation of it, off by up
    to 4.7e-4, and not what is asked for.

    Args:
        x: any float dtype, any shape.

    Returns:
        A tensor of x's shape and dtype. Values and gradients are finite up to |x| = 1000, also in float16 and bfloat16.

    Example:
        >>> gelu(torch.tensor([-1.0, 0.0, 2.7]))
        tensor([-0.1587,  0.0000,  2.6906])
    """
    raise NotImplementedError("EX11: gelu")


def silu(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The sigmoid linear unit, also called swish: `x / (1 + exp(-x))`, element by element.

    Args:
        x: any float dtype, any shape.

    Returns:
        A tensor of x's shape and dtype. Values and gradients are finite up to |x| = 1000, also in float16 and bfloat16.

    Example:
        >>> silu(torch.tensor([-1.0, 0.0, 2.0]))
        tensor([-0.2689,  0.0000,  1.7616])
    """
    raise NotImplementedError("EX11: silu")


class GELUMLP(nn.Module):
    """GPT-2's feed-forward network: Linear, GELU, Linear, Dropout.

    Args:
        hidden_size: C, the width of a token outside.
        intermediate_size: F, the width inside; GPT-2 takes 4 C.
        dropout: the share of the output's elements that is dropped in training (`nn.Dropout`), 0.0 to 1.0; the last step.

    Parameters (names as in the state dict; the initial values are free):
        fc_in.weight `[F, C]`, fc_in.bias `[F]`, fc_out.weight `[C, F]`, fc_out.bias `[C]`.

    Example:
        With C = F = 1, both weights 1 and both biases 0, the network is `gelu` itself: 2.7 becomes 2.6906.
    """

    def __init__(self, hidden_size: int, intermediate_size: int, dropout: float = 0.0) -> None:
        super().__init__()
        raise NotImplementedError("EX11: GELUMLP.__init__")

    def forward(self, x: Float[Tensor, "B T C"]) -> Float[Tensor, "B T C"]:
        """x `[B, T, C]` -> `[B, T, C]`, in x's dtype, which is the parameters'. Each token is worked on alone."""
        raise NotImplementedError("EX11: GELUMLP.forward")


class SwiGLU(nn.Module):
    """The gated feed-forward network of Llama, Qwen and MiniMind (Shazeer, 2020): `down(silu(gate(x)) * up(x))`.

    Args:
        hidden_size: C, the width of a token outside.
        intermediate_size: F, the width inside.

    Parameters (names as in the state dict; the initial values are free; there are no biases):
        gate_proj.weight `[F, C]`, up_proj.weight `[F, C]`, down_proj.weight `[C, F]`.

    Example:
        With C = F = 1 and the weights gate 1, up 3, down 2, the token 2 becomes 2 * (silu(2) * 6) = 2 * 1.7616 * 6 = 21.14.
    """

    def __init__(self, hidden_size: int, intermediate_size: int) -> None:
        super().__init__()
        raise NotImplementedError("EX11: SwiGLU.__init__")

    def forward(self, x: Float[Tensor, "B T C"]) -> Float[Tensor, "B T C"]:
        """x `[B, T, C]` -> `[B, T, C]`, in x's dtype, which is the parameters'. Each token is worked on alone."""
        raise NotImplementedError("EX11: SwiGLU.forward")
