"""04 · positions: four ways to tell a model where a token stands."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

# BEGIN SOLUTION


def _angles(max_len: int, dim: int, base: float) -> Float[Tensor, "max_len dim/2"]:
    """The angle of every position and pair of channels: `p / base^(2i/dim)`, in float64 because angles grow large."""
    positions = torch.arange(max_len, dtype=torch.float64)
    speeds = base ** -(torch.arange(0, dim, 2, dtype=torch.float64) / dim)  # radians per position: 1, ..., nearly 1/base
    return positions[:, None] * speeds


# END SOLUTION


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
    # BEGIN SOLUTION
    if dim % 2:
        raise ValueError(f"dim must be even, a sine and a cosine for every frequency, but dim is {dim}")
    angles = _angles(max_len, dim, base=10000.0)
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2).float()
    # END SOLUTION


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
        # BEGIN SOLUTION
        self.weight = nn.Parameter(torch.randn(max_len, dim) * 0.02)
        # END SOLUTION

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
        # BEGIN SOLUTION
        T, max_len = x.shape[1], self.weight.shape[0]
        if start + T > max_len:
            raise ValueError(f"start + T must not exceed max_len, but start = {start}, T = {T} and max_len = {max_len}")
        return (x + self.weight[start : start + T]).to(x.dtype)
        # END SOLUTION


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
    # BEGIN SOLUTION
    if num_heads < 1:
        raise ValueError(f"num_heads must be at least 1, but num_heads is {num_heads}")
    n = 2 ** math.floor(math.log2(num_heads))
    slopes = [2 ** (-8 * i / n) for i in range(1, n + 1)]
    between = [2 ** (-8 * i / (2 * n)) for i in range(1, 2 * n, 2)]
    return torch.tensor(slopes + between[: num_heads - n], dtype=torch.float32)
    # END SOLUTION


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
    # BEGIN SOLUTION
    slopes = alibi_slopes(num_heads)  # [H]
    if q_len > k_len:
        raise ValueError(f"q_len must not exceed k_len, but q_len is {q_len} and k_len is {k_len}")
    queries, keys = torch.arange(k_len - q_len, k_len), torch.arange(k_len)
    offsets = (keys - queries[:, None]).clamp(max=0)  # [q_len, k_len]: -1 for the token before, 0 for the future
    return slopes[:, None, None] * offsets
    # END SOLUTION


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
    # BEGIN SOLUTION
    if head_dim % 2:
        raise ValueError(f"head_dim must be even, channels turn in pairs, but head_dim is {head_dim}")
    angles = _angles(max_len, head_dim, theta)
    angles = torch.cat((angles, angles), dim=-1)  # [max_len, D]
    return angles.cos().float(), angles.sin().float()
    # END SOLUTION


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
    # BEGIN SOLUTION
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)
    # END SOLUTION


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
    # BEGIN SOLUTION
    cos, sin = cos.unsqueeze(-2), sin.unsqueeze(-2)  # [T, 1, D] or [B, T, 1, D]: the same for all heads
    turned_q = q * cos + rotate_half(q) * sin
    turned_k = k * cos + rotate_half(k) * sin
    return turned_q.to(q.dtype), turned_k.to(k.dtype)
    # END SOLUTION
