"""The numbers of lesson 03."""

import math

import torch

from grader.suite.checks import TOLERANCE
from solutions.config import ModelConfig
from solutions.ex03_norm import LayerNorm, RMSNorm

from .graded import graded

X = torch.tensor([1.0, 3.0, 3.0, 9.0])


def the_example(lesson):
    lesson.given("[1, 3, 3, 9]")
    lesson.given("dim - 1")
    lesson.given("weight 1, bias 0")
    lesson.says("(1 + 9 + 9 + 81) / 4 = 25", [*X.square(), len(X), X.square().mean()])
    lesson.says("divided by √25 = 5       [0.2, 0.6, 0.6, 1.8]", [25, X.square().mean().sqrt(), *RMSNorm(4, eps=0.0)(X)])
    lesson.says("(1 + 3 + 3 + 9) / 4 = 4", [*X, len(X), X.mean()])
    lesson.says("[-3, -1, -1, 5]", X - X.mean())
    lesson.says("(9 + 1 + 1 + 25) / 4 = 9", [*(X - X.mean()).square(), len(X), X.var(correction=0)])
    found = LayerNorm(4, eps=0.0)(X)
    lesson.says("divided by √9 = 3        [-1, -0.333, -0.333, 1.667]", [9, X.std(correction=0), *found])
    gradient = torch.autograd.functional.vjp(RMSNorm(4), X, torch.tensor([1.0, 0.0, 0.0, 0.0]))[1]
    lesson.given("[1, 0, 0, 0]")
    lesson.says("[0.2, 0, 0, 0]", torch.tensor([1.0, 0.0, 0.0, 0.0]) / X.square().mean().sqrt())
    lesson.says("[0.198, -0.006, -0.006, -0.018]", gradient)
    unbiased = (X - X.mean()) / X.std()
    lesson.says("the -1 above becomes -0.87", [found[0], unbiased[0]])
    wide = torch.randn(1000, 768, generator=torch.Generator().manual_seed(0))
    lesson.says("with 768 the results differ by 0.07 %", [768, 100 * (1 - wide.std(-1, correction=0) / wide.std(-1)).mean()])


def eps(lesson):
    lesson.says("With eps = 11 RMSNorm would divide by √(25 + 11) = 6", [11, 25, 11, X[0] / RMSNorm(4, eps=11)(X)[0]])
    divisor = (X[0] - X.mean()) / LayerNorm(4, eps=16)(X)[0]
    lesson.says("with eps = 16 LayerNorm by √(9 + 16) = 5", [16, 9, 16, divisor])
    small = 0.001 * torch.tensor([1.0, -1.0, 1.0, -1.0])
    size = RMSNorm(4, eps=1e-6)(small).square().mean().sqrt()
    lesson.says("a token of size 0.001 has the mean square 1e-6", [small.square().mean().sqrt(), small.square().mean()])
    lesson.says("with eps = 1e-6 it comes out at size 0.71 instead of 1", [1e-6, size, RMSNorm(4, eps=0.0)(small)[0]])
    zeros = torch.zeros(4, dtype=torch.float64, requires_grad=True)
    RMSNorm(4, eps=1e-6)(zeros)[0].backward()
    lesson.given("its slope is 1/√eps times the weight")
    lesson.says("1000 for this eps", zeros.grad[0])
    lesson.says("RMSNorm(dim, eps=1e-6)", RMSNorm(4).eps)
    lesson.says("LayerNorm(dim, eps=1e-5)", LayerNorm(4).eps)


def minimind(lesson):
    config = ModelConfig()
    c, d, h, k = config.hidden_size, config.head_dim, config.num_heads, config.num_kv_heads
    lesson.given("B = 1, T = 100")
    lesson.says("[1, 100, 768]", RMSNorm(c)(torch.zeros(1, 100, c)).shape)
    lesson.says("[1, 100, 8, 96]", RMSNorm(d)(torch.zeros(1, 100, h, d)).shape)
    lesson.says("[1, 100, 4, 96]", RMSNorm(d)(torch.zeros(1, 100, k, d)).shape)
    lesson.says("| [768] |", RMSNorm(c).weight.shape)
    lesson.says("| [96], the same for all heads |", RMSNorm(d).weight.shape)
    lesson.says("| [96] |", RMSNorm(d).weight.shape)
    additions = 2 * config.num_layers
    lesson.says("add 16 results", additions)
    lesson.says("of size 1, the sum would have size √17 = 4.1", [1, 1 + additions, math.sqrt(1 + additions)])
    widths = config.num_layers * [c, c, d, d] + [c]
    lesson.says("33 norms hold 14 592 parameters", [len(widths), sum(RMSNorm(one).weight.numel() for one in widths)])


def the_printout(lesson):
    x = 5 * torch.randn(1, 100, 768, generator=torch.Generator().manual_seed(0)) + 3
    rms, layer = RMSNorm(768), LayerNorm(768)
    sizes = [y.square().mean().sqrt() for y in (rms(x), x)]
    lesson.says("to size 1, out of 5.8", [round(sizes[0].item(), 3), sizes[1]])
    lesson.says("keeps the mean at 0.51 and has 768 parameters", [rms(x).mean(), sum(p.numel() for p in rms.parameters())])
    lesson.says(
        "moves the mean to 0 and has 1536", [round(layer(x).mean().item(), 3), sum(p.numel() for p in layer.parameters())]
    )
    other = x.clone()
    other[0, 7] = 0.0
    assert (rms(other) != rms(x)).any(dim=-1).nonzero().tolist() == [[0, 7]]


def half_precision(lesson):
    lesson.says("ends at 65 504", torch.finfo(torch.float16).max)
    lesson.given("the square of 300 is infinite")
    assert torch.tensor(300.0, dtype=torch.float16).square().isinf()
    near = torch.tensor(60.0, dtype=torch.bfloat16)
    lesson.says("near 60 the next bfloat16 is 0.25 away", [60, torch.nextafter(near, near + 1) - near])


def test_every_number(lesson):
    the_example(lesson)
    eps(lesson)
    minimind(lesson)
    the_printout(lesson)
    half_precision(lesson)
    for category, value in graded("03").items():
        lesson.says(f"| {category.replace('_', ' ')} | {value:g} |", value)
    for dtype in TOLERANCE:
        assert TOLERANCE[dtype] == {torch.float16: 5e-3, torch.bfloat16: 3e-2}.get(dtype, 1e-5)
    lesson.given("1e-5 in float32 and float64, 5e-3 in float16, 3e-2 in bfloat16")
    for words in ("A root at 0 has no slope", "as long as it is 1", "axes of length 1,", "of size 1: a norm"):
        lesson.given(words)
    lesson.given("gives [..., 1], which")
    lesson.given("dim=-1")
    for fact in ("(2016)", "(2019)", "(2020)", "GPT-2"):
        lesson.fact(fact)
    lesson.complete()
