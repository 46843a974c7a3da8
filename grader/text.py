"""Owns how foreign text is made fit to be shown: names and messages are learners' words, never trusted."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from rich.cells import cell_len

ESCAPE_SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor movement
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)"  # OSC and its kin: titles, links
    r"|\x1b[ -/]*[0-~]"
)
JOINERS = "\u200c\u200d"  # invisible, but emoji and several scripts are wrong without them
BREAKS = {"\r": "\n", "\u2028": "\n", "\u2029": "\n"}


def clean(text: str) -> str:
    """`text` without escape sequences, control characters and invisible or direction-changing ones; keeps lines."""
    if text.isprintable():
        return text
    text = ESCAPE_SEQUENCE.sub("", text.replace("\r\n", "\n"))
    return "".join(_shown(character) for character in text)


def _shown(character: str) -> str:
    if character in "\n\t" or character in JOINERS:
        return character
    if character in BREAKS:
        return BREAKS[character]
    kind = unicodedata.category(character)
    if kind == "Cs":  # half a character: cannot be encoded
        return "\ufffd"
    return "" if kind in ("Cc", "Cf") else character


def one_line(text: str) -> str:
    """Cleaned, with every run of white space as one space: `one_line("a\\n b") == "a b"`."""
    return " ".join(clean(text).split())


def some_of(names: Sequence[str], most: int, separator: str = ", ") -> str:
    """The first names, and how many more there are: `some_of(["a", "b", "c"], 2) == "a, b and 1 more"`."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return separator.join(names[:most]) + more


def shorten(text: str, width: int) -> str:
    """At most `width` terminal cells. The middle goes: names often differ only at their end."""
    if cell_len(text) <= width:
        return text
    tail = _fitting(text[::-1], (width - 1) // 2)[::-1]
    return _fitting(text, width - 1 - cell_len(tail)) + "…" + tail


def _fitting(text: str, width: int) -> str:
    """The longest beginning of `text` that fits in `width` cells."""
    text = text[: max(width, 0)]  # nearly always the answer: few characters take no cell
    while cell_len(text) > width:
        text = text[:-1]
    return text


def in_order(name: str) -> tuple:
    """Sort key that reads numbers as numbers and puts `Anna` beside `anna`: s2 before s10."""
    parts = re.split(r"([0-9]+)", name.casefold())
    return ([_as_number(part) if part[0] in "0123456789" else (1, 0, part) for part in parts if part], name)


def _as_number(digits: str) -> tuple[int, int, str]:
    significant = digits.lstrip("0")
    return (0, len(significant), significant)
