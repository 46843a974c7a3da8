"""What exercise 16's own code does: the schedule as bars, and the loss of a short run on real text."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch

from grader.suite.pictures import bar, table

IDS = 64  # a small alphabet: bytes modulo this
RUN = {"batch_size": 32, "block_size": 16, "max_lr": 0.3, "min_lr": 0.03, "warmup_steps": 10, "total_steps": 120}


def look(learner: Any) -> Iterator[str]:
    """The rate of every eighth step; then what a table of bigrams learns in 120 steps, ten at a time."""
    steps = range(0, RUN["total_steps"] + 1, 8)
    schedule = {name: RUN[name] for name in ("max_lr", "min_lr", "warmup_steps", "total_steps")}
    rates = [learner.cosine_lr(step, **schedule) for step in steps]
    rows = [[step, f"{rate:.4f}", bar(rate / RUN["max_lr"])] for step, rate in zip(steps, rates, strict=True)]
    yield "the learning rate, up in a line and down in a cosine\n" + table(["step", "lr", ""], rows)

    props = learner.file("props")
    text = learner.file("text").english_text()
    data = torch.tensor(list(text[:100_000].encode())) % IDS
    model, generator = props.BigramModel(torch.zeros(IDS, IDS), torch.zeros(IDS)), props.generator(1)
    optimizer = learner.AdamW(props.parameter_list.keep(model), RUN["max_lr"])
    rows = []
    for start in range(0, RUN["total_steps"], 10):
        losses = learner.train(model, data, steps=10, start_step=start, optimizer=optimizer, generator=generator, **RUN)
        loss = sum(losses) / len(losses)
        rows.append([f"{start} to {start + 9}", f"{loss:.3f}", bar(loss / math.log(IDS))])
    yield f"the loss of a table of bigrams on English; ln {IDS} = {math.log(IDS):.3f} is knowing nothing\n" + table(
        ["steps", "loss", ""], rows
    )
