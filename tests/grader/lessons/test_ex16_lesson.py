"""The numbers of lesson 16."""

import math

import torch

from grader.course import load_course
from solutions.config import ModelConfig
from solutions.ex14_model import CausalLM
from solutions.ex16_train import AdamW, clip_grad_norm_, cosine_lr, get_batch
from solutions.text import english_text

from .conftest import ROOT
from .graded import graded


def moved(gradients, *, shape=(1,), **settings):
    """A weight of 1 after each of these gradients, and the optimizer."""
    p = torch.nn.Parameter(torch.ones(shape, dtype=torch.float64))
    optimizer = AdamW([p], 0.1, **settings)
    after = []
    for gradient in gradients:
        p.grad = torch.full(shape, gradient, dtype=torch.float64)
        optimizer.step()
        after.append(p.item())
    return after, optimizer


def the_idea(lesson):
    small, large = (moved([gradient])[0][0] for gradient in (2.0, 2000.0))
    assert abs(small - 0.9) < 1e-6 and abs(large - 0.9) < 1e-6
    lesson.given("a gradient of 2 and one of 2000")
    lesson.says("with beta1 = 0.9 those of the last 10 or so", [0.9, round(1 / (1 - 0.9))])
    lesson.says("with beta2 = 0.999 the size is taken from about 1000", [0.999, round(1 / (1 - 0.999))])
    for words in ("decay towards 0", "A norm's weight is near 1"):
        lesson.given(words)


def minimind(lesson):
    config = ModelConfig()
    x, y = get_batch(torch.arange(101), 1, 100)
    lesson.given("B = 1, T = 100")
    lesson.says("[1, 100] each, out of 101 tokens", [*x.shape, len(torch.arange(101))])
    lesson.says("[1, 100, 6400]", [*y.shape, config.vocab_size])
    lesson.says("ln 6400 = 8.76 before the first step: no idea, 6400 possibilities", [6400, math.log(config.vocab_size), 6400])
    lesson.given("the tokens 0 .. t of the window")
    with torch.device("meta"):
        parameters = list(CausalLM(config).parameters())
    total = sum(p.numel() for p in parameters)
    vectors = sum(p.numel() for p in parameters if p.ndim == 1)
    said = "63 912 192 parameters, of which 14 592 sit in vectors, and 975 MiB"
    lesson.says(said, [total, vectors, round(4 * 4 * total / 2**20)])


def by_hand(lesson):
    lesson.given("One weight, 1, in a vector; lr = 0.1, betas 0.5 and 0.75, gradients 2 and then 0")
    lesson.given("m = .5 m + .5 g   v = .75 v + .25 g²   m̂ = m / (1 - .5ᵗ)   v̂ = v / (1 - .75ᵗ)")
    m = v = 0.0
    for step, gradient in enumerate((2.0, 0.0), start=1):
        after, optimizer = moved((2.0, 0.0)[:step], betas=(0.5, 0.75))
        m, v = 0.5 * m + 0.5 * gradient, 0.75 * v + 0.25 * gradient**2
        assert (optimizer.means[0].item(), optimizer.squares[0].item()) == (m, v)
        b, c = 1 - 0.5**step, 1 - 0.75**step
        (line,) = [one for one in lesson.text.splitlines() if one.startswith(f" {step}     {gradient:g} ")]
        numbers = [step, gradient, m, v, m, b, m / b, v, c, v / c, m / b / math.sqrt(v / c), after[-1]]
        lesson.says(line, numbers)
    lesson.given("The second gradient is 0")
    lesson.given("Both means begin at 0")
    lesson.given("Dividing by 1 - betaᵗ")
    lesson.given("the usual betas (0.9, 0.999)")
    lesson.says("3.16 times too long", (1 - 0.9) / math.sqrt(1 - 0.999))
    decayed = moved([2.0], shape=(1, 1), weight_decay=0.5)[0][0]
    lesson.says(
        "weight_decay = 0.5, the first step would be 1 · (1 - 0.1 · 0.5) - 0.1 = 0.85", [0.5, 1, 1, 0.1, 0.5, 0.1, decayed]
    )
    weights = [torch.nn.Parameter(torch.zeros(1)), torch.nn.Parameter(torch.zeros(1, 2))]
    weights[0].grad, weights[1].grad = torch.tensor([3.0]), torch.tensor([[4.0, 0.0]])
    lesson.given("[3] and [[4, 0]]")
    norm = clip_grad_norm_(weights, 1.0)
    lesson.says("√(9 + 16) = 5", [3.0**2, 4.0**2, norm])
    lesson.given("With `max_norm = 1`")
    said = "both are multiplied by 1/5: [0.6] and [[0.8, 0]]. Returned is 5"
    lesson.says(said, [1, norm, weights[0].grad, weights[1].grad, norm])


def schedule(lesson):
    lesson.given("max_lr = 1, min_lr = 0.1, a warm-up of 4 steps and 12 in all")
    for step in (0, 1, 2, 3, 4, 6, 8, 10, 12, 99):
        rate = cosine_lr(step, max_lr=1.0, min_lr=0.1, warmup_steps=4, total_steps=12)
        (line,) = [one for one in lesson.text.splitlines() if "█" in one and one.replace("step", "").split()[0] == str(step)]
        lesson.says(line, [step, rate])
        assert line.count("█") == round(20 * rate), line


def the_small_model(lesson):
    course = load_course(ROOT)
    training = course.exercise(16).training
    assert training is not None
    lesson.says("for 40 steps and must come under 3.05 nats", [training.steps, training.loss])
    lesson.says("ln 256 = 5.55", [256, math.log(256)])
    counts = torch.bincount(torch.tensor(list(english_text().encode())), minlength=256).double()
    shares = counts[counts > 0] / counts.sum()
    # The text is Python's own and differs a little from version to version.
    assert abs(-(shares * shares.log()).sum().item() - 3.26) < 0.03
    lesson.given("about 3.26")


def test_every_number(lesson):
    the_idea(lesson)
    minimind(lesson)
    by_hand(lesson)
    schedule(lesson)
    the_small_model(lesson)
    for category, value in graded("16").items():
        lesson.says(f"| {category.replace('_', ' ')} | {value:g} |", value)
    for words in (
        "Starts are 0 .. N - T - 1",
        "max_lr · (s + 1) / warmup_steps",
        "No gradient at all: 0.",
        "T + 1 tokens",
        "N = T + 1",
        "Is None the same as 0?",
        "look 16",
        "torch.arange(T + 1)",
        "(B, 1)",
        "p.mul_(1 - lr * weight_decay)",
        "p.ndim > 1",
        "(mean / (1 - beta1**t)) / ((square / (1 - beta2**t)).sqrt() + eps)",
        "logits.flatten(0, 1)",
    ):
        lesson.given(words)
    for fact in ("(2015)", "(2019)", "(2017)", "(2013)", "(2022)"):
        lesson.fact(fact)
    lesson.complete()
