"""Owns the comparison of two folders of results: who gains and loses by a regrade, and by which test."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from grader.grading.result import Result
from grader.reporting.gradebook import COUNTED, ENOUGH, Gradebook


@dataclass(frozen=True)
class Flip:
    """One test that ends otherwise than before."""

    id: str
    title: str
    before: str  # an outcome; "-": there was no such test
    after: str
    points: float  # that it gives more than before; negative: less


@dataclass(frozen=True)
class Change:
    """One student on one exercise whose points, status or tests differ."""

    student: str
    exercise: str
    before: tuple[float, float] | None  # (points, max_points); None: had no points
    after: tuple[float, float] | None
    status_before: str  # "graded", "error", "missing" or "not graded"
    status_after: str
    flips: tuple[Flip, ...]

    @property
    def gain(self) -> float | None:
        """Points more than before, on the scale of the new maximum; None where one side has no points."""
        if self.before is None or self.after is None:
            return None
        points, most = self.before
        scaled = points * self.after[1] / most if most > 0 else points
        return self.after[0] - scaled

    @property
    def kind(self) -> str:
        """`gains`, `loses`, `other tests` (same points) or `status`."""
        if self.gain is None:
            return "status"
        return "gains" if self.gain > ENOUGH else "loses" if self.gain < -ENOUGH else "other tests"


def compare(old: Gradebook, new: Gradebook) -> list[Change]:
    """Everything that differs, by exercise; the greatest losses first, since those have to be explained."""
    changes = []
    for pair in sorted({*old.results, *new.results}):
        before, after = old.results.get(pair), new.results.get(pair)
        change = Change(*pair, _points(before), _points(after), _status(before), _status(after), tuple(_flips(before, after)))
        if change.kind != "other tests" or change.flips:
            changes.append(change)
    return sorted(changes, key=lambda one: (one.exercise, one.gain if one.gain is not None else -1e9, one.student))


def by_test(changes: list[Change]) -> list[tuple[str, str, int, int]]:
    """(exercise, title of the test, students who gain by it, students who lose by it), the most telling first."""
    gains: Counter[tuple[str, str]] = Counter()
    losses: Counter[tuple[str, str]] = Counter()
    titles: dict[tuple[str, str], str] = {}
    for change in changes:
        for flip in change.flips:
            test = (change.exercise, flip.id)
            titles[test] = flip.title
            gains[test] += flip.points > 0
            losses[test] += flip.points < 0
    moved = sorted(titles, key=lambda test: (-gains[test] - losses[test], test))
    return [(test[0], titles[test], gains[test], losses[test]) for test in moved if gains[test] + losses[test]]


def _points(result: Result | None) -> tuple[float, float] | None:
    if result is None or result.status != "graded":
        return None
    return result.points or 0.0, result.max_points


def _status(result: Result | None) -> str:
    return "not graded" if result is None else result.status


def _flips(before: Result | None, after: Result | None) -> list[Flip]:
    """Only between two graded results: otherwise the status says it all."""
    if _points(before) is None or _points(after) is None:
        return []
    assert before is not None and after is not None
    old = {test.id: test for test in before.tests}
    new = {test.id: test for test in after.tests}
    flips = []
    for name in dict.fromkeys([*new, *old]):
        was, now = old.get(name), new.get(name)
        gave = was.points if was is not None and was.outcome in COUNTED else 0.0
        gives = now.points if now is not None and now.outcome in COUNTED else 0.0
        outcomes = (was.outcome if was else "-", now.outcome if now else "-")
        if outcomes[0] != outcomes[1] or abs(gives - gave) > ENOUGH:
            title = (now or was).title  # type: ignore[union-attr]
            flips.append(Flip(name, title, *outcomes, gives - gave))
    return flips
