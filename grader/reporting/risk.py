"""Owns who may need help: rules that an instructor can check by hand, each with its reason in words. No verdict, no model.

A student is listed for two reasons, or for one that is grave by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median

from grader.reporting.attempts import Attempt, Pair, are_known, has_stalled
from grader.reporting.gradebook import Gradebook, short

LATE = timedelta(days=3)  # after the class's median first attempt, where no due date is known
LATE_PART = 1 / 3  # of a student's exercises, and at least two of them
LOW, VERY_LOW = 0.5, 0.25  # of the points over what is graded
BEHIND = 2  # exercises without points that most of the class has points in


@dataclass(frozen=True)
class Reason:
    """One sign; `weight` 2 is enough alone."""

    name: str  # for files: "low", "behind", "late", "stalled"
    words: str
    weight: int


@dataclass(frozen=True)
class AtRisk:
    """A student to look after."""

    student: str
    reasons: tuple[Reason, ...]
    share: float | None  # of the points over what is graded

    @property
    def weight(self) -> int:
        return sum(reason.weight for reason in self.reasons)


def at_risk(book: Gradebook, attempts: Mapping[Pair, Sequence[Attempt]], overdue: Mapping[Pair, bool]) -> list[AtRisk]:
    """Who needs help first. `overdue`: by student and exercise, whether it was handed in after its date, where a classroom knows.

    Without earlier attempts nobody began late: the time of a last run is when somebody was graded last, not when they began.
    """
    usual = _usual_starts(book, attempts) if are_known(attempts) else {}
    reached = [one for one in book.exercises if 2 * sum((s, one) in book.scores for s in book.students) > len(book.students)]
    found = []
    for student in book.students:
        total = book.total(student)
        share = total.share if total else None
        reasons = [*_low(share), *_behind(book, student, reached), *_late(book, student, attempts, usual, overdue)]
        reasons += _stalled(book, student, attempts)
        if sum(reason.weight for reason in reasons) >= 2:
            found.append(AtRisk(student, tuple(reasons), share))
    return sorted(found, key=lambda one: (-one.weight, one.share if one.share is not None else -1.0))


def _low(share: float | None) -> list[Reason]:
    if share is None or share >= LOW:
        return []
    return [Reason("low", f"only {100 * share:.0f} % of the points", 2 if share < VERY_LOW else 1)]


def _behind(book: Gradebook, student: str, reached: Sequence[str]) -> list[Reason]:
    gaps = []
    for exercise in reached:
        why = book.why_not_graded(student, exercise)
        if why is not None and why[0] != "error":  # an error is the grader's doing
            gaps.append(exercise)
    if len(gaps) < BEHIND:
        return []
    grave = 2 * len(gaps) >= len(reached)
    return [Reason("behind", f"nothing in {_listed(gaps)}", 2 if grave else 1)]


def _usual_starts(book: Gradebook, attempts: Mapping[Pair, Sequence[Attempt]]) -> dict[str, datetime]:
    usual = {}
    for exercise in book.exercises:
        starts = [start for student in book.students if (start := _start(attempts.get((student, exercise), ()))) is not None]
        if starts:
            usual[exercise] = datetime.fromtimestamp(median(start.timestamp() for start in starts), starts[0].tzinfo)
    return usual


def _start(runs: Sequence[Attempt]) -> datetime | None:
    return next((run.when for run in runs if run.when is not None), None)


def _late(
    book: Gradebook, student: str, attempts: Mapping[Pair, Sequence[Attempt]], usual: Mapping[str, datetime],
    overdue: Mapping[Pair, bool],
) -> list[Reason]:  # fmt: skip
    late, tried, by_date = [], 0, False
    for exercise in book.exercises:
        start = _start(attempts.get((student, exercise), ()))
        if (student, exercise) in overdue:
            by_date, is_late = True, overdue[student, exercise]
        elif start is not None and exercise in usual:
            is_late = start > usual[exercise] + LATE
        else:
            continue
        tried += 1
        if is_late:
            late.append(exercise)
    if len(late) < 2 or len(late) < LATE_PART * tried:
        return []
    words = "handed in after the due date" if by_date else "began well after the class"
    return [Reason("late", f"{words}: {_listed(late)}", 1)]


def _stalled(book: Gradebook, student: str, attempts: Mapping[Pair, Sequence[Attempt]]) -> list[Reason]:
    stuck = [one for one in book.exercises if has_stalled(attempts.get((student, one), ()))]
    if not stuck:
        return []
    return [Reason("stalled", f"stuck: {_listed(stuck)}", 2 if len(stuck) > 1 else 1)]


def _listed(exercises: Sequence[str]) -> str:
    """`ex02, ex05-ex08`."""
    names = [short(one) for one in exercises]
    runs: list[list[str]] = []
    for name in names:
        if runs and _number(name) == _number(runs[-1][-1]) + 1:
            runs[-1].append(name)
        else:
            runs.append([name])
    parts = [f"{run[0]}-{run[-1]}" if len(run) > 2 else ", ".join(run) for run in runs]
    return ", ".join(parts) if len(parts) <= 4 else f"{', '.join(parts[:3])} and more"


def _number(name: str) -> int:
    digits = name.removeprefix("ex")
    return int(digits) if digits.isdigit() else -1
