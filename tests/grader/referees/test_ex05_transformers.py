"""The reference of 05 against the projections and norms inside Qwen3's attention in transformers, and 04's rotation behind it."""

from __future__ import annotations

import pytest
import torch

from solutions.ex04_positions import apply_rotary_pos_emb, precompute_rotary
from solutions.ex05_qkv import QKVProjection

qwen3 = pytest.importorskip("transformers.models.qwen3.modeling_qwen3")


def twins(seed, dtype=torch.float32):
    """Our layer and Qwen3's attention, of random sizes, with the same random weights."""
    generator = torch.Generator().manual_seed(seed)
    kv_heads, groups, pairs, channels = torch.randint(1, 7, (4,), generator=generator).tolist()
    heads, head_dim, hidden_size = kv_heads * groups, 2 * pairs, 3 * channels + 1
    eps = 10.0 ** float(torch.randint(-6, 1, (), generator=generator))
    config = qwen3.Qwen3Config(
        hidden_size=hidden_size, num_attention_heads=heads, num_key_value_heads=kv_heads, head_dim=head_dim, rms_norm_eps=eps
    )
    config._attn_implementation = "eager"
    ours, theirs = QKVProjection(hidden_size, heads, kv_heads, head_dim, eps), qwen3.Qwen3Attention(config, layer_idx=0)
    state = {name: torch.randn(value.shape, generator=generator) for name, value in theirs.state_dict().items()}
    theirs.load_state_dict(state)
    ours.load_state_dict({name: value for name, value in state.items() if name != "o_proj.weight"})
    x = torch.randn(2, 5, hidden_size, generator=generator)
    return ours.to(dtype), theirs.to(dtype), x.to(dtype)


def theirs_of(attention, x):
    """q, k and v as Qwen3's forward makes them, before it turns them: [B, T, heads, D]."""
    shape = (*x.shape[:-1], -1, attention.head_dim)
    q = attention.q_norm(attention.q_proj(x).view(shape))
    k = attention.k_norm(attention.k_proj(x).view(shape))
    return q, k, attention.v_proj(x).view(shape)


@pytest.mark.parametrize("seed", range(20))
def test_values_and_gradients(seed):
    ours, theirs, x = twins(seed)
    results = []
    for outputs, module in ((ours(x), ours), (theirs_of(theirs, x), theirs)):
        loss = sum(one.square().sum() + one.sum() for one in outputs)
        weights = {name: value for name, value in module.named_parameters() if name != "o_proj.weight"}
        gradients = torch.autograd.grad(loss, list(weights.values()))
        results.append([*outputs, *(gradient for _, gradient in sorted(zip(weights, gradients, strict=True)))])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(dtype):
    ours, theirs, x = twins(3, dtype)
    for one, other in zip(ours(x), theirs_of(theirs, x), strict=True):
        torch.testing.assert_close(one, other, rtol=3e-2, atol=3e-2)


@pytest.mark.parametrize("seed", range(5))
def test_what_attention_sees_after_the_rotation(monkeypatch, seed):
    """The queries and keys that Qwen3's attention function is given are ours, turned: `QKVProjection`, then the rotation."""
    ours, theirs, x = twins(seed)
    seen = {}

    def spy(module, query, key, value, *_, **__):
        seen.update(query=query, key=key, value=value)
        return query.transpose(1, 2), None

    monkeypatch.setattr(qwen3, "eager_attention_forward", spy)
    cos, sin = (table[7:12] for table in precompute_rotary(theirs.head_dim, 12, 1e4))
    theirs(x, position_embeddings=(cos[None], sin[None]), attention_mask=None)
    q, k, v = ours(x)
    q, k = apply_rotary_pos_emb(q, k, cos, sin)
    for one, name in ((q, "query"), (k, "key"), (v, "value")):
        torch.testing.assert_close(one, seen[name].transpose(1, 2), rtol=1e-4, atol=1e-4)
