"""Flattens the ids, picks rows with index_select, and gives them their shape back; the head is F.linear."""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn


class TokenEmbedding(nn.Module):
    """One row of numbers for every id."""

    def __init__(self, vocab_size: int, hidden_size: int) -> None:
        super().__init__()
        self.vocab_size, self.hidden_size = vocab_size, hidden_size
        self.weight = nn.Parameter(torch.empty(vocab_size, hidden_size))
        nn.init.normal_(self.weight, mean=0.0, std=0.02)

    def forward(self, input_ids: Int[Tensor, "..."]) -> Float[Tensor, "... C"]:
        """The row of each id."""
        if input_ids.numel() and not 0 <= input_ids.min() <= input_ids.max() < self.vocab_size:
            smallest, largest = int(input_ids.min()), int(input_ids.max())
            raise ValueError(f"input_ids reach from {smallest} to {largest}; allowed are 0 to {self.vocab_size - 1}")
        return self.weight.index_select(0, input_ids.reshape(-1)).reshape(*input_ids.shape, self.hidden_size)


class LMHead(nn.Module):
    """Scores every id by its row."""

    def __init__(self, embedding: TokenEmbedding) -> None:
        super().__init__()
        self.register_parameter("weight", embedding.weight)

    def forward(self, hidden: Float[Tensor, "B T C"]) -> Float[Tensor, "B T V"]:
        """The dot product of each token with each row."""
        return F.linear(hidden, self.weight)
