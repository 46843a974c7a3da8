"""Owns what a folder of results says: who has which result, which points count, and what is not graded. Prints nothing.

Only graded results count. A missing, failed or absent result has no points: it is named, never taken as 0.
"""

from __future__ import annotations

import os
import unicodedata
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import msgspec

from grader.grading.result import Result, ResultError, TestResult, read_result
from grader.text import in_order

COUNTED = ("passed", "failed", "blocked")  # the outcomes that are in an exercise's max_points
ENOUGH = 1e-6  # shared points are thirds and sevenths: their sum may miss the maximum by rounding
PRINTED = 2000  # characters of what a learner's code printed that are kept; the result file has the rest


class ReportError(Exception):
    """The report cannot be made or written: says why, in a sentence for the instructor."""


@dataclass(frozen=True)
class NotGraded:
    """One student on one exercise without points, and why."""

    student: str
    exercise: str
    status: str  # "error", "missing" or "not graded"
    reason: str


@dataclass(frozen=True)
class Adjustment:
    """What a classroom's gradebook makes of a result, where people or dates changed it."""

    points: float  # with manual scores and extra credit, before the penalty
    max_points: float
    by_hand: bool
    penalty: float  # points that being late costs
    lines: tuple[str, ...]  # the same in words


@dataclass(frozen=True)
class Score:
    """The points of one student on one exercise, after manual scores and penalties."""

    points: float
    max_points: float  # of what was assessed; 0: nothing was
    official: bool
    prerequisites: str  # "own" or "reference"
    by_hand: bool = False
    late: bool = False

    @property
    def share(self) -> float | None:
        """points / max_points; None when nothing was assessed."""
        return self.points / self.max_points if self.max_points > 0 else None

    @property
    def is_full(self) -> bool:
        return self.max_points > 0 and self.points >= self.max_points - ENOUGH


@dataclass(frozen=True)
class Total:
    """A student's sum over the graded exercises, each with its weight in the course."""

    points: float
    max_points: float  # the weights of what could be assessed
    graded: int
    official: bool

    @property
    def share(self) -> float | None:
        return self.points / self.max_points if self.max_points > 0 else None


@dataclass
class Gradebook:
    """All that a folder of results says."""

    students: list[str] = field(default_factory=list)
    exercises: list[str] = field(default_factory=list)
    results: dict[tuple[str, str], Result] = field(default_factory=dict)  # by student and exercise
    skipped: list[tuple[str, str]] = field(default_factory=list)  # (file, why)
    unreadable: set[tuple[str, str]] = field(default_factory=set)  # (student, "ex06") of skipped files
    weights: dict[str, float] = field(default_factory=dict)  # by exercise, from the course
    titles: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)  # by student, where a gradebook knows more than the folder's name
    adjustments: dict[tuple[str, str], Adjustment] = field(default_factory=dict)

    @cached_property
    def scores(self) -> dict[tuple[str, str], Score]:
        """By student and exercise; only what is graded."""
        found = {}
        for pair in self.results.keys() | self.adjustments.keys():
            result, adjusted = self.results.get(pair), self.adjustments.get(pair)
            graded = result is not None and result.status == "graded"
            if adjusted is None and not graded:
                continue
            points, most = (result.points or 0.0, result.max_points) if graded and result else (0.0, 0.0)
            if adjusted is not None:
                points, most = max(0.0, adjusted.points - adjusted.penalty), adjusted.max_points
            found[pair] = Score(
                points=points,
                max_points=most,
                official=result is None or not graded or result.official,
                prerequisites=result.prerequisites if result is not None else "own",
                by_hand=adjusted is not None and adjusted.by_hand,
                late=adjusted is not None and adjusted.penalty > 0,
            )
        return found

    def weight(self, exercise: str) -> float:
        """The exercise's points in the course; of an exercise that the course does not have, the most that anyone could get."""
        return self.weights.get(exercise) or self._seen_weights.get(exercise, 0.0)

    @cached_property
    def _seen_weights(self) -> dict[str, float]:
        seen: dict[str, float] = {}
        for (_, exercise), score in self.scores.items():
            seen[exercise] = max(seen.get(exercise, 0.0), score.max_points)
        return seen

    @cached_property
    def totals(self) -> dict[str, Total]:
        """By student; only students of whom anything is graded."""
        found = {}
        for student in self.students:
            mine = [(one, self.scores[student, one]) for one in self.exercises if (student, one) in self.scores]
            if mine:
                assessed = [(self.weight(exercise), score) for exercise, score in mine if score.max_points > 0]
                found[student] = Total(
                    points=sum(weight * score.points / score.max_points for weight, score in assessed),
                    max_points=sum(weight for weight, _ in assessed),
                    graded=len(mine),
                    official=all(score.official for _, score in mine),
                )
        return found

    def total(self, student: str) -> Total | None:
        """None when nothing of the student's is graded."""
        return self.totals.get(student)

    def name(self, student: str) -> str:
        """What the student is called; the folder's name when nothing better is known."""
        return self.names.get(student, student)

    @cached_property
    def not_graded(self) -> list[NotGraded]:
        """Every student and exercise without points, by exercise."""
        return [
            NotGraded(student, exercise, *why)
            for exercise in self.exercises
            for student in self.students
            if (why := self.why_not_graded(student, exercise)) is not None
        ]

    def why_not_graded(self, student: str, exercise: str) -> tuple[str, str] | None:
        """(status, reason); None for what has points."""
        if (student, exercise) in self.scores:
            return None
        result = self.results.get((student, exercise))
        if result is None:
            unreadable = (student, short(exercise)) in self.unreadable
            return "not graded", "its result file cannot be used" if unreadable else "there is no result yet"
        return result.status, result.reason or "no reason recorded"

    @cached_property
    def graded(self) -> list[Result]:
        """Every graded result, by exercise."""
        pairs = ((student, exercise) for exercise in self.exercises for student in self.students)
        found = (self.results.get(pair) for pair in pairs)
        return [result for result in found if result is not None and result.status == "graded"]

    @cached_property
    def unofficial(self) -> list[Result]:
        return [result for result in self.graded if not result.official]

    @cached_property
    def to_review(self) -> list[tuple[Result, str]]:
        """Results with a test that was too fast to be believed, and what was measured: somebody has to read that code."""
        return [
            (result, f"{test.title} {test.timing.ratio or 0:.2g} times the reference's time")
            for result in self.graded
            for test in result.tests
            if test.timing and test.timing.review
        ]


def why_not_official(result: Result) -> str:
    """What keeps a graded result from being official, as its environment tells it."""
    where = result.environment
    if where is None:
        return "no environment recorded"
    if where.probe is None:
        return f"isolation {where.isolation}, not probed"
    if where.probe:
        return f"isolation {where.isolation}, the hostile probe could: {', '.join(where.probe)}"
    return f"isolation {where.isolation}"


def short(exercise: str) -> str:
    """`ex06_repeat_kv` -> `ex06`, the name of its file."""
    return exercise.split("_")[0]


def read_gradebook(results: Path) -> Gradebook:
    """Read RESULTS/<student>/exNN.json; a file that cannot be used is named in `skipped`."""
    book = Gradebook()
    shared: dict[TestResult, TestResult] = {}  # most tests of a class end alike: each such end is kept once
    for entry in folder_entries(results):
        if entry.name.startswith("."):
            continue
        if os.path.isdir(entry):
            book.students.append(entry.name)
            _read_student(book, entry, shared)
        elif entry.suffix == ".json":
            book.skipped.append((entry.name, "lies outside a student's folder: expected <student>/exNN.json"))
    book.exercises = sorted({exercise for _, exercise in book.results}, key=in_order)
    return book


def folder_entries(folder: Path) -> list[Path]:
    """What lies in a folder, in natural order; a `ReportError` if it is none."""
    try:
        return sorted(folder.iterdir(), key=lambda path: in_order(path.name))
    except FileNotFoundError:
        raise ReportError(f"{folder}: there is no such folder") from None
    except NotADirectoryError:
        raise ReportError(f"{folder}: is not a folder; give the folder that holds <student>/exNN.json") from None
    except OSError as error:
        raise ReportError(f"{folder}: cannot be read: {error.strerror}") from None


def _read_student(book: Gradebook, folder: Path, shared: dict[TestResult, TestResult]) -> None:
    try:
        found = (path for path in folder.iterdir() if path.suffix == ".json" and path.name[0] != ".")
        files = sorted(found, key=lambda path: path.name)
    except OSError as error:
        book.skipped.append((folder.name, f"cannot be read: {error.strerror}"))
        return
    for path in files:
        try:
            result = _read_checked(path)
        except (ResultError, RecursionError) as error:  # RecursionError: brackets nested without end
            name = f"{folder.name}/{path.name}"
            book.skipped.append((name, str(error).removeprefix(f"{path}: ")))
            book.unreadable.add((folder.name, path.stem))
        else:
            book.results[folder.name, result.exercise] = _slim(result, shared)


def _slim(result: Result, shared: dict[TestResult, TestResult]) -> Result:
    """The same result in little memory: a class of thousands has hundreds of thousands of tests."""
    result.tests[:] = [shared.setdefault(test, test) for test in result.tests]
    if result.output and len(result.output) > PRINTED:
        return msgspec.structs.replace(result, output=result.output[:PRINTED] + "\n[the rest is in the result file]")
    return result


def _read_checked(path: Path) -> Result:
    """A result that is about the student and the exercise that its path names, with points if it is graded."""
    if os.path.lexists(path) and not os.path.isfile(path):  # a pipe would be waited for
        raise ResultError("is not a plain file")
    result = read_result(path)
    if unicodedata.normalize("NFC", result.student) != unicodedata.normalize("NFC", path.parent.name):
        raise ResultError(f"is about the student {result.student!r}")
    if short(result.exercise) != path.stem:
        raise ResultError(f"is about the exercise {result.exercise!r}")
    if result.status == "graded" and result.points is None:
        raise ResultError("is graded, but has no points")
    return result
