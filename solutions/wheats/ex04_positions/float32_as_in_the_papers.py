"""Everything in float32 as the papers' own code writes it: exp and log for the frequencies, filling by slices, recursive slopes."""

import math

import torch
from torch import Tensor, nn


def sinusoidal_positions(max_len: int, dim: int) -> Tensor:
    """The table of the original Transformer, filled in place."""
    if dim % 2 != 0:
        raise ValueError(f"cannot use sin/cos encoding with an odd dim (got dim={dim:d})")
    table = torch.zeros(max_len, dim)
    position = torch.arange(0, max_len).unsqueeze(1)
    div_term = torch.exp(torch.arange(0, dim, 2, dtype=torch.float) * -(math.log(10000.0) / dim))
    table[:, 0::2] = torch.sin(position.float() * div_term)
    table[:, 1::2] = torch.cos(position.float() * div_term)
    return table


class LearnedPositions(nn.Module):
    """Positions as weights, with the library's initialiser."""

    def __init__(self, max_len: int, dim: int) -> None:
        super().__init__()
        self.max_len = max_len
        self.weight = nn.Parameter(torch.empty(max_len, dim))
        nn.init.normal_(self.weight, mean=0.0, std=0.02)

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        """x and the rows of its positions, added in x's dtype."""
        _, T, _ = x.size()
        stop = start + T
        if stop > self.max_len:
            raise ValueError(f"start={start} and T={T} reach beyond max_len={self.max_len}")
        return x + self.weight[start:stop].to(x.dtype).unsqueeze(0)


def _slopes(n: int) -> list[float]:
    if math.log2(n).is_integer():
        first = 2 ** (-(2 ** -(math.log2(n) - 3)))
        return [first * first**i for i in range(n)]
    closest = 2 ** math.floor(math.log2(n))
    return _slopes(closest) + _slopes(2 * closest)[0::2][: n - closest]


def alibi_slopes(num_heads: int) -> Tensor:
    """The official recursion."""
    if num_heads < 1:
        raise ValueError(f"num_heads={num_heads} is less than 1")
    return torch.tensor(_slopes(num_heads))


def alibi_bias(num_heads: int, q_len: int, k_len: int) -> Tensor:
    """The whole square, of which the last rows are kept."""
    if num_heads < 1:
        raise ValueError(f"num_heads={num_heads} is less than 1")
    if q_len > k_len:
        raise ValueError(f"q_len={q_len} is more than k_len={k_len}")
    distance = torch.arange(k_len)[:, None] - torch.arange(k_len)[None, :]
    distance = torch.where(distance > 0, distance, 0).float()
    return (-alibi_slopes(num_heads).view(num_heads, 1, 1) * distance)[:, k_len - q_len :]


def precompute_rotary(head_dim: int, max_len: int, theta: float = 1e6) -> tuple[Tensor, Tensor]:
    """As in Llama: one over a power of theta, an outer product, both halves joined."""
    if head_dim % 2 != 0:
        raise ValueError(f"head_dim={head_dim} is odd")
    inv_freq = 1.0 / (theta ** (torch.arange(0, head_dim, 2, dtype=torch.float) / head_dim))
    freqs = torch.outer(torch.arange(max_len, dtype=torch.float), inv_freq)
    emb = torch.cat((freqs, freqs), dim=-1)
    return emb.cos(), emb.sin()


def rotate_half(x: Tensor) -> Tensor:
    """Two slices."""
    x1 = x[..., : x.shape[-1] // 2]
    x2 = x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)


def apply_rotary_pos_emb(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    """In the dtype of q and k, with the tables rounded to it."""
    if cos.ndim == 2:
        cos, sin = cos[None], sin[None]
    cos, sin = cos[:, :, None, :], sin[:, :, None, :]
    q_embed = (q * cos.to(q.dtype)) + (rotate_half(q) * sin.to(q.dtype))
    k_embed = (k * cos.to(k.dtype)) + (rotate_half(k) * sin.to(k.dtype))
    return q_embed, k_embed
