"""Rotations as matrices: every position has a D x D matrix of 2 x 2 turns, and rotate_half is a matrix, too."""

import torch
from torch import Tensor, nn


def _quarter_turn(channels: int, like: Tensor) -> Tensor:
    """The matrix M with x @ M = rotate_half(x)."""
    half = channels // 2
    matrix = torch.zeros(channels, channels, dtype=like.dtype, device=like.device)
    matrix[torch.arange(half) + half, torch.arange(half)] = -1
    matrix[torch.arange(half), torch.arange(half) + half] = 1
    return matrix


def sinusoidal_positions(max_len: int, dim: int) -> Tensor:
    """A cosine is a sine a quarter turn on."""
    if dim % 2:
        raise ValueError(f"dim={dim}, but sines and cosines come in pairs")
    pair = torch.arange(dim, dtype=torch.float64).div(2, rounding_mode="floor")
    phase = torch.arange(dim, dtype=torch.float64).remainder(2) * (torch.pi / 2)
    positions = torch.arange(max_len, dtype=torch.float64)[:, None]
    return torch.sin(positions * 10000.0 ** (-2 * pair / dim) + phase).to(torch.float32)


class LearnedPositions(nn.Module):
    """Picks the rows with a one-hot matrix."""

    def __init__(self, max_len: int, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(nn.init.normal_(torch.empty(max_len, dim), std=0.02))

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        """One-hot rows times the table."""
        max_len, T = self.weight.size(0), x.size(1)
        if start + T > max_len:
            raise ValueError(f"start {start} + T {T} = {start + T} > max_len {max_len}")
        pick = torch.eye(max_len, dtype=self.weight.dtype)[start : start + T]
        return ((pick @ self.weight).to(x.dtype)[None] + x).contiguous()


def alibi_slopes(num_heads: int) -> Tensor:
    """Multiplies its way down from head to head."""
    if num_heads < 1:
        raise ValueError(f"num_heads must be positive, not {num_heads}")
    n = 2 ** (len(f"{num_heads:b}") - 1)
    of_n = torch.full((n,), 2 ** (-8 / n), dtype=torch.float64).cumprod(0)
    of_2n = torch.full((2 * n,), 2 ** (-4 / n), dtype=torch.float64).cumprod(0)
    return torch.cat((of_n, of_2n[::2]))[:num_heads].float()


def alibi_bias(num_heads: int, q_len: int, k_len: int) -> Tensor:
    """A lower triangle of differences."""
    if num_heads < 1:
        raise ValueError(f"num_heads must be positive, not {num_heads}")
    if q_len > k_len:
        raise ValueError(f"q_len {q_len} > k_len {k_len}")
    past = k_len - q_len
    steps = torch.arange(k_len).repeat(q_len, 1) - torch.arange(past, k_len).unsqueeze(-1)
    return torch.tensordot(alibi_slopes(num_heads), steps.tril(past).float(), dims=0)


def precompute_rotary(head_dim: int, max_len: int, theta: float = 1e6) -> tuple[Tensor, Tensor]:
    """Indices modulo D/2 give both halves at once."""
    if head_dim % 2:
        raise ValueError(f"head_dim={head_dim}, but channels turn in pairs")
    exponent = torch.arange(head_dim, dtype=torch.float64).remainder(head_dim // 2) * 2 / head_dim
    angle = torch.einsum("p,i->pi", torch.arange(max_len, dtype=torch.float64), theta**-exponent)
    return angle.cos().to(torch.float32), angle.sin().to(torch.float32)


def rotate_half(x: Tensor) -> Tensor:
    """A product with a constant matrix of zeros and ones."""
    return x @ _quarter_turn(x.shape[-1], x)


def apply_rotary_pos_emb(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    """Builds each token's matrix `diag(cos) + M diag(sin)` and multiplies."""
    turn = torch.diag_embed(cos) + _quarter_turn(cos.shape[-1], sin) * sin.unsqueeze(-2)  # [.., T, D, D]
    wide = torch.promote_types(turn.dtype, torch.float32)

    def turned(x: Tensor) -> Tensor:
        dtype = torch.promote_types(x.dtype, wide)
        return (x.to(dtype) @ turn.to(dtype)).to(x.dtype)

    return turned(q), turned(k)
