"""The numbers of lesson 10."""

import math

import torch

from solutions.config import ModelConfig
from solutions.ex04_positions import apply_rotary_pos_emb, precompute_rotary
from solutions.ex06_repeat_kv import repeat_kv
from solutions.ex07_attention import attention_weights
from solutions.ex08_mask import causal_mask
from solutions.ex09_flash import attention
from solutions.ex10_multihead import Attention

from .graded import graded

CONFIG = ModelConfig()
C, H, K, D = CONFIG.hidden_size, CONFIG.num_heads, CONFIG.num_kv_heads, CONFIG.head_dim


class Remembering:
    """A cache of one layer."""

    def __init__(self):
        self.told, self.k, self.v = [], None, None

    def update(self, k, v, layer_idx):
        self.told.append((k, v))
        self.k = k if self.k is None else torch.cat([self.k, k], dim=1)
        self.v = v if self.v is None else torch.cat([self.v, v], dim=1)
        return self.k, self.v


def the_table(lesson):
    """Every row of the table of shapes, from the reference's own calls."""
    lesson.says("B = 1, T = 100, C = 768, H = 8, K = 4, D = 96", [1, 100, C, H, K, D])
    layer, x = Attention(CONFIG), torch.randn(1, 100, C)
    cos, sin = precompute_rotary(D, 100)
    lesson.says("| 0 | x | `[1, 100, 768]` |", [0, *x.shape])
    q, k, v = layer.q_proj(x), layer.k_proj(x), layer.v_proj(x)
    lesson.says("| 1 | three linear maps | `[1, 100, 768]` | `[1, 100, 384]` |", [1, *q.shape, *k.shape])
    q, k, v = (one.unflatten(-1, (-1, D)) for one in (q, k, v))
    lesson.says("cut into heads | `[1, 100, 8, 96]` | `[1, 100, 4, 96]` |", [*q.shape, *k.shape])
    q, k = layer.q_norm(q), layer.k_norm(k)
    lesson.says("| 2 | QK-Norm over D, not of v | `[1, 100, 8, 96]` | `[1, 100, 4, 96]` |", [2, *q.shape, *k.shape])
    q, k = apply_rotary_pos_emb(q, k, cos, sin)
    lesson.says("| 3 | RoPE, not of v | `[1, 100, 8, 96]` | `[1, 100, 4, 96]` |", [3, *q.shape, *v.shape])
    lesson.says("past + new | `[1, 100, 8, 96]` | `[1, S, 4, 96]` |", [*q.shape, k.shape[0], *k.shape[2:]])
    k, v = repeat_kv(k, CONFIG.n_rep), repeat_kv(v, CONFIG.n_rep)
    lesson.says("| 4 | `repeat_kv` | `[1, 100, 8, 96]` | `[1, 100, 8, 96]` |", [4, *q.shape, *k.shape])
    q, k, v = (one.transpose(1, 2) for one in (q, k, v))
    mask = causal_mask(100, 100)
    weights = attention_weights(q, k, mask)
    text = "| 5 | heads to the front; scores, softmax | `[1, 8, 100, 100]` | `[1, 8, 100, 96]` |"
    lesson.says(text, [5, *weights.shape, *v.shape])
    lesson.says("| 6 | causal mask over the scores | `[100, 100]` |", [6, *mask.shape])
    out = attention(q, k, v)
    torch.testing.assert_close(out, weights @ v)
    lesson.says("| 7 | times v, fused where it may be | `[1, 8, 100, 96]` |", [7, *out.shape])
    out = out.transpose(1, 2)
    lesson.says("| 8 | heads back beside the channels | `[1, 100, 8, 96]` |", [8, *out.shape])
    out = out.flatten(2)
    lesson.says("`[1, 100, 768]`", out.shape)
    out = layer.o_proj(out)
    lesson.says("`[1, 100, 768]`", out.shape)
    torch.testing.assert_close(out, layer(x, (cos, sin)))
    lesson.says("That H · D = 768 = C", H * D)
    lesson.given("(13 cache)")
    lesson.given("| 13 |")


def the_counts(lesson):
    for heads, text in ((4, "the weights, 1 769 664 of them"), (8, "has 2 359 488"), (1, "has 1 327 296")):
        layer = Attention(ModelConfig(num_kv_heads=heads))
        lesson.says(text, sum(parameter.numel() for parameter in layer.parameters()))
    lesson.given("K = 8 (every")
    lesson.given("K = 1 (one for all")
    assert len(list(Attention(CONFIG).parameters())) == 6


def by_hand(lesson):
    lesson.given("C = 3, two query heads on one key/value head, D = 2")
    layer = Attention(ModelConfig(hidden_size=3, num_heads=2, num_kv_heads=1, head_dim=2))
    first_two = torch.eye(2, 3)
    mix = torch.tensor([[1.0, 0, 0, 0], [0, 0, 0, 1], [0, 1, 1, 0]])
    layer.load_state_dict(
        {
            **{"q_proj.weight": torch.zeros(4, 3), "k_proj.weight": first_two, "v_proj.weight": first_two},
            **{"q_norm.weight": torch.ones(2), "k_norm.weight": torch.ones(2), "o_proj.weight": mix},
        }
    )
    merged = []
    layer.o_proj.register_forward_pre_hook(lambda module, inputs: merged.append(inputs[0]))
    x = torch.tensor([[[8.0, 0, 5], [0, 4, 5]]])
    still = torch.ones(2, 2), torch.zeros(2, 2)
    y = layer(x, still)[0]
    lesson.says("x         token 0  [8, 0, 5]            token 1  [0, 4, 5]", [0, *x[0, 0], 1, *x[0, 1]])
    v = layer.v_proj(x)[0]
    lesson.says("v                  [8, 0]                        [0, 4]", v)
    heads = merged[0][0].unflatten(-1, (2, 2))  # [T, H, D]
    lesson.says("head h0            [8, 0]                        [4, 2]        token 1", [heads[:, 0], 1])
    lesson.says("head h1            [8, 0]                        [4, 2]", heads[:, 1])
    lesson.says("merged             [8, 0, 8, 0]                  [4, 2, 4, 2]", merged[0])
    rows = [
        ("1 0 0 0                                   8         4", [*mix[0], y[0, 0], y[1, 0]]),
        ("0 0 0 1     times merged, so token 0 gets 0 , and 1 2", [*mix[1], 0, y[0, 1], 1, y[1, 1]]),
        ("0 1 1 0                                   8         6", [*mix[2], y[0, 2], y[1, 2]]),
    ]
    for text, values in rows:
        lesson.says(text, values)
    cache = Remembering()
    one = tuple(table[:1] for table in still)
    parts = [layer(x[:, place : place + 1], one, cache=cache) for place in (0, 1)]
    torch.testing.assert_close(torch.cat(parts, dim=1)[0], y)
    lesson.says("token 1 alone asks", 1)
    lesson.says("[8, 0] and [0, 4] as values, and the answer is again [4, 2, 6]", [*cache.v.flatten(), *parts[1].flatten()])
    k, v = cache.told[1]
    lesson.says(
        "told for token 1 is one head: v = [0, 4], and k = [0, 1.414], which is [0, 4]", [1, *v.flatten(), *k.flatten(), 0, 4]
    )
    assert math.isclose(k[0, 0, 0, 1].item(), math.sqrt(2), rel_tol=1e-6)


def the_contract(lesson):
    for words in (
        *("1, 2 3 4 5, 6, 7", "8 ──┘", "`Attention(config, layer_idx=0)`", "K = 1 (MQA)", "H = 3, T = 5", "norm weights of 1"),
        *(
            "when T is 1",
            "heads on axis 2",
            "on axis 1",
            "`transpose(1, 2)`",
            "out.transpose(1, 2).flatten(2)",
            "of size about 1,",
        ),
        *("head 0 knows nothing of head 1", "chunks of 2, 3 and 1", "compared at 1e-4", "`python -m grader look 10`"),
    ):
        lesson.given(words)
    for category, value in graded("10").items():
        lesson.says(f"| {category.replace('_', ' ')} | {value:g} |", value)


def test_every_number(lesson):
    the_table(lesson)
    the_counts(lesson)
    by_hand(lesson)
    the_contract(lesson)
    for fact in ("(2017), section 3.2.2", "(2019)", "(2023)", "(2025)", "Qwen3"):
        lesson.fact(fact)
    lesson.complete()
