"""The numbers of lesson 15."""

import re

import torch

from solutions.config import ModelConfig
from solutions.ex15_generate import apply_repetition_penalty, filter_top_k, filter_top_p, generate
from tests.props import TableModel

from .graded import graded

LOGITS = torch.tensor([[3.0, 2.0, 1.0, 0.0, -1.0]])


def row(name, values, places):
    """A row of a table as the lesson writes it."""
    cells = ["-inf" if value == -torch.inf else f"{value:.{places}f}" if places else f"{value:g}" for value in values]
    return f"| {name} | {' | '.join(cells)} |"


def shapes(lesson):
    V = ModelConfig().vocab_size
    lesson.says("MiniMind has 6 400 ids", V)
    lesson.says("MiniMind, B = 1, a prompt of 100 tokens, V = 6 400", [1, 100, V])
    given, mask = [[1, 100], [1, 1], [1, 101]], [[1, 100], [1, 101], [1, 101]]
    answers = [[*shape, V] for shape in given]
    for name, axes, cells in (
        ("what the model is given", "[B, T]", given),
        ("attention_mask, if there is one", "[B, S]", mask),
        ("what it answers", "[B, T, V]", answers),
        ("what is used of it", "[B, V]", [[1, V]] * 3),
        ("the new token", "[B]", [[1]] * 3),
    ):
        lesson.says(f"| {name} | {axes} | {' | '.join(map(str, cells))} |", cells)
    lesson.says("99 of 100 answers", [100 - 1, 100])


def temperatures(lesson):
    for temperature in (0.5, 1.0, 2.0):
        shares = (LOGITS / temperature).softmax(dim=-1)[0].tolist()
        lesson.says(row(temperature, shares, 3), [temperature, *shares])


def one_choice(lesson):
    lesson.given("the row already holds ids 0 and 4")
    lesson.given("Penalty 2, temperature 0.5, top_k = 3, top_p = 0.8")
    lesson.says(row("logits", LOGITS[0].tolist(), 0), LOGITS)
    punished = apply_repetition_penalty(LOGITS, torch.tensor([[0, 4]]), 2.0)
    lesson.says(row("penalty: 3 / 2, and -1 · 2", punished[0].tolist(), 0), [3, 2, -1, 2, *punished[0].tolist()])
    divided = punished / 0.5
    lesson.says(row("divided by 0.5", divided[0].tolist(), 0), [0.5, *divided[0].tolist()])
    best = filter_top_k(divided, 3)
    lesson.says(row("three best", best[0].tolist(), 0), best[best.isfinite()])
    shares = best.softmax(dim=-1)[0].tolist()
    lesson.says("| their softmax | 0.245 | 0.665 | 0.090 | 0 | 0 |", shares)
    nucleus = filter_top_p(best, 0.8)
    lesson.says(row("fewest that reach 0.8", nucleus[0].tolist(), 0), [0.8, *nucleus[nucleus.isfinite()].tolist()])
    lesson.says("| the draw | 0.269 | 0.731 | 0 | 0 | 0 |", nucleus.softmax(dim=-1))
    lesson.says(
        "Id 1 alone has 0.665, which is less than 0.8; with id 0 it is 0.910", [1, shares[1], 0.8, 0, shares[0] + shares[1]]
    )
    assert filter_top_p(torch.zeros(1, 4), 0.5).isfinite().sum() == 2
    lesson.given("p = 0.5 keeps two")


def a_whole_loop(lesson):
    logits = torch.full((1, 10, 10), -4.0)
    logits[0, torch.arange(10), (torch.arange(10) + 1) % 10] = 4.0
    output = generate(TableModel(logits), torch.tensor([[6], [7]]), 8, temperature=0, eos_token_id=9)
    lesson.given("9 as the end, prompts 6 and 7")
    lesson.given("             row 0   row 1")
    lesson.says("prompt         6       7", output[:, 0])
    for step in (1, 2, 3):
        (line,) = re.findall(rf"step {step} +\d +\d", lesson.text)
        lesson.says(line, [step, *output[:, step].tolist()])
    lesson.says("[[6, 7, 8, 9], [7, 8, 9, 9]]", output)
    for words in ("row 1 has drawn the end", "row 0 too. Row 1 is filled up with 9", "no step 4", "as long as it is 3 or more"):
        lesson.given(words)


def test_every_number(lesson):
    shapes(lesson)
    temperatures(lesson)
    one_choice(lesson)
    a_whole_loop(lesson)
    example = apply_repetition_penalty(torch.tensor([[2.0, -2.0]]), torch.tensor([[0, 1]]), 1.5)
    lesson.given("[2, -2] and 1.5 give")
    lesson.says("[1.33, -3]", example)
    for category, value in graded("15").items():
        lesson.says(f"| {category} | {value:g} |", value)
    for words in (
        "| temperature | id 0 | id 1 | id 2 | id 3 | id 4 |", "| | id 0 | id 1 | id 2 | id 3 | id 4 |", "below 1 the likely", "above 1 the unlikely",
        "temperature=1.0", "repetition_penalty=1.0", "temperature 0 is argmax", "`temperature < 0`, `top_k < 1`, `top_p` outside 0..1",
        "`max_new_tokens < 0`", "a logit of 0 a share", "place 0 is the best id and no longer id 0", "`if top_k:` for 0", "for 0, 1 and 3 of them",
        "place 0 to True", "token [B,1]", "[:, -1]", "cumsum(-1)", "scatter(1, ids",
    ):  # fmt: skip
        lesson.given(words)
    for fact in ("(2019)", "(2018)", "section 4.1", "(2022)"):
        lesson.fact(fact)
    lesson.complete()


def test_the_printout_runs(lesson, capsys):
    (code,) = re.findall(r"```python\n(.*?)```", lesson.text, re.DOTALL)
    torch.manual_seed(15)
    exec(compile(code.replace("exercises.", "solutions."), "lesson", "exec"), {})
    printed = capsys.readouterr().out.splitlines()
    for line, temperature in zip(printed, (0.5, 1.0, 2.0), strict=False):
        shares = torch.tensor([float(one) for one in re.findall(r"\d\.\d+(?:e[-+]\d+)?", line.split("(")[1])])
        torch.testing.assert_close(shares, (LOGITS / temperature).softmax(dim=-1)[0], atol=0.03, rtol=0)
    assert printed[3] == "torch.Size([1, 120])"
    assert len(printed) == 7 and all(re.fullmatch(r"tensor\(\[\d+\]\)", line) for line in printed[4:])
