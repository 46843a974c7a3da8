"""The numbers of lesson 13."""

import re

import torch

from solutions.config import ModelConfig
from solutions.ex07_attention import attention_weights
from solutions.ex13_kv_cache import DynamicCache, StaticCache, kv_cache_bytes
from solutions.ex14_model import CausalLM

from .graded import graded

MIB = 1 << 20


def work(lesson):
    lesson.given("At step 100")
    lesson.says("100 tokens instead of 1", [100, 1])
    lesson.says("10 000 scores a head instead of 100", [100 * 100, 100])
    lesson.says("over the first 100 steps, 5 050 tokens instead of 100", [100, sum(range(1, 101)), 100])
    lesson.says("writing 100 tokens one by one moves 4 950 old ones", [100, sum(range(100))])
    lesson.given("do not expect 100:")
    lesson.given("Try it with 2 000 tokens")


def shapes(lesson):
    config = ModelConfig()
    H, K, D = config.num_heads, config.num_kv_heads, config.head_dim
    lesson.says("B = 1, H = 8, K = 4, D = 96, a prompt of 100 tokens", [1, H, K, D, 100])
    lesson.given("prefill, T = S = 100 | first decode step, T = 1, S = 101 | second, S = 102")
    cache, rows = DynamicCache(), {"q": [], "k, v into `update`": [], "k, v out of `update`": [], "scores": []}
    for new in (100, 1, 1):
        q, k = torch.zeros(1, new, H, D), torch.zeros(1, new, K, D)
        held, _ = cache.update(k, k, 0)
        weights = attention_weights(q.transpose(1, 2), held.repeat_interleave(config.n_rep, 2).transpose(1, 2))
        for row, x in zip(rows.values(), (q, k, held, weights), strict=True):
            row.append(list(x.shape))
    for name, row in rows.items():
        axes = re.search(rf"\| {re.escape(name)} \| (\[.*?\]) \|", lesson.text)[1]
        lesson.says(f"| {name} | {axes} | {' | '.join(map(str, row))} |", row)


def sizes(lesson):
    lesson.given("2 · L · B · S · K · D")
    lesson.says("MiniMind has 8 layers", ModelConfig().num_layers)
    columns = [2048, 32768, 131072]
    lesson.says("| | one token | 2 048 tokens | 32 768 tokens | 131 072 tokens |", columns)
    found = {}
    for name, kv_heads in (("a key/value head per query head (MHA)", 8), ("(GQA)", 4), ("one for all (MQA)", 1)):
        config = ModelConfig(num_kv_heads=kv_heads)
        one, *more = [kv_cache_bytes(config, 1, length, torch.bfloat16) for length in (1, *columns)]
        found[kv_heads] = one
        (line,) = [line for line in lesson.text.splitlines() if line.startswith(f"| K = {kv_heads}") and name in line]
        lesson.says(line, [kv_heads, one, *(size / MIB for size in more)])
    assert ModelConfig().num_kv_heads == 4 and ModelConfig().num_heads == 8
    lesson.says("GQA saves 50 % here", 100 * (1 - found[4] / found[8]))
    model = sum(parameter.numel() for parameter in CausalLM(ModelConfig()).parameters())
    caches = [kv_cache_bytes(ModelConfig(), 1, length, torch.bfloat16) for length in columns[1:]]
    lesson.says("one text's cache, 384 or 1 536 MiB", [size / MIB for size in caches])
    lesson.says("63 912 192 weights take 122 MiB", [model, model * torch.bfloat16.itemsize / MIB])
    assert min(caches) > model * torch.bfloat16.itemsize


def by_hand(lesson):
    cache = StaticCache(2, 1, 6, 1, 1, torch.float32, "cpu")
    lesson.given("Two layers, max_len = 6, a prompt of 2 + 3 tokens in two portions, then 1 token")
    lesson.given("StaticCache(2, ...)")
    held = [0, 0]
    for layer, count in ((0, 2), (1, 2), (0, 3), (1, 3)):
        x = torch.zeros(1, count, 1, 1)
        held[layer] = cache.update(x, x, layer)[0].shape[1]
        row = f"| `update(k, v, {layer})` with {count} tokens | {held[0]} | {held[1]} | {cache.length} |"
        lesson.says(row, [layer, count, *held, cache.length])
    lesson.says("it says 5 as soon as layer 0 does", [cache.length, 0])
    lesson.says("max_len is 6", 6)
    cache.reset()
    lesson.says("length 0: what lies there", cache.length)
    lesson.given("[2, 3, 1] gives what [6] gives")


def test_every_number(lesson):
    work(lesson)
    shapes(lesson)
    sizes(lesson)
    by_hand(lesson)
    for category, value in graded("13").items():
        lesson.says(f"| {category.replace('_', ' ')} | {value:g} |", value)
    lesson.given("filling a cache with 8 192 tokens")
    for words in (
        "layer 0 │", "layer 1 │", "What layer 0 of a `StaticCache` looks like", "| call | layer 0 holds | layer 1 holds |",
        "most at 32k or 128k tokens", "axis 1, past first", "`layer_idx < 0`", "([5, 1])", "Try [2, 3, 1],", "what does layer 1 find",
        "`k[1:] = x`", "0 · NaN is NaN", "`room[-1]`", "to places start to end", "places 0 to end", "sets the counts to 0",
        "default=0", "10 o_proj",
    ):  # fmt: skip
        lesson.given(words)
    for fact in ("(2019)", "(2022)", "(2023)"):
        lesson.fact(fact)
    lesson.complete()


def test_the_printout_runs(lesson, capsys):
    (code,) = re.findall(r"```python\n(.*?)```", lesson.text, re.DOTALL)
    exec(compile(code.replace("exercises.", "solutions."), "lesson", "exec"), {})
    printed = capsys.readouterr().out.splitlines()
    assert printed[:3] == ["8 768.0 MiB", "4 384.0 MiB", "1 96.0 MiB"]
    length, difference = re.match(r"(\d+) tensor\((.*?)\)", printed[3]).groups()
    assert length == "101" and float(difference) < 1e-5
