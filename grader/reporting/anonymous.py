"""Owns the variant that may be shown around: a class without anything that a student is called, wrote or could be known by."""

from __future__ import annotations

import secrets
from dataclasses import replace
from pathlib import PurePosixPath

import msgspec

from grader.grading.result import Result, TestResult
from grader.reporting.attempts import moment
from grader.reporting.gradebook import Gradebook
from grader.reporting.regrade import Change
from grader.reporting.summary import Report

NEUTRAL = {"error": "the grader failed", "missing": "nothing was handed in"}


def anonymous(report: Report) -> Report:
    """The same class as `student 001`, ..., in an order that tells nothing and differs each time.

    Left out: names and ids, what the code printed, raised or returned, tracebacks, reasons in words, seeds, similar submissions, and
    the time of day. Kept: points, outcomes, categories, diagnoses with their hints, and the day of each attempt.
    """
    book = report.book
    shuffled = list(book.students)
    secrets.SystemRandom().shuffle(shuffled)
    digits = max(3, len(str(len(shuffled))))
    alias = {student: f"student {number:0{digits}d}" for number, student in enumerate(shuffled, 1)}
    tests: dict[TestResult, TestResult] = {}
    hidden = Gradebook(
        students=sorted(alias.values()),
        exercises=book.exercises,
        results={(alias[one], exercise): _plain(result, alias[one], tests) for (one, exercise), result in book.results.items()},
        skipped=[(PurePosixPath(name).name if "/" in name else "a file", "cannot be used") for name, _ in book.skipped],
        unreadable={(alias[one], exercise) for one, exercise in book.unreadable if one in alias},
        weights=book.weights,
        titles=book.titles,
        adjustments={
            (alias[one], exercise): replace(adjusted, lines=()) for (one, exercise), adjusted in book.adjustments.items()
        },
    )
    return Report(
        book=hidden,
        attempts={
            (alias[one], exercise): [replace(run, when=run.when and _day(run.when), key="") for run in runs]
            for (one, exercise), runs in report.attempts.items()
        },
        regrade=None if report.regrade is None else [_change(one, alias) for one in report.regrade if one.student in alias],
        is_anonymous=True,
    )


def _day(when):  # type: ignore[no-untyped-def]
    return when.replace(hour=0, minute=0, second=0, microsecond=0)


def _plain(result: Result, student: str, tests: dict[TestResult, TestResult]) -> Result:
    for test in result.tests:
        if test not in tests:
            tests[test] = msgspec.structs.replace(test, message=None, picture=None, detail=None)
    when = moment(result.started)
    reason = NEUTRAL.get(result.status, "everything failed at once" if result.reason else None)
    return msgspec.structs.replace(
        result, student=student, reason=reason, tests=[tests[test] for test in result.tests], output=None, seed=None, key="",
        started=f"{when:%Y-%m-%d}" if when else "",
    )  # fmt: skip


def _change(change: Change, alias: dict[str, str]) -> Change:
    return replace(change, student=alias[change.student])
