"""The numbers of lesson 04."""

import math

import torch

from grader.suite.checks import TOLERANCE
from solutions.config import ModelConfig
from solutions.ex04_positions import (
    LearnedPositions,
    alibi_bias,
    alibi_slopes,
    apply_rotary_pos_emb,
    precompute_rotary,
    rotate_half,
    sinusoidal_positions,
)

from .graded import graded

CONFIG = ModelConfig()
E0 = torch.tensor([[[[1.0, 0.0, 0.0, 0.0]]]])  # [B=1, T=1, H=1, D=4]


def turned_e0(position):
    """e0 at this position, and its first pair."""
    cos, sin = precompute_rotary(4, 8)
    vector = apply_rotary_pos_emb(E0, E0, cos[position : position + 1], sin[position : position + 1])[0].flatten()
    return vector, vector[[0, 2]]


def the_idea(lesson):
    lesson.given("7 and 9 are as close as 107 and 109")
    lesson.given("position 1: x is o, turned")
    lesson.given("position 2\n")
    for position, degrees in ((1, 57), (2, 115)):
        (x, y), angle = turned_e0(position)[1], math.degrees(position)
        text = f"o (1.00, 0.00)  x ({x:.2f}, {y:.2f}): {degrees} degrees"
        lesson.says(text, [1, 0, x, y, angle])
    lesson.says("after 6.28 positions", 2 * math.pi)
    lesson.given("by 1 / theta^(2i/D) radians a position")
    lesson.given("With D = 96 and theta = 10 000")
    slowest = [theta ** -((CONFIG.head_dim - 2) / CONFIG.head_dim) for theta in (1e4, CONFIG.rope_theta)]
    angles = [math.degrees(CONFIG.max_position_embeddings * speed) for speed in slowest]
    lesson.says("by 227 degrees in 32 768 positions", [angles[0], CONFIG.max_position_embeddings])
    lesson.says("theta = 1 000 000, by 2.5 degrees", [CONFIG.rope_theta, angles[1]])


def minimind(lesson):
    c, h, k, d = CONFIG.hidden_size, CONFIG.num_heads, CONFIG.num_kv_heads, CONFIG.head_dim
    longest = CONFIG.max_position_embeddings
    lesson.says("B = 1, T = 100 tokens, H = 8, K = 4, D = 96, C = 768", [1, 100, h, k, d, c])
    cos, sin = precompute_rotary(d, longest)
    q, keys = torch.randn(1, 100, h, d), torch.randn(1, 100, k, d)
    turned_q, turned_k = apply_rotary_pos_emb(q, keys, cos[:100], sin[:100])
    lesson.says("`[32768, 96]`, made once", cos.shape)
    lesson.says("`[100, 96]`", cos[:100].shape)
    lesson.says("`[1, 100, 8, 96]`", turned_q.shape)
    lesson.says("`[1, 100, 4, 96]`", turned_k.shape)
    lesson.says("`[8, 100, 100]`", alibi_bias(h, 100, 100).shape)
    lesson.says("`[100, 768]`", sinusoidal_positions(100, c).shape)
    weight = LearnedPositions(longest, c).weight
    lesson.says("`[32768, 768]`: 25 165 824 weights", [*weight.shape, weight.numel()])
    assert cos.dtype == torch.float32
    assert torch.allclose(turned_q.norm(dim=-1), q.norm(dim=-1), rtol=1e-5)
    table = [apply_rotary_pos_emb(q[:, :1], keys[:, :1], cos[p : p + 1], sin[p : p + 1]) for p in (5, 2, 1005, 1002)]
    scores = [(table[a][0][0, 0, 0] * table[b][1][0, 0, 0]).sum() for a, b in ((0, 1), (2, 3), (1, 0))]
    assert (scores[0] - scores[1]).abs() < 1e-2 < (scores[0] - scores[2]).abs()  # print(score(5, 2), ...): two of them agree


def the_examples(lesson):
    lesson.given("D = 4: the pairs are channels (0, 2) and (1, 3). At position 1, e0 = [1, 0, 0, 0]")
    lesson.given("[cos 1, 0, 0, 0]")
    lesson.given("[0, 0, sin 1, 0]")
    lesson.given("= cos 1 e0 + sin 1 e2")
    lesson.says("[0, 0, 1, 0]", rotate_half(E0))
    lesson.says("rotate_half([1, 2, 3, 4]) = [-3, -4, 1, 2]", [1, 2, 3, 4, *rotate_half(torch.tensor([1.0, 2.0, 3.0, 4.0]))])
    lesson.says("[0.5403, 0, 0.8415, 0]", turned_e0(1)[0])
    product = turned_e0(5)[0] @ turned_e0(3)[0]
    lesson.given("Put e0 at position 5 as a query and at position 3 as a key")
    lesson.says("cos 5 cos 3 + sin 5 sin 3 = cos 2 = -0.416", [5, 3, 5, 3, 2, product])
    lesson.given("that are 2 apart")

    lesson.given("dim = 4: position 0 is")
    table = sinusoidal_positions(2, 4)
    lesson.says("[0, 1, 0, 1]", table[0])
    lesson.given("position 1 is [sin 1, cos 1, sin 0.01, cos 0.01]")
    lesson.says("[0.8415, 0.5403, 0.0100, 0.9999]", table[1])
    lesson.says("10000^(2/4) = 100", [10000, 2, 4, 10000 ** (2 / 4)])

    slopes = alibi_slopes(8)
    lesson.says("the first of 8 heads (slope 1/2)", [8, 1, 1 / slopes[0]])
    bias = alibi_bias(8, 2, 4)[0]
    lesson.given("key 0 key 1 key 2 key 3")
    lesson.says("query at 2 -1 -0.5 0 0", [2, *bias[0]])
    lesson.says("query at 3 -1.5 -1 -0.5 0", [3, *bias[1]])
    lesson.given("key 3 is the future")
    lesson.says("e^-0.5 = 0.61 in this head", [-0.5, (-slopes[0]).exp()])
    lesson.says("by 0.996 in the last one (slope 1/256)", [(-slopes[-1]).exp(), 1, 1 / slopes[-1]])
    six = (1 / alibi_slopes(6)).tolist()
    text = "6 heads: the slopes of 4 heads, 1/4, 1/16, 1/64, 1/256, then the first and the third of 8 heads, 1/2 and 1/8"
    lesson.says(text, [6, 4, *(n for one in six[:4] for n in (1, one)), 8, 1, six[4], 1, six[5]])
    assert torch.equal(alibi_slopes(6)[:4], alibi_slopes(4)) and torch.equal(alibi_slopes(6)[4:], slopes[[0, 2]])


def the_contract(lesson):
    lesson.given("angle p / 10000^(2i/dim), its sine in channel 2i")
    lesson.given("its cosine in channel 2i + 1")
    assert torch.allclose(LearnedPositions(500, 100).weight.std(), torch.tensor(0.02), rtol=0.05)
    lesson.given("standard deviation 0.02")
    lesson.given("start=0")
    lesson.given("into the past, 0 for the future")
    lesson.says("theta=1e6", CONFIG.rope_theta)
    lesson.given("channel i pairs with i + D/2")
    lesson.given("`num_heads` < 1")
    lesson.given("Row 0 of a table is position 0")
    lesson.given("the cosines of 0")
    half = torch.arange(256, 512).bfloat16().unique()
    lesson.says("counts in steps of 2 from 256 on", [half[1] - half[0], 256])
    lesson.given("What is position 301 then")
    assert torch.tensor(301.0).bfloat16() == 300  # one radian too few
    lesson.given("turned by 90 degrees")
    lesson.given("D/2")


def grading(lesson):
    for category, value in graded("04").items():
        lesson.says(f"| {category} | {value:g} |", value)
    lesson.given("slopes for 1 to 64 heads")
    lesson.given("axes of length 1")
    for dtype in TOLERANCE:
        assert TOLERANCE[dtype] == {torch.float16: 5e-3, torch.bfloat16: 3e-2}.get(dtype, 1e-5)
    lesson.given("1e-5 in float32 and float64, 5e-3 in float16, 3e-2 in bfloat16; at 1e-3 where positions go up to 1000")
    lesson.given("up to position 1000")
    thousand = torch.tensor(1000.0)
    lesson.says("no better than to 3e-5", (torch.nextafter(thousand, thousand + 1) - thousand) / 2)


def hints(lesson):
    for code in (
        "`[max_len, 1] * [dim/2]`",
        "`torch.arange(0, dim, 2) / dim` is 2i/dim",
        "`chunk(2, dim=-1)`",
        "the recipe for 2n heads",
        "`cos.unsqueeze(-2)`",
        "`[T, 1, D]`",
        "`[B, T, 1, D]`",
        "`2 ** (-8 * i / n)` for i = 1 .. n",
        "`2 ** (-8 * i / (2 * n))`",
        "let nothing be above 0",
    ):
        lesson.given(code)


def test_every_number(lesson):
    the_idea(lesson)
    minimind(lesson)
    the_examples(lesson)
    the_contract(lesson)
    grading(lesson)
    hints(lesson)
    for fact in ("GPT-2", "(2017), section 3.5", "(2019)", "(2021)", "(2022)", "(2023)", "Qwen3"):
        lesson.fact(fact)
    lesson.complete()
