"""It looks as if an id outside of the vocabulary becomes the nearest one inside. Would you want to know about it
instead?
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

CATEGORY = "robustness"


class TokenEmbedding(nn.Module):
    """One row of numbers for every id."""

    def __init__(self, vocab_size: int, hidden_size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(vocab_size, hidden_size) * 0.02)

    def forward(self, input_ids: Int[Tensor, "..."]) -> Float[Tensor, "... C"]:
        """The row of each id."""
        return self.weight[input_ids.clamp(0, self.weight.shape[0] - 1)]


class LMHead(nn.Module):
    """Scores every id by its row."""

    def __init__(self, embedding: TokenEmbedding) -> None:
        super().__init__()
        self.weight = embedding.weight

    def forward(self, hidden: Float[Tensor, "B T C"]) -> Float[Tensor, "B T V"]:
        """The dot product of each token with each row."""
        return hidden @ self.weight.T
