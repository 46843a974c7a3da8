"""The references of 13 against Hugging Face's caches."""

import pytest
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM
from transformers.cache_utils import DynamicCache as TheirDynamicCache
from transformers.cache_utils import StaticCache as TheirStaticCache

from solutions.config import ModelConfig
from solutions.ex13_kv_cache import DynamicCache, StaticCache, append_kv, kv_cache_bytes

LAYERS, B, ROOM, K, D = 2, 3, 11, 4, 6
THEIRS = Qwen3Config(
    vocab_size=37, hidden_size=20, intermediate_size=28, num_hidden_layers=LAYERS, num_attention_heads=8, num_key_value_heads=K,
    head_dim=D,
)  # fmt: skip


def portions(seed: int = 0) -> list[tuple[int, torch.Tensor, torch.Tensor]]:
    """(layer, k, v) of two layers that are filled by 2, 3, 1 and 4 tokens in turn."""
    generator = torch.Generator().manual_seed(seed)
    return [(layer, *torch.randn(2, B, T, K, D, generator=generator)) for T in (2, 3, 1, 4) for layer in range(LAYERS)]


def test_dynamic_cache():
    ours, theirs = DynamicCache(), TheirDynamicCache()
    for layer, k, v in portions():
        expected = theirs.update(k.transpose(1, 2), v.transpose(1, 2), layer)  # theirs has the heads in front
        for found, right in zip(ours.update(k, v, layer), expected, strict=True):
            assert torch.equal(found, right.transpose(1, 2))
        assert ours.length == max(theirs.get_seq_length(one) for one in range(LAYERS))
    assert ours.length == 10


def test_static_cache():
    ours, theirs = StaticCache(LAYERS, B, ROOM, K, D, torch.float32, "cpu"), TheirStaticCache(THEIRS, max_cache_len=ROOM)
    for _ in range(2):
        held = 0
        for layer, k, v in portions():
            held += k.shape[1] if layer == 0 else 0
            expected = theirs.update(k.transpose(1, 2), v.transpose(1, 2), layer)
            for found, right in zip(ours.update(k, v, layer), expected, strict=True):
                assert right.shape[2] == ROOM  # theirs shows its whole room, and leaves it to the mask to hide the rest
                assert torch.equal(found, right[:, :, :held].transpose(1, 2))
            assert ours.length == held
        ours.reset()
        theirs.reset()


def test_append_kv_is_a_concatenation_with_its_gradient():
    generator = torch.Generator().manual_seed(1)
    past_k, past_v, k, v = (torch.randn(B, T, K, D, generator=generator, requires_grad=True) for T in (5, 5, 2, 2))
    joined = append_kv((past_k, past_v), k, v)
    weights = torch.randn(2, B, 7, K, D, generator=generator)
    (joined[0] * weights[0] + joined[1] * weights[1]).sum().backward()
    for x, cotangent in zip((past_k, past_v), weights, strict=True):
        assert torch.equal(x.grad, cotangent[:, :5])
    for x, cotangent in zip((k, v), weights, strict=True):
        assert torch.equal(x.grad, cotangent[:, 5:])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@torch.no_grad()
def test_kv_cache_bytes_is_what_a_model_fills_its_cache_with(dtype):
    model = Qwen3ForCausalLM(THEIRS).eval().to(dtype)
    cache = model(torch.zeros(B, 9, dtype=torch.int64), use_cache=True).past_key_values
    held = sum(layer.keys.nbytes + layer.values.nbytes for layer in cache.layers)
    config = ModelConfig(hidden_size=20, num_layers=LAYERS, num_heads=8, num_kv_heads=K, head_dim=D)
    assert kv_cache_bytes(config, B, 9, dtype) == held
