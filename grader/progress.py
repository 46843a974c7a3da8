"""Remembers, for one learner, the points of the last check of each exercise. A convenience: losing it loses nothing.

Runs no code. The file lies in the course's folder (`.ladder/progress.json`) and is never used for grading.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from grader.course import Course, Exercise
from grader.grading.result import Result, write_atomically

STATE = Path(".ladder") / "progress.json"


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """The last check of one exercise."""

    points: float
    max_points: float
    passed: int  # tests, the public examples included
    tests: int  # without those that could not be assessed
    content: str  # hash of the file that was checked
    when: str  # UTC, ISO 8601

    @property
    def is_complete(self) -> bool:
        """Whether all tests passed, for all points."""
        return self.passed == self.tests and abs(self.points - self.max_points) < 1e-6


def read_progress(course: Course) -> dict[str, Checked]:
    """By exercise file; a memory that cannot be read is an empty one."""
    try:
        return msgspec.json.decode((course.root / STATE).read_bytes(), type=dict[str, Checked])
    except (OSError, msgspec.MsgspecError, ValueError, RecursionError):
        return {}


def remember(course: Course, results: list[Result]) -> None:
    """Note the results of a check of the learner's own files; failing to write is no failure."""
    progress = read_progress(course)
    for result in results:
        exercise = course.exercise(result.exercise)
        if result.status != "graded" or result.points is None:
            continue
        progress[exercise.file] = Checked(
            points=result.points,
            max_points=result.max_points,
            passed=sum(test.outcome == "passed" for test in result.tests),
            tests=sum(test.outcome != "not_assessed" for test in result.tests),
            content=content_hash(course, exercise),
            when=result.started,
        )
    path = course.root / STATE
    try:
        path.parent.mkdir(exist_ok=True)
        write_atomically(path, msgspec.json.format(msgspec.json.encode(progress), indent=1))
    except OSError:
        pass


def unfinished_below(course: Course, exercise: Exercise) -> list[Exercise]:
    """The earlier exercises that this one uses and whose last check found something."""
    checked = read_progress(course)
    return [one for one in course.prerequisites_of(exercise) if one.file in checked and not checked[one.file].is_complete]


def content_hash(course: Course, exercise: Exercise) -> str:
    """Hash of the learner's file as it is now; empty when there is none."""
    try:
        return hashlib.sha256(course.exercise_path(exercise).read_bytes()).hexdigest()
    except OSError:
        return ""
