"""The lookup as an autograd function: its backward adds every gradient to the row that it came from."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn


class Lookup(torch.autograd.Function):
    """Rows of a table."""

    @staticmethod
    def forward(ctx, table: Tensor, ids: Tensor) -> Tensor:
        ctx.save_for_backward(ids)
        ctx.rows = table.shape[0]
        return table[ids]

    @staticmethod
    def backward(ctx, gradient: Tensor):
        (ids,) = ctx.saved_tensors
        flat = gradient.reshape(ids.numel(), gradient.shape[-1])
        return gradient.new_zeros(ctx.rows, gradient.shape[-1]).index_add(0, ids.reshape(-1), flat), None


class TokenEmbedding(nn.Module):
    """One row of numbers for every id."""

    def __init__(self, vocab_size: int, hidden_size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(0.02 * torch.randn(vocab_size, hidden_size))

    def forward(self, input_ids: Int[Tensor, "..."]) -> Float[Tensor, "... C"]:
        """The row of each id."""
        for bad in input_ids[(input_ids < 0) | (input_ids >= len(self.weight))].tolist():
            raise ValueError(f"{bad} among input_ids, which must be at least 0 and below {len(self.weight)}")
        return Lookup.apply(self.weight, input_ids)


class LMHead(nn.Module):
    """Scores every id by its row."""

    def __init__(self, embedding: TokenEmbedding) -> None:
        super().__init__()
        self.weight = embedding.weight

    def forward(self, hidden: Float[Tensor, "B T C"]) -> Float[Tensor, "B T V"]:
        """The dot product of each token with each row."""
        return (self.weight @ hidden.transpose(-2, -1)).transpose(-2, -1)
