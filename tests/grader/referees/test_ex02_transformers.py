"""The reference of 02 in the place of a Qwen3's embedding and tied head: the whole model gives the same logits."""

from __future__ import annotations

import pytest
import torch

from solutions.ex02_embedding import LMHead, TokenEmbedding

transformers = pytest.importorskip("transformers")


def test_qwen3_with_our_embedding_and_head():
    torch.manual_seed(0)
    config = transformers.Qwen3Config(
        vocab_size=37,
        hidden_size=24,
        intermediate_size=40,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        tie_word_embeddings=True,
    )
    model = transformers.Qwen3ForCausalLM(config).eval()
    ids = torch.randint(37, (2, 5))
    with torch.no_grad():
        expected = model(ids).logits
        embedding = TokenEmbedding(37, 24)
        head = LMHead(embedding)
        embedding.load_state_dict({"weight": model.state_dict()["model.embed_tokens.weight"]})
        actual = head(model.model(inputs_embeds=embedding(ids)).last_hidden_state)
    torch.testing.assert_close(actual, expected)
    names = {name for name in model.state_dict() if name.startswith(("model.embed_tokens", "lm_head"))}
    ours = torch.nn.ModuleDict({"model": torch.nn.ModuleDict({"embed_tokens": embedding}), "lm_head": head})
    assert names == set(ours.state_dict())
