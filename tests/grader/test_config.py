"""The given `ModelConfig`: MiniMind's numbers, and what follows from them."""

from __future__ import annotations

import dataclasses

import pytest

from solutions.config import ModelConfig


def test_the_defaults_are_minimind_s():
    assert dataclasses.asdict(ModelConfig()) == {
        "hidden_size": 768,
        "num_layers": 8,
        "num_heads": 8,
        "num_kv_heads": 4,
        "head_dim": 96,
        "intermediate_size": 2432,
        "vocab_size": 6400,
        "max_position_embeddings": 32768,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1e6,
        "dropout": 0.0,
        "tie_word_embeddings": True,
        "use_flash": True,
    }


@pytest.mark.parametrize(("hidden_size", "expected"), [(64, 256), (512, 1664), (768, 2432), (1024, 3264)])
def test_the_intermediate_size_follows_from_the_hidden_size(hidden_size, expected):
    assert ModelConfig(hidden_size=hidden_size).intermediate_size == expected


def test_a_given_intermediate_size_stays():
    assert ModelConfig(hidden_size=1024, intermediate_size=3072).intermediate_size == 3072


def test_derived_sizes():
    config = ModelConfig(hidden_size=64, num_heads=6, num_kv_heads=2, head_dim=10)
    assert (config.n_rep, config.q_size, config.kv_size) == (3, 60, 20)


def test_it_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        ModelConfig().num_heads = 4
