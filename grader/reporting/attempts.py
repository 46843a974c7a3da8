"""Owns the attempts: what earlier folders of results say about when a student tried an exercise and how it went.

A folder of results holds the last run only. Copies of it from earlier days, or one folder per day, hold the runs before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import msgspec

from grader.grading.result import SCHEMA, Result
from grader.reporting.gradebook import ENOUGH, Gradebook, ReportError, folder_entries, short

Pair = tuple[str, str]  # student, exercise
STALLED_AFTER = 3  # attempts in a row that brought no point


@dataclass(frozen=True)
class Attempt:
    """One run of one student's exercise."""

    when: datetime | None  # UTC
    status: str
    points: float | None  # None unless graded
    max_points: float
    key: str

    @property
    def share(self) -> float | None:
        return self.points / self.max_points if self.points is not None and self.max_points > 0 else None

    @property
    def has_passed(self) -> bool:
        return self.points is not None and self.max_points > 0 and self.points >= self.max_points - ENOUGH


class _Brief(msgspec.Struct):
    """What is read of an earlier result: its tests are not needed, and there may be very many."""

    schema: int
    student: str
    exercise: str
    status: Literal["graded", "error", "missing"]
    points: float | None
    max_points: float
    key: str = ""
    started: str = ""


def moment(text: str) -> datetime | None:
    """The UTC time of an ISO 8601 text; None if it is none."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def read_attempts(book: Gradebook, folders: Iterable[Path]) -> dict[Pair, list[Attempt]]:
    """Every attempt that is known, oldest first: those of `folders` and the results of `book`.

    Each folder is one of results, or holds several. The same run in two folders counts once. Students and exercises that
    `book` does not know are left out. Files that cannot be used are added to `book.skipped`.
    """
    found: dict[Pair, dict[tuple[str, str], Attempt]] = {}
    students = set(book.students)
    for folder in folders:
        for results in _folders_of_results(folder):
            for path in sorted(results.glob("*/ex*.json")):
                if path.parent.name in students:
                    _add(found, book, path, f"{results.name}/{path.parent.name}/{path.name}")
    for pair, result in book.results.items():
        if result.status != "missing":
            found.setdefault(pair, {})[result.started, result.key] = _attempt(result)
    long_ago = datetime.min.replace(tzinfo=UTC)
    return {pair: sorted(runs.values(), key=lambda run: run.when or long_ago) for pair, runs in found.items()}


def _folders_of_results(folder: Path) -> list[Path]:
    entries = folder_entries(folder)
    if next(folder.glob("*/ex*.json"), None):
        return [folder]
    inside = [entry for entry in entries if entry.is_dir() and next(entry.glob("*/ex*.json"), None)]
    if not inside:
        raise ReportError(f"{folder}: holds no earlier results; expected <student>/exNN.json, or folders of such folders")
    return inside


def _add(found: dict[Pair, dict[tuple[str, str], Attempt]], book: Gradebook, path: Path, name: str) -> None:
    try:
        if not path.is_file():
            raise ValueError("is not a plain file")
        brief = msgspec.json.decode(path.read_bytes(), type=_Brief)
        if brief.schema != SCHEMA:
            raise ValueError(f"schema {brief.schema}, this grader reads {SCHEMA}")
    except (OSError, msgspec.MsgspecError, ValueError, RecursionError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else error
        book.skipped.append((name, f"not a result file: {why}"))
        return
    pair = (path.parent.name, brief.exercise)
    if brief.status != "missing" and short(brief.exercise) == path.stem:
        found.setdefault(pair, {}).setdefault((brief.started, brief.key), _attempt(brief))


def _attempt(run: Result | _Brief) -> Attempt:
    points = run.points if run.status == "graded" else None
    return Attempt(moment(run.started), run.status, points, run.max_points, run.key)


def are_known(attempts: dict[Pair, list[Attempt]]) -> bool:
    """Whether there is more than the last run: without that, no time to pass and no stagnation can be told."""
    return any(len(runs) > 1 for runs in attempts.values())


def has_stalled(runs: Sequence[Attempt]) -> bool:
    """Not passed, and the last three attempts brought nothing beyond what was reached before them."""
    shares = [run.share for run in runs if run.share is not None]
    if len(shares) <= STALLED_AFTER or any(run.has_passed for run in runs):
        return False
    return max(shares[-STALLED_AFTER:]) <= max(shares[:-STALLED_AFTER]) + ENOUGH


def time_to_pass(runs: Sequence[Attempt]) -> tuple[float, bool] | None:
    """(days from the first attempt to the first that has all points, or to the last attempt; whether it has passed)."""
    timed = [run for run in runs if run.when is not None]
    if not timed:
        return None
    first = timed[0].when
    passing = next((run for run in timed if run.has_passed), None)
    last = (passing or timed[-1]).when
    assert first is not None and last is not None
    return (last - first).total_seconds() / 86400, passing is not None
