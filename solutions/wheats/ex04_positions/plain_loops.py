"""Plain Python: math.sin and math.cos in loops, one row, one head and one pair of channels at a time."""

import math

import torch
from torch import Tensor, nn


def _angle(position: int, pair: int, dim: int, base: float) -> float:
    return position / base ** (2 * pair / dim)


def sinusoidal_positions(max_len: int, dim: int) -> Tensor:
    """Number by number."""
    if dim % 2:
        raise ValueError(f"an odd dim was given: {dim}")
    rows = []
    for position in range(max_len):
        row: list[float] = []
        for pair in range(dim // 2):
            angle = _angle(position, pair, dim, 10000)
            row += [math.sin(angle), math.cos(angle)]
        rows.append(row)
    return torch.tensor(rows, dtype=torch.float32)


class LearnedPositions(nn.Module):
    """A table that is read row by row."""

    def __init__(self, max_len: int, dim: int) -> None:
        super().__init__()
        self.register_parameter("weight", nn.Parameter(torch.normal(0.0, 0.02, (max_len, dim))))

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        """Token by token."""
        tokens = []
        if start + x.shape[1] > len(self.weight):
            raise ValueError(f"start is {start} and T is {x.shape[1]}, but max_len is only {len(self.weight)}")
        for t in range(x.shape[1]):
            tokens.append(x[:, t] + self.weight[start + t].to(x.dtype))
        return torch.stack(tokens, dim=1)


def alibi_slopes(num_heads: int) -> Tensor:
    """Doubles n for as long as it fits."""
    if num_heads < 1:
        raise ValueError(f"at least one head is needed, but num_heads={num_heads}")
    n = 1
    while 2 * n <= num_heads:
        n *= 2
    slopes = []
    for head in range(num_heads):
        if head < n:
            slopes.append(0.5 ** (8 * (head + 1) / n))
        else:
            slopes.append(0.5 ** (4 * (2 * (head - n) + 1) / n))
    return torch.FloatTensor(slopes)


def alibi_bias(num_heads: int, q_len: int, k_len: int) -> Tensor:
    """Row by row, head by head."""
    if q_len > k_len:
        raise ValueError(f"{q_len} queries (q_len) are more than {k_len} keys (k_len)")
    bias = []
    for slope in alibi_slopes(num_heads).tolist():
        rows = []
        for i in range(q_len):
            position = k_len - q_len + i
            rows.append([-slope * max(position - j, 0) for j in range(k_len)])
        bias.append(rows)
    return torch.tensor(bias)


def precompute_rotary(head_dim: int, max_len: int, theta: float = 1e6) -> tuple[Tensor, Tensor]:
    """Number by number, twice."""
    if head_dim % 2:
        raise ValueError(f"an odd head_dim was given: {head_dim}")
    half = head_dim // 2
    angles = [[_angle(p, i % half, head_dim, theta) for i in range(head_dim)] for p in range(max_len)]
    cos = torch.tensor([[math.cos(angle) for angle in row] for row in angles], dtype=torch.float32)
    sin = torch.tensor([[math.sin(angle) for angle in row] for row in angles], dtype=torch.float32)
    return cos, sin


def rotate_half(x: Tensor) -> Tensor:
    """Channel by channel."""
    channels = x.unbind(dim=-1)
    half = len(channels) // 2
    return torch.stack([-one for one in channels[half:]] + list(channels[:half]), dim=-1)


def apply_rotary_pos_emb(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    """Head by head."""

    def turned(x: Tensor) -> Tensor:
        heads = []
        for h in range(x.shape[2]):
            head = x[:, :, h]  # [B, T, D]
            heads.append((head * cos + rotate_half(head) * sin).to(x.dtype))
        return torch.stack(heads, dim=2)

    return turned(q), turned(k)
