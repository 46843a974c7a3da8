"""gather along the rows, with the ids spread over the channels; the head is an einsum."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn


class TokenEmbedding(nn.Module):
    """One row of numbers for every id."""

    def __init__(self, vocab_size: int, hidden_size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(vocab_size, hidden_size))
        with torch.no_grad():
            self.weight.normal_(std=0.02)

    def forward(self, input_ids: Int[Tensor, "..."]) -> Float[Tensor, "... C"]:
        """The row of each id."""
        ids = input_ids.to(torch.int64)
        inside = ids.ge(0) & ids.lt(self.weight.size(0))
        if not inside.all():
            raise ValueError(f"bad input_ids: {ids[~inside].unique().tolist()}")
        spread = ids.reshape(-1)[:, None].expand(-1, self.weight.size(1))
        return self.weight.gather(0, spread).view(ids.shape + (self.weight.size(1),))


class LMHead(nn.Module):
    """Scores every id by its row."""

    def __init__(self, embedding: TokenEmbedding) -> None:
        super().__init__()
        self.weight = embedding.weight

    def forward(self, hidden: Float[Tensor, "B T C"]) -> Float[Tensor, "B T V"]:
        """The dot product of each token with each row."""
        return torch.einsum("btc,vc->btv", hidden, self.weight)
