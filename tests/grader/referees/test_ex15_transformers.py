"""The reference of 15 against transformers: its logits processors, and the greedy text of a Qwen3 with the same random weights."""

from __future__ import annotations

import pytest
import torch

from solutions.config import ModelConfig
from solutions.ex14_model import CausalLM
from solutions.ex15_generate import apply_repetition_penalty, filter_top_k, filter_top_p, generate, sample_next, stream

transformers = pytest.importorskip("transformers")
process = pytest.importorskip("transformers.generation.logits_process")

V = 37


def logits_and_ids(seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(4, V, generator=generator) * 3, torch.randint(V, (4, 9), generator=generator)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("penalty", [0.7, 1.0, 1.3, 5.0])
def test_repetition_penalty(seed, penalty):
    logits, ids = logits_and_ids(seed)
    theirs = process.RepetitionPenaltyLogitsProcessor(penalty)(ids, logits.clone())
    torch.testing.assert_close(apply_repetition_penalty(logits, ids, penalty), theirs)


@pytest.mark.parametrize("top_k", [1, 2, 10, V, V + 5])
def test_top_k(top_k):
    logits, ids = logits_and_ids(top_k)
    assert torch.equal(filter_top_k(logits, top_k), process.TopKLogitsWarper(top_k)(ids, logits))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("top_p", [0.0, 0.1, 0.5, 0.77, 0.95, 0.999])
def test_top_p(seed, top_p):
    logits, ids = logits_and_ids(seed)
    assert torch.equal(filter_top_p(logits, top_p), process.TopPLogitsWarper(top_p)(ids, logits))


def test_top_p_of_equal_ids():
    """Which of them stay is open; how many is not."""
    alike = torch.zeros(1, 8)
    for top_p in (0.125, 0.25, 0.5, 0.3, 0.9):
        theirs = process.TopPLogitsWarper(top_p)(None, alike)
        assert filter_top_p(alike, top_p).isfinite().sum() == theirs.isfinite().sum()


@pytest.mark.parametrize(("temperature", "top_k", "top_p"), [(0.7, 5, 0.8), (1.5, None, 0.6), (0.9, 3, None)])
def test_what_is_drawn(temperature, top_k, top_p):
    """The shares of 50 000 draws against the softmax of what their processors leave."""
    logits, ids = logits_and_ids(3)
    steps = [process.TemperatureLogitsWarper(temperature)]
    steps += [process.TopKLogitsWarper(top_k)] if top_k else []
    steps += [process.TopPLogitsWarper(top_p)] if top_p else []
    shares = process.LogitsProcessorList(steps)(ids, logits.clone())[0].softmax(dim=-1)
    drawn = sample_next(logits[:1].repeat(50_000, 1), temperature, top_k, top_p, torch.Generator().manual_seed(1))
    torch.testing.assert_close(drawn.bincount(minlength=V) / 50_000, shares, atol=0.012, rtol=0)
    assert (shares[drawn] > 0).all()


def twins(seed):
    """Our model and theirs, with the same random weights; in float64, so that rounding decides nothing."""
    config = ModelConfig(
        hidden_size=24, num_layers=2, num_heads=4, num_kv_heads=2, head_dim=6, intermediate_size=40, vocab_size=V,
        max_position_embeddings=64,
    )  # fmt: skip
    theirs = transformers.Qwen3ForCausalLM(
        transformers.Qwen3Config(
            hidden_size=24, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=6,
            intermediate_size=40, vocab_size=V, max_position_embeddings=64, rms_norm_eps=config.rms_norm_eps,
            rope_parameters={"rope_type": "default", "rope_theta": config.rope_theta}, tie_word_embeddings=True,
            bos_token_id=None, eos_token_id=None, pad_token_id=None,
        )
    ).double().eval()  # fmt: skip
    generator = torch.Generator().manual_seed(seed)
    state = {name: torch.randn(value.shape, generator=generator) * 0.4 for name, value in theirs.state_dict().items()}
    state["lm_head.weight"] = state["model.embed_tokens.weight"] = torch.randn(V, 24, generator=generator)
    theirs.load_state_dict(state)
    ours = CausalLM(config).double()
    ours.load_state_dict(state)
    prompt = torch.randint(3, V, (3, 5), generator=generator)
    return ours, theirs, prompt


def their_text(model, prompt, **options):
    with torch.no_grad():
        return model.generate(prompt, do_sample=False, max_new_tokens=12, **options)


@pytest.mark.parametrize("use_cache", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_greedy_text(seed, use_cache):
    ours, theirs, prompt = twins(seed)
    expected = their_text(theirs, prompt, attention_mask=torch.ones_like(prompt))
    assert torch.equal(generate(ours, prompt, 12, temperature=0, use_cache=use_cache), expected)
    steps = list(stream(ours, prompt, 12, temperature=0, use_cache=use_cache))
    assert torch.equal(torch.stack(steps, dim=1), expected[:, 5:])


@pytest.mark.parametrize("use_cache", [True, False])
def test_greedy_text_of_padded_prompts_with_a_penalty(use_cache):
    ours, theirs, prompt = twins(7)
    mask = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1], [0, 1, 1, 1, 1]])
    prompt = prompt.where(mask.bool(), 0)
    expected = their_text(theirs, prompt, attention_mask=mask, repetition_penalty=1.4)
    output = generate(ours, prompt, 12, temperature=0, repetition_penalty=1.4, attention_mask=mask, use_cache=use_cache)
    assert torch.equal(output, expected)


def test_the_end_of_a_text():
    """Rows end at different steps; each end that occurs in the text is tried."""
    ours, theirs, prompt = twins(11)
    text = their_text(theirs, prompt, attention_mask=torch.ones_like(prompt))
    for end in text[:, 5:].unique().tolist():
        expected = their_text(theirs, prompt, attention_mask=torch.ones_like(prompt), eos_token_id=end, pad_token_id=end)
        assert torch.equal(generate(ours, prompt, 12, temperature=0, eos_token_id=end), expected)
