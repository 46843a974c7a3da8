"""Owns what a folder of results says: who has which result, and what follows for the class. Prints nothing.

Only graded results count. A missing, failed or absent result has no points: it is named, never taken as 0.
"""

from __future__ import annotations

import os
import unicodedata
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from grader.grading.result import Result, ResultError, TestResult, read_result
from grader.text import in_order

COUNTED = ("passed", "failed", "blocked")  # the outcomes that are in an exercise's max_points
ENOUGH = 1e-6  # shared points are thirds and sevenths: their sum may miss the maximum by rounding


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
class Total:
    """Sum over a student's graded exercises."""

    points: float
    max_points: float
    graded: int
    official: bool


@dataclass
class Item:
    """One test of a suite, over the class."""

    test: TestResult  # as first met: its title, category and case
    passed: int = 0
    assessed: int = 0
    errors: int = 0

    @property
    def share(self) -> float | None:
        return self.passed / self.assessed if self.assessed else None

    @property
    def flag(self) -> str:
        """What an author should look at: a test that tells nobody apart, or that the grader could not run."""
        flags = []
        if self.assessed and self.passed == 0:
            flags.append("nobody passes")
        if self.assessed and self.passed == self.assessed:
            flags.append("everybody passes")
        if self.errors:
            flags.append(f"{self.errors} x grader error")
        return ", ".join(flags)


@dataclass
class Summary:
    """One exercise over the class."""

    exercise: str
    counts: Counter[str]  # "graded", "error", "missing", "not graded", "not official"
    full: int  # how many have all points
    scores: list[tuple[float, float]]  # (points, max_points) of every graded result with anything assessed
    diagnoses: list[tuple[str, int, str]]  # (name, results in which it was seen, hint), most frequent first
    items: list[Item]

    @property
    def share(self) -> float | None:
        """Mean of points / max_points."""
        return sum(points / most for points, most in self.scores) / len(self.scores) if self.scores else None

    @property
    def mean(self) -> tuple[float, float] | None:
        """(mean points, max_points); None when students were assessed out of different maxima."""
        maxima = {most for _, most in self.scores}
        if len(maxima) != 1:
            return None
        return sum(points for points, _ in self.scores) / len(self.scores), maxima.pop()


@dataclass
class Gradebook:
    """All that a folder of results says."""

    students: list[str] = field(default_factory=list)
    exercises: list[str] = field(default_factory=list)
    results: dict[tuple[str, str], Result] = field(default_factory=dict)  # by student and exercise
    skipped: list[tuple[str, str]] = field(default_factory=list)  # (file, why)
    unreadable: set[tuple[str, str]] = field(default_factory=set)  # (student, "ex06") of skipped files

    def total(self, student: str) -> Total | None:
        """None when nothing of the student's is graded."""
        graded = [result for result in self._row(student) if result.status == "graded"]
        if not graded:
            return None
        return Total(
            points=sum(result.points or 0.0 for result in graded),
            max_points=sum(result.max_points for result in graded),
            graded=len(graded),
            official=all(result.official for result in graded),
        )

    def _row(self, student: str) -> list[Result]:
        found = (self.results.get((student, exercise)) for exercise in self.exercises)
        return [result for result in found if result is not None]

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
        """(status, reason); None for a graded result."""
        result = self.results.get((student, exercise))
        if result is None:
            unreadable = (student, short(exercise)) in self.unreadable
            return "not graded", "its result file cannot be used" if unreadable else "there is no result yet"
        if result.status == "graded":
            return None
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
    def summaries(self) -> list[Summary]:
        return [self._summary(exercise) for exercise in self.exercises]

    def _summary(self, exercise: str) -> Summary:
        counts: Counter[str] = Counter()
        scores: list[tuple[float, float]] = []
        seen: Counter[str] = Counter()
        hints: dict[str, str] = {}
        items: dict[str, Item] = {}
        for student in self.students:
            result = self.results.get((student, exercise))
            counts["not graded" if result is None else result.status] += 1
            if result is None:
                continue
            graded = result.status == "graded"
            if graded:
                counts["not official"] += not result.official
                if result.max_points > 0:
                    scores.append((result.points or 0.0, result.max_points))
                seen.update({test.diagnosis for test in result.tests if test.diagnosis})
            for test in result.tests:
                item = items.setdefault(test.id, Item(test))
                item.errors += test.outcome == "error"
                if graded and test.outcome in COUNTED:
                    item.assessed += 1
                    item.passed += test.outcome == "passed"
                if test.diagnosis and test.hint:
                    hints.setdefault(test.diagnosis, test.hint)
        full = sum(points >= most - ENOUGH for points, most in scores)
        diagnoses = sorted(seen.items(), key=lambda pair: (-pair[1], pair[0]))
        named = [(name, times, hints.get(name, "")) for name, times in diagnoses]
        return Summary(exercise, counts, full, scores, named, list(items.values()))


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
    try:
        entries = sorted(results.iterdir(), key=lambda path: in_order(path.name))
    except FileNotFoundError:
        raise ReportError(f"{results}: there is no such folder") from None
    except NotADirectoryError:
        raise ReportError(f"{results}: is not a folder; give the folder that holds <student>/exNN.json") from None
    except OSError as error:
        raise ReportError(f"{results}: cannot be read: {error.strerror}") from None

    for entry in entries:
        if entry.name.startswith("."):
            continue
        if os.path.isdir(entry):
            book.students.append(entry.name)
            _read_student(book, entry)
        elif entry.suffix == ".json":
            book.skipped.append((entry.name, "lies outside a student's folder: expected <student>/exNN.json"))
    book.exercises = sorted({exercise for _, exercise in book.results}, key=in_order)
    return book


def _read_student(book: Gradebook, folder: Path) -> None:
    try:
        files = sorted(path for path in folder.iterdir() if path.suffix == ".json" and path.name[0] != ".")
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
            book.results[folder.name, result.exercise] = result


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
