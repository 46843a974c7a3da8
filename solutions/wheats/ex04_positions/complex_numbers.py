"""Positions as points of the complex plane: a rotation is one complex product, a quarter turn a product with i."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def _turns(max_len: int, dim: int, base: float) -> Tensor:
    """e^(i * angle) for every position and pair, `[max_len, dim/2]`."""
    exponents = torch.arange(dim // 2, dtype=torch.float64) * 2 / dim
    angles = torch.outer(torch.arange(max_len, dtype=torch.float64), torch.tensor(base, dtype=torch.float64).pow(-exponents))
    return torch.polar(torch.ones_like(angles), angles)


def _complex(x: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    wide = torch.promote_types(x.dtype, torch.float32)
    return torch.complex(x[..., :half].to(wide), x[..., half:].to(wide))


def sinusoidal_positions(max_len: int, dim: int) -> Tensor:
    """Imaginary and real parts, side by side."""
    if dim % 2 == 1:
        raise ValueError(f"dim {dim} is not even")
    return torch.view_as_real(_turns(max_len, dim, 1e4)).flip(-1).reshape(max_len, dim).to(torch.float32)


class LearnedPositions(nn.Embedding):
    """An embedding of positions instead of tokens; its weight has the wanted name already."""

    def __init__(self, max_len: int, dim: int) -> None:
        super().__init__(max_len, dim)
        with torch.no_grad():
            self.weight.mul_(0.02)

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        """Looks the positions up."""
        T = x.shape[1]
        if start + T > self.num_embeddings:
            raise ValueError(f"start must leave room for {T} tokens in max_len={self.num_embeddings}, but start={start}")
        rows = F.embedding(torch.arange(start, start + T, device=self.weight.device), self.weight)
        return x.add(rows.expand_as(x).to(x.dtype))


def alibi_slopes(num_heads: int) -> Tensor:
    """All exponents in one tensor."""
    if num_heads < 1:
        raise ValueError(f"num_heads: {num_heads}")
    n = 1 << (num_heads.bit_length() - 1)
    exponents = torch.cat([torch.arange(1, n + 1) * 2, torch.arange(1, 2 * n, 2)])[:num_heads] * (4.0 / n)
    return torch.exp2(-exponents.float())


def alibi_bias(num_heads: int, q_len: int, k_len: int) -> Tensor:
    """Counts the distance with a cumulative sum."""
    slopes = alibi_slopes(num_heads)
    if q_len > k_len:
        raise ValueError(f"q_len and k_len: {q_len} > {k_len}")
    future = torch.ones(q_len, k_len).triu(k_len - q_len + 1)
    steps = (1 - future).flip(-1).cumsum(-1).flip(-1) - 1
    return torch.einsum("h,qk->hqk", -slopes, steps.clamp_min(0))


def precompute_rotary(head_dim: int, max_len: int, theta: float = 1e6) -> tuple[Tensor, Tensor]:
    """Real and imaginary parts, repeated."""
    if head_dim & 1:
        raise ValueError(f"head_dim {head_dim} is not even")
    turns = _turns(max_len, head_dim, theta).to(torch.complex64)
    return turns.real.repeat(1, 2), turns.imag.repeat(1, 2)


def rotate_half(x: Tensor) -> Tensor:
    """i times (a + bi) is -b + ai."""
    turned = _complex(x) * 1j
    return torch.cat((turned.real, turned.imag), dim=-1).to(x.dtype)


def apply_rotary_pos_emb(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    """One complex product each; only half of a table is looked at."""
    half = cos.shape[-1] // 2
    wide = torch.promote_types(cos.dtype, torch.float32)
    turn = torch.complex(cos[..., :half].to(wide), sin[..., :half].to(wide)).unsqueeze(-2)

    def turned(x: Tensor) -> Tensor:
        product = _complex(x) * turn
        return torch.cat((product.real, product.imag), dim=-1).to(x.dtype)

    return turned(q), turned(k)
