"""The numbers of lesson 11."""

import math

import torch
import torch.nn.functional as F

from grader.suite.checks import TOLERANCE
from solutions.config import ModelConfig
from solutions.ex11_ffn import GELUMLP, SwiGLU, gelu, silu

from .graded import graded


def count(module):
    return sum(parameter.numel() for parameter in module.parameters())


def the_bends(lesson):
    x = torch.arange(-3.0, 4.0)
    lesson.says("| x | -3 | -2 | -1 | 0 | 1 | 2 | 3 |", x)
    lesson.says("| relu | 0 | 0 | 0 | 0 | 1 | 2 | 3 |", x.relu())
    lesson.says("| gelu | -0.004 | -0.046 | -0.159 | 0 | 0.841 | 1.954 | 2.996 |", gelu(x.double()))
    lesson.says("| silu | -0.142 | -0.238 | -0.269 | 0 | 0.731 | 1.762 | 2.858 |", silu(x))
    lesson.says("gelu(2.7) = 2.69064", [2.7, gelu(torch.tensor(2.7, dtype=torch.float64))])
    lesson.says("2.69111", F.gelu(torch.tensor(2.7, dtype=torch.float64), approximate="tanh"))
    fine = torch.linspace(-10, 10, 200001, dtype=torch.float64)
    lesson.says("up to 4.7e-4 away", (gelu(fine) - F.gelu(fine, approximate="tanh")).abs().max())
    lesson.given("0.5 · x · (1 + erf(x / √2))")
    lesson.given("√2 stands inside erf, 0.5 outside")
    lesson.given("x / (1 + exp(-x))")
    lesson.given("|x| = 1000")
    far = torch.tensor([1000.0], requires_grad=True)
    for function in (gelu, silu):
        assert function(far).item() == 1000.0 and function(-far).item() == 0.0
        (slope,) = torch.autograd.grad(function(far), far)
        lesson.says("with a slope of\n  1, far below both are 0", [slope, function(-far)])


def the_example(lesson):
    network = SwiGLU(2, 2)
    weights = {"gate_proj": [[1, 0], [0, -1]], "up_proj": [[1, 1], [3, 0]], "down_proj": [[1, 0], [1, 1]]}
    network.load_state_dict({f"{name}.weight": torch.tensor(rows).float() for name, rows in weights.items()})
    lesson.given("C = 2 and F = 2")
    for row in range(2):
        rows = [weights[name][row] for name in ("gate_proj", "up_proj", "down_proj")]
        text = (
            "gate_proj.weight    1  0      up_proj.weight    1  1      down_proj.weight    1  0",
            "0 -1                        3  0                          1  1",
        )[row]
        lesson.says(text, rows)
    x = torch.tensor([[[2.0, 1.0]]])
    gate, up = network.gate_proj(x), network.up_proj(x)
    lesson.says("[2, 1]", x)
    lesson.says("[2, -1]", gate)
    lesson.says("[1.762, -0.269]", silu(gate))
    lesson.given("2 / (1 + exp(-2)), -1 / (1 + exp(1))")
    lesson.says("[3, 6]", up)
    lesson.says("[5.285, -1.614]", silu(gate) * up)
    lesson.says("[5.285, 3.671]", network(x))
    lesson.says("[6, -6]", gate * up)
    lesson.says("[5.985, -0.015]", silu(gate * up))
    share = silu(gate)[0, 0]
    assert 1.7 < share[0] < 2 and -0.5 < share[1] < 0  # "nearly twice over", "held back and turned round"


def minimind(lesson):
    config = ModelConfig()
    c, f = config.hidden_size, config.intermediate_size
    lesson.given("B = 1, T = 100")
    lesson.says("C = 768", c)
    network, gpt = SwiGLU(c, f), GELUMLP(c, 4 * c)
    x = torch.zeros(1, 100, c)
    lesson.says("[1, 100, 768]", network(x).shape)
    lesson.says("[1, 100, 2432]", network.gate_proj(x).shape)
    lesson.says("5 603 328 numbers", count(network))
    lesson.says("F = 4 C = 3072", [4, 4 * c])
    lesson.says("4 722 432 numbers", count(gpt))
    lesson.says("C · π = 2412.7", c * math.pi)
    lesson.says("multiple of 64: 2432 = 38 · 64", [64, f, f // 64, 64])
    assert f % 64 == 0
    lesson.says("512 to 2048 and back, 4 times as wide", [512, 2048, 2048 // 512])
    with torch.no_grad():
        x = torch.randn(1, 100, c, generator=torch.Generator().manual_seed(0))
        other = x.clone()
        other[0, 7] = 0.0
        for one in (network, gpt):
            changed = torch.isclose(one(other), one(x), atol=1e-6).all(-1).logical_not()
            assert changed.nonzero().tolist() == [[0, 7]]
    lesson.given("at place 7 cannot touch\nwhat stands at place 8")


def fresh_weights(lesson):
    g, u = 0.02 * torch.randn(2, 100, generator=torch.Generator().manual_seed(0))
    for one in (silu(g) * u, g * silu(u), silu(g * u)):
        torch.testing.assert_close(one, g * u / 2, atol=2e-5, rtol=0)
    lesson.says("all of them near g · u / 2", 2)


def infinities(lesson):
    lesson.given("exp(100)")
    lesson.given("exp(12)")
    assert torch.tensor(100.0).exp().isinf() and torch.tensor(12.0, dtype=torch.float16).exp().isinf()
    lesson.given("one over infinity is 0")


def test_every_number(lesson):
    the_bends(lesson)
    the_example(lesson)
    minimind(lesson)
    fresh_weights(lesson)
    infinities(lesson)
    for category, value in graded("11").items():
        lesson.says(f"| {category.replace('_', ' ')} | {value:g} |", value)
    for dtype in TOLERANCE:
        assert TOLERANCE[dtype] == {torch.float16: 5e-3, torch.bfloat16: 3e-2}.get(dtype, 1e-5)
    lesson.given("1e-5 in float32 and float64, 5e-3 in\nfloat16, 3e-2 in bfloat16, the networks at 1e-4 in float32")
    for words in (
        *("a share between 0 and 1 that", "GPT-2", "dropout=0.0", "divided by\n  1 - dropout; dropout = 1 leaves zeros"),
        *("axes of length 1", "of size 1, and"),
    ):
        lesson.given(words)
    for fact in ("(2016)", "(2017)", "(2020)", "(2021)"):
        lesson.fact(fact)
    lesson.complete()
