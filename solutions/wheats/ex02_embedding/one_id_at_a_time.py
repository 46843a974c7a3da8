"""Looks the ids up one by one and stacks the rows; the head scores one token at a time. Slow, and right."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn


class TokenEmbedding(nn.Module):
    """One row of numbers for every id."""

    def __init__(self, vocab_size: int, hidden_size: int) -> None:
        super().__init__()
        table = torch.distributions.Normal(0.0, 0.02).sample((vocab_size, hidden_size))
        self.weight = nn.Parameter(table)

    def row(self, one: int) -> Tensor:
        if not 0 <= one < self.weight.shape[0]:
            raise ValueError(f"input_ids holds the id {one}, of {self.weight.shape[0]}")
        return self.weight[one]

    def forward(self, input_ids: Int[Tensor, "..."]) -> Float[Tensor, "... C"]:
        """The row of each id."""
        rows = [self.row(one) for one in input_ids.flatten().tolist()]
        if not rows:
            return self.weight[:0].reshape(*input_ids.shape, self.weight.shape[1])
        return torch.stack(rows).reshape(*input_ids.shape, self.weight.shape[1])


class LMHead(nn.Module):
    """Scores every id by its row."""

    def __init__(self, embedding: TokenEmbedding) -> None:
        super().__init__()
        self.weight = embedding.weight

    def forward(self, hidden: Float[Tensor, "B T C"]) -> Float[Tensor, "B T V"]:
        """The dot product of each token with each row."""
        return torch.stack([torch.stack([self.weight @ token for token in row]) for row in hidden])
