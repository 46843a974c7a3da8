"""The whole ladder: solved it scores everything, untouched nothing, and each rung has all of its parts."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from grader.course import Course, load_course
from grader.lessons import read_hints

ROOT = Path(__file__).resolve().parents[2]
COURSE = load_course(ROOT)
EXERCISES = pytest.mark.parametrize("exercise", COURSE.exercises, ids=lambda exercise: exercise.label)
HEADINGS = (*("Where it sits", "Shapes", "By hand", "The contract", "Traps", "How it is graded", "Further reading", "Hints"),)


def check(folder: str, results: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "grader", "check", "--from", folder, "--json", str(results)]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, "NO_COLOR": "1"}, capture_output=True, text=True)


def test_there_are_sixteen_rungs():
    assert [exercise.number for exercise in COURSE.exercises] == list(range(1, 17))


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_solved_ladder_scores_everything(tmp_path):
    done = check("solutions", tmp_path / "results.json")
    results = json.loads((tmp_path / "results.json").read_text())
    lost = [test for result in results for test in result["tests"] if test["outcome"] not in ("passed", "not_assessed")]
    assert not lost and done.returncode == 0
    assert [result["points"] for result in results] == [exercise.points for exercise in COURSE.exercises]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_untouched_ladder_scores_nothing(tmp_path):
    done = check("exercises", tmp_path / "results.json")
    results = json.loads((tmp_path / "results.json").read_text())
    assert done.returncode == 1 and len(results) == 16
    assert {(result["points"], result["status"], result["reason"]) for result in results} == {(0.0, "graded", "not started")}


@EXERCISES
def test_the_lesson_has_its_sections_and_hints(exercise, course: Course):
    text = course.lesson_path(exercise).read_text()
    assert text.startswith(f"# {exercise.label} · ")
    found = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert [heading for heading in found if heading in HEADINGS] == list(HEADINGS)
    assert all(hint.strip() for hint in read_hints(course, exercise))


@EXERCISES
def test_nothing_lies_around(exercise, course: Course):
    for folder in (course.wheats_dir(exercise), course.chaffs_dir(exercise)):
        assert {path.suffix for path in folder.iterdir() if path.name != "__pycache__"} == {".py"}
    assert course.look_path(exercise).is_file()
    assert list((ROOT / "tests/grader/referees").glob(f"test_{exercise.file[:4]}*.py"))


def test_what_is_laid_out_belongs_to_a_rung():
    files = {exercise.file for exercise in COURSE.exercises}
    for folder in ("solutions", "exercises", "tests/looks", "tests/public", "tests/hidden"):
        for path in (ROOT / folder).glob("*ex[0-9][0-9]_*"):
            assert path.stem.removeprefix("test_") in files, path
    for folder in ("solutions/wheats", "solutions/chaffs"):
        assert {path.name for path in (ROOT / folder).iterdir() if path.is_dir() and path.name != "__pycache__"} == files


def test_the_readme_shows_every_rung():
    text = (ROOT / "README.md").read_text()
    for exercise in COURSE.exercises:
        assert re.search(rf"^\| {exercise.label} \| \[.+\]\(exercises/{exercise.file}\.md\) \|", text, re.MULTILINE), (
            exercise.file
        )
