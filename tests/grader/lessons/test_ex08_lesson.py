"""The numbers and pictures of lesson 08."""

import torch

from solutions.config import ModelConfig
from solutions.ex08_mask import causal_mask, combine_masks, padding_mask, show_mask

from .graded import graded

CONFIG = ModelConfig()


def the_shapes(lesson):
    lesson.given("attention_mask [B, S] from the tokenizer, 1 = real token")
    lesson.says("B = 1, T = S = 100, H = 8", [1, 100, CONFIG.num_heads])
    causal = causal_mask(100, 100)
    lesson.says("[100, 100], 5 050 of 10 000 visible", [causal.shape, causal.sum(), causal.numel()])
    lesson.says("tensor(5050)", causal.sum())
    padding = padding_mask(torch.ones(1, 100))
    lesson.says("[1, 1, 1, 100]", padding.shape)
    lesson.says("[1, 1, 100, 100]", combine_masks(causal, padding).shape)
    lesson.says("[1, 8, 100, 100]", (torch.zeros(1, CONFIG.num_heads, 100, 96) @ torch.zeros(1, CONFIG.num_heads, 96, 100)).shape)
    one = causal_mask(1, 101)
    lesson.says("one new token after those 100 | [T, S] | [1, 101], all visible", [100, one.shape])
    assert one.all()
    for axes in ("[B, 1, 1, S]", "[B, 1, T, S]", "[1, 1, T, S]"):
        lesson.given(axes)
    lesson.says("serves all 8 heads", CONFIG.num_heads)


def the_pictures(lesson):
    square = show_mask(causal_mask(4, 4)).split("\n")
    lesson.given(f"{square[0]}   token 0 sees itself\n{square[1]}   token 1 sees 0 and 1\n{square[2]}\n{square[3]}")
    lesson.given("causal_mask(2, 2)    causal_mask(3, 5)    causal_mask(1, 6)")
    portions = [show_mask(causal_mask(*sizes)).split("\n") for sizes in ((2, 2), (3, 5), (1, 6))]
    lesson.given(f"{portions[0][0]}                   {portions[1][0]}                {portions[2][0]}")
    lesson.given(f"{portions[0][1]}                   {portions[1][1]}\n                     {portions[1][2]}")
    whole = show_mask(causal_mask(6, 6)).split("\n")
    assert [row.ljust(6, ".") for portion in portions for row in portion] == whole
    lesson.given("in portions of 2, 3 and 1")
    lesson.given("six rows of `causal_mask(6, 6)`")

    real = torch.tensor([[0, 1, 1, 1], [1, 1, 1, 1]])
    lesson.says("`attention_mask = [[0, 1, 1, 1], [1, 1, 1, 1]]`", real)
    lesson.given("row 0    row 1")
    rows = combine_masks(causal_mask(4, 4), padding_mask(real))[:, 0]
    for line in zip(*(show_mask(row).split("\n") for row in rows), strict=True):
        lesson.given("     ".join(line))
    lesson.given("The first query of row 0 is itself a pad")
    assert not rows[0, 0].any()

    lesson.given("this course, T = 2, S = 5      is_causal=True")
    top_left = torch.ones(2, 5, dtype=torch.bool).tril()
    for one, other in zip(show_mask(causal_mask(2, 5)).split("\n"), show_mask(top_left).split("\n"), strict=True):
        lesson.given(f"{one}                          {other}")


def the_softmax(lesson):
    scores = torch.tensor([2.0, 1.0, 0.0, 3.0])
    lesson.says("Token 1 of four has the scores 2, 1, 0, 3", [1, scores])
    lesson.says("0.237, 0.087, 0.032, 0.644", scores.softmax(0))
    row = causal_mask(4, 4)[1]
    lesson.given(f"row of the mask is `{show_mask(row[None])}`")
    hidden = scores.masked_fill(~row, -torch.inf)
    lesson.says('On paper the bottom is -inf, since exp(-inf) = 0: "-inf above', hidden[2].exp())
    lowest = torch.finfo(scores.dtype).min
    lesson.says("whose exp beside any real score is 0 as well", (lowest - scores[row].max()).exp())
    lesson.says("0.731, 0.269, 0, 0", hidden.softmax(0))
    torch.testing.assert_close(scores.masked_fill(~row, lowest).softmax(0), hidden.softmax(0))
    lesson.given("a row of nothing but -inf would be NaN")
    assert torch.full((4,), -torch.inf).softmax(0).isnan().all()
    lesson.says("They still sum to 1", round(hidden.softmax(0).sum().item(), 6))
    lesson.given("go to token 3, which")


def the_rest(lesson):
    points = graded("08")
    assert points.keys() == {"shape", "numerics", "robustness"}
    lesson.says("10 points: 2 for shapes and dtype", [sum(points.values()), points["shape"]])
    lesson.says("6 for what is visible", points["numerics"])
    lesson.says("and 2 for robustness", points["robustness"])
    side = CONFIG.max_position_embeddings
    lesson.says("for 32 768 tokens, one boolean each, it takes exactly 1 GiB", [side, side * side * torch.bool.itemsize / 2**30])
    lesson.given("Draw `causal_mask(3, 5)` on paper")
    for words in ("or adds 0 and -inf", "[B, S] holding 0 and 1 as bool", "T > 1 at the same time", "for T = S and wrong"):
        lesson.given(words)
    for fact in ("(2017), section 3.2.3", "(2020)"):
        lesson.fact(fact)


def test_every_number(lesson):
    the_shapes(lesson)
    the_pictures(lesson)
    the_softmax(lesson)
    the_rest(lesson)
    lesson.complete()
