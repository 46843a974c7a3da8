"""The reference of 02 against nn.Embedding and a tied nn.Linear: values, gradients and a few steps of training."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from solutions.ex02_embedding import LMHead, TokenEmbedding


def twins(vocab_size: int, hidden_size: int, seed: int):
    """Embedding and head, ours and torch's, with the same table."""
    ours = TokenEmbedding(vocab_size, hidden_size)
    theirs = nn.Embedding(vocab_size, hidden_size)
    head, linear = LMHead(ours), nn.Linear(hidden_size, vocab_size, bias=False)
    linear.weight = theirs.weight
    state = {"weight": torch.randn(vocab_size, hidden_size, generator=torch.Generator().manual_seed(seed))}
    ours.load_state_dict(state)
    theirs.load_state_dict(state)
    return nn.Sequential(ours, head), nn.Sequential(theirs, linear)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
def test_values_and_gradients(seed, dtype):
    generator = torch.Generator().manual_seed(seed)
    sizes = torch.randint(1, 50, (2,), generator=generator).tolist()
    ours, theirs = twins(*sizes, seed)
    shape = tuple(torch.randint(0, 6, (2,), generator=generator).tolist())
    ids = torch.randint(sizes[0], shape, generator=generator).to(dtype)
    torch.testing.assert_close(ours[0](ids), theirs[0](ids), rtol=0, atol=0)
    cotangent = torch.randn(*shape, sizes[0], generator=generator)
    for model in (ours, theirs):
        model(ids).backward(cotangent)
    torch.testing.assert_close(ours(ids), theirs(ids))
    (one,), (other,) = ours.parameters(), theirs.parameters()
    torch.testing.assert_close(one.grad, other.grad)


def test_training():
    generator = torch.Generator().manual_seed(0)
    ours, theirs = twins(37, 12, 0)
    optimizers = [torch.optim.AdamW(model.parameters(), lr=0.1) for model in (ours, theirs)]
    for _ in range(5):
        ids = torch.randint(37, (2, 6), generator=generator)
        for model, optimizer in zip((ours, theirs), optimizers, strict=True):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten()).backward()
            optimizer.step()
    for name, value in theirs.state_dict().items():
        torch.testing.assert_close(ours.state_dict()[name], value, rtol=1e-4, atol=1e-5)


def test_bad_ids_where_torch_refuses_them():
    embedding, theirs = TokenEmbedding(5, 3), nn.Embedding(5, 3)
    for bad in (-1, -5, 5, 99):
        with pytest.raises(IndexError):
            theirs(torch.tensor([0, bad]))
        with pytest.raises(ValueError, match=rf"input_ids holds {bad},"):
            embedding(torch.tensor([0, bad]))
