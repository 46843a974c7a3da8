"""What exercise 14's own model is made of: shapes from ids to logits, where its parameters are, and its loss before any training."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch

from grader.suite.pictures import table

PARTS = {
    "embedding": "embed_tokens",
    "attention": ".self_attn.",
    "feed-forward": ".mlp.",
    "norms over C": "norm.weight",
    "head of its own": "lm_head",
}


def look(learner: Any) -> Iterator[str]:
    """Builds MiniMind (64 million random numbers), counts, and lets it guess."""
    config = learner.file("config").ModelConfig
    model = learner.CausalLM(config(num_layers=2))
    ids = torch.randint(6400, (1, 100), generator=torch.Generator().manual_seed(14))
    parts = model.submodules(ids)
    wanted = ["model.embed_tokens", "model.layers.0", "model.layers.1", "model.norm", "lm_head"]
    rows = [["input_ids", list(ids.shape)]]
    rows += [[part.name, list(part.outputs[0].shape)] for part in parts if part.name in wanted and part.outputs]
    yield "two of MiniMind's layers, from ids to logits\n" + table(["after", "shape"], rows)

    counted = {part: 0 for part in PARTS}
    for name, info in learner.CausalLM(config()).parameters().items():
        counted[next(part for part, word in PARTS.items() if word in name)] += math.prod(info.shape)
    total = sum(counted.values())
    rows = [
        [part, f"{n:,}".replace(",", " "), f"{100 * n / total:.1f}", "#" * round(30 * n / total)] for part, n in counted.items()
    ]
    yield f"the parameters of all 8 layers: {total:,}\n".replace(",", " ") + table(["part", "parameters", "%", ""], rows)

    loss = learner.causal_lm_loss(model(ids), ids).item()
    yield f"its loss before any training: {loss:.2f}; guessing costs ln 6400 = {math.log(6400):.2f}"
