"""With x in another dtype than the weight, the sum is right, but the weight learns nothing. What does `.data` leave behind?"""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

CATEGORY = "gradients"


def _angles(max_len: int, dim: int, base: float) -> Float[Tensor, "max_len dim/2"]:
    """The angle of every position and pair of channels: `p / base^(2i/dim)`, in float64 because angles grow large."""
    positions = torch.arange(max_len, dtype=torch.float64)
    speeds = base ** -(torch.arange(0, dim, 2, dtype=torch.float64) / dim)  # radians per position: 1, ..., nearly 1/base
    return positions[:, None] * speeds


def sinusoidal_positions(max_len: int, dim: int) -> Float[Tensor, "max_len dim"]:
    """The table of the original Transformer: one row of sines and cosines for every position, nothing learned."""
    if dim % 2:
        raise ValueError(f"dim must be even, a sine and a cosine for every frequency, but dim is {dim}")
    angles = _angles(max_len, dim, base=10000.0)
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2).float()


class LearnedPositions(nn.Module):
    """A table that is trained like any other weight: GPT-2's way to add positions. (Radford et al., 2019.)"""

    def __init__(self, max_len: int, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(max_len, dim) * 0.02)

    def forward(self, x: Float[Tensor, "B T dim"], start: int = 0) -> Float[Tensor, "B T dim"]:
        """Add to every token the row of its position: `x + weight[start : start + T]`."""
        T, max_len = x.shape[1], self.weight.shape[0]
        if start + T > max_len:
            raise ValueError(f"start + T must not exceed max_len, but start = {start}, T = {T} and max_len = {max_len}")
        rows = self.weight[start : start + T]
        if rows.dtype != x.dtype:
            rows = rows.data.to(x.dtype)
        return x + rows


def alibi_slopes(num_heads: int) -> Float[Tensor, "H"]:
    """How strongly every head dislikes distance: a fixed number per head. (Press, Smith, Lewis, 2022.)"""
    if num_heads < 1:
        raise ValueError(f"num_heads must be at least 1, but num_heads is {num_heads}")
    n = 2 ** math.floor(math.log2(num_heads))
    slopes = [2 ** (-8 * i / n) for i in range(1, n + 1)]
    between = [2 ** (-8 * i / (2 * n)) for i in range(1, 2 * n, 2)]
    return torch.tensor(slopes + between[: num_heads - n], dtype=torch.float32)


def alibi_bias(num_heads: int, q_len: int, k_len: int) -> Float[Tensor, "H q_len k_len"]:
    """What ALiBi adds to the scores before the softmax: `-slope * distance`, for a key in the past of its query."""
    slopes = alibi_slopes(num_heads)  # [H]
    if q_len > k_len:
        raise ValueError(f"q_len must not exceed k_len, but q_len is {q_len} and k_len is {k_len}")
    queries, keys = torch.arange(k_len - q_len, k_len), torch.arange(k_len)
    offsets = (keys - queries[:, None]).clamp(max=0)  # [q_len, k_len]: -1 for the token before, 0 for the future
    return slopes[:, None, None] * offsets


def precompute_rotary(
    head_dim: int, max_len: int, theta: float = 1e6
) -> tuple[Float[Tensor, "max_len D"], Float[Tensor, "max_len D"]]:
    """The cosines and sines that rotary embedding turns queries and keys with. (Su et al., 2021.)"""
    if head_dim % 2:
        raise ValueError(f"head_dim must be even, channels turn in pairs, but head_dim is {head_dim}")
    angles = _angles(max_len, head_dim, theta)
    angles = torch.cat((angles, angles), dim=-1)  # [max_len, D]
    return angles.cos().float(), angles.sin().float()


def rotate_half(x: Float[Tensor, "... D"]) -> Float[Tensor, "... D"]:
    """Turn every pair of channels (i, i + D/2) by 90 degrees: (a, b) becomes (-b, a)."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)


def apply_rotary_pos_emb(
    q: Float[Tensor, "B T H D"],
    k: Float[Tensor, "B T K D"],
    cos: Float[Tensor, "*B T D"],
    sin: Float[Tensor, "*B T D"],
) -> tuple[Float[Tensor, "B T H D"], Float[Tensor, "B T K D"]]:
    """Turn queries and keys by the angles of their tokens' positions: `x * cos + rotate_half(x) * sin`, in every head."""
    cos, sin = cos.unsqueeze(-2), sin.unsqueeze(-2)  # [T, 1, D] or [B, T, 1, D]: the same for all heads
    turned_q = q * cos + rotate_half(q) * sin
    turned_k = k * cos + rotate_half(k) * sin
    return turned_q.to(q.dtype), turned_k.to(k.dtype)
