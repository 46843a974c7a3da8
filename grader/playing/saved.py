"""The folder of a trained model: its sizes, its weights and its tokenizer, as `pretrain` writes and `talk` reads them."""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from grader.grading.result import write_atomically

from .own import OwnCode, PlayingError

FOLDER = Path(".ladder") / "model"
CONFIG, WEIGHTS, TOKENIZER = "config.json", "model.pt", "tokenizer.json"
MARK = "attention_ladder"  # in config.json: this is one of ours, and the layout's number
LAYOUT = 1
END_OF_TEXT = "<|endoftext|>"


@dataclasses.dataclass
class Speaker:
    """A model that can talk: what it is made of, and what a prompt has to know."""

    model: Any  # the learner's CausalLM
    tokenizer: Any  # the learner's Tokenizer
    config: Any  # the ModelConfig
    ends: tuple[int, ...] = ()  # ids that end a text
    normal_form: str | None = None  # of Unicode, that its tokenizer expects: "NFC" or none
    notes: tuple[str, ...] = ()  # what a user should know about it


def save(
    folder: Path,
    model: Any,
    config: Any,
    vocab: dict[int, bytes],
    merges: Sequence[tuple[bytes, bytes]],
    losses: Sequence[float],
) -> None:
    """Write all of it; a file that exists is replaced in one step."""
    weights = io.BytesIO()
    torch.save({name: value.detach().cpu() for name, value in model.state_dict().items()}, weights)
    words = {
        "vocab": {str(number): token.hex() for number, token in vocab.items()},
        "merges": [[left.hex(), right.hex()] for left, right in merges],
        "special_tokens": [END_OF_TEXT],
    }
    sizes = {MARK: LAYOUT, "model": dataclasses.asdict(config), "steps": len(losses), "losses": [round(one, 4) for one in losses]}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / WEIGHTS, weights.getvalue())
        write_atomically(folder / TOKENIZER, json.dumps(words).encode())
        write_atomically(folder / CONFIG, json.dumps(sizes, indent=1).encode())
    except OSError as error:
        raise PlayingError(f"{folder}: the model cannot be saved: {error.strerror or error}") from None


def load(code: OwnCode, folder: Path) -> Speaker:
    """What `save` wrote, in the learner's own modules."""
    sizes = read_json(folder / CONFIG)
    words = read_json(folder / TOKENIZER)
    if sizes.get(MARK) != LAYOUT:
        raise PlayingError(f"{folder / CONFIG}: written by another version of this course; `pretrain` writes a new one")
    try:
        config = code.module("config").ModelConfig(**sizes["model"])
        vocab = {int(number): bytes.fromhex(token) for number, token in words["vocab"].items()}
        merges = [(bytes.fromhex(left), bytes.fromhex(right)) for left, right in words["merges"]]
        special = [str(one) for one in words["special_tokens"]]
    except (KeyError, TypeError, ValueError, AttributeError):
        raise PlayingError(f"{folder}: its {CONFIG} or {TOKENIZER} is damaged; `pretrain` writes new ones") from None
    weights = read_weights(folder / WEIGHTS)
    with code.blamed():
        model = code.file(14).CausalLM(config)
        tokenizer = code.file(1).Tokenizer(vocab, merges, special)
    put_in(code, model, weights, folder)
    ends = tuple(number for number, token in vocab.items() if token == END_OF_TEXT.encode())
    return Speaker(model=model, tokenizer=tokenizer, config=config, ends=ends)


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file."""
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise PlayingError(f"{path}: no such file") from None
    except OSError as error:
        raise PlayingError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise PlayingError(f"{path}: not valid JSON: {error}") from None
    if not isinstance(found, dict):
        raise PlayingError(f"{path}: holds no JSON object")
    return found


def read_weights(path: Path) -> dict[str, torch.Tensor]:
    """A state dict that torch saved."""
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise PlayingError(f"{path}: no such file") from None
    except Exception as error:  # a damaged archive raises nearly anything
        raise PlayingError(f"{path}: cannot be read as weights ({type(error).__name__})") from None
    if not isinstance(found, dict) or not all(isinstance(value, torch.Tensor) for value in found.values()):
        raise PlayingError(f"{path}: holds no state dict")
    return found


def put_in(code: OwnCode, model: Any, weights: dict[str, torch.Tensor], folder: Path) -> None:
    """Load weights, after a look at names and shapes: what does not fit is told by name."""
    with code.blamed():
        own = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    tied = "lm_head.weight" not in weights and model_is_tied(model)
    missing = [name for name in own if name not in weights and not (tied and name == "lm_head.weight")]
    extra = [name for name in weights if name not in own]
    other = [name for name in own if name in weights and own[name] != tuple(weights[name].shape)]
    if missing:
        raise PlayingError(f"{folder}: the weights lack {_some(missing)}, which your CausalLM has")
    if extra:
        raise PlayingError(f"{folder}: the weights hold {_some(extra)}, for which your CausalLM has no place")
    if other:
        name = other[0]
        shapes = f"{list(weights[name].shape)} in the file, {list(own[name])} in your CausalLM"
        raise PlayingError(f"{folder}: the shapes of {_some(other)} differ: {shapes}")
    with code.blamed():
        model.load_state_dict(weights)
        model.eval()


def model_is_tied(model: Any) -> bool:
    """Whether its head's weight is its embedding's."""
    names = [name for name, _ in model.named_parameters(remove_duplicate=True)]
    return "lm_head.weight" not in names or "model.embed_tokens.weight" not in names


def _some(names: list[str]) -> str:
    return names[0] + (f" and {len(names) - 1} more" if len(names) > 1 else "")
