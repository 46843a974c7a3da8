"""What exercise 11's own code does: the share of x that each activation lets through, and one token's way through a network."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from grader.suite.pictures import bar, table

C, F = 768, 2432


def look(learner: Any) -> Iterator[str]:
    """The two bends, then both networks in MiniMind's sizes."""
    x = torch.tensor([-4.0, -3.0, -2.0, -1.0, -0.5, 0.5, 1.0, 2.0, 3.0, 4.0])
    for name in ("gelu", "silu"):
        y = getattr(learner, name)(x)
        rows = [
            [f"{number:.1f}", f"{value:.3f}", bar((value / number).item())] for number, value in zip(x.tolist(), y, strict=True)
        ]
        yield table(["x", f"{name}(x)", "share of x that gets through"], rows)

    tokens = torch.randn(1, 100, C, generator=torch.Generator().manual_seed(11))
    other = tokens.clone()
    other[0, 7] = 0.0
    rows = []
    for name, width in (("SwiGLU", F), ("GELUMLP", 4 * C)):
        network = getattr(learner, name)(C, width).eval()
        y = network(tokens)
        changed = torch.isclose(network(other), y, atol=1e-6).all(dim=-1).logical_not()
        counted = sum(value.numel() for value in network.state_dict().values())
        rows.append([f"{name}({C}, {width})", list(y.shape), f"{counted:,}", changed.nonzero()[:, 1].tolist()])
    yield "token 7 of 100 is replaced; which places have other results?\n" + table(
        ["network", "output", "parameters", "places"], rows
    )
