"""Remembers tables by all that they depend on, and hands out views of a longer one; rolls and signs turn the halves."""

from functools import lru_cache

import torch
from torch import Tensor, nn


@lru_cache(maxsize=None)
def _sin_cos(length: int, pairs: int, base: float) -> tuple[Tensor, Tensor]:
    speeds = torch.logspace(0, 1, pairs + 1, base=1 / base, dtype=torch.float64)[:-1]
    angles = torch.arange(length, dtype=torch.float64).unsqueeze(-1).mul(speeds)
    return torch.sin(angles).float(), torch.cos(angles).float()


def _at_least(max_len: int) -> int:
    length = 64
    while length < max_len:
        length *= 2
    return length


def sinusoidal_positions(max_len: int, dim: int) -> Tensor:
    """Interleaves two remembered tables."""
    if dim % 2:
        raise ValueError(f"dim is odd: {dim}")
    sin, cos = _sin_cos(_at_least(max_len), dim // 2, 1e4)
    table = torch.empty(max_len, dim // 2, 2)
    table.select(-1, 0).copy_(sin[:max_len])
    table.select(-1, 1).copy_(cos[:max_len])
    return table.view(max_len, dim)


class LearnedPositions(nn.Module):
    """Takes the rows with index_select; the length is a buffer that is not saved."""

    def __init__(self, max_len: int, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(max_len, dim).normal_(std=0.02))
        self.register_buffer("positions", torch.arange(max_len), persistent=False)

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        """Adds in float32 and rounds once."""
        end = start + x.shape[-2]
        if end > self.positions.numel():
            raise ValueError(f"max_len = {self.positions.numel()} < start + T = {start} + {x.shape[-2]}")
        rows = self.weight.index_select(0, self.positions[start:end])
        return torch.add(x, rows).type_as(x)


def alibi_slopes(num_heads: int) -> Tensor:
    """Takes every second of the slopes for 2n heads, first the even ones."""
    if num_heads < 1:
        raise ValueError(f"num_heads = {num_heads} < 1")
    n = 1
    while n * 2 <= num_heads:
        n *= 2
    double = torch.pow(2.0, -torch.arange(1, 2 * n + 1, dtype=torch.float32) * 4 / n)
    return torch.cat((double[1::2], double[0::2]))[:num_heads]


def alibi_bias(num_heads: int, q_len: int, k_len: int) -> Tensor:
    """Every query's row is a window of one long row."""
    slopes = alibi_slopes(num_heads)
    if q_len > k_len:
        raise ValueError(f"q_len = {q_len} > k_len = {k_len}")
    ramp = torch.cat((torch.arange(1.0 - k_len, 0.0), torch.zeros(k_len)))  # ..., -2, -1, 0, 0, 0, ...
    windows = ramp.unfold(0, k_len, 1)[:k_len].flip(0)  # row p: the steps from position p to every key
    return slopes.reshape(-1, 1, 1).mul(windows[k_len - q_len :])


def precompute_rotary(head_dim: int, max_len: int, theta: float = 1e6) -> tuple[Tensor, Tensor]:
    """Tiles two remembered tables."""
    if head_dim % 2:
        raise ValueError(f"head_dim is odd: {head_dim}")
    sin, cos = _sin_cos(_at_least(max_len), head_dim // 2, float(theta))
    return cos[:max_len].tile(1, 2), sin[:max_len].tile(1, 2)


def rotate_half(x: Tensor) -> Tensor:
    """A roll by half of the channels, then the signs."""
    half = x.size(-1) // 2
    signs = torch.ones(x.size(-1), dtype=x.dtype, device=x.device)
    signs[:half] = -1
    return x.roll(half, dims=-1) * signs


def apply_rotary_pos_emb(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    """Turns queries and keys in one go, joined along the heads, with tables expanded to full size."""
    heads = q.shape[2]
    both = torch.cat((q, k), dim=2)
    shape = (q.shape[0], q.shape[1], 1, q.shape[3])
    cos, sin = cos.expand(q.shape[0], -1, -1).reshape(shape), sin.expand(q.shape[0], -1, -1).reshape(shape)
    turned = torch.addcmul(both * cos, rotate_half(both).to(sin.dtype), sin)
    return turned[:, :, :heads].to(q.dtype), turned[:, :, heads:].to(k.dtype)
