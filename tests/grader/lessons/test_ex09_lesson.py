"""The numbers of lesson 09."""

import math

import torch

from solutions.config import ModelConfig
from solutions.ex07_attention import attention_weights
from solutions.ex09_flash import attention, online_softmax_attention, select_backend

from .graded import graded

CONFIG = ModelConfig()
H, D = CONFIG.num_heads, CONFIG.head_dim


def minimind(lesson):
    lesson.given("step 7 of the eight")
    lesson.given("10 join heads")
    lesson.given("the numbers of 07. Any")
    lesson.says("B = 1, H = 8, D = 96, a prompt of T = S = 100 tokens", [1, H, D, 100])
    q, k, v = (torch.randn(1, H, 100, D) for _ in range(3))
    lesson.says("`[1, 8, 100, 96]`", q.shape)
    lesson.says("`[1, 8, 100, 96]`", attention(q, k, v).shape)
    weights = attention_weights(q, k)
    lesson.says("`[1, 8, 100, 100]`", weights.shape)
    lesson.says(
        "of one block of 32 keys | `[B, H, T, block]` | `[1, 8, 100, 32]`", [32, *attention_weights(q, k[:, :, :32]).shape]
    )
    lesson.says("`[B, H, T, 1]` | `[1, 8, 100, 1]`", [1, *weights.amax(dim=-1, keepdim=True).shape])
    lesson.says("At 100 tokens", 100)
    T = CONFIG.max_position_embeddings
    lesson.says("At 32 768", T)
    lesson.says("one layer's weights take 32 GiB", H * T * T * 4 / 2**30)
    lesson.says("a block of 128 keys takes 128 MiB", [128, H * T * 128 * 4 / 2**20])
    lesson.fact("2 to 4 times faster")


def by_hand(lesson):
    lesson.given("`q = [2, 0, 0, 0]`")
    lesson.given("keys of ln 1, ln 3 and ln 12")
    lesson.given("The values are [8, 0], [0, 4] and [4, 4]")
    logs = [1, 3, 12]
    q, k = torch.tensor([[[[2.0, 0, 0, 0]]]]), torch.zeros(1, 1, 3, 4)
    k[0, 0, :, 0] = torch.tensor(logs).log()
    v = torch.tensor([[[[8.0, 0], [0, 4], [4, 4]]]])
    lesson.says("D = 4", q.shape[-1])
    torch.testing.assert_close((q @ k.mT)[0, 0, 0] / 2, torch.tensor(logs).log())
    highest, total, output, rows = -math.inf, 0.0, torch.zeros(2), []
    for score, value in zip(torch.tensor(logs).log().tolist(), v[0, 0], strict=True):
        shrink = math.exp(highest - max(highest, score))
        highest = max(highest, score)
        share = math.exp(score - highest)
        rows.append((shrink, total * shrink, share, output * shrink, share * value))
        total, output = total * shrink + share, output * shrink + share * value
        rows[-1] += (total, output)
    first, second, third = rows
    lesson.says("| 0 | ln 1 | ln 1 | 0 | 1 | [8, 0] |", [0, 1, 1, first[0], first[5], *first[6]])
    lesson.says(
        "| 1 | ln 3 | ln 3 | 1/3 | 1/3 + 1 = 1.333 |", [1, 3, 3, 1, 1 / second[0], 1, 1 / second[1], second[2], second[5]]
    )
    lesson.says("[2.667, 0] + [0, 4] = [2.667, 4]", [*second[3], *second[4], *second[6]])
    lesson.says("| 2 | ln 12 | ln 12 | 3/12 | 0.333 + 1 = 1.333 |", [2, 12, 12, 12 * third[0], 12, third[1], third[2], third[5]])
    lesson.says("[0.667, 1] + [4, 4] = [4.667, 5]", [*third[3], *third[4], *third[6]])
    answer = online_softmax_attention(q, k, v, 1)
    lesson.says("[4.667, 5] / 1.333 = **[3.5, 3.75]**", [*output, total, *answer.flatten()])
    weights = attention_weights(q, k).flatten() * 16
    lesson.says("weights 1/16, 3/16 and 12/16", [weights[0], 16, weights[1], 16, weights[2], 16])


def the_contract(lesson):
    assert select_backend(6, 6, torch.ones(2, 6)) == "flash" and select_backend(1, 1) == "manual"
    lesson.given("`(6, 6, ones(2, 6))` is flash, `(1, 1)` manual")
    for words in (
        *(
            "from 1 on",
            "`block_size < 1`",
            "if T = 1",
            "of 0 and 1 or bool",
            "is 0 with probability",
            "divided by 1 - `dropout_p`",
        ),
        *("below -7000", "key 0 of the block is not key 0 of the text", "A 0 anywhere", "axes of length 1", "key 0 stands"),
        *("`[B, H, T, 1]` of minus infinity", "range(0, S, block_size)", "else 0.0`", "compared at 1e-5 in float32"),
    ):
        lesson.given(words)
    for category, value in graded("09").items():
        lesson.says(f"| {category.replace('_', ' ')} | {value:g} |", value)
    lesson.given("1024 queries in blocks of 16 keys, 4096 keys in all, causal and not")
    lesson.given("`attention` over 1024 tokens takes the kernel's time")


def test_every_number(lesson):
    minimind(lesson)
    by_hand(lesson)
    the_contract(lesson)
    for fact in ("(2018)", "(2021)", "(2022)", "(2023)", "FlashAttention-2"):
        lesson.fact(fact)
    lesson.complete()
