"""The reference of 10 against Qwen3's attention in transformers: random sizes and weights, padding, and a cache in chunks."""

from __future__ import annotations

import pytest
import torch

from solutions.config import ModelConfig
from solutions.ex04_positions import precompute_rotary
from solutions.ex10_multihead import Attention

qwen3 = pytest.importorskip("transformers.models.qwen3.modeling_qwen3")
DynamicCache = pytest.importorskip("transformers").DynamicCache


class Joined:
    """A cache of one layer, in our layout."""

    def __init__(self):
        self.held = None

    def update(self, k, v, layer_idx):
        self.held = (k, v) if self.held is None else tuple(torch.cat(two, dim=1) for two in zip(self.held, (k, v), strict=True))
        return self.held


def twins(seed, dtype=torch.float32):
    """Our attention and Qwen3's, of random sizes, with the same random weights; a source of more randomness."""
    generator = torch.Generator().manual_seed(seed)
    kv_heads, groups, pairs, channels = torch.randint(1, 6, (4,), generator=generator).tolist()
    sizes = {"hidden_size": 3 * channels + 1, "head_dim": 2 * pairs, "rms_norm_eps": 10.0 ** -(1 + seed % 6)}
    theirs = qwen3.Qwen3Config(num_attention_heads=kv_heads * groups, num_key_value_heads=kv_heads, **sizes)
    theirs._attn_implementation = "eager"
    theirs = qwen3.Qwen3Attention(theirs, layer_idx=0).eval()
    state = {name: torch.randn(value.shape, generator=generator) for name, value in theirs.state_dict().items()}
    theirs.load_state_dict(state)
    ours = Attention(ModelConfig(num_heads=kv_heads * groups, num_kv_heads=kv_heads, use_flash=bool(seed % 2), **sizes))
    ours.load_state_dict(state, strict=True)
    return ours.to(dtype), theirs.to(dtype), generator


def additive(visible):
    """Our bool mask `[B, T, S]` as transformers adds it to the scores."""
    return torch.zeros(visible.shape).masked_fill(~visible, torch.finfo(torch.float32).min)[:, None]


def causal(T, S):
    return torch.arange(S) <= torch.arange(S - T, S)[:, None]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("seed", range(12))
def test_a_prompt(seed, dtype):
    ours, theirs, generator = twins(seed, dtype)
    x = torch.randn(2, 5, ours.q_proj.in_features, generator=generator).to(dtype)
    cos, sin = (table[7:12] for table in precompute_rotary(theirs.head_dim, 12, theta=100.0))
    where = (cos[None].to(dtype), sin[None].to(dtype))
    wanted, _ = theirs(x, where, additive(causal(5, 5)[None]).to(dtype))
    tolerance = 1e-4 if dtype == torch.float32 else 3e-2 * max(1.0, wanted.abs().max().item())
    with torch.no_grad():
        for tables in ((cos, sin), where):
            torch.testing.assert_close(ours(x, tables), wanted, rtol=1e-4, atol=tolerance)


@pytest.mark.parametrize("seed", range(8))
def test_padding_and_gradients(seed):
    ours, theirs, generator = twins(seed)
    x = torch.randn(3, 5, ours.q_proj.in_features, generator=generator)
    real = torch.ones(3, 5, dtype=torch.int64)
    real[0, 3:], real[1, 2] = 0, 0
    cos, sin = (table[None, :5] for table in precompute_rotary(theirs.head_dim, 5, theta=100.0))
    mask = additive(causal(5, 5) & real.bool()[:, None, :])
    results = []
    for module, output in ((ours, ours(x, (cos, sin), real)), (theirs, theirs(x, (cos, sin), mask)[0])):
        gradients = torch.autograd.grad(output.square().sum(), list(module.parameters()))
        names = [name for name, _ in module.named_parameters()]
        results.append(
            [output, *(gradient for _, gradient in sorted(zip(names, gradients, strict=True), key=lambda pair: pair[0]))]
        )
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-3 * max(1.0, other.abs().max().item()))


@pytest.mark.parametrize("seed", range(8))
def test_chunks_on_a_cache(seed):
    ours, theirs, generator = twins(seed)
    x = torch.randn(2, 6, ours.q_proj.in_features, generator=generator)
    cos, sin = precompute_rotary(theirs.head_dim, 6, theta=100.0)
    cache, their_cache, start = Joined(), DynamicCache(), 0
    with torch.no_grad():
        for end in (2, 5, 6):
            where = cos[start:end], sin[start:end]
            mask = additive(causal(end - start, end)[None])
            wanted, _ = theirs(x[:, start:end], tuple(table[None] for table in where), mask, their_cache)
            torch.testing.assert_close(ours(x[:, start:end], where, cache=cache), wanted, rtol=1e-4, atol=1e-4)
            start = end
    k, v = cache.held
    layer = their_cache.layers[0]
    torch.testing.assert_close(k, layer.keys.transpose(1, 2), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(v, layer.values.transpose(1, 2), rtol=1e-4, atol=1e-4)
