"""The `lesson` fixture: every number that a lesson states is computed by the test beside it, or is named as given."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest
import torch

ROOT = Path(__file__).resolve().parents[3]
NUMBER = re.compile(r"(?<![\w.])[-−]?(?:\d{1,3}(?:[  ]\d{3})+(?!\d)|\d+)(?:\.\d+)?(?:e[-+]?\d+)?(?![\w])|(?<![\w.])[-−]?\.\d+")
# What looks like a number and states none: exercises, dtypes and file names, code's indices, list items, headings.
SILENT = re.compile(
    r"```python.*?```"  # code that a learner runs: it computes its own numbers
    r"|^\d+\. "  # items of a list
    r"|\bex(?:ercise)?s? ?\d\d\b|\bEX=?\d\d\b|\(\d\d(?:, \d\d)*\)"
    r"|\b(?:exercises?|rungs?) \d\d?(?:(?:, | and | to )\d\d?)*\b"
    r"|(?<![\w.])0\d(?![\w.])"  # 03: an exercise; no number is written so
    r"|^#+ [^\n]*$",
    re.MULTILINE | re.DOTALL | re.IGNORECASE,
)


class Lesson:
    """One lesson's text, and which of its numbers are accounted for."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.text = path.read_text(encoding="utf-8")
        self.accounted = [False] * len(self.text)
        for match in SILENT.finditer(self.text):
            self._account(match.start(), match.end())

    def says(self, text: str, value: Any) -> None:
        """`text` stands in the lesson, and its numbers, in order, are those of `value`, rounded as `text` rounds them."""
        self.given(text)
        wanted = list(_flat(value))
        found = NUMBER.findall(text)
        assert len(found) == len(wanted), f"{text!r} holds {len(found)} numbers {found}; computed were {len(wanted)}: {wanted}"
        for one, right in zip(found, wanted, strict=True):
            assert _agrees(one, right), f"{self.path.name} says {one} in {text!r}; computed is {right!r}"

    def given(self, text: str) -> None:
        """`text` stands in the lesson; its numbers are assumptions: sizes, or the inputs of an example."""
        words = r"\s+".join(map(re.escape, text.split()))  # a line of the lesson may end between any two
        found = list(re.finditer(words, self.text))
        assert found, f"{self.path.name} does not say {text!r}"
        for match in found:
            self._account(match.start(), match.end())

    fact = given  # a year, or a figure of a paper: nothing here can compute it

    def complete(self) -> None:
        """Every number of the lesson is accounted for."""
        rest = []
        for match in NUMBER.finditer(self.text):
            if not all(self.accounted[match.start() : match.end()]):
                line = self.text.count("\n", 0, match.start()) + 1
                rest.append(f"line {line}: {match[0]} in {self._line(match.start())!r}")
        if rest:
            raise AssertionError(f"{self.path.name} states numbers that nothing here computes:\n" + "\n".join(rest))

    def _account(self, start: int, end: int) -> None:
        self.accounted[start:end] = [True] * (end - start)

    def _line(self, place: int) -> str:
        start, end = self.text.rfind("\n", 0, place) + 1, self.text.find("\n", place)
        return self.text[max(start, place - 40) : min(end if end >= 0 else len(self.text), place + 40)]


def _flat(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        yield from value.flatten().tolist()
    elif isinstance(value, list | tuple | torch.Size):
        for one in value:
            yield from _flat(one)
    else:
        yield value


def _agrees(text: str, value: float) -> bool:
    """Whether a printed number is the value, rounded to the places that are printed."""
    plain = re.sub(r"[  ]", "", text.replace("−", "-"))
    mantissa, _, exponent = plain.partition("e")
    places = len(mantissa.partition(".")[2])
    unit = 10.0 ** (int(exponent or 0) - places)
    if not math.isfinite(float(value)):
        return False
    exact = "." not in plain and "e" not in plain and float(value) == int(value)
    return float(plain) == value if exact else abs(float(plain) - float(value)) <= 0.5000001 * unit


@pytest.fixture
def lesson(request: pytest.FixtureRequest) -> Lesson:
    """The lesson of the exercise whose number is in the test file's name."""
    number = re.fullmatch(r"test_ex(\d\d)_lesson", request.path.stem)
    assert number, f"{request.path.name}: its name must be test_exNN_lesson.py"
    (path,) = (ROOT / "exercises").glob(f"ex{number[1]}_*.md")
    return Lesson(path)
