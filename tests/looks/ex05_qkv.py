"""What exercise 05's own code makes of tokens: shapes step by step, and what a louder x does to queries, keys and values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from grader.suite.pictures import table


def look(learner: Any) -> Iterator[str]:
    """MiniMind's shapes, weights, and lengths of the vectors."""
    layer = learner.QKVProjection(768, 8, 4, 96)
    x = torch.randn(1, 100, 768, generator=torch.Generator().manual_seed(5))
    q, k, v = layer(x)
    rows = [["x", list(x.shape)], *([name, list(one.shape)] for name, one in (("q", q), ("k", k), ("v", v)))]
    yield "QKVProjection(768, 8, 4, 96)\n" + table(["tensor", "shape"], rows)
    state = layer.state_dict()
    rows = [[name, list(weight.shape), weight.numel()] for name, weight in state.items()]
    rows.append(["together", "", sum(weight.numel() for weight in state.values())])
    yield table(["weight", "shape", "numbers"], rows)
    rows = []
    for loud in (1, 10, 100):
        q, k, v = layer(loud * x)
        scores = torch.einsum("bthd,bshd->bhts", q[:, :, ::2], k) / 96**0.5  # one query head of each pair
        rows.append([loud, *(f"{one.norm(dim=-1).mean():.2f}" for one in (q, k, v)), f"{scores.abs().max():.2f}"])
    yield "x made louder: mean lengths, and the largest score\n" + table(["times", "q", "k", "v", "score"], rows)
