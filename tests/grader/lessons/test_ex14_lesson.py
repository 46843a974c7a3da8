"""The numbers of lesson 14."""

import math
import re

import torch

from solutions.config import ModelConfig
from solutions.ex14_model import CausalLM, causal_lm_loss

from .graded import graded

IDS = torch.tensor([[0, 2, 1]])
LOGITS = torch.tensor([[[0.0, 0.0, math.log(2)], [math.log(2), 0.0, 0.0], [7.0, 7.0, 7.0]]])


def shapes(lesson):
    config = ModelConfig()
    C, V = config.hidden_size, config.vocab_size
    lesson.given("MiniMind, B = 1, T = 100")
    ids = torch.randint(V, (1, 100), generator=torch.Generator().manual_seed(0))
    model = CausalLM(ModelConfig(num_layers=1))  # the shapes do not depend on the number of layers
    with torch.no_grad():
        hidden, logits = model.model.embed_tokens(ids), model(ids)
    lesson.says("| [B, T] | [1, 100] |", ids.shape)
    lesson.says("| [B, T, C] | [1, 100, 768] |", hidden.shape)
    lesson.says("a token's 768 numbers", C)
    lesson.says("| [B, T, V] | [1, 100, 6400] |", logits.shape)
    lesson.given("[B, T - 1, V], [B, T - 1]")
    lesson.says("[1, 99, 6400], [1, 99]", [logits[:, :-1].shape, ids[:, 1:].shape])


def parameters(lesson):
    config = ModelConfig()
    model = CausalLM(config)
    named = {name: parameter.numel() for name, parameter in model.named_parameters()}
    total = sum(named.values())
    attention = sum(n for name, n in named.items() if ".self_attn." in name)
    feed_forward = sum(n for name, n in named.items() if ".mlp." in name)
    norms = sum(n for name, n in named.items() if name.endswith("layernorm.weight") or name == "model.norm.weight")
    embedding, L = named["model.embed_tokens.weight"], config.num_layers
    assert embedding + attention + feed_forward + norms == total
    lesson.says("| 4 915 200 | 7.7 % |", [embedding, 100 * embedding / total])
    lesson.says("8 x 1 769 664 | 14 157 312 | 22.2 % |", [L, attention // L, attention, 100 * attention / total])
    lesson.says("8 x 5 603 328 | 44 826 624 | 70.1 % |", [L, feed_forward // L, feed_forward, 100 * feed_forward / total])
    lesson.says("2 per block and the last | 13 056 | 0.0 % |", [2, norms, 100 * norms / total])
    lesson.given("| `lm_head`, tied | 0 | 0.0 % |")
    lesson.says("| all | 63 912 192 | 100.0 % |", [total, 100])
    untied = sum(p.numel() for p in CausalLM(ModelConfig(tie_word_embeddings=False)).parameters())
    lesson.says("another 4 915 200", untied - total)
    lesson.says("takes 122 MiB", total * torch.bfloat16.itemsize / 2**20)


def start(lesson):
    lesson.says("8.76 for V = 6400", [math.log(6400), 6400])
    lesson.given("near 9")
    for seed in range(2):
        torch.manual_seed(seed)
        model, ids = CausalLM(ModelConfig(num_layers=2)), torch.randint(6400, (1, 100))
        with torch.no_grad():
            assert 8.7 < causal_lm_loss(model(ids), ids) < 9.3


def by_hand(lesson):
    lesson.given("Three tokens, V = 3, ids [0, 2, 1]")
    lesson.says("(ln 2 = 0.693)", [2, math.log(2)])
    lesson.given("at position 0 are scored against token 2, those at position 1 against token 1, and those at position 2 against")
    shares = LOGITS.softmax(-1)[0]
    lesson.says(
        "0          [0, 0, ln 2]    [1/4, 1/4, 1/2]     2            ln 2 = 0.693",
        [0, 0, 0, 2, 1, 4, 1, 4, 1, 2, 2, 2, -shares[0, 2].log()],
    )
    lesson.says(
        "1          [ln 2, 0, 0]    [1/2, 1/4, 1/4]     1            ln 4 = 1.386",
        [1, 2, 0, 0, 1, 2, 1, 4, 1, 4, 1, 4, -shares[1, 1].log()],
    )
    assert torch.allclose(shares[:2], torch.tensor([[0.25, 0.25, 0.5], [0.5, 0.25, 0.25]]))
    lesson.given("2          [7, 7, 7]")
    lesson.says("mean         1.040", causal_lm_loss(LOGITS, IDS))
    lesson.given("With labels [0, 2, -100]")
    lesson.says("the loss is 0.693: divided by 1, not by 2", [causal_lm_loss(LOGITS, torch.tensor([[0, 2, -100]])), 1, 2])
    lesson.given("With [0, -100, -100] nothing")
    lesson.says("the loss is 0, and", causal_lm_loss(LOGITS, torch.tensor([[0, -100, -100]])))


def test_every_number(lesson):
    shapes(lesson)
    parameters(lesson)
    start(lesson)
    by_hand(lesson)
    for category, value in graded("14").items():
        lesson.says(f"| {category.replace('_', ' ')} | {value:g} |", value)
    lesson.given("Values are compared at 1e-4 for the model and 1e-5 for the loss")
    for words in (
        "model.layers.0 (12)", "model.layers.1 ", "model.layers.7 ", "`model.layers.0` and so on", "as bool or 0/1",
        "for T = 1: 0, with", "Logits of 1000 stay", "`[block] * 8`", "Layer 0 changes it", "a share that was rounded to 0 is",
        "`gather` with -100", "is 0/0", "O(1) weights", "`model.layers.1.self_attn`", "start = 0 if cache", "with a 0 wherever",
        "`logits.logsumexp(-1)`", "clamp(min=1)", "GPT-2", "same share, 1/V,",
    ):  # fmt: skip
        lesson.given(words)
    for fact in ("(2019)", "(2025)", "(2017)"):
        lesson.fact(fact)
    lesson.complete()


def test_the_printout_runs(lesson, capsys):
    (code,) = re.findall(r"```python\n(.*?)```", lesson.text, re.DOTALL)
    exec(compile(code.replace("exercises.", "solutions."), "lesson", "exec"), {})
    count, rest = capsys.readouterr().out.splitlines()
    assert int(count) == sum(p.numel() for p in CausalLM(ModelConfig()).parameters())
    assert rest.startswith("torch.Size([1, 100, 6400]) tensor(8.") or rest.startswith("torch.Size([1, 100, 6400]) tensor(9.")
