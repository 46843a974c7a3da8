"""`look`: what a learner's own code makes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from grader.course import load_course
from grader.grading.materials import MaterialError
from grader.looking import blocks
from grader.sandbox.client import Sandbox
from grader.submission import own_submission

ROOT = Path(__file__).resolve().parents[2]
COURSE = load_course(ROOT)


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(start="spawn") as one:
        yield one


@pytest.mark.parametrize("exercise", COURSE.exercises, ids=lambda exercise: exercise.label)
def test_the_references_can_be_looked_at(exercise, sandbox):
    shown = list(blocks(COURSE, exercise, own_submission(ROOT / "solutions").file, sandbox))
    assert shown and all(block.good and block.text.strip() for block in shown), [block.text for block in shown if not block.good]
    assert max(len(line) for block in shown for line in block.text.split("\n")) <= 78


@pytest.mark.parametrize("exercise", COURSE.exercises, ids=lambda exercise: exercise.label)
def test_an_untouched_exercise_is_told_so(exercise, sandbox):
    (*_, last) = blocks(COURSE, exercise, own_submission(ROOT / "exercises").file, sandbox)
    assert not last.good
    assert "is not written yet" in last.text or "comes first" in last.text


@pytest.mark.parametrize("body", ["return None", "return 'x'", "return 3", "raise SystemExit(0)", "yield 0", "return {}"])
def test_answers_of_another_kind_end_in_a_sentence(tmp_path, sandbox, body):
    exercise = COURSE.exercise(8)
    names = "\n".join(f"def {name}(*a, **k):\n    {body}\n" for name in exercise.names)
    (tmp_path / f"{exercise.file}.py").write_text(names)
    (*_, last) = blocks(COURSE, exercise, own_submission(tmp_path).file, sandbox)
    assert last.text and not last.good


def test_a_missing_file_or_look_is_said(tmp_path, sandbox):
    with pytest.raises(MaterialError, match="ex08_mask"):
        list(blocks(COURSE, COURSE.exercise(8), own_submission(tmp_path).file, sandbox))
    shutil.copy(ROOT / "course.toml", tmp_path)
    with pytest.raises(MaterialError, match="nothing to look at"):
        list(blocks(load_course(tmp_path), COURSE.exercise(8), own_submission(ROOT / "solutions").file, sandbox))
