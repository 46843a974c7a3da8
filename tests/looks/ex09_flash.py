"""What exercise 09's own code does: which backend it chooses, how far block sizes and backends differ, what dropout leaves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from grader.suite.pictures import bars, table

FUSED = "torch.nn.functional.scaled_dot_product_attention"


def look(learner: Any) -> Iterator[str]:
    """MiniMind's heads, 100 tokens."""
    generator = torch.Generator().manual_seed(9)
    q, k, v = (torch.randn(1, 8, 100, 96, generator=generator) for _ in range(3))
    pads = torch.ones(1, 100)
    pads[0, :3] = 0
    rows = []
    for what, new, mask, use_flash in (
        ("a whole prompt", 100, None, True),
        ("a mask of ones", 100, torch.ones(1, 100), True),
        ("three pads", 100, pads, True),
        ("five tokens, a past", 5, None, True),
        ("a single token", 1, None, True),
        ("no kernel", 100, None, False),
    ):
        backend = learner.select_backend(new, 100, mask, use_flash)
        output, used = learner.attention.using([FUSED], q[:, :, -new:], k, v, attention_mask=mask, use_flash=use_flash)
        rows.append([what, new, 100, backend, "called" if used else "-", list(output.shape)])
    yield table(["case", "T", "S", "backend", "fused kernel", "output"], rows)

    by_hand = learner.attention(q, k, v, use_flash=False)
    rows = [["attention, fused", "", f"{(learner.attention(q, k, v) - by_hand).abs().max():.1e}"]]
    for block in (1, 7, 32, 100):
        online = learner.online_softmax_attention(q, k, v, block, is_causal=True)
        rows.append(["online softmax", block, f"{(online - by_hand).abs().max():.1e}"])
    yield "largest difference to attention by hand\n" + table(["way", "keys in a block", "difference"], rows)

    q, k, v = torch.zeros(1, 1, 1, 6), torch.zeros(1, 1, 6, 6), torch.eye(6).reshape(1, 1, 6, 6)
    for training in (False, True):
        learner.file("props").seed(9)
        weights = learner.attention(q, k, v, dropout_p=0.5, training=training)
        yield f"six equal weights, dropout_p=0.5, training={training}\n" + bars(weights[0, 0])
