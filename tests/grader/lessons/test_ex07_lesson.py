"""The numbers of lesson 07."""

import math

import torch

from grader.suite.checks import TOLERANCE
from solutions.config import ModelConfig
from solutions.ex07_attention import attention_weights, scaled_dot_product_attention

from .graded import graded

CONFIG = ModelConfig()
H, D = CONFIG.num_heads, CONFIG.head_dim


def the_path(lesson):
    lesson.given("token 100 hears of token 1 after 99 steps")
    assert 100 - 1 == 99
    lesson.given("a path of length O(1)")
    lesson.given("shares that add up to 1")


def the_shapes(lesson):
    lesson.given("10 join heads")
    lesson.given("transpose(1, 2)")
    lesson.says("B = 1, T = 100 tokens, H = 8 heads", [1, 100, H])
    lesson.says("K = 4 up to 8), D = 96", [CONFIG.num_kv_heads, H, D])
    before = torch.zeros(1, 100, H, D)
    q = k = v = before.transpose(1, 2)
    weights = attention_weights(q, k)
    lesson.says("| `[B, T, H, D]` | `[1, 100, 8, 96]` |", before.shape)
    lesson.says("| `[B, H, T, D]` | `[1, 8, 100, 96]` |", q.shape)
    lesson.says("`[1, 8, 100, 100]`: 80 000 shares", [weights.shape, weights.numel()])
    assert scaled_dot_product_attention(q, k, v).shape == q.shape  # the table's row of the output is that of q
    one, keys = torch.zeros(1, H, 1, D), torch.zeros(1, H, 101, D)
    lesson.says("one new token after 100 (S = 101)", [100, 101])
    lesson.says("q `[B, H, 1, D]`, weights `[B, H, 1, S]`", [1, 1])
    lesson.says("`[1, 8, 1, 96]`, `[1, 8, 1, 101]`", [one.shape, attention_weights(one, keys).shape])


def why_it_is_scaled(lesson):
    generator = torch.Generator().manual_seed(0)
    q, k = (torch.randn(1, H, 100, D, generator=generator) for _ in range(2))
    strongest = [attention_weights(q, k, scale=scale).amax(dim=-1).mean() for scale in (None, 1.0)]
    lesson.says("about 0.08 and 0.8", strongest)
    lesson.given("of q and k have variance 1, each product of two has variance 1")
    q, k = (torch.randn(2000, D, generator=generator) for _ in range(2))
    scores = q @ k.T
    lesson.says("variance D = 96**", round(scores.var().item()))
    lesson.says("standard deviation 9.8", scores.std())
    assert abs((scores.abs() < 20).float().mean() - 19 / 20) < 0.01
    lesson.given("about ±20")

    two = torch.tensor([10.0, 0.0], dtype=torch.float64).softmax(0)
    lesson.says("scores are 10 apart", 10)
    lesson.says("their weights are 0.99995 and 0.00005", two)
    lesson.says("p(1 - p) = 0.000045", [1, two[0] * two[1]])
    apart = 10 / math.sqrt(D)
    two = torch.tensor([apart, 0.0]).softmax(0)
    lesson.says("√96 = 9.8", [D, math.sqrt(D)])
    lesson.says("1.02 apart, the weights 0.735 and 0.265, and the same factor is 0.195", [apart, *two, two[0] * two[1]])
    lesson.says("brings the variance back to 1", round((scores / math.sqrt(D)).var().item(), 2))


def the_example(lesson):
    q = torch.tensor([[[[2.0, 0.0, 0.0, 0.0]]]])
    k = torch.tensor([[[[0.0, 0.0, 0.0, 0.0], [math.log(3.0), 0.0, 0.0, 0.0]]]])
    v = torch.tensor([[[[8.0, 0.0], [0.0, 4.0]]]])
    lesson.says("D = 4, so the scale is 1/√4 = 1/2", [4, 1, 4, 1, 2])
    lesson.says("ln 3 = 1.0986", [3, math.log(3)])
    lesson.given("q = [2, 0, 0, 0]     k0 = [0, 0, 0, 0]        k1 = [ln 3, 0, 0, 0]")
    products = (q @ k.transpose(-2, -1)).flatten()
    lesson.given("dot products         0                        2 ln 3")
    lesson.given("scores (times 1/2)   0                        ln 3")
    torch.testing.assert_close(products, torch.tensor([0.0, 2 * math.log(3)]))
    exp = (products / 2).exp()
    lesson.says("exp                  1                        3            sum 4", [*exp.tolist(), round(exp.sum().item(), 5)])
    lesson.given("weights              1/4                      3/4")
    torch.testing.assert_close(attention_weights(q, k).flatten(), torch.tensor([1 / 4, 3 / 4]))
    lesson.says("v                    [8, 0]                   [0, 4]", v)
    output = scaled_dot_product_attention(q, k, v).flatten()
    lesson.says(
        "1/4 [8, 0] + 3/4 [0, 4] = [2, 3]", [1, 4, *v[0, 0, 0], 3, 4, *v[0, 0, 1], *(round(x, 5) for x in output.tolist())]
    )
    first, none = torch.tensor([[True, False]]), torch.tensor([[False, False]])
    lesson.says("the weights are `[1, 0]`", attention_weights(q, k, first))
    lesson.says("the output is `[8, 0]`", scaled_dot_product_attention(q, k, v, first))
    lesson.says("weights `[0, 0]`", attention_weights(q, k, none))
    lesson.says("output `[0, 0]`", scaled_dot_product_attention(q, k, v, none))


def the_precision(lesson):
    lesson.says("With D = 64 and all elements 60, the dot product is 230 400", [64, 60, 64 * 60 * 60])
    lesson.says("float16 ends at 65 504", torch.finfo(torch.float16).max)
    near = torch.tensor(1700.0, dtype=torch.bfloat16)
    lesson.says("Near 1700 the next bfloat16 number is 8 away", [1700, torch.nextafter(near, 2 * near) - near])
    lesson.given("7000 still differs from 6998")
    assert torch.tensor([7000.0, 6998.0]).softmax(0)[1] > 0.1
    lesson.given("Whole rows may score -1e12")
    lesson.given("finite numbers, 1e15 too")
    lesson.given("these are at -230 400, or at -1e12")
    lesson.says("exp overflows in float32 a little above 88", math.floor(math.log(torch.finfo(torch.float32).max)))
    table = H * 32768**2 * 4
    lesson.says("at 32 768 tokens they are 8 x 32 768 x 32 768", [32768, H, 32768, 32768])
    lesson.says("numbers, 32 GiB for one layer", table / 2**30)


def test_every_number(lesson):
    the_path(lesson)
    the_shapes(lesson)
    why_it_is_scaled(lesson)
    the_example(lesson)
    the_precision(lesson)
    for category, value in graded("07").items():
        lesson.says(f"| {category.replace('_', ' ')} | {value:g} |", value)
    for dtype in TOLERANCE:
        assert TOLERANCE[dtype] == {torch.float16: 5e-3, torch.bfloat16: 3e-2}.get(dtype, 1e-5)
    lesson.given("1e-5 in float32 and float64, 5e-3 in float16, 3e-2 in bfloat16")
    for words in ("it is 1/√D", "0.0 and negative numbers are scales", "the scale is 0.0 or", "`0.0 or 1.0` in Python"):
        lesson.given(words)
    for words in ("`[B, 1, 1, S]` for padding", "axes of length 1,"):
        lesson.given(words)
    for words in ("Hidden keys weigh exactly 0", "The allowed ones share 1.", "must add up to 1?", "add up to less than 1."):
        lesson.given(words)
    for words in ("A float mask of 0 and 1", "is 0/0.", "its exp is 0 next", "to the power -1/2", "weights with 0 (a fresh"):
        lesson.given(words)
    for fact in ("(2017), section 3.2.1", "(2014)", "(2018)"):
        lesson.fact(fact)
    lesson.complete()
