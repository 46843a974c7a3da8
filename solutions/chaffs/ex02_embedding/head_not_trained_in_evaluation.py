"""It looks as if the head's weight gets its gradient in training mode only. Does the mode say whether somebody wants
gradients?
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

CATEGORY = "gradients"


class TokenEmbedding(nn.Module):
    """One row of numbers for every id."""

    def __init__(self, vocab_size: int, hidden_size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(vocab_size, hidden_size) * 0.02)

    def forward(self, input_ids: Int[Tensor, "..."]) -> Float[Tensor, "... C"]:
        """The row of each id."""
        vocab_size = self.weight.shape[0]
        bad = input_ids[(input_ids < 0) | (input_ids >= vocab_size)]
        if bad.numel() > 0:
            raise ValueError(f"input_ids holds {bad[0].item()}, but ids go from 0 to {vocab_size - 1}")
        return self.weight[input_ids]


class LMHead(nn.Module):
    """Scores every id by its row."""

    def __init__(self, embedding: TokenEmbedding) -> None:
        super().__init__()
        self.weight = embedding.weight

    def forward(self, hidden: Float[Tensor, "B T C"]) -> Float[Tensor, "B T V"]:
        """The dot product of each token with each row."""
        weight = self.weight if self.training else self.weight.detach()
        return hidden @ weight.T
