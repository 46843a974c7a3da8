"""Reads a Qwen3 checkpoint as Hugging Face lays it out (config.json, *.safetensors, tokenizer.json) into a learner's own modules.

What the learner's model or tokenizer has no place for is refused with a sentence, never dropped in silence.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import torch

from .own import OwnCode, PlayingError
from .saved import Speaker, put_in, read_json

INDEX, SINGLE = "model.safetensors.index.json", "model.safetensors"
SIZES = {  # ModelConfig's name -> config.json's
    "hidden_size": "hidden_size",
    "num_layers": "num_hidden_layers",
    "num_heads": "num_attention_heads",
    "num_kv_heads": "num_key_value_heads",
    "head_dim": "head_dim",
    "intermediate_size": "intermediate_size",
    "vocab_size": "vocab_size",
    "max_position_embeddings": "max_position_embeddings",
}


def load_qwen3(code: OwnCode, folder: Path, config: dict[str, Any]) -> Speaker:
    """The model and the tokenizer of a folder."""
    path = folder / "config.json"
    kind = config.get("model_type")
    if kind != "qwen3":
        named = f"a {kind!r} model" if isinstance(kind, str) else "no model that says its type"
        raise PlayingError(f"{path}: describes {named}; your CausalLM is a Qwen3, and only such weights fit into it")
    sizes = code.module("config").ModelConfig(**_sizes(path, config))
    tokenizer, normal_form, notes = read_tokenizer(code, folder / "tokenizer.json")
    weights = read_safetensors(folder)
    with code.blamed():
        model = code.file(14).CausalLM(sizes)
    put_in(code, model, weights, folder)
    return Speaker(
        model=model, tokenizer=tokenizer, config=sizes, ends=_ends(folder, config), normal_form=normal_form, notes=tuple(notes)
    )


def _sizes(path: Path, config: dict[str, Any]) -> dict[str, Any]:
    """`ModelConfig`'s arguments, once it is sure that these are all that there is to say."""
    sizes: dict[str, Any] = {}
    for ours, theirs in SIZES.items():
        value = config.get(theirs)
        if type(value) is not int or value < 1:
            raise PlayingError(f"{path}: {theirs} must be a whole number above 0, found {value!r}")
        sizes[ours] = value
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    kind = rope.get("rope_type", rope.get("type", "default")) if isinstance(rope, dict) else rope
    theta = config.get("rope_theta") or (rope.get("rope_theta") if isinstance(rope, dict) else None) or 10000.0
    layers = config.get("layer_types") or []
    refused = {
        "rope_scaling": kind != "default" and f"RoPE is scaled ({kind}); yours is plain",
        "hidden_act": config.get("hidden_act", "silu") != "silu"
        and f"the FFN uses {config.get('hidden_act')!r}; yours uses silu",
        "attention_bias": config.get("attention_bias") and "the projections have biases; yours have none",
        "layer_types": any(one != "full_attention" for one in layers) and "some layers see a window only; yours see everything",
        "quantization_config": config.get("quantization_config") and "the weights are quantized; yours are plain numbers",
    }
    for name, reason in refused.items():
        if reason:
            raise PlayingError(f"{path}: {name}: {reason}")
    try:
        sizes |= {"rope_theta": float(theta), "rms_norm_eps": float(config.get("rms_norm_eps", 1e-6))}
    except (TypeError, ValueError):
        raise PlayingError(f"{path}: rope_theta and rms_norm_eps must be numbers") from None
    return sizes | {"tie_word_embeddings": bool(config.get("tie_word_embeddings", False))}


def _ends(folder: Path, config: dict[str, Any]) -> tuple[int, ...]:
    """The ids that end a text."""
    found = config.get("eos_token_id")
    if (folder / "generation_config.json").is_file():
        found = read_json(folder / "generation_config.json").get("eos_token_id", found)
    return tuple(one for one in (found if isinstance(found, list) else [found]) if type(one) is int)


def read_safetensors(folder: Path) -> dict[str, torch.Tensor]:
    """All weights of a folder, from one file or, by its index, from several."""
    try:
        from safetensors import SafetensorError
        from safetensors.torch import load_file
    except ImportError:
        raise PlayingError(
            "reading *.safetensors needs the package safetensors: `make setup-talk`, or pip install 'safetensors>=0.4'"
        ) from None
    if (folder / INDEX).is_file():
        places = read_json(folder / INDEX).get("weight_map")
        if not isinstance(places, dict) or not all(_is_plain_name(name) for name in places.values()):
            raise PlayingError(f"{folder / INDEX}: its weight_map does not name files of this folder")
        names = sorted(set(places.values()))
    else:
        names = [SINGLE]
    weights: dict[str, torch.Tensor] = {}
    for name in names:
        if not (folder / name).is_file():
            raise PlayingError(f"{folder / name}: no such file")
        try:
            weights |= load_file(folder / name)
        except (SafetensorError, OSError, ValueError, KeyError) as error:
            raise PlayingError(f"{folder / name}: cannot be read as safetensors: {error}") from None
    return weights


def _is_plain_name(name: Any) -> bool:
    return isinstance(name, str) and name.endswith(".safetensors") and Path(name).name == name


# --- the tokenizer ---


def byte_alphabet() -> dict[str, int]:
    """GPT-2's way to write bytes as visible characters, undone: "Ġ" -> 32, the blank."""
    plain = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {chr(256 + index): byte for index, byte in enumerate(others)}


def read_tokenizer(code: OwnCode, path: Path) -> tuple[Any, str | None, list[str]]:
    """The learner's `Tokenizer` with the ids of a tokenizer.json, the Unicode form it wants, and what a user should know."""
    found = read_json(path)
    model = found.get("model")
    kind = model.get("type") if isinstance(model, dict) else None
    splitters = _parts(found.get("pre_tokenizer"), "pretokenizers")
    byte_level = next((one for one in splitters if one.get("type") == "ByteLevel"), None)
    if kind != "BPE" or byte_level is None or model.get("byte_fallback"):
        what = f"a {kind} tokenizer" if isinstance(kind, str) and kind != "BPE" else "BPE on characters"
        raise PlayingError(f"{path}: holds {what}; only byte-level BPE, as in GPT-2 and Qwen, fits into your Tokenizer")
    if byte_level.get("add_prefix_space") or model.get("ignore_merges"):
        raise PlayingError(f"{path}: add_prefix_space and ignore_merges are nothing that your Tokenizer can do")
    alphabet = byte_alphabet()
    try:
        vocab = {number: bytes(alphabet[character] for character in token) for token, number in model["vocab"].items()}
        pairs = [tuple(pair.split(" ")) if isinstance(pair, str) else tuple(pair) for pair in model["merges"]]
        merges = [
            (bytes(alphabet[character] for character in left), bytes(alphabet[character] for character in right))
            for left, right in pairs
        ]
        added = {one["content"]: one["id"] for one in found.get("added_tokens") or []}
    except (KeyError, TypeError, ValueError, AttributeError):
        raise PlayingError(f"{path}: its vocabulary or merges are not written in GPT-2's byte alphabet") from None
    notes: list[str] = []
    special = [content for content in added if len(content) > 1]
    if len(special) < len(added):
        notes.append("added tokens of a single character are left out: your Tokenizer takes special tokens of two or more")
    vocab |= {added[content]: content.encode() for content in special}
    notes += _take_pattern(code, splitters, byte_level)
    if any(one.get("type") not in ("ByteLevel",) for one in _parts(found.get("post_processor"), "processors")):
        notes.append("what tokenizer.json adds around a text (a first or last token) is not added here")
    normal_form = None
    for one in _parts(found.get("normalizer"), "normalizers"):
        if one.get("type") not in ("NFC", "NFD", "NFKC", "NFKD") or normal_form:
            raise PlayingError(f"{path}: its normalizer {one.get('type')} is nothing that is done here")
        normal_form = one["type"]
    with code.blamed():
        tokenizer = code.file(1).Tokenizer(vocab, merges, special)
    return tokenizer, normal_form, notes


def _parts(found: Any, inner: str) -> list[dict[str, Any]]:
    """The members of a component that may be a sequence."""
    if not isinstance(found, dict):
        return []
    parts = found.get(inner) if found.get("type") == "Sequence" else [found]
    return [one for one in parts or [] if isinstance(one, dict)]


def _take_pattern(code: OwnCode, splitters: list[dict[str, Any]], byte_level: dict[str, Any]) -> list[str]:
    """Let the learner's tokenizer cut words with the pattern of tokenizer.json; what cannot be done is told."""
    others = [one for one in splitters if one is not byte_level]
    uses_gpt2 = byte_level.get("use_regex", True)
    if not others and uses_gpt2:
        return []  # GPT-2's pattern, which the exercise has
    pattern = others[0].get("pattern") if len(others) == 1 and others[0].get("type") == "Split" else None
    regular = pattern.get("Regex") if isinstance(pattern, dict) else None
    plain = isinstance(regular, str) and others[0].get("behavior") == "Isolated" and not others[0].get("invert") and not uses_gpt2
    module = code.file(1)
    if plain and hasattr(module, "PRETOKEN_PATTERN"):
        import regex

        with contextlib.suppress(regex.error):
            module.PRETOKEN_PATTERN = regex.compile(regular)
            return ["words are cut by the pattern of tokenizer.json, put in the place of your PRETOKEN_PATTERN"]
    return ["words are cut by your PRETOKEN_PATTERN and not as tokenizer.json says: some tokens may be others"]
