"""What exercise 04's own code does with a position: a pair of channels turns, scores follow the distance, biases fall with it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from grader.suite.pictures import rotation, table


def look(learner: Any) -> Iterator[str]:
    """One pair turned, lengths and scores by position, the tables' first rows, ALiBi's slopes and biases."""
    cos, sin = learner.precompute_rotary(4, 1100)
    e0 = torch.tensor([[[[1.0, 0.0, 0.0, 0.0]]]])  # [B=1, T=1, H=1, D=4]

    def turned(x: torch.Tensor, position: int) -> torch.Tensor:
        return learner.apply_rotary_pos_emb(x, x, cos[position : position + 1], sin[position : position + 1])[0]

    for position in (1, 2):
        picture = rotation(e0.flatten()[[0, 2]], turned(e0, position).flatten()[[0, 2]], 7)
        yield f"channels 0 and 2 of e0 (o), turned (x) at position {position}\n{picture}"
    generator = torch.Generator().manual_seed(4)
    q, k = torch.randn(2, 1, 1, 1, 4, generator=generator)
    rows = [
        [p, r, f"{turned(q, p).norm():.4f}", f"{(turned(q, p) * turned(k, r)).sum():.3f}"]
        for p, r in ((0, 0), (5, 2), (1005, 1002), (2, 5))
    ]
    text = table(["q at", "k at", "length of q", "q . k"], rows)
    yield f"the same query and key at other positions; q is {q.norm():.4f} long\n{text}"
    rows = [[p, *(f"{value:.4f}" for value in row)] for p, row in enumerate(learner.sinusoidal_positions(4, 4))]
    yield "sinusoidal_positions(4, 4)\n" + table(["position", *range(4)], rows)
    slopes, bias = learner.alibi_slopes(6), learner.alibi_bias(6, 2, 5)
    rows = [[head, f"{slope:.4f}", *(f"{value:.3f}" for value in bias[head, -1])] for head, slope in enumerate(slopes)]
    yield "alibi_bias(6, 2, 5), the last query\n" + table(["head", "slope", *(f"key {j}" for j in range(5))], rows)
