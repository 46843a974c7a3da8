"""What exercise 02's own code makes of ids: shapes on the way up, the fresh table, and what a fresh model believes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch

from grader.suite.pictures import bar, table

V, C = 6400, 768


def look(learner: Any) -> Iterator[str]:
    """From ids to logits, in MiniMind's sizes."""
    embedding = learner.TokenEmbedding(V, C)
    head = learner.LMHead(embedding)
    generator = torch.Generator().manual_seed(2)
    ids = torch.randint(V, (1, 100), generator=generator)
    rows = embedding(ids)
    hidden = torch.randn(rows.shape, generator=generator)
    logits = head(hidden)
    steps = [("ids", ids), ("TokenEmbedding", rows), ("LMHead, of states of size 1", logits)]
    yield table(["step", "shape"], [[name, list(tensor.shape)] for name, tensor in steps])

    weight = embedding.state_dict()["weight"]
    lines = []
    for low in range(-4, 4):
        share = ((weight >= low * 0.02) & (weight < (low + 1) * 0.02)).double().mean().item()
        lines.append(f"{low * 0.02:5.2f} to {(low + 1) * 0.02:5.2f}  {share:6.1%} {bar(share)}")
    yield f"a fresh table's {weight.numel()} numbers\n" + "\n".join(lines)

    loss = torch.nn.functional.cross_entropy(logits[0].double(), ids[0]).item()
    yield f"loss of a fresh head: {loss:.2f}; of somebody without any idea: ln {V} = {math.log(V):.2f}"

    together = learner.file("props").chain(embedding, head)
    names = ", ".join(together.state_dict())
    count = len(together.parameters())
    yield f"embedding and head as 0 and 1 of one model\nparameters: {count}\nnames in its state dict: {names}"
