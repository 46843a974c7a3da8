"""What exercise 03's own code does to tokens of many sizes: one table for each norm, and who hears of whom."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from grader.suite.pictures import table

SIZES = (0.001, 1.0, 30.0, 1000.0)


def look(learner: Any) -> Iterator[str]:
    """Size and mean of every token before and after."""
    noise = torch.randn(len(SIZES), 768, generator=torch.Generator().manual_seed(3))
    x = (noise + 1.0) * torch.tensor(SIZES)[:, None] / 2**0.5
    for name in ("RMSNorm", "LayerNorm"):
        norm = getattr(learner, name)(768)
        y = norm(x)
        rows = [
            [f"{_size(before):.4g}", f"{before.mean():.4g}", f"{_size(after):.4f}", f"{round(after.mean().item(), 4) + 0.0:.4f}"]
            for before, after in zip(x, y, strict=True)
        ]
        counted = sum(value.numel() for value in norm.state_dict().values())
        text = table(["size of the token", "its mean", f"size after {name}", "mean after"], rows)
        yield f"{name}(768), {counted} parameters: {list(x.shape)} -> {list(y.shape)}\n{text}"
        other = x.clone()
        other[2] = noise[0]
        heard = (norm(other) != y).any(dim=-1).nonzero().flatten().tolist()
        yield f"token 2 is replaced by another; tokens with other results: {heard}"


def _size(token: torch.Tensor) -> float:
    return token.square().mean().sqrt().item()
