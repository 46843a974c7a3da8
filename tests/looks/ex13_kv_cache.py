"""What exercise 13's own caches hold while a text is written: shapes of prefill and decode, and what they cost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from grader.suite.pictures import table

PROMPT, STEPS = 100, 3
LAYERS, K, D = 8, 4, 96


def look(learner: Any) -> Iterator[str]:
    """Prefill and decode step by step, for both caches; then bytes per token for MHA, GQA and MQA."""
    caches = {
        "DynamicCache()": learner.DynamicCache(),
        f"StaticCache({LAYERS}, 1, 128, {K}, {D}, torch.bfloat16, 'cpu')": learner.StaticCache(
            LAYERS, 1, 128, K, D, torch.bfloat16, "cpu"
        ),
    }
    for name, cache in caches.items():
        rows = []
        for step in range(STEPS + 1):
            new = 1 if step else PROMPT
            x = torch.zeros(1, new, K, D, dtype=torch.bfloat16)
            for layer in range(LAYERS):
                k, _ = cache.update(x, x, layer)
            rows.append([f"decode {step}" if step else "prefill", list(x.shape), list(k.shape), cache.get("length")])
        yield f"{name}, {LAYERS} layers\n" + table(["phase", "k and v go in", "k and v come out", "length"], rows)
    rows = []
    config = learner.file("config").ModelConfig
    for kind, heads in (("MHA", 8), ("GQA", 4), ("MQA", 1)):
        made = config(num_kv_heads=heads)
        one, long = (learner.kv_cache_bytes(made, 1, length, torch.bfloat16) for length in (1, 32768))
        rows.append([kind, heads, one, f"{long / 2**20:g} MiB", "#" * round(24 * heads / 8)])
    yield "MiniMind's cache in bfloat16\n" + table(["", "K", "bytes per token", "32 768 tokens", "beside each other"], rows)
