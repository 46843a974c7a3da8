"""The reference of 03 against torch's own norms, values and gradients, over random sizes, eps, dtypes and shapes."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from solutions.ex03_norm import LayerNorm, RMSNorm

PAIRS = [(RMSNorm, nn.RMSNorm), (LayerNorm, nn.LayerNorm)]


def draw(seed: int) -> tuple[torch.Generator, tuple[int, ...], float]:
    """Random axes (one to four of them) and eps."""
    generator = torch.Generator().manual_seed(seed)
    axes = int(torch.randint(1, 5, (), generator=generator))
    shape = tuple(torch.randint(1, 40, (axes,), generator=generator).tolist())
    return generator, shape, 10.0 ** float(torch.randint(-6, 1, (), generator=generator))


def twins(ours, theirs, shape, eps, generator, dtype=torch.float32):
    """Both norms with the same random parameters."""
    one, other = ours(shape[-1], eps=eps), theirs(shape[-1], eps=eps)
    state = {name: torch.randn(value.shape, generator=generator) for name, value in other.state_dict().items()}
    one.load_state_dict(state)
    other.load_state_dict(state)
    return one.to(dtype), other.to(dtype)


@pytest.mark.parametrize(("ours", "theirs"), PAIRS, ids=["rms", "layer"])
@pytest.mark.parametrize("seed", range(25))
def test_values_and_gradients(ours, theirs, seed):
    generator, shape, eps = draw(seed)
    one, other = twins(ours, theirs, shape, eps, generator, torch.float64)
    scale = 10.0 ** torch.randint(-3, 4, (*shape[:-1], 1), generator=generator)
    x = ((torch.randn(shape, generator=generator) + 1.0) * scale).double()
    cotangent = torch.randn(shape, generator=generator).double()
    results = []
    for norm in (one, other):
        leaf = x.clone().requires_grad_()
        output = norm(leaf)
        results.append([output, *torch.autograd.grad(output, [leaf, *norm.parameters()], cotangent)])
    for ours_, theirs_ in zip(*results, strict=True):
        torch.testing.assert_close(ours_, theirs_, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("ours", "theirs"), PAIRS, ids=["rms", "layer"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float16, 2e-3), (torch.bfloat16, 1.6e-2)])
@pytest.mark.parametrize("seed", range(5))
def test_other_dtypes(ours, theirs, dtype, tolerance, seed):
    generator = torch.Generator().manual_seed(seed)
    shape = (3, 5, 48)
    one, other = twins(ours, theirs, shape, 1e-5, generator, dtype)
    x = (torch.randn(shape, generator=generator) * 100 + 50).to(dtype)
    torch.testing.assert_close(one(x), other(x), rtol=tolerance, atol=tolerance)


def test_defaults_and_names():
    assert LayerNorm(5).state_dict().keys() == nn.LayerNorm(5).state_dict().keys()
    assert LayerNorm(5).eps == nn.LayerNorm(5).eps
    assert RMSNorm(5).state_dict().keys() == nn.RMSNorm(5).state_dict().keys()
