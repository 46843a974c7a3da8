"""What exercise 12's own code is made of: which part lets tokens hear of each other, and where the parameters sit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from grader.suite.pictures import mask, table

T, C, D = 8, 16, 4


def look(learner: Any) -> Iterator[str]:
    """Pictures of a small block, part by part, then the counts of MiniMind's and GPT-2's."""
    config = learner.file("config").ModelConfig
    block = learner.TransformerBlock(config(hidden_size=C, num_heads=4, num_kv_heads=2, head_dim=D, intermediate_size=24)).eval()
    angles = torch.arange(T)[:, None] * torch.tensor([1.0, 0.1, 1.0, 0.1])
    positions = angles.cos(), angles.sin()
    parts: dict[str, Callable[[Tensor], Tensor]] = {
        "norm": block.input_layernorm,
        "attention": lambda x: block.self_attn(x, positions),
        "FFN": block.mlp,
        "block": lambda x: block(x, positions),
    }
    columns = [[name, *mask(heard_of(part)).split("\n")] for name, part in parts.items()]
    lines = ["   ".join(f"{cell:<9}" for cell in line).rstrip() for line in zip(*columns, strict=True)]
    yield "row: a token's result; column: the token that was changed; # it is noticed\n" + "\n".join(lines)

    big = learner.TransformerBlock(config())
    gpt = learner.GPTBlock(768, 12)
    for name, one in (("TransformerBlock, MiniMind's sizes", big), ("GPTBlock(768, 12), as in GPT-2", gpt)):
        counts: Counter[str] = Counter()
        for key, value in one.state_dict().items():
            counts[key.split(".")[0]] += value.numel()
        total = counts.total()
        rows = [[part, f"{number:,}", f"{100 * number / total:.2f} %"] for part, number in counts.items()]
        yield f"{name}\n" + table(["part", "parameters", "share"], [*rows, ["together", f"{total:,}", "100 %"]])


def heard_of(part: Callable[[Tensor], Tensor]) -> Tensor:
    """[i, j]: whether token i's result changes when token j is replaced."""
    noise = torch.randn(2, 1, T, C, generator=torch.Generator().manual_seed(12))
    before = part(noise[0])
    columns = []
    for place in range(T):
        x = noise[0].clone()
        x[0, place] = noise[1, 0, place]
        columns.append(torch.isclose(part(x), before, atol=1e-6).all(dim=-1).logical_not()[0])
    return torch.stack(columns, dim=1)
