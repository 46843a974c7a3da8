"""03 · norm: every token is brought to the same size, each on its own, before a layer works on it."""

from jaxtyping import Float
from torch import Tensor, nn


class RMSNorm(nn.Module):
    """Root mean square norm: `x / sqrt(mean(x^2) + eps) * weight`, over the last axis of every token.

    Args:
        dim: length of the last axis: C in a block, D in QK-Norm.
        eps: is added to the mean square, inside the root.

    Parameters:
        weight: `[dim]`, float32, ones at the start. No other parameter, nothing else in the state dict.

    Example:
        The mean square of [1, 3, 3, 9] is 100 / 4 = 25, so the token is divided by 5.

        >>> RMSNorm(4)(torch.tensor([1.0, 3.0, 3.0, 9.0]))
        tensor([0.2000, 0.6000, 0.6000, 1.8000], grad_fn=...)

    From Zhang and Sennrich, Root Mean Square Layer Normalization (2019).
    """

    def __init__(self, dim: int, eps: float = 1e-6) -> None:
        super().__init__()
        raise NotImplementedError("EX03: RMSNorm.__init__")

    def forward(self, x: Float[Tensor, "... dim"]) -> Float[Tensor, "... dim"]:
        """Norm each token of `x` on its own.

        Args:
            x: `[..., dim]`, any axes in front (none, too), contiguous or not; float16, bfloat16, float32 or float64.

        Returns:
            `[..., dim]` in x's dtype, whatever the dtype of `weight`. Squares, mean, root and the product with `weight`
            are computed in at least float32, then cast back. A token of zeros gives zeros, with a finite gradient.
            `x` is not changed.
        """
        raise NotImplementedError("EX03: RMSNorm.forward")


class LayerNorm(nn.Module):
    """Layer norm: `(x - mean) / sqrt(variance + eps) * weight + bias`, over the last axis of every token.

    Args:
        dim: length of the last axis.
        eps: is added to the variance, inside the root.

    Parameters:
        weight: `[dim]`, float32, ones at the start.
        bias: `[dim]`, float32, zeros at the start. No other parameter, nothing else in the state dict.

    Example:
        [1, 3, 3, 9] has the mean 4 and the variance (9 + 1 + 1 + 25) / 4 = 9: biased, divided by 4 and not by 3.

        >>> LayerNorm(4)(torch.tensor([1.0, 3.0, 3.0, 9.0]))
        tensor([-1.0000, -0.3333, -0.3333,  1.6667], grad_fn=...)

    From Ba, Kiros and Hinton, Layer Normalization (2016).
    """

    def __init__(self, dim: int, eps: float = 1e-5) -> None:
        super().__init__()
        raise NotImplementedError("EX03: LayerNorm.__init__")

    def forward(self, x: Float[Tensor, "... dim"]) -> Float[Tensor, "... dim"]:
        """Norm each token of `x` on its own.

        Args:
            x: `[..., dim]`, any axes in front (none, too), contiguous or not; float16, bfloat16, float32 or float64.

        Returns:
            `[..., dim]` in x's dtype, whatever the dtype of the parameters; everything is computed in at least float32,
            then cast back. A token of zeros gives `bias`, with a finite gradient. `x` is not changed.
        """
        raise NotImplementedError("EX03: LayerNorm.forward")
