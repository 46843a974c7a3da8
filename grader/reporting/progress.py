"""Owns how far a class had come by which day, where results or attempts carry times."""

from __future__ import annotations

from collections import defaultdict

from grader.reporting.attempts import Pair
from grader.reporting.summary import Report


def reached_by_day(report: Report) -> list[tuple[str, float]]:
    """(day, share of all points of the course that the class had reached by its end), for each day on which anything changed.

    Of each student and exercise the best attempt so far counts. Empty without times.
    """
    book = report.book
    whole = sum(book.weight(exercise) for exercise in book.exercises) * len(book.students)
    gains: dict[str, float] = defaultdict(float)
    best: dict[Pair, float] = {}
    timed = [
        (run.when, pair, run.share) for pair, runs in report.attempts.items() for run in runs if run.when and run.share is not None
    ]  # fmt: skip
    for when, pair, share in sorted(timed, key=lambda one: one[0]):
        before = best.get(pair, 0.0)
        if share > before:
            best[pair] = share
        gains[f"{when:%Y-%m-%d}"] += max(0.0, share - before) * book.weight(pair[1])
    days, reached = [], 0.0
    for day in sorted(gains):
        reached += gains[day]
        days.append((day, reached / whole if whole else 0.0))
    return days
