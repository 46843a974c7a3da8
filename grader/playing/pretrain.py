"""Trains a learner's own tokenizer and model on the text that every Python brings along, with the learner's own training loop."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.padding import Padding
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from . import saved
from .curve import curve, plain_curve
from .own import OwnCode, PlayingError
from .talk import Options, speak

NEEDED = (1, 14, 15, 16)
VOCAB_SIZE = 1024
SIZES = {"hidden_size": 128, "num_layers": 4, "num_heads": 4, "num_kv_heads": 2, "head_dim": 32, "intermediate_size": 256}
CONTEXT = 512  # tokens that the model can take
BATCH, BLOCK = 8, 64
MAX_LR, MIN_LR = 5e-3, 5e-4
CHUNK = 10  # steps in one call of `train`: after each, the progress moves
PROMPT = "The "
SAMPLE = Options(temperature=0.8, top_k=50, max_new_tokens=80, seed=0)


def pretrain(console: Console, code: OwnCode, folder: Path, steps: int, seed: int = 0) -> list[float]:
    """Learn a tokenizer, train a model for `steps` steps, show its losses and a sample, save it to `folder`; returns the losses.

    Interrupted by Ctrl-C, it keeps what was learned so far.
    """
    _rehearse(code)
    documents = code.module("text").documents()
    text_length = sum(map(len, documents))
    special = [saved.END_OF_TEXT]
    with _busy(console, f"your tokenizer learns {VOCAB_SIZE} tokens from {text_length:,} characters"):
        with code.blamed():
            vocab, merges = code.file(1).train_bpe(documents, VOCAB_SIZE, special)
            tokenizer = code.file(1).Tokenizer(vocab, merges, special)
    with _busy(console, "your tokenizer encodes the text"):
        with code.blamed():
            ids = [number for document in documents for number in tokenizer.encode(document + saved.END_OF_TEXT)]
            data = torch.tensor(ids)
    console.print(Text(f"  {len(vocab)} tokens; the text is {len(ids):,} of them, {text_length / len(ids):.2f} characters each"))
    torch.manual_seed(seed)
    config = code.module("config").ModelConfig(vocab_size=len(vocab), max_position_embeddings=CONTEXT, **SIZES)
    with code.blamed():
        model = code.file(14).CausalLM(config)
        count = sum(p.numel() for p in model.parameters())
    console.print(Text(f"  your model has {config.num_layers} layers and {count:,} parameters"))
    losses = _train(console, code, model, data, steps, seed)
    if not losses:
        raise PlayingError("stopped before the first step; nothing was saved")
    saved.save(folder, model, config, vocab, merges, losses)
    console.print()
    console.print(Text("  loss, in nats per token", style="bold"))
    drawn = console.is_terminal and console.encoding.lower().startswith("utf")
    picture = curve(losses) if drawn else plain_curve(losses)
    console.print(Text("\n".join(f"  {line}" for line in picture.split("\n"))))
    console.print()
    console.print(Text(f"  what it says after {PROMPT!r}", style="bold"))
    speaker = saved.Speaker(model=model, tokenizer=tokenizer, config=config)
    sample = "".join(speak(code, speaker, PROMPT, SAMPLE))
    console.print(Padding(Text(PROMPT + sample), (0, 2)))
    console.print()
    return losses


def _train(console: Console, code: OwnCode, model: Any, data: torch.Tensor, steps: int, seed: int) -> list[float]:
    """`steps` steps with the learner's `train`, a few at a time."""
    training = code.file(16)
    settings = {
        "batch_size": BATCH,
        "block_size": BLOCK,
        "max_lr": MAX_LR,
        "min_lr": MIN_LR,
        "warmup_steps": min(50, steps // 10),
        "total_steps": steps,
        "max_norm": 1.0,
        "generator": torch.Generator().manual_seed(seed),
    }
    with code.blamed():
        optimizer = training.AdamW(model.parameters(), MAX_LR, betas=(0.9, 0.95), weight_decay=0.1)
    losses: list[float] = []
    with _counter(console, steps) as show:
        try:
            while len(losses) < steps:
                few = min(CHUNK, steps - len(losses))
                with code.blamed():
                    more = training.train(model, data, steps=few, start_step=len(losses), optimizer=optimizer, **settings)
                losses += _checked(more, few)
                show(len(losses), sum(more) / few)
        except KeyboardInterrupt:
            console.print(Text(f"  stopped after {len(losses)} of {steps} steps; what was learned so far is kept"))
    return losses


def _checked(losses: Any, steps: int) -> list[float]:
    """What `train` returned, if it is a number for each step."""
    if not isinstance(losses, list) or len(losses) != steps or not all(isinstance(one, float) for one in losses):
        raise PlayingError(
            f"your `train` did not return {steps} floats for {steps} steps; `python -m grader check 16` may say more"
        )
    if any(one != one for one in losses):
        raise PlayingError("the loss became NaN; `python -m grader check` finds the exercise where that begins")
    return losses


@contextlib.contextmanager
def _busy(console: Console, what: str) -> Iterator[None]:
    """Say what is being done, and how long it took."""
    start = time.perf_counter()
    with console.status(f"{what} ...") if console.is_terminal else contextlib.nullcontext():
        yield
    console.print(Text(f"  {what}: {time.perf_counter() - start:.1f} s"))


@contextlib.contextmanager
def _counter(console: Console, steps: int) -> Iterator[Callable[[int, float], None]]:
    """A bar in a terminal; elsewhere a line now and then."""
    if not console.is_terminal:
        every = max(1, steps // 10)
        said = 0

        def tell(done: int, loss: float) -> None:
            nonlocal said
            if done // every > said or done == steps:
                said = done // every
                console.print(Text(f"  step {done} of {steps}  loss {loss:.3f}"))

        yield tell
        return
    columns = (
        TextColumn("  training"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[loss]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("training", total=steps, loss="")
        yield lambda done, loss: progress.update(task, completed=done, loss=f"loss {loss:.3f}")


def _rehearse(code: OwnCode) -> None:
    """Everything once in small, so that a mistake shows in the first second and not after minutes."""
    text = "The model reads its own words: größer, 日本, 🙂."
    with code.blamed():
        vocab, merges = code.file(1).train_bpe([text], 260, [saved.END_OF_TEXT])
        tokenizer = code.file(1).Tokenizer(vocab, merges, [saved.END_OF_TEXT])
        ids = tokenizer.encode(text + saved.END_OF_TEXT)
        back = tokenizer.decode(ids)
    if not isinstance(ids, list) or back != text + saved.END_OF_TEXT:
        raise PlayingError("your tokenizer does not give back the text that it encoded; `python -m grader check 01` may say more")
    config = code.module("config").ModelConfig(
        vocab_size=len(vocab), hidden_size=8, num_layers=1, num_heads=2, num_kv_heads=1, head_dim=4, intermediate_size=8,
        max_position_embeddings=64,
    )  # fmt: skip
    with code.blamed():
        model = code.file(14).CausalLM(config)
        losses = code.file(16).train(
            model, torch.tensor(ids), steps=1, batch_size=1, block_size=8, max_lr=1e-3, min_lr=1e-4, warmup_steps=0
        )
    _checked(losses, 1)
    speaker = saved.Speaker(model=model, tokenizer=tokenizer, config=config)
    "".join(speak(code, speaker, "The", Options(max_new_tokens=2, seed=0)))
