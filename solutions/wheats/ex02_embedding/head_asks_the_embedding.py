"""The head registers the Parameter and also keeps the embedding, out of torch's sight, to read the weight from it."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn


class TokenEmbedding(nn.Module):
    """One row of numbers for every id."""

    def __init__(self, vocab_size: int, hidden_size: int) -> None:
        super().__init__()
        weight = torch.empty(hidden_size, vocab_size).normal_(0.0, 0.02).T  # [V, C], its columns lie together
        self.weight = nn.Parameter(weight)

    def forward(self, input_ids: Int[Tensor, "..."]) -> Float[Tensor, "... C"]:
        """The row of each id."""
        if bool(((input_ids < 0) | (input_ids > self.weight.shape[0] - 1)).any()):
            raise ValueError(f"input_ids out of range: {input_ids.tolist()}")
        return torch.stack([column[input_ids] for column in self.weight.T], dim=-1)


class LMHead(nn.Module):
    """Scores every id by its row."""

    def __init__(self, embedding: TokenEmbedding) -> None:
        super().__init__()
        self.weight = embedding.weight
        self._embedding = (embedding,)

    def forward(self, hidden: Float[Tensor, "B T C"]) -> Float[Tensor, "B T V"]:
        """The dot product of each token with each row."""
        (embedding,) = self._embedding
        return torch.tensordot(hidden, embedding.weight, dims=([2], [1]))
