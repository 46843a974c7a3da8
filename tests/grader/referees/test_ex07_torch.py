"""The reference of 07 against torch's fused attention and its multi-head module: values and gradients."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention as fused

from solutions.ex07_attention import attention_weights, scaled_dot_product_attention


def draw(seed: int, dtype: torch.dtype = torch.float64):
    """Queries, keys and values of random sizes, a mask that leaves every query something to see, and a scale."""
    generator = torch.Generator().manual_seed(seed)
    batch, heads, t, s, d, e = (int(torch.randint(1, 9, (), generator=generator)) for _ in range(6))
    q, k, v = (
        torch.randn(batch, heads, length, width, generator=generator, dtype=torch.float64).to(dtype)
        for length, width in ((t, d), (s, d), (s, e))
    )
    mask = torch.rand(batch, 1, t, s, generator=generator) < 0.6
    mask[..., int(torch.randint(s, (), generator=generator))] = True
    return q, k, v, mask, float(torch.rand((), generator=generator)) * 2 - 0.5


@pytest.mark.parametrize("masked", [False, True], ids=["all", "masked"])
@pytest.mark.parametrize("scaled", [False, True], ids=["default", "scale"])
@pytest.mark.parametrize("seed", range(8))
def test_values_and_gradients(seed, masked, scaled):
    q, k, v, mask, scale = draw(seed)
    options = {"scale": scale if scaled else None}
    results = []
    for attend in (
        lambda q, k, v: scaled_dot_product_attention(q, k, v, mask if masked else None, **options),
        lambda q, k, v: fused(q, k, v, attn_mask=mask if masked else None, **options),
    ):
        leaves = [x.clone().requires_grad_() for x in (q, k, v)]
        output = attend(*leaves)
        cotangent = torch.linspace(-1, 1, output.numel(), dtype=output.dtype).reshape(output.shape)
        results.append([output, *torch.autograd.grad(output, leaves, cotangent)])
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float16, 5e-3), (torch.bfloat16, 3e-2)])
@pytest.mark.parametrize("seed", range(4))
def test_other_dtypes(seed, dtype, tolerance):
    q, k, v, mask, _ = draw(seed, dtype)
    ours, theirs = scaled_dot_product_attention(q, k, v, mask), fused(q, k, v, attn_mask=mask)
    torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)


def test_a_query_that_sees_nothing():
    q, k, v, mask, _ = draw(3)
    mask = mask.clone()
    mask[:, :, 0] = False
    ours, theirs = scaled_dot_product_attention(q, k, v, mask), fused(q, k, v, attn_mask=mask)
    assert (ours[:, :, 0] == 0).all()
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("seed", range(4))
def test_multihead_attention(seed):
    """Between torch's own projections, our attention gives its module's output and its weights of each head."""
    generator = torch.Generator().manual_seed(seed)
    batch, heads, t, s, d = 2, 3, 5, 7, 4
    theirs = nn.MultiheadAttention(heads * d, heads, batch_first=True).double()
    for parameter in theirs.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    x = torch.randn(batch, t, heads * d, generator=generator, dtype=torch.float64)
    y = torch.randn(batch, s, heads * d, generator=generator, dtype=torch.float64)
    hidden = torch.rand(batch, s, generator=generator) < 0.4
    hidden[:, 2] = False
    expected, expected_weights = theirs(x, y, y, key_padding_mask=hidden, average_attn_weights=False)

    projections = zip(theirs.in_proj_weight.chunk(3), theirs.in_proj_bias.chunk(3), (x, y, y), strict=True)
    q, k, v = (nn.functional.linear(z, weight, bias).unflatten(-1, (heads, d)).transpose(1, 2) for weight, bias, z in projections)
    mask = ~hidden[:, None, None, :]
    torch.testing.assert_close(attention_weights(q, k, mask), expected_weights)
    output = scaled_dot_product_attention(q, k, v, mask).transpose(1, 2).flatten(2)
    torch.testing.assert_close(theirs.out_proj(output), expected)
