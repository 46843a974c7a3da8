"""The numbers of lesson 05."""

import math

import torch

from solutions.config import ModelConfig
from solutions.ex05_qkv import QKVProjection

from .graded import graded

CONFIG = ModelConfig()
C, H, K, D = CONFIG.hidden_size, CONFIG.num_heads, CONFIG.num_kv_heads, CONFIG.head_dim


def the_idea(lesson):
    lesson.given("steps 1 and 2 of the eight")
    lesson.given("rows h·D to h·D + D - 1")
    lesson.says("the length √D = 9.8", math.sqrt(D))
    one = torch.full((D,), 1.0)  # the longest that a normed vector with weights of one can be
    lesson.says("no score can leave ±9.8", one @ one / math.sqrt(D))


def minimind(lesson):
    lesson.says("B = 1, T = 100 tokens, C = 768, H = 8, K = 4, D = 96", [1, 100, C, H, K, D])
    layer, x = QKVProjection(C, H, K, D), torch.randn(1, 100, C, generator=torch.Generator().manual_seed(0))
    q, k, v = layer(x)
    lesson.says("`[1, 100, 768]`", x.shape)
    lesson.says("`[1, 100, 768]`", layer.q_proj(x).shape)
    lesson.says("`[1, 100, 384]`", layer.k_proj(x).shape)
    lesson.says("`[1, 100, 384]`", layer.v_proj(x).shape)
    lesson.says("`[768, 768]` for q, `[384, 768]` for k and v", [*layer.q_proj.weight.shape, *layer.v_proj.weight.shape])
    lesson.says("`[1, 100, 8, 96]`", q.shape)
    lesson.says("`[1, 100, 4, 96]`", k.shape)
    lesson.says("`[1, 100, 4, 96]`", v.shape)
    lesson.says("`[96]` for q, `[96]` for k", [*layer.q_norm.weight.shape, *layer.k_norm.weight.shape])
    lesson.given("| 1: linear map |")
    lesson.given("| 2: norm (not v) |")
    lesson.says("8 · 96 = 768", [H, D, CONFIG.q_size])
    counts = [sum(p.numel() for p in QKVProjection(C, H, heads, D).parameters()) for heads in (8, 4)]
    lesson.says("With K = 8 the layer would have 1 769 664 parameters", [8, counts[0]])
    lesson.says("with K = 4 it has 1 179 840", [4, counts[1]])
    torch.manual_seed(0)
    layer = QKVProjection(C, H, K, D)
    lengths = [[one.norm(dim=-1).mean() for one in (layer(loud * x)[0], layer(loud * x)[2])] for loud in (1, 100)]
    lesson.says("the queries have length 9.8", lengths[0][0])
    lesson.says("the queries have length 9.8", lengths[1][0])
    lesson.says("the values grow from 5.6 to about 560", [lengths[0][1], round(lengths[1][1].item(), -1)])


def by_hand(lesson):
    lesson.given("One token x = [1, 2, 3, 4]; H = 2, K = 1, D = 2")
    lesson.given("channels 0 and 1")
    lesson.given("channels 2 and 0")
    layer = QKVProjection(4, 2, 1, 2)
    state = {
        "q_proj.weight": torch.eye(4),
        "k_proj.weight": torch.eye(4)[[0, 1]],
        "v_proj.weight": torch.eye(4)[[2, 0]],
        "q_norm.weight": torch.ones(2),
        "k_norm.weight": torch.tensor([5.0, 10.0]),
    }
    layer.load_state_dict(state)
    x = torch.tensor([[[1.0, 2.0, 3.0, 4.0]]])
    q, k, v = (one[0, 0] for one in layer(x))
    heads = layer.q_proj(x).reshape(2, 2)
    squares = heads.square().mean(dim=-1)
    for head, text in enumerate(
        (
            "head 0 [1, 2] mean square 2.5, root 1.581 ▶ [0.632, 1.265]",
            "head 1 [3, 4] mean square 12.5, root 3.536 ▶ [0.849, 1.131]",
        )
    ):
        lesson.says(text, [head, *heads[head], squares[head], squares[head].sqrt(), *q[head]])
    lesson.says("q_proj x = [1, 2, 3, 4]", layer.q_proj(x))
    key = layer.k_proj(x)
    text = "k_proj x = [1, 2] head 0 [1, 2] ▶ [0.632, 1.265], times k_norm.weight [5, 10] ▶ [3.162, 12.649]"
    lesson.says(text, [*key.flatten(), 0, *key.flatten(), *(k[0] / layer.k_norm.weight), *layer.k_norm.weight, *k[0]])
    lesson.says("v_proj x = [3, 1] head 0 [3, 1] as it is", [*layer.v_proj(x).flatten(), 0, *v[0]])
    lesson.given("Head 0 was less than half as long as head 1")
    assert heads[0].norm() < heads[1].norm() / 2
    lesson.given("a mean square of 1")
    assert torch.allclose(q.square().mean(dim=-1), torch.ones(2))


def the_contract(lesson):
    lesson.says("eps=1e-6", CONFIG.rms_norm_eps)
    lesson.given("`num_kv_heads` < 1")
    lesson.given("`num_kv_heads < 1`")
    lesson.given("What has to be done first")
    lesson.given("0 divides nothing")
    for category, value in graded("05").items():
        lesson.says(f"| {category} | {value:g} |", value)
    lesson.given("K = 1 and between")
    lesson.given("axes of length 1")
    lesson.given("of size about 1")
    lesson.given("compared at 1e-4")
    lesson.given("at 1e-2 in float16 and 5e-2 in bfloat16")
    lesson.given("one of them may be -1")
    lesson.given("`.unflatten(-1, (-1, head_dim))`")


def test_every_number(lesson):
    the_idea(lesson)
    minimind(lesson)
    by_hand(lesson)
    the_contract(lesson)
    for fact in ("(2017), section 3.2.2", "(2023)", "(2020)", "to 22 Billion Parameters", "(2025)", "Qwen3"):
        lesson.fact(fact)
    lesson.complete()
