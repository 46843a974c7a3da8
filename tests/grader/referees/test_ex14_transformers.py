"""The reference of 14 against Qwen3ForCausalLM and, with the QK-Norm taken out, LlamaForCausalLM: small random models."""

import random

import pytest
import torch
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

from solutions.config import ModelConfig
from solutions.ex13_kv_cache import DynamicCache, StaticCache
from solutions.ex14_model import CausalLM

THETA = 1e4


def draw_sizes(seed: int) -> dict[str, int]:
    """A random small model: H a multiple of K, and H * D something else than C."""
    generator = random.Random(seed)
    kv_heads = generator.choice([1, 2, 3])
    return {
        "hidden_size": generator.choice([20, 24, 36]),
        "num_layers": generator.choice([1, 2, 3]),
        "num_heads": kv_heads * generator.choice([1, 2, 4]),
        "num_kv_heads": kv_heads,
        "head_dim": generator.choice([4, 10, 16]),
        "intermediate_size": generator.choice([28, 33]),
        "vocab_size": generator.choice([37, 51]),
    }


def theirs_of(kind: type, sizes: dict[str, int], tied: bool, **more: object) -> nn.Module:
    """Hugging Face's model of these sizes with random weights of size about 1, norms about 1."""
    names = {"num_layers": "num_hidden_layers", "num_heads": "num_attention_heads", "num_kv_heads": "num_key_value_heads"}
    config = {Qwen3ForCausalLM: Qwen3Config, LlamaForCausalLM: LlamaConfig}[kind](
        **{names.get(name, name): value for name, value in sizes.items()},
        max_position_embeddings=64,
        rms_norm_eps=1e-3,
        rope_parameters={"rope_type": "default", "rope_theta": THETA},
        tie_word_embeddings=tied,
        attn_implementation="eager",
        **more,
    )
    model = kind(config).eval()
    with torch.no_grad():
        for seed, (name, parameter) in enumerate(model.named_parameters()):
            values = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(seed))
            matrix = parameter.dim() > 1 and "embed" not in name and "lm_head" not in name
            parameter.copy_(
                1.0 + 0.4 * values if parameter.dim() == 1 else values / (parameter.shape[1] ** 0.5 if matrix else 1.0)
            )
    return model


def ours_of(sizes: dict[str, int], tied: bool) -> CausalLM:
    """Our model of the same sizes."""
    more = {"max_position_embeddings": 64, "rms_norm_eps": 1e-3, "rope_theta": THETA, "tie_word_embeddings": tied}
    return CausalLM(ModelConfig(**sizes, **more)).eval()


def qwen3(seed: int, tied: bool = True) -> tuple[CausalLM, nn.Module, torch.Tensor]:
    """Our model with Qwen3's checkpoint, strictly loaded; theirs; ids `[3, 9]`."""
    sizes = draw_sizes(seed)
    theirs, ours = theirs_of(Qwen3ForCausalLM, sizes, tied), ours_of(sizes, tied)
    ours.load_state_dict(theirs.state_dict(), strict=True)
    ids = torch.randint(sizes["vocab_size"], (3, 9), generator=torch.Generator().manual_seed(seed))
    return ours, theirs, ids


def assert_near(found: torch.Tensor, right: torch.Tensor, tolerance: float = 1e-4) -> None:
    """Close, relative to the size of all of `right`."""
    assert found.shape == right.shape and found.dtype == right.dtype
    assert (found - right).abs().max() <= tolerance * max(1.0, right.abs().max().item())


@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
@pytest.mark.parametrize("seed", range(4))
@torch.no_grad()
def test_logits_of_qwen3(seed, tied):
    ours, theirs, ids = qwen3(seed, tied)
    assert_near(ours(ids), theirs(ids).logits)


@pytest.mark.parametrize("seed", range(4, 7))
@torch.no_grad()
def test_logits_of_llama_without_qk_norm(seed):
    """Llama has no QK-Norm: with an identity in its place the rest of our model is Llama, key for key."""
    sizes = draw_sizes(seed)
    sizes["hidden_size"] = 5 * sizes["num_heads"]  # Llama's config asks for a multiple of the heads, with any head_dim
    theirs, ours = theirs_of(LlamaForCausalLM, sizes, tied=False), ours_of(sizes, tied=False)
    for layer in ours.model.layers:
        layer.self_attn.q_norm = layer.self_attn.k_norm = nn.Identity()
    ours.load_state_dict(theirs.state_dict(), strict=True)
    ids = torch.randint(sizes["vocab_size"], (3, 9), generator=torch.Generator().manual_seed(seed))
    assert_near(ours(ids), theirs(ids).logits)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@torch.no_grad()
def test_half_precision(dtype):
    """Both round at other places: each is compared with float32, and ours is no worse than twice theirs."""
    for seed in (0, 1):
        ours, theirs, ids = qwen3(seed)
        exact = theirs.double()(ids).logits.float()
        state = {name: x.to(dtype) for name, x in theirs.state_dict().items()}
        half = theirs.to(dtype)(ids).logits
        ours.load_state_dict(state, assign=True)
        found = ours(ids)
        assert found.dtype == half.dtype == dtype
        assert_near(found, half, tolerance={torch.bfloat16: 6e-2, torch.float16: 1e-2}[dtype])
        assert (found - exact).square().mean() <= 4 * (half - exact).square().mean()


@torch.no_grad()
def test_left_padding():
    ours, theirs, ids = qwen3(2)
    mask = torch.ones_like(ids)
    mask[0, :4], mask[2, :7] = 0, 0
    found, right = ours(ids, mask), theirs(ids, attention_mask=mask).logits
    assert_near(found[mask.bool()], right[mask.bool()])
    for row, pads in enumerate((4, 0, 7)):  # and as if each row stood alone
        assert_near(found[row : row + 1, pads:], theirs(ids[row : row + 1, pads:]).logits)


@pytest.mark.parametrize("kind", ["dynamic", "static"])
@torch.no_grad()
def test_portions_on_a_cache(kind):
    ours, theirs, ids = qwen3(3)
    config = ours.model.layers[0].self_attn.config
    sizes = config.num_layers, 3, 9, config.num_kv_heads, config.head_dim
    cache = DynamicCache() if kind == "dynamic" else StaticCache(*sizes, torch.float32, "cpu")
    past, start = None, 0
    for count in (2, 3, 1, 3):
        part = ids[:, start : start + count]
        right = theirs(part, past_key_values=past, use_cache=True)
        past = right.past_key_values
        assert_near(ours(part, cache=cache), right.logits)
        start += count
        assert cache.length == past.get_seq_length() == start
    assert_near(right.logits, theirs(ids).logits[:, -3:])


@pytest.mark.parametrize("assign", [False, True])
def test_a_tied_checkpoint_as_it_lies_on_disk(assign):
    """Hugging Face saves tied weights once, under the embedding's name; loading it keeps the tie, and both trainings agree."""
    ours, theirs, ids = qwen3(0)
    state = {name: x.clone() for name, x in theirs.state_dict().items() if name != "lm_head.weight"}
    ours = ours_of(draw_sizes(0), tied=True)
    ours.load_state_dict(state, strict=True, assign=assign)
    assert ours.lm_head.weight is ours.model.embed_tokens.weight
    assert sum(p.numel() for p in ours.parameters()) == sum(p.numel() for p in theirs.parameters())
    cotangent = torch.randn(3, 9, ours.lm_head.weight.shape[0], generator=torch.Generator().manual_seed(5))
    (ours(ids) * cotangent).sum().backward()
    (theirs(ids).logits * cotangent).sum().backward()
    gradients = dict(ours.named_parameters())
    for name, parameter in theirs.named_parameters():
        assert_near(gradients[name].grad, parameter.grad, tolerance=1e-3)


def test_the_loss_of_qwen3():
    """Their model shifts the labels itself, too."""
    from solutions.ex14_model import causal_lm_loss

    ours, theirs, ids = qwen3(1)
    labels = ids.clone()
    labels[0, :5] = -100
    assert_near(causal_lm_loss(ours(ids), labels), theirs(ids, labels=labels).loss, tolerance=1e-5)
