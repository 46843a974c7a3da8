"""The numbers of lesson 02."""

import math

import torch

from grader.suite.checks import TOLERANCE
from solutions.config import ModelConfig
from solutions.ex02_embedding import LMHead, TokenEmbedding

from .graded import graded

CONFIG = ModelConfig()
V, C = CONFIG.vocab_size, CONFIG.hidden_size
WEIGHT = torch.tensor([[1.0, 0.0], [0.0, 1.0], [4.0, 5.0]])


def the_table(lesson):
    both = TokenEmbedding(V, C)
    size = both.weight.numel()
    lesson.says("6400 · 768 = 4 915 200 numbers", [V, C, size])
    projections = 2 * CONFIG.q_size * C + 2 * CONFIG.kv_size * C
    layer = projections + 3 * C * CONFIG.intermediate_size + 2 * C + 2 * CONFIG.head_dim
    rest = CONFIG.num_layers * layer + C
    lesson.says("7.7 % of the whole model", 100 * size / (size + rest))
    large = 150_000 * C
    lesson.says("a vocabulary of 150 000, as", 150_000)
    lesson.says("the table alone would be 66 % of", 100 * large / (large + rest))
    lesson.given("B = 1, T = 100")
    ids, hidden = torch.zeros(1, 100, dtype=torch.int64), torch.zeros(1, 100, C)
    lesson.says("[6400, 768]", both.weight.shape)
    lesson.says("| [1, 100] |", ids.shape)
    lesson.says("[1, 100, 768]", both(ids).shape)
    lesson.says("[1, 100, 6400]", LMHead(both)(hidden).shape)


def the_first_loss(lesson):
    lesson.given("The loss of somebody who has no idea")
    lesson.says("ln V = 8.76: all 6400 tokens", [math.log(V), V])
    lesson.given("of a hidden element of size 1 and a table's number of size 0.02")
    lesson.says("0.02 · √768 = 0.55", [0.02, C, 0.02 * math.sqrt(C)])
    lesson.says("With a standard deviation of 1 it would be 27.7", [1, math.sqrt(C)])
    torch.manual_seed(0)
    embedding = TokenEmbedding(V, C)
    loss, large = [], []
    with torch.no_grad():
        for _ in range(4):
            ids, hidden = torch.randint(V, (500,)), torch.randn(500, C)
            logits = LMHead(embedding)(hidden)
            loss.append(torch.nn.functional.cross_entropy(logits, ids))
            large.append(torch.nn.functional.cross_entropy(logits / 0.02, ids))
    lesson.says("begins at about 8.9", torch.stack(loss).mean())
    assert 100 < torch.stack(large).mean() < 110
    lesson.given("the loss would start above 100")
    deviation = embedding.weight.std().item()
    lesson.says("**0.02** in the contract", deviation)
    lesson.says("mean 0 and standard deviation 0.02", [round(embedding.weight.mean().item(), 4), deviation])


def the_example(lesson):
    embedding = TokenEmbedding(3, 2)
    embedding.load_state_dict({"weight": WEIGHT})
    head = LMHead(embedding)
    ids = torch.tensor([2, 0, 2])
    lesson.given("ids [2, 0, 2]          hidden [2, 3] of one token")
    hidden = torch.tensor([[[2.0, 3.0]]])
    logits = head(hidden).flatten()
    for row in range(3):
        words = ("row 0   [1, 0]", "row 1   [0, 1]", "row 2   [4, 5]")[row]
        lesson.says(words, [row, *WEIGHT[row]])
        looked_up = ("[4, 5]                 · [1, 0] =  2", "[1, 0]                 · [0, 1] =  3", "[4, 5]    · [4, 5] = 23")[
            row
        ]
        lesson.says(looked_up, [*embedding(ids)[row], *WEIGHT[row], logits[row]])
    lesson.says("logits [2, 3, 23]", logits)

    gradient = torch.autograd.grad(embedding(ids), embedding.weight, torch.ones(3, 2))[0]
    lesson.given("a gradient of [1, 1] at each")
    lesson.says("row 2 the gradient [2, 2]", [2, *gradient[2]])
    lesson.says("row 0 [1, 1], and row 1 [0, 0]", [0, *gradient[0], 1, *gradient[1]])

    logits = head(embedding(torch.tensor([[2]]))).flatten()
    lesson.says("The id 2 is looked up", 2)
    lesson.says("logits [4, 5, 41]", logits)
    lesson.says("4 = [4, 5] · [1, 0]", [logits[0], *WEIGHT[2], *WEIGHT[0]])
    lesson.given("send back 1.")
    gradient = torch.autograd.grad(logits[0], embedding.weight)[0]
    lesson.says(
        "Row 0 stood in the head and gets [4, 5]. Row 2 stood in the embedding and gets [1, 0]",
        [0, *gradient[0], 2, *gradient[2]],
    )
    lesson.says("row 0   [4, 5]    from the head", [0, *gradient[0]])
    lesson.says("row 1   [0, 0]\nrow 2   [1, 0]    from the embedding", [1, *gradient[1], 2, *gradient[2]])


def test_every_number(lesson):
    the_table(lesson)
    the_first_loss(lesson)
    the_example(lesson)
    for category, value in graded("02").items():
        lesson.says(f"| {category.replace('_', ' ')} | {value:g} |", value)
    for dtype in TOLERANCE:
        assert TOLERANCE[dtype] == {torch.float16: 5e-3, torch.bfloat16: 3e-2}.get(dtype, 1e-5)
    lesson.given("1e-5 in float32 and float64, 5e-3 in float16, 3e-2 in bfloat16")
    for words in ("the number 1517 of a token: 1518 is", "An id below 0,", "`weight[-1]`", "Try your code on [37, 12]"):
        lesson.given(words)
    for words in ("has standard deviation 1.", "Tables are random, of size 1", "V, C) * 0.02`"):
        lesson.given(words)
    for fact in ("(2017)", "(2018)", "section 3.4", "the model with the 0.02"):
        lesson.fact(fact)
    lesson.complete()
