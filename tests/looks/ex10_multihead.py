"""What exercise 10's own layer makes of 100 tokens: the shapes of steps 0 to 8, its weights, and one token more on a cache."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from grader.suite.pictures import mask, table


def look(learner: Any) -> Iterator[str]:
    """MiniMind's sizes: B = 1, T = 100, C = 768, H = 8, K = 4, D = 96."""
    layer = learner.Attention(learner.file("config").ModelConfig())
    x = torch.randn(1, 101, 768, generator=torch.Generator().manual_seed(10))
    cos, sin = learner.file("ex04_positions").precompute_rotary(96, 101)
    rows: list[list[object]] = []

    def step(number: object, what: str, main: torch.Tensor, *k_and_v: torch.Tensor) -> None:
        beside = dict.fromkeys(str(list(one.shape)) for one in k_and_v)  # one shape, as long as k and v are alike
        rows.append([number, what, list(main.shape), ", ".join(beside)])

    prompt, where = x[:, :100], (cos[:100], sin[:100])
    step(0, "x, the residual stream", prompt)
    q, k, v = layer.q_proj(prompt), layer.k_proj(prompt), layer.v_proj(prompt)
    step(1, "three linear maps", q, k, v)
    q, k, v = (one.unflatten(-1, (-1, 96)) for one in (q, k, v))
    step("", "cut into heads", q, k, v)
    q, k = layer.q_norm(q), layer.k_norm(k)
    step(2, "QK-Norm, not of v", q, k)
    q, k = learner.file("ex04_positions").apply_rotary_pos_emb(q, k, *where)
    step(3, "RoPE, not of v", q, k)
    k, v = (learner.file("ex06_repeat_kv").repeat_kv(one, 2) for one in (k, v))
    step(4, "repeat_kv", q, k, v)
    q, k, v = (one.transpose(1, 2) for one in (q, k, v))
    step(5, "heads to the front", q, k, v)
    causal = learner.file("ex08_mask").causal_mask(100, 100)
    step("", "the weights", learner.file("ex07_attention").attention_weights(q, k, causal))
    step(6, "under the causal mask", causal)
    out = learner.file("ex09_flash").attention(q, k, v)
    step(7, "times v, fused or not", out)
    merged = out.transpose(1, 2)
    step(8, "heads back", merged)
    step("", "joined", merged.flatten(2))
    final = layer.o_proj(merged.flatten(2))
    step("", "o_proj", final)
    yield table(["step", "what happens", "q, then what comes of it", "k and v"], rows)
    yield "step 6 for the first four tokens: who sees whom\n" + mask(causal[:4, :4])

    whole = layer(prompt, where)
    cache = learner.file("props").RecordingCache()
    layer(prompt, where, cache=cache)
    last = layer(x[:, 100:], (cos[100:], sin[100:]), cache=cache)
    told = [f"k {list(k.shape)}, v {list(v.shape)}" for _, k, v in cache.get("updates")]
    rows = [["100 tokens", list(whole.shape), told[0]], ["one more", list(last.shape), told[-1]]]
    yield table(["Attention, called on", "returns", "and tells the cache"], rows)
    yield f"the steps one by one and the whole layer differ by {(whole - final).abs().max():.1e}"

    rows = [[name, list(info.shape), torch.Size(info.shape).numel()] for name, info in layer.parameters().items()]
    rows.append(["together", "", sum(row[2] for row in rows)])
    yield table(["weight", "shape", "numbers"], rows)
