"""The reference of 04 against transformers: rotary embedding of Llama and Qwen3, ALiBi of Bloom, sinusoidal tables of M2M100."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from solutions.ex04_positions import (
    LearnedPositions,
    alibi_bias,
    alibi_slopes,
    apply_rotary_pos_emb,
    precompute_rotary,
    rotate_half,
    sinusoidal_positions,
)

llama = pytest.importorskip("transformers.models.llama.modeling_llama")
qwen3 = pytest.importorskip("transformers.models.qwen3.modeling_qwen3")
bloom = pytest.importorskip("transformers.models.bloom.modeling_bloom")
m2m = pytest.importorskip("transformers.models.m2m_100.modeling_m2m_100")


def their_tables(head_dim, theta, positions):
    """cos and sin [.., T, D] as a Qwen3 model makes them."""
    rope = {"rope_type": "default", "rope_theta": theta}
    config = qwen3.Qwen3Config(hidden_size=head_dim * 2, num_attention_heads=2, head_dim=head_dim, rope_parameters=rope)
    return qwen3.Qwen3RotaryEmbedding(config)(torch.zeros(1), positions)


def draw(seed):
    """Random sizes, a random theta, and a generator."""
    generator = torch.Generator().manual_seed(seed)
    batch, tokens, heads, kv_heads, pairs = torch.randint(1, 9, (5,), generator=generator).tolist()
    theta = 10.0 ** (2 + 4 * torch.rand((), generator=generator).item())
    return generator, batch, tokens, heads, kv_heads, 2 * pairs, theta


@pytest.mark.parametrize("seed", range(10))
def test_tables(seed):
    _, _, _, _, _, head_dim, theta = draw(seed)
    cos, sin = precompute_rotary(head_dim, 1001, theta)
    their_cos, their_sin = their_tables(head_dim, theta, torch.arange(1001)[None])
    for rows, tolerance in ((16, 5e-6), (1001, 3e-4)):  # theirs are computed in float32
        torch.testing.assert_close(cos[:rows], their_cos[0, :rows], rtol=0, atol=tolerance)
        torch.testing.assert_close(sin[:rows], their_sin[0, :rows], rtol=0, atol=tolerance)


def test_minimind_tables():
    cos, sin = precompute_rotary(96, 1001)
    their_cos, their_sin = their_tables(96, 1e6, torch.arange(1001)[None])
    torch.testing.assert_close(cos, their_cos[0], rtol=0, atol=3e-4)
    torch.testing.assert_close(sin, their_sin[0], rtol=0, atol=3e-4)


@pytest.mark.parametrize("theirs", [llama, qwen3], ids=["llama", "qwen3"])
@pytest.mark.parametrize("seed", range(10))
def test_rotation(theirs, seed):
    generator, batch, tokens, heads, kv_heads, head_dim, theta = draw(seed)
    q = torch.randn(batch, tokens, heads, head_dim, generator=generator, dtype=torch.float64)
    k = torch.randn(batch, tokens, kv_heads, head_dim, generator=generator, dtype=torch.float64)
    torch.testing.assert_close(rotate_half(q), theirs.rotate_half(q), rtol=0, atol=0)
    positions = torch.randint(0, 50, (batch, tokens), generator=generator)
    cos, sin = (table[positions].double() for table in precompute_rotary(head_dim, 50, theta))  # [B, T, D]
    expected = theirs.apply_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim=2)
    torch.testing.assert_close(apply_rotary_pos_emb(q, k, cos, sin), expected)
    shared = theirs.apply_rotary_pos_emb(q, k, cos[:1], sin[:1], unsqueeze_dim=2)
    torch.testing.assert_close(apply_rotary_pos_emb(q, k, cos[0], sin[0]), shared)


@pytest.mark.parametrize("num_heads", [*range(1, 21), 32, 40, 64, 71])
def test_slopes(num_heads):
    """Bloom builds `slope * position of the key`, in the official order of slopes; slopes are its column for position 1."""
    theirs = bloom.build_alibi_tensor(torch.ones(1, 2), num_heads, torch.float32)[:, 0, 1]
    torch.testing.assert_close(alibi_slopes(num_heads), theirs, rtol=1e-6, atol=0)


@pytest.mark.parametrize(("num_heads", "q_len", "k_len"), [(8, 6, 6), (6, 3, 7), (12, 1, 9), (5, 4, 5)])
def test_bias(num_heads, q_len, k_len):
    """Under a causal mask, the softmax cannot tell Bloom's bias from ours: a row's constant drops out."""
    scores = torch.randn(num_heads, q_len, k_len, generator=torch.Generator().manual_seed(k_len))
    hidden = torch.ones(q_len, k_len).triu(k_len - q_len + 1).bool()
    theirs = bloom.build_alibi_tensor(torch.ones(1, k_len), num_heads, torch.float32)  # [H, 1, S]
    ours = (scores + alibi_bias(num_heads, q_len, k_len)).masked_fill(hidden, -math.inf).softmax(-1)
    torch.testing.assert_close(ours, (scores + theirs).masked_fill(hidden, -math.inf).softmax(-1), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("max_len", "dim"), [(50, 8), (1001, 16)])
def test_sinusoidal(max_len, dim):
    """The paper's formula, number by number; M2M100's table has the same sines, all before all cosines, and other speeds."""
    table = sinusoidal_positions(max_len, dim)
    for p in (0, 1, 7, max_len - 1):
        for i in range(dim // 2):
            angle = p / 10000 ** (2 * i / dim)
            torch.testing.assert_close(table[p, 2 * i].item(), math.sin(angle), rtol=0, atol=1e-6)
            torch.testing.assert_close(table[p, 2 * i + 1].item(), math.cos(angle), rtol=0, atol=1e-6)
    theirs = m2m.M2M100SinusoidalPositionalEmbedding.get_embedding(max_len, dim)
    torch.testing.assert_close(table[:, 0], theirs[:, 0], rtol=0, atol=3e-4)  # the first pair has speed 1 in both
    torch.testing.assert_close(table[:, 1], theirs[:, dim // 2], rtol=0, atol=3e-4)


def test_learned():
    """torch's own embedding of the positions."""
    ours, theirs = LearnedPositions(11, 6), nn.Embedding(11, 6)
    assert ours.state_dict().keys() == theirs.state_dict().keys()
    theirs.load_state_dict(ours.state_dict())
    x = torch.randn(2, 5, 6)
    results = []
    for module, call in ((ours, lambda: ours(x, start=4)), (theirs, lambda: x + theirs(torch.arange(4, 9)))):
        output = call()
        results.append([output, *torch.autograd.grad(output.square().sum(), module.parameters())])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other)
