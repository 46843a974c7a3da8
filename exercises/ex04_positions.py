"""04 · positions: four ways to tell a model where a token stands."""

from jaxtyping import Float
from torch import Tensor, nn


def sinusoidal_positions(max_len: int, dim: int) -> Float[Tensor, "max_len dim"]:
    """The table of the original Transformer: one row of sines and cosines for every position, nothing learned.

    Channels 2i and 2i + 1 share the angle `p / 10000^(2i/dim)` of position p: the even one holds its sine, the odd one
    its cosine. (Vaswani et al., 2017, section 3.5.)

    Args:
        max_len: number of rows, for positions 0 .. max_len - 1.
        dim: number of channels, even.

    Returns:
        `[max_len, dim]` float32, a new, plain tensor that needs no gradient.

    Raises:
        ValueError: `dim` is odd; the message names `dim` and gives its value.

    Example:
        >>> sinusoidal_positions(2, 4)
        tensor([[0.0000, 1.0000, 0.0000, 1.0000],
                [0.8415, 0.5403, 0.0100, 0.9999]])
    """
    raise NotImplementedError("EX04: sinusoidal_positions")


class LearnedPositions(nn.Module):
    """A table that is trained like any other weight: GPT-2's way to add positions. (Radford et al., 2019.)

    Attributes:
        weight: Parameter `[max_len, dim]`, drawn from a normal distribution with mean 0 and standard deviation 0.02.
            The module has no other parameters, and nothing else in its state dict.

    Example:
        >>> positions = LearnedPositions(8, 4)
        >>> x = torch.zeros(1, 3, 4)
        >>> torch.equal(positions(x, start=5)[0], positions.weight[5:8])
        True
    """

    def __init__(self, max_len: int, dim: int) -> None:
        super().__init__()
        raise NotImplementedError("EX04: LearnedPositions.__init__")

    def forward(self, x: Float[Tensor, "B T dim"], start: int = 0) -> Float[Tensor, "B T dim"]:
        """Add to every token the row of its position: `x + weight[start : start + T]`.

        Args:
            x: `[B, T, dim]`, T tokens at the positions start .. start + T - 1 in every row of the batch. Not changed.
            start: position of the first of them; the number of past tokens when a cache holds those.

        Returns:
            `[B, T, dim]` in x's dtype, whatever the weight's; both learn.

        Raises:
            ValueError: `start + T > max_len`; the message names `start` and gives start, T and max_len.
        """
        raise NotImplementedError("EX04: LearnedPositions.forward")


def alibi_slopes(num_heads: int) -> Float[Tensor, "H"]:
    """How strongly every head dislikes distance: a fixed number per head. (Press, Smith, Lewis, 2022.)

    The official recipe. For H a power of two the slopes are the powers `2^(-8/H), 2^(-16/H), ..., 2^-8`. Otherwise let n
    be the largest power of two below H: first come the n slopes for n heads, then the first, third, fifth, ... of the
    slopes for 2n heads, until there are H.

    Args:
        num_heads: H, at least 1.

    Returns:
        `[H]` float32.

    Raises:
        ValueError: `num_heads < 1`; the message names `num_heads` and gives its value.

    Example:
        >>> alibi_slopes(6).tolist()
        [0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125]
    """
    raise NotImplementedError("EX04: alibi_slopes")


def alibi_bias(num_heads: int, q_len: int, k_len: int) -> Float[Tensor, "H q_len k_len"]:
    """What ALiBi adds to the scores before the softmax: `-slope * distance`, for a key in the past of its query.

    The queries are the newest of the k_len tokens: query i stands at position `k_len - q_len + i`, key j at position j.
    Hiding the future stays the mask's task: keys after their query get 0 here.

    Args:
        num_heads: H, at least 1.
        q_len: T, the number of new tokens.
        k_len: S, the number of all keys, past and new; at least T.

    Returns:
        `[H, q_len, k_len]` float32.

    Raises:
        ValueError: `num_heads < 1`, or `q_len > k_len`. The message names `num_heads` and gives its value, or names
            `q_len` and gives the values of q_len and k_len.

    Example:
        One head has the slope 1/256; two new tokens after one old one:

        >>> alibi_bias(1, 2, 3) * 256
        tensor([[[-1.,  0.,  0.],
                 [-2., -1.,  0.]]])
    """
    raise NotImplementedError("EX04: alibi_bias")


def precompute_rotary(
    head_dim: int, max_len: int, theta: float = 1e6
) -> tuple[Float[Tensor, "max_len D"], Float[Tensor, "max_len D"]]:
    """The cosines and sines that rotary embedding turns queries and keys with. (Su et al., 2021.)

    Pair i of D/2 turns by the angle `p / theta^(2i/D)` at position p. Its two channels are i and i + D/2, so both halves
    of a row are the same.

    Args:
        head_dim: D, even.
        max_len: number of rows, for positions 0 .. max_len - 1.
        theta: the base; the larger, the slower the last pairs turn.

    Returns:
        `(cos, sin)`, each `[max_len, head_dim]` float32: new, plain tensors that need no gradient. Row 0 is all ones and
        all zeros. A model takes the rows at its tokens' positions: `cos[start : start + T]`.

    Raises:
        ValueError: `head_dim` is odd; the message names `head_dim` and gives its value.

    Example:
        With theta = 100, pair 0 turns by 1 radian a position and pair 1 by a tenth of that:

        >>> precompute_rotary(4, 2, theta=100.0)[1]
        tensor([[0.0000, 0.0000, 0.0000, 0.0000],
                [0.8415, 0.0998, 0.8415, 0.0998]])
    """
    raise NotImplementedError("EX04: precompute_rotary")


def rotate_half(x: Float[Tensor, "... D"]) -> Float[Tensor, "... D"]:
    """Turn every pair of channels (i, i + D/2) by 90 degrees: (a, b) becomes (-b, a).

    Args:
        x: any shape with an even last axis D. Not changed.

    Returns:
        x's shape and dtype: the second half with its sign changed, then the first half.

    Example:
        >>> rotate_half(torch.tensor([1.0, 2.0, 3.0, 4.0]))
        tensor([-3., -4.,  1.,  2.])
    """
    raise NotImplementedError("EX04: rotate_half")


def apply_rotary_pos_emb(
    q: Float[Tensor, "B T H D"],
    k: Float[Tensor, "B T K D"],
    cos: Float[Tensor, "*B T D"],
    sin: Float[Tensor, "*B T D"],
) -> tuple[Float[Tensor, "B T H D"], Float[Tensor, "B T K D"]]:
    """Turn queries and keys by the angles of their tokens' positions: `x * cos + rotate_half(x) * sin`, in every head.

    Args:
        q: queries `[B, T, H, D]`.
        k: keys `[B, T, K, D]`; K may differ from H.
        cos, sin: `[T, D]`, or `[B, T, D]` if the rows of the batch stand at different positions. They are the rows of
            `precompute_rotary` already taken at the tokens' positions, in float32 or any other float dtype.

    Returns:
        (q, k), turned, each with its own shape and dtype, which may differ. No argument is changed.

    Example:
        One token at position 1, whose only head is the unit vector e0 with D = 4, becomes cos 1 e0 + sin 1 e2:

        >>> cos, sin = precompute_rotary(4, 2)
        >>> e0 = torch.tensor([[[[1.0, 0.0, 0.0, 0.0]]]])
        >>> apply_rotary_pos_emb(e0, e0, cos[1:], sin[1:])[0]
        tensor([[[[0.5403, 0.0000, 0.8415, 0.0000]]]])
    """
    raise NotImplementedError("EX04: apply_rotary_pos_emb")
