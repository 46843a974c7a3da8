"""The check of the lessons' numbers must itself be able to fail."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from solutions.config import ModelConfig

from .conftest import ROOT, Lesson, _agrees


@pytest.fixture
def small(tmp_path: Path) -> Lesson:
    path = tmp_path / "lesson.md"
    path.write_text(
        "# 07 · A title with 3\n\nSince exercise 06 (see ex05, 04): 80 000 shares, [2, 3] and 0.4169.\n1. an item\n"
        "```python\nx = 5\n```\nIn float32, [1, 8], K = 4.\n"
    )
    return Lesson(path)


def test_what_is_computed_is_accounted_for(small):
    small.says("80 000 shares", 80000)
    small.says("[2, 3]", torch.tensor([2.0, 3.0]))
    small.says("0.4169", 0.41688)
    with pytest.raises(AssertionError, match=r"line 8: 1 in .*\n.*: 8 in .*\n.*: 4 in") as caught:
        small.complete()
    assert str(caught.value).count("\n") == 3  # the other numbers are none of the lesson's
    small.given("[1, 8]")
    small.says("K = 4", ModelConfig().num_kv_heads)
    small.complete()


@pytest.mark.parametrize(
    ("text", "value"), [("[2, 3]", [2, 4]), ("[2, 3]", [2]), ("0.4169", 0.4168), ("80 000", 80001), ("0.5", 0.5)]
)
def test_a_wrong_or_missing_number_is_noticed(small, text, value):
    with pytest.raises(AssertionError):
        small.says(text, value)


@pytest.mark.parametrize(
    ("text", "value", "agrees"),
    [
        ("0.08", 0.0812, True),
        ("0.08", 0.0861, False),
        ("-3", -3, True),
        ("−3", -3, True),
        ("3", 3.4, True),
        ("1e-6", 1e-6, True),
        ("1e-6", 2e-6, False),
        (".25", 0.25, True),
        ("12 288", 12288, True),
        ("1", float("nan"), False),
    ],
)
def test_rounding(text, value, agrees):
    assert _agrees(text, value) == agrees


def test_every_lesson_has_its_check():
    lessons = {path.stem[:4] for path in (ROOT / "exercises").glob("ex*.md")}
    checked = {path.stem[5:9] for path in Path(__file__).parent.glob("test_ex*_lesson.py")}
    assert lessons == checked
