"""The numbers of lesson 12."""

import torch

from solutions.config import ModelConfig
from solutions.ex03_norm import LayerNorm, RMSNorm
from solutions.ex12_block import GPTBlock, TransformerBlock

from .graded import graded

WIDTH, HEADS = 768, 12


def count(module):
    return sum(parameter.numel() for parameter in module.parameters())


def the_counts(lesson):
    config = ModelConfig()
    block, gpt = TransformerBlock(config), GPTBlock(WIDTH, HEADS)
    total, of_mlp = count(block), count(block.mlp)
    lesson.says(
        "| TransformerBlock | 2 · 768 | 1 769 664 | 5 603 328 | 7 374 528 | 76 % |",
        [2, count(block.input_layernorm), count(block.self_attn), of_mlp, total, 100 * of_mlp / total],
    )
    assert count(block.post_attention_layernorm) == count(block.input_layernorm)
    total, of_mlp = count(gpt), count(gpt.mlp)
    lesson.says(
        "| GPTBlock | 2 · 1536 | 2 362 368 | 4 722 432 | 7 087 872 | 67 % |",
        [2, count(gpt.ln_1), count(gpt.attn), of_mlp, total, 100 * of_mlp / total],
    )
    matrices = {name: p.numel() // WIDTH**2 for name, p in gpt.named_parameters() if p.dim() == 2}
    eight = sum(value for name, value in matrices.items() if name.startswith("mlp"))
    lesson.says("about 8 C² of 12 C² parameters", [eight, sum(matrices.values())])


def shapes(lesson):
    config = ModelConfig()
    lesson.given("B = 1, T = 100")
    x = torch.zeros(1, 100, config.hidden_size)
    block, gpt = TransformerBlock(config), GPTBlock(WIDTH, HEADS)
    angles = torch.zeros(100, config.head_dim)
    lesson.says("[1, 100, 768]", block(x, (angles.cos(), angles.sin())).shape)
    heads = block.self_attn.q_proj(x).unflatten(-1, (-1, config.head_dim))
    lesson.says("[1, 100, 8, 96]", heads.shape)
    lesson.says("[1, 100, 4, 96]", block.self_attn.k_proj(x).unflatten(-1, (-1, config.head_dim)).shape)
    lesson.says("[1, 100, 2432]", block.mlp.gate_proj(x).shape)
    lesson.given("`GPTBlock(768, 12)`")
    lesson.says("`[B, T, 3 C]` | `[1, 100, 2304]`", [gpt.attn.qkv_proj.out_features // WIDTH, *gpt.attn.qkv_proj(x).shape])
    wide = gpt.mlp.fc_in(x)
    factor = wide.shape[-1] // WIDTH
    lesson.says("its MLP, 4 C | `[B, T, 4 C]` | `[1, 100, 3072]`", [factor, factor, *wide.shape])
    lesson.says("dropout), 4 C wide inside", factor)
    lesson.given("grader look 12")


def the_example(lesson):
    norm = RMSNorm(2, eps=0.0)
    x = torch.tensor([1.0, 7.0])
    lesson.says("[1, 7]", x)
    lesson.says("its mean square is 25, so RMSNorm (weight 1, no eps) divides it by 5", [25, 1, 5])
    assert x.square().mean() == 25
    torch.testing.assert_close(norm(x), x / 5)
    h = x + norm(x)
    lesson.says("norm(x)         [0.2, 1.4]", norm(x))
    lesson.says("[1.2, 8.4]", h)
    lesson.says("norm(h)         [0.2, 1.4]", norm(h))
    lesson.says("h + 2 it    [1.6, 11.2]", [2, *(h + 2 * norm(h))])
    lesson.says("[2, 14]", x + x)
    h = norm(x + x)
    lesson.says("h = norm(it)    [0.2, 1.4]", h)
    lesson.says("h + 2 h         [0.6, 4.2]", [2, *(h + 2 * h)])
    y = norm(h + 2 * h)
    lesson.says("y = norm(it)    [0.2, 1.4]", y)
    lesson.says("has size 1 whatever", y.square().mean().sqrt().round(decimals=6))
    silent = norm(norm(x))
    lesson.says("post-norm gives [0.2, 1.4], and one more block", silent)
    torch.testing.assert_close(norm(norm(silent)), silent)
    lesson.given("a gradient of exactly 1;")


def test_every_number(lesson):
    the_counts(lesson)
    shapes(lesson)
    the_example(lesson)
    for category, value in graded("12").items():
        lesson.says(f"| {category.replace('_', ' ')} | {value:g} |", value)
    lesson.says("default eps of 1e-5", LayerNorm(2).eps)
    assert ModelConfig().num_layers == 8  # "after eight layers"
    for words in (
        *("layer_idx=0", "dropout=0.0", "dropout = 1", "scale 1/√D", "GPT-2", "axes of length 1", "at 1e-4 in float32"),
        *("(-1, (3, H, D))", "(-1, (H, 3, D))", "chunk(3, dim=-1)", "(-1, (H, -1)).transpose(1, 2)", "figure 1", "section 2.3"),
    ):
        lesson.given(words)
    for fact in ("(2015)", "(2017)", "(2019)", "(2020)", "(2021)"):
        lesson.fact(fact)
    lesson.complete()
