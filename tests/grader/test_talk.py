"""pretrain and talk: a learner's own code trains, is saved, speaks, and takes in Qwen3's weights; and every bad input has its sentence."""

from __future__ import annotations

import io
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch
import transformers
from rich.console import Console

from grader.course import load_course
from grader.playing import pretrain as pretraining
from grader.playing import saved
from grader.playing.curve import curve, plain_curve
from grader.playing.own import OwnCode, PlayingError, unsolved
from grader.playing.qwen3 import byte_alphabet, read_tokenizer
from grader.playing.talk import Options, load_speaker, speak
from grader.submission import own_submission

ROOT = Path(__file__).resolve().parents[2]
SENTENCES = [
    "Every token asks all the others a question, and takes home a mixture of their answers.",
    "Größere Köpfe denken nicht besser, nur öfter: 1234 Köpfe, 8 Schlüssel.",
    "每个词都向前面的词提问。 🙂 one face, 👩‍💻 three code points",
    "def attend(q, k, v):\n\treturn (q @ k.T).softmax(-1) @ v  # 3 + 4 == 7, isn't it?\r\n\r\n   end",
]
NUMBERS = itertools.count()  # several packages at once, each with a name of its own
GREEDY = Options(temperature=0.0, max_new_tokens=12)


def own_code(folder: Path, numbers: tuple[int, ...] = (1, 14, 15, 16)) -> OwnCode:
    submission = own_submission(folder)
    return OwnCode(load_course(ROOT), submission.file, submission.path, numbers, package=f"own_{next(NUMBERS)}")


@pytest.fixture(scope="module")
def code():
    """The references in the learner's place."""
    made = own_code(ROOT / "solutions")
    yield made
    made.close()


@pytest.fixture(scope="module")
def trained(code: OwnCode, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, list[float]]:
    """A very small model after a few steps: (its folder, what was printed, the losses)."""
    folder = tmp_path_factory.mktemp("trained") / "deep" / "model"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pretraining, "VOCAB_SIZE", 300)
        patch.setattr(pretraining, "SIZES", {**pretraining.SIZES, "hidden_size": 16, "num_layers": 2, "head_dim": 4})
        patch.setattr(code.module("text"), "documents", lambda: SENTENCES * 3)
        out = io.StringIO()
        losses = pretraining.pretrain(Console(file=out, width=100), code, folder, steps=25)
    return folder, out.getvalue(), losses


def run(*arguments: object, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1"}
    environment.pop("ATTENTION_LADDER_ENVIRONMENT", None)
    command = [sys.executable, "-m", "grader", *map(str, arguments)]
    done = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=170, stdin=subprocess.DEVNULL
    )
    assert "Traceback" not in done.stdout + done.stderr, done.stderr
    return done


# --- training and talking ---


def test_a_small_model_is_trained_and_saved(trained):
    folder, printed, losses = trained
    assert len(losses) == 25 and losses[-1] < losses[0]
    assert sorted(path.name for path in folder.iterdir()) == ["config.json", "model.pt", "tokenizer.json"]
    assert "step 25 of 25" in printed and "loss, in nats per token" in printed and "what it says" in printed
    facts = json.loads((folder / "config.json").read_text())
    assert facts["steps"] == 25 and facts["model"]["hidden_size"] == 16


def test_what_was_saved_speaks_again(code, trained):
    folder, _, _ = trained
    speaker = load_speaker(code, folder, own=True)
    assert speaker.tokenizer.decode(speaker.tokenizer.encode("größer 🙂")) == "größer 🙂"
    pieces = list(speak(code, speaker, "Every ", GREEDY))
    assert len(pieces) > 3  # it comes in pieces
    ids = torch.tensor([speaker.tokenizer.encode("Every ")])
    expected = code.file(15).generate(speaker.model, ids, 12, temperature=0.0)[0, ids.shape[1] :].tolist()
    expected = expected[: next((place for place, one in enumerate(expected) if one in speaker.ends), None)]
    assert "".join(pieces) == speaker.tokenizer.decode(expected)
    one, other = ("".join(speak(code, speaker, "Every ", Options(temperature=1.5, seed=seed))) for seed in (1, 1))
    assert one == other
    assert one != "".join(speak(code, speaker, "Every ", Options(temperature=1.5, seed=2)))


def test_a_character_is_shown_when_all_of_its_bytes_are_there(code):
    class Spelling:
        """Ids are bytes."""

        encode = staticmethod(lambda text: list(text.encode()))
        decode = staticmethod(lambda ids: bytes(ids).decode("utf-8", errors="replace"))

    class Echo(torch.nn.Module):
        """Says the bytes of a text, one after the other."""

        def forward(self, input_ids: torch.Tensor, attention_mask: Any = None, cache: Any = None) -> torch.Tensor:
            self.said = getattr(self, "said", -1) + 1
            return torch.nn.functional.one_hot(torch.tensor([[text[self.said]]]), 256).float()

    text = "é🙂\x1b[31mx".encode() + b"\xff"
    config = code.module("config").ModelConfig(vocab_size=256)
    speaker = saved.Speaker(model=Echo(), tokenizer=Spelling(), config=config)
    pieces = [piece for piece in speak(code, speaker, "a", Options(temperature=0.0, max_new_tokens=len(text))) if piece]
    assert "".join(pieces) == "é🙂[31mx\ufffd"  # no escape sequence reaches the terminal
    assert pieces[:2] == ["é", "🙂"]


@pytest.mark.slow
def test_the_commands(tmp_path):
    """In a copy of the course with little text, so that it is quick."""
    copy = tmp_path / "course"
    ignore = shutil.ignore_patterns(".git", ".venv", ".ladder", "__pycache__", "attacks", "chaffs", "wheats", "*.egg-info")
    shutil.copytree(ROOT, copy, ignore=ignore)
    (copy / "exercises" / "text.py").write_text(f"def documents():\n    return {SENTENCES!r} * 3\n")
    done = run("talk", "Hello", "--from", "solutions", cwd=copy)
    assert done.returncode == 2 and "no trained model yet" in done.stderr and "pretrain" in done.stderr
    done = run("pretrain", "--steps", 3, "--from", "solutions", cwd=copy)
    assert done.returncode == 0, done.stderr
    assert "step 3 of 3" in done.stdout and (copy / ".ladder" / "model" / "model.pt").is_file()
    arguments = ("--from", "solutions", "--max-new-tokens", 5, "--temperature", 0)
    done = run("talk", "Every token", *arguments, cwd=copy)
    assert done.returncode == 0 and done.stdout.startswith("Every token"), done.stderr
    done = run("talk", "--from", "solutions", cwd=copy)  # no prompt, and nobody to ask
    assert done.returncode == 2 and "PROMPT" in done.stderr
    done = run("talk", "x", "--top-p", 2, cwd=copy)
    assert done.returncode == 2 and "top-p" in done.stderr


# --- what is not there, or not right ---


def test_untouched_stubs_are_named():
    with pytest.raises(PlayingError) as caught:
        own_code(ROOT / "exercises")
    assert "01 (train_bpe, Tokenizer)" in str(caught.value) and "16 (get_batch" in str(caught.value)
    assert "08" in str(caught.value)  # those underneath, too
    assert unsolved(b"def f():\n    raise NotImplementedError('EX06: f')\n") == ["f"]
    assert unsolved(b"def f(:\n") == []


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A learner's folder, with right code."""
    made = tmp_path / "learner"
    made.mkdir()
    for path in (ROOT / "solutions").glob("ex*.py"):
        shutil.copy(path, made)
    return made


def spoiled(folder: Path, name: str, old: str, new: str) -> None:
    source = (folder / name).read_text()
    assert old in source
    (folder / name).write_text(source.replace(old, new))


@pytest.mark.parametrize(
    ("name", "old", "new", "words"),
    [
        ("ex16_train.py", "loss.backward()", "loss.backward(1, 2, 3, 4, 5)", r"your ex16_train.py, line \d+, raised Type.*check 16"),
        ("ex16_train.py", "    return losses", "    return None", "your `train` did not return"),
        ("ex16_train.py", "losses.append(loss.item())", "losses.append(float('nan'))", "the loss became NaN"),
        ("ex01_tokenizer.py", 'errors="replace")', 'errors="replace").upper()', "your tokenizer does not give back the text"),
        ("ex01_tokenizer.py", "return dict(enumerate(tokens)), merges", "return merges", "cannot be used|your ex01_tokenizer.py"),
        ("ex15_generate.py", "def stream(", "def stream(*a, **k):\n    return None\ndef _old(", "cannot be used|`stream`"),
        ("ex14_model.py", "from .config", "1 / 0\nfrom .config", r"your ex14_model.py, line \d+, raised ZeroDivisionError"),
        ("ex14_model.py", "from .config", "def (\nfrom .config", r"your ex14_model.py, line \d+, raised SyntaxError"),
        ("ex03_norm.py", "class RMSNorm", "class Gone", "RMSNorm"),
    ],
    ids=["raises", "no losses", "NaN", "tokenizer", "one value", "no stream", "at import", "syntax", "no name"],
)  # fmt: skip
def test_a_mistake_of_the_learners_is_told_with_its_place(folder, name, old, new, words):
    spoiled(folder, name, old, new)
    code = own_code(folder)
    try:
        with pytest.raises(PlayingError) as caught:
            pretraining.pretrain(Console(file=io.StringIO()), code, folder / "model", steps=2)
        assert re.search(words, str(caught.value)), str(caught.value)
        assert not (folder / "model").exists()
    finally:
        code.close()


def test_a_missing_file_is_named(folder):
    (folder / "ex05_qkv.py").unlink()
    with pytest.raises(PlayingError, match="ex05_qkv"):
        own_code(folder)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("config.json", b"{", "not valid JSON"),
        ("config.json", b"[1]", "holds no JSON object"),
        ("config.json", b'{"attention_ladder": 99}', "another version"),
        ("config.json", b'{"attention_ladder": 1, "model": {"hidden": 3}}', "damaged"),
        ("tokenizer.json", b'{"vocab": {"a": 3}}', "damaged"),
        ("tokenizer.json", None, "no such file"),
        ("model.pt", b"no weights", "cannot be read as weights"),
        ("model.pt", None, "no such file"),
    ],
)
def test_a_damaged_model_is_told(code, trained, tmp_path, name, content, words):
    broken = tmp_path / "model"
    shutil.copytree(trained[0], broken)
    if content is None:
        (broken / name).unlink()
    else:
        (broken / name).write_bytes(content)
    with pytest.raises(PlayingError, match=words):
        load_speaker(code, broken, own=False)


def test_weights_that_do_not_fit_are_named(code, trained, tmp_path):
    broken = tmp_path / "model"
    shutil.copytree(trained[0], broken)
    weights = torch.load(broken / "model.pt")
    for change, words in (
        (lambda state: state.pop("model.norm.weight"), "lack model.norm.weight"),
        (lambda state: state.update(more=torch.ones(1)), "hold more"),
        (lambda state: state.update({"model.norm.weight": torch.ones(3)}), r"\[3\] in the file, \[16\] in your CausalLM"),
    ):
        state = dict(weights)
        change(state)
        torch.save(state, broken / "model.pt")
        with pytest.raises(PlayingError, match=words):
            load_speaker(code, broken, own=False)


def test_prompts_that_cannot_be_answered(code, trained):
    speaker = load_speaker(code, trained[0], own=False)
    with pytest.raises(PlayingError, match="empty"):
        list(speak(code, speaker, "", GREEDY))
    with pytest.raises(PlayingError, match=r"the prompt has \d+ tokens"):
        list(speak(code, speaker, "a b " * 1000, GREEDY))
    prompt = "q" * (speaker.config.max_position_embeddings - 3)  # room for three more tokens
    assert len(speaker.tokenizer.encode(prompt)) == len(prompt)
    list(speak(code, speaker, prompt, GREEDY))


def test_folders_that_are_none(code, tmp_path):
    for path, own, words in (
        (tmp_path / "nothing", True, "no trained model yet"),
        (tmp_path / "nothing", False, "no such folder"),
        (Path(__file__), False, "is a file"),
        (tmp_path, False, "config.json: no such file"),
    ):
        with pytest.raises(PlayingError, match=words):
            load_speaker(code, path, own=own)


# --- the curve ---


def test_the_curve_falls_from_left_to_right():
    lines = curve([4.0 - 0.03 * step for step in range(100)], width=20, height=5).split("\n")
    assert len(lines) == 7 and all(len(line) <= 28 for line in lines)
    assert lines[0].startswith("  3.94 │█") and lines[5].startswith("  1.09 ┴") and lines[6].endswith("1 … 100")
    heights = [sum(line[8 + column : 9 + column].strip() != "" for line in lines[:5]) for column in range(20)]
    assert heights == sorted(heights, reverse=True) and heights[0] == 5
    assert curve([1.0, 1.0]).count("\n") == 11  # nothing to divide by
    assert plain_curve([2.0, 1.0]) == "step      1  loss 2.000\nstep      2  loss 1.000"


# --- Qwen3 ---

QWEN_PATTERN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def bpe(pattern: str | None) -> Any:
    """A byte-level tokenizer as Hugging Face trains one: with GPT-2's pattern, or with another."""
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    split = tokenizers.pre_tokenizers
    if pattern is None:
        made.pre_tokenizer = split.ByteLevel(add_prefix_space=False)
    else:
        parts = [
            split.Split(tokenizers.Regex(pattern), "isolated"),
            split.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
        made.pre_tokenizer = split.Sequence(parts)
        made.normalizer = tokenizers.normalizers.NFC()
    made.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=400, initial_alphabet=split.ByteLevel.alphabet(), special_tokens=["<|endoftext|>", "<|im_start|>"]
    )
    made.train_from_iterator(SENTENCES, trainer)
    return made


def make_qwen(folder: Path, *, tied: bool, shard: str = "1GB", pattern: str | None = QWEN_PATTERN) -> Any:
    """A tiny Qwen3 with weights of size 1, in a folder, as `save_pretrained` writes it; and its tokenizer."""
    torch.manual_seed(0)
    config = transformers.Qwen3Config(
        hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, head_dim=10,
        vocab_size=400, max_position_embeddings=128, tie_word_embeddings=tied, rope_theta=5e5, rms_norm_eps=1e-5,
        eos_token_id=0, bos_token_id=None, pad_token_id=None,
    )  # fmt: skip
    model = transformers.Qwen3ForCausalLM(config).eval()
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "norm" in name:
                p.uniform_(0.5, 1.5)
            else:
                p.normal_(std=0.3)
    model.save_pretrained(folder, max_shard_size=shard)
    bpe(pattern).save(str(folder / "tokenizer.json"))
    return model


@pytest.fixture(scope="module")
def qwen(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    folder = tmp_path_factory.mktemp("qwen")
    return folder, make_qwen(folder, tied=True)


@pytest.mark.parametrize(("tied", "shard"), [(True, "1GB"), (False, "1GB"), (False, "20KB")], ids=["tied", "untied", "sharded"])
def test_the_logits_are_qwens(code, tmp_path, tied, shard):
    theirs = make_qwen(tmp_path, tied=tied, shard=shard)
    assert (shard == "20KB") == (len(list(tmp_path.glob("*.safetensors"))) > 1)
    speaker = load_speaker(code, tmp_path, own=False)
    ids = torch.randint(0, 400, (2, 17), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        torch.testing.assert_close(speaker.model(ids), theirs(ids).logits, rtol=1e-4, atol=1e-4)


def test_greedy_continuations_are_qwens(code, qwen):
    folder, theirs = qwen
    speaker = load_speaker(code, folder, own=False)
    assert speaker.ends == (0,)
    reader = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    ids = reader.encode("Every token").ids
    new = theirs.generate(torch.tensor([ids]), max_new_tokens=12, do_sample=False)[0, len(ids) :].tolist()
    new = new[: next((place for place, one in enumerate(new) if one == 0), None)]
    assert "".join(speak(code, speaker, "Every token", GREEDY)) == speaker.tokenizer.decode(new)


TEXTS = [*SENTENCES, "I've 1234 dogs  and\n\n 2 cats", "<|im_start|>user\nhi<|endoftext|>", "cafe\u0301 = café", "", "  "]


@pytest.mark.parametrize("pattern", [None, QWEN_PATTERN], ids=["GPT-2's pattern", "Qwen's pattern"])
def test_the_ids_are_those_of_tokenizer_json(tmp_path, pattern):
    code = own_code(ROOT / "solutions")  # its own: the pattern of the exercise is replaced
    right = bpe(pattern)
    right.save(str(tmp_path / "tokenizer.json"))
    tokenizer, normal_form, notes = read_tokenizer(code, tmp_path / "tokenizer.json")
    assert normal_form == (None if pattern is None else "NFC") and len(notes) == (pattern is not None)
    import unicodedata

    for text in TEXTS:
        prepared = text if normal_form is None else unicodedata.normalize(normal_form, text)
        ids = right.encode(text, add_special_tokens=False).ids
        assert tokenizer.encode(prepared) == ids
        assert tokenizer.decode(ids) == prepared
    code.close()


def test_the_byte_alphabet_is_gpt2s():
    alphabet = byte_alphabet()
    assert sorted(alphabet.values()) == list(range(256))
    assert alphabet["Ġ"] == 32 and alphabet["Ċ"] == 10 and alphabet["a"] == 97
    assert set(alphabet) == set(tokenizers.pre_tokenizers.ByteLevel.alphabet())


def changed(path: Path, **changes: Any) -> None:
    """Other values at the top of a JSON file; None takes one away."""
    found = json.loads(path.read_text())
    for name, value in changes.items():
        found.pop(name, None) if value is None else found.update({name: value})
    path.write_text(json.dumps(found))


@pytest.mark.parametrize(
    ("file", "changes", "words"),
    [
        ("config.json", {"model_type": "llama"}, "describes a 'llama' model"),
        ("config.json", {"model_type": None}, "no model that says its type"),
        ("config.json", {"hidden_size": "32"}, "hidden_size must be a whole number"),
        ("config.json", {"head_dim": None}, "head_dim"),
        ("config.json", {"hidden_act": "gelu"}, "uses 'gelu'"),
        ("config.json", {"attention_bias": True}, "biases"),
        ("config.json", {"rope_parameters": {"rope_type": "yarn", "rope_theta": 1.0}}, "scaled"),
        ("config.json", {"layer_types": ["sliding_attention"] * 3}, "window"),
        ("config.json", {"quantization_config": {"bits": 4}}, "quantized"),
        ("config.json", {"num_hidden_layers": 2}, "hold model.layers.2"),
        ("config.json", {"num_hidden_layers": 4}, "lack model.layers.3"),
        ("config.json", {"hidden_size": 16}, "shapes of"),
        ("tokenizer.json", {"model": {"type": "Unigram", "vocab": []}}, "a Unigram tokenizer"),
        ("tokenizer.json", {"pre_tokenizer": {"type": "Metaspace"}}, "BPE on characters"),
        ("tokenizer.json", {"normalizer": {"type": "Lowercase"}}, "Lowercase"),
        ("tokenizer.json", {"model": {"type": "BPE", "vocab": {"\u4e2d": 0}, "merges": []}}, "byte alphabet"),
        ("tokenizer.json", {"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": True}}, "add_prefix_space"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else None,
)  # fmt: skip
def test_what_does_not_fit_is_refused_with_a_sentence(code, qwen, tmp_path, file, changes, words):
    broken = tmp_path / "qwen"
    shutil.copytree(qwen[0], broken)
    changed(broken / file, **changes)
    with pytest.raises(PlayingError, match=words):
        load_speaker(code, broken, own=False)


def test_broken_weights_are_told(code, qwen, tmp_path):
    broken = tmp_path / "qwen"
    shutil.copytree(qwen[0], broken)
    weights = broken / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(PlayingError, match="cannot be read as safetensors"):
        load_speaker(code, broken, own=False)
    weights.unlink()
    with pytest.raises(PlayingError, match=r"model.safetensors: no such file"):
        load_speaker(code, broken, own=False)
    (broken / "model.safetensors.index.json").write_text('{"weight_map": {"a": "../outside.safetensors"}}')
    with pytest.raises(PlayingError, match="does not name files of this folder"):
        load_speaker(code, broken, own=False)


def test_without_safetensors_it_is_said_what_to_install(code, qwen, monkeypatch):
    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(PlayingError, match="setup-talk"):
        load_speaker(code, qwen[0], own=False)
