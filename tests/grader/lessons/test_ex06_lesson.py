"""The numbers of lesson 06."""

import torch

from solutions.config import ModelConfig
from solutions.ex06_repeat_kv import repeat_kv

from .graded import graded

CONFIG = ModelConfig()


def cache_mib(kv_heads: int, tokens: int) -> float:
    """Keys and values of one sequence in bfloat16, in every layer."""
    return 2 * CONFIG.num_layers * tokens * kv_heads * CONFIG.head_dim * torch.bfloat16.itemsize / 2**20


def the_cache(lesson):
    lesson.says("MiniMind (8 layers, D = 96, bfloat16)", [CONFIG.num_layers, CONFIG.head_dim])
    lesson.given("| tokens kept | K = 8, one per query head (MHA) | K = 4 (GQA) | K = 1, one for all (MQA) |")
    lesson.given("(K = 1)")
    for words, tokens in (("2 048", 2048), ("32 768", 32768), ("131 072", 131072)):
        sizes = [cache_mib(heads, tokens) for heads in (CONFIG.num_heads, CONFIG.num_kv_heads, 1)]
        shown = [f"{size:.0f}" if size < 1000 else f"{size // 1000:.0f} {size % 1000:03.0f}" for size in sizes]
        lesson.says(f"| {words} | {shown[0]} MiB | {shown[1]} MiB | {shown[2]} MiB |", [tokens, *sizes])


def the_shapes(lesson):
    q = torch.zeros(1, 100, CONFIG.num_heads, CONFIG.head_dim)
    x = torch.zeros(1, 100, CONFIG.num_kv_heads, CONFIG.head_dim)
    lesson.given("MiniMind, B = 1, T = 100")
    lesson.says("[1, 100, 8, 96] | 76 800 |", [q.shape, q.numel()])
    lesson.says("[1, 100, 4, 96] | 38 400 |", [x.shape, x.numel()])
    copies = repeat_kv(x, CONFIG.n_rep)
    lesson.says(
        "`repeat_kv(x, 2)` | [B, T, K * n_rep, D] | [1, 100, 8, 96] | 76 800", [CONFIG.n_rep, copies.shape, copies.numel()]
    )
    k = torch.arange(4)[None, None, :, None].expand(1, 100, 4, 96)
    lesson.says("torch.Size([1, 100, 8, 96])", repeat_kv(k, 2).shape)
    lesson.says("tensor([0, 0, 1, 1, 2, 2, 3, 3])", repeat_kv(k, 2)[0, 0, :, 0])


def the_example(lesson):
    x = torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]], requires_grad=True)
    copies = repeat_kv(x, 2)
    lesson.says("x, [1, 1, 2, 2]         repeat_kv(x, 2), [1, 1, 4, 2]", [x.shape, 2, copies.shape])
    heads = copies[0, 0].tolist()
    lesson.says("head 0   1  2   ----->   1  2   query head 0", [0, *x[0, 0, 0].tolist(), *heads[0], 0])
    lesson.says("`--->   1  2   query head 1", [*heads[1], 1])
    lesson.says("head 1   3  4   ----->   3  4   query head 2", [1, *x[0, 0, 1].tolist(), *heads[2], 2])
    lesson.says("`--->   3  4   query head 3", [*heads[3], 3])
    lesson.given("Query heads 0 and 1 read key/value head 0, query heads 2 and 3 read head 1.")
    assert [heads.index(head) // 2 for head in heads] == [0, 0, 1, 1]
    gradients = torch.tensor([[[[1.0, 0.0], [0.0, 1.0], [2.0, 2.0], [5.0, -1.0]]]])
    lesson.says("(1, 0), (0, 1), (2, 2), (5, -1)", gradients)
    copies.backward(gradients)
    lesson.says("(1, 0) + (0, 1) = (1, 1)", [gradients[0, 0, :2], x.grad[0, 0, 0]])
    lesson.says("(2, 2) + (5, -1) = (7, 1)", [gradients[0, 0, 2:], x.grad[0, 0, 1]])
    lesson.given("Head 0 was used twice")
    lesson.given("head 1 receives")


def the_points(lesson):
    points = graded("06")
    lesson.says("10 points: 2 for shapes", [sum(points.values()), points["shape"]])
    lesson.says("3 for values", points["numerics"])
    lesson.says("1.5 for gradients", points["gradients"])
    lesson.says("2.5 for robustness", points["robustness"])
    lesson.says("and 1 for memory", points["memory"])
    lesson.given("(2 to 41 copies a head)")
    copy = 2  # MiB
    lesson.given("for an `x` of 2 MiB and `n_rep = 2`")
    lesson.says("4 MiB of its result, but not the 6 MiB", [2 * copy, 3 * copy])
    lesson.given("`n_rep = 3` it")
    lesson.says("may take 6 MiB, but not 8", [3 * copy, 4 * copy])


def test_every_number(lesson):
    the_cache(lesson)
    the_shapes(lesson)
    the_example(lesson)
    the_points(lesson)
    lesson.given("query heads 0 .. n_rep - 1 were *trained* with key/value head 0")
    for words in (
        "even -0.0 stays -0.0",
        "`n_rep < 1`",
        "`n_rep = 1`",
        "K = 2 and n_rep = 3",
        "a size of -1",
        "is [B, T, K, 1, D]",
    ):
        lesson.given(words)
    for fact in ("(2019)", "(2023)"):
        lesson.fact(fact)
    lesson.complete()
