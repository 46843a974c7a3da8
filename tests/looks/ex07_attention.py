"""What exercise 07's own code makes of scores: bars of weights, with and without the scale, and behind a mask."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from grader.suite.pictures import bars, table


def look(learner: Any) -> Iterator[str]:
    """Shapes in MiniMind's sizes; then one query among six keys."""
    generator = torch.Generator().manual_seed(7)
    q, k, v = (torch.randn(1, 8, 100, 96, generator=generator) for _ in range(3))
    weights, output = learner.attention_weights(q, k), learner.scaled_dot_product_attention(q, k, v)
    steps = [("q, k, v", q), ("weights", weights), ("output", output)]
    yield table(["what", "shape"], [[name, list(tensor.shape)] for name, tensor in steps])

    q, k = q[:1, :1, :1], k[:1, :1, :6]
    yield "one query, six keys, D = 96: scaled by 1 / sqrt(D)\n" + bars(learner.attention_weights(q, k))
    yield "the same, not scaled\n" + bars(learner.attention_weights(q, k, scale=1.0))
    mask = torch.tensor([True, True, True, False, False, False])
    yield "scaled, the last three keys hidden\n" + bars(learner.attention_weights(q, k, mask))
    yield "scaled, all keys hidden\n" + bars(learner.attention_weights(q, k, torch.zeros_like(mask)))
