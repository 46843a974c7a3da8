"""02 · embedding: a table that turns ids into vectors below the model, and vectors into scores above it."""

from jaxtyping import Float, Int
from torch import Tensor, nn


class TokenEmbedding(nn.Module):
    """One row of numbers for every id of the vocabulary.

    Args:
        vocab_size: V, the number of ids.
        hidden_size: C, the channels of a token.

    Parameters:
        weight: `[V, C]`, float32, normal with mean 0 and standard deviation 0.02 at the start, drawn anew for every table.
            No other parameter, nothing else in the state dict.

    Example:
        >>> embedding = TokenEmbedding(3, 2)
        >>> embedding.load_state_dict({"weight": torch.tensor([[1.0, 0.0], [0.0, 1.0], [4.0, 5.0]])})
        >>> embedding(torch.tensor([2, 0, 2]))
        tensor([[4., 5.],
                [1., 0.],
                [4., 5.]], grad_fn=...)
    """

    def __init__(self, vocab_size: int, hidden_size: int) -> None:
        super().__init__()
        raise NotImplementedError("EX02: TokenEmbedding.__init__")

    def forward(self, input_ids: Int[Tensor, "..."]) -> Float[Tensor, "... C"]:
        """The row of each id.

        Args:
            input_ids: int32 or int64, of any shape `[...]`: `[B, T]`, a single id `[]`, also without any element.

        Returns:
            `[..., C]` in the dtype of `weight`: the rows, exactly as they are. An id that occurs twice gives its row
            twice, and the gradients of both add up in it. `input_ids` is not changed.

        Raises:
            ValueError: an id is below 0, or V or above; the message names `input_ids` and gives a bad id.
        """
        raise NotImplementedError("EX02: TokenEmbedding.forward")


class LMHead(nn.Module):
    """Scores every id of the vocabulary by how well its row fits: the embedding's table, read the other way.

    Args:
        embedding: the embedding whose `weight` is shared.

    Parameters:
        weight: `[V, C]`, the very Parameter of the embedding, under this name in the state dict, too. Whatever
            changes it in one of the two (a training step, weights loaded later) changes it in both, and the gradients
            of both uses add up. No bias, no other parameter. Building the head leaves the numbers as they are.

    Example:
        >>> LMHead(embedding)(torch.tensor([[[2.0, 3.0]]]))
        tensor([[[ 2.,  3., 23.]]], grad_fn=...)

    From Press and Wolf, Using the Output Embedding to Improve Language Models (2017).
    """

    def __init__(self, embedding: TokenEmbedding) -> None:
        super().__init__()
        raise NotImplementedError("EX02: LMHead.__init__")

    def forward(self, hidden: Float[Tensor, "B T C"]) -> Float[Tensor, "B T V"]:
        """The dot product of each token with each row.

        Args:
            hidden: `[B, T, C]` in the dtype of `weight`, contiguous or not; is not changed.

        Returns:
            Logits `[B, T, V]`, in the same dtype: plain products, neither scaled nor soft-maxed.
        """
        raise NotImplementedError("EX02: LMHead.forward")
