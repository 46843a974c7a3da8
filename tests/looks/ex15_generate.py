"""What exercise 15's own code makes of one row of logits, filter by filter, what it draws, and a small model writing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from grader.suite.pictures import bar, beside, table

IDS = ["the", "a", "cat", "dog", "sat", "ran", "on", "quickly"]
LOGITS = torch.tensor([[2.2, 1.9, 1.2, 1.0, 0.1, -0.3, -1.0, -2.5]])
SEEN = torch.tensor([[0, 2, 4, 2]])  # "the cat sat cat"
DRAWS = 20_000


def shares(logits: torch.Tensor) -> str:
    """One bar per id: its share in a softmax; a dot where it cannot be drawn."""
    row = logits[0].double().softmax(dim=-1).tolist()
    return "\n".join(
        f"{name:<8} {share:5.3f} {bar(share, 16)}" if share else f"{name:<8}   ." for name, share in zip(IDS, row, strict=True)
    )


def look(learner: Any) -> Iterator[str]:
    """The same eight ids before and after each step, side by side, then a text in the making."""
    steps = [
        ("temperature 0.6", LOGITS / 0.6),
        ("temperature 1.6", LOGITS / 1.6),
        ("top-k 3", learner.filter_top_k(LOGITS, 3)),
        ("top-p 0.85", learner.filter_top_p(LOGITS, 0.85)),
        ("penalty 1.8 for the, cat, sat", learner.apply_repetition_penalty(LOGITS, SEEN, 1.8)),
    ]
    for name, logits in steps:
        yield beside(shares(LOGITS), shares(logits), ("the model says", name))
    ids = learner.sample_next(LOGITS.repeat(DRAWS, 1), 0.6, 5, 0.9, generator=learner.file("props").generator(15))
    drawn = torch.bincount(ids, minlength=len(IDS)).double().log()[None]
    expected = learner.filter_top_p(learner.filter_top_k(LOGITS / 0.6, 5), 0.9)
    yield beside(shares(expected), shares(drawn), ("temperature 0.6, top-k 5, top-p 0.9", f"{DRAWS} draws from it"))

    counting = torch.full((1, 10, 10), -4.0)
    counting[0, torch.arange(10), (torch.arange(10) + 1) % 10] = 4.0
    model, prompt = learner.file("props").TableModel(counting), torch.tensor([[5, 6], [4, 5]])
    rows, fed = [], 0
    for number, token in enumerate(learner.stream(model, prompt, 6, temperature=0, eos_token_id=9), start=1):
        calls = model.get("calls")
        rows.append([number, list(calls[fed]["ids"]), token.tolist()])
        fed = len(calls)
    yield "a model that counts, 9 as the end\n" + table(["step", "the model is given", "stream yields"], rows)
