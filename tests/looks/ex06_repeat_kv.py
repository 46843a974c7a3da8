"""What exercise 06's own code does with heads: which query head reads which key/value head, and what that saves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from grader.suite.pictures import table

HEADS, TOKENS, HEAD_DIM = 8, 100, 96


def look(learner: Any) -> Iterator[str]:
    """MiniMind's eight query heads on fewer and fewer key/value heads."""
    for kv_heads, name in ((4, "GQA"), (1, "MQA"), (8, "MHA")):
        x = torch.arange(kv_heads)[None, None, :, None].expand(1, TOKENS, kv_heads, HEAD_DIM)
        copies = learner.repeat_kv(x, HEADS // kv_heads)
        rows = [["query head", *range(copies.shape[2])], ["reads kv head", *copies[0, 0, :, 0].tolist()]]
        lines = "\n".join(f"{row[0]:<14}" + "".join(f"{cell!s:>4}" for cell in row[1:]) for row in rows)
        yield f"{name}, K = {kv_heads}: {list(x.shape)} -> {list(copies.shape)}\n{lines}"

    x = torch.arange(4.0)[None, None, :, None]
    gradients = torch.arange(8.0)[None, None, :, None]
    result = learner.repeat_kv.vjp(x, 2, cotangent=gradients)
    rows = [["of the 8 copies", gradients.flatten().tolist()], ["of the 4 heads", result.inputs[0].flatten().tolist()]]
    yield table(["gradients", "values"], rows)
