"""Lets a model speak, token by token, with the learner's own `stream`."""

from __future__ import annotations

import dataclasses
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import torch

from grader.text import clean

from . import saved
from .own import OwnCode, PlayingError
from .qwen3 import load_qwen3
from .saved import Speaker

NEEDED = (1, 14, 15)
HALF_A_CHARACTER = "\ufffd"  # at the end of a text: its other bytes may still come
LONGEST_CHARACTER = 4  # bytes


@dataclasses.dataclass(frozen=True)
class Options:
    """How to draw the next token, as `stream` takes it."""

    temperature: float = 0.8
    top_k: int | None = None
    top_p: float | None = None
    max_new_tokens: int = 200
    seed: int | None = None


def load_speaker(code: OwnCode, folder: Path, *, own: bool) -> Speaker:
    """The model in a folder: one that `pretrain` saved, or a Qwen3 as Hugging Face lays it out. `own`: nobody named the folder."""
    if own and not (folder / saved.CONFIG).is_file():
        raise PlayingError("there is no trained model yet: `python -m grader pretrain` makes one (or give a folder with --model)")
    if not folder.is_dir():
        raise PlayingError(f"{folder}: {'is a file, not a folder' if folder.exists() else 'no such folder'}")
    config = saved.read_json(folder / saved.CONFIG)
    return saved.load(code, folder) if saved.MARK in config else load_qwen3(code, folder, config)


def speak(code: OwnCode, speaker: Speaker, prompt: str, options: Options) -> Iterator[str]:
    """The continuation of a prompt, in pieces as they come. Pieces are fit to be shown in a terminal."""
    if speaker.normal_form:
        prompt = unicodedata.normalize(speaker.normal_form, prompt)
    with code.blamed():
        ids = speaker.tokenizer.encode(prompt)
        prompt_ids = torch.tensor([ids], dtype=torch.int64)
    if not ids:
        raise PlayingError("the prompt is empty: give it a word to begin with")
    most = speaker.config.max_position_embeddings
    if len(ids) >= most:
        raise PlayingError(f"the prompt has {len(ids)} tokens, and this model takes {most} in all, its answer included")
    beyond = max(ids)
    if beyond >= speaker.config.vocab_size:
        raise PlayingError(f"the tokenizer gives the id {beyond}, and the model knows {speaker.config.vocab_size} ids")
    generator = torch.Generator()
    generator.manual_seed(options.seed) if options.seed is not None else generator.seed()
    with code.blamed():
        tokens = code.file(15).stream(
            speaker.model,
            prompt_ids,
            min(options.max_new_tokens, most - len(ids)),
            temperature=options.temperature,
            top_k=options.top_k,
            top_p=options.top_p,
            generator=generator,
        )
        iter(tokens)
    new: list[int] = []
    shown = ""
    try:
        while True:
            with code.blamed():
                token = next(tokens, None)
            if token is None:
                break
            number = _number(token)
            if number in speaker.ends:
                break
            new.append(number)
            with code.blamed():
                text = speaker.tokenizer.decode(new)
            whole = _without_a_started_character(text)
            if whole.startswith(shown):
                yield clean(whole[len(shown) :])
                shown = whole
        with code.blamed():
            text = speaker.tokenizer.decode(new) if new else ""
        yield clean(text[len(shown) :])
    finally:
        close = getattr(tokens, "close", None)
        if close is not None:
            close()


def _number(token: object) -> int:
    if isinstance(token, torch.Tensor) and tuple(token.shape) == (1,) and not token.is_floating_point():
        return int(token)
    raise PlayingError("your `stream` does not give one tensor [B] of ids per step; `python -m grader check 15` may say more")


def _without_a_started_character(text: str) -> str:
    """The text without U+FFFD at its end, as long as these may be the first bytes of a character."""
    kept = text.rstrip(HALF_A_CHARACTER)
    return kept if len(text) - len(kept) < LONGEST_CHARACTER else text
