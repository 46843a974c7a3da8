"""An embedding is a linear layer for one-hot vectors: multiplies them with the table. The head is a tied nn.Linear."""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn


class TokenEmbedding(nn.Module):
    """One row of numbers for every id."""

    def __init__(self, vocab_size: int, hidden_size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.normal(0.0, 0.02, (vocab_size, hidden_size)))

    def forward(self, input_ids: Int[Tensor, "..."]) -> Float[Tensor, "... C"]:
        """The row of each id."""
        vocab_size = len(self.weight)
        for one in input_ids.flatten().tolist():
            if one not in range(vocab_size):
                raise ValueError(f"input_ids: {one} is not an id of a vocabulary of {vocab_size}")
        return F.one_hot(input_ids.long(), vocab_size).to(self.weight.dtype) @ self.weight


class LMHead(nn.Linear):
    """Scores every id by its row."""

    def __init__(self, embedding: TokenEmbedding) -> None:
        super().__init__(embedding.weight.shape[1], embedding.weight.shape[0], bias=False, device="meta")
        self.weight = embedding.weight
