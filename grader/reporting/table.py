"""Owns the CSV table: one row per student, exercise and test, for a spreadsheet or a data frame.

Only what counts has numbers: summed over a student's exercise, `points` and `max_points` are those of the result.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

from grader.grading.result import Result, TestResult
from grader.reporting.gradebook import COUNTED, Gradebook
from grader.text import clean, one_line

COLUMNS = (
    "student", "exercise", "status", "reason", "official", "prerequisites", "test", "title", "category",
    "points", "max_points", "outcome", "diagnosis", "message", "seed",
)  # fmt: skip
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # a spreadsheet would run it


def csv_table(book: Gradebook) -> bytes:
    """The table in UTF-8."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(COLUMNS)
    writer.writerows(_rows(book))
    return text.getvalue().encode()


def _rows(book: Gradebook) -> Iterator[list[str]]:
    for student in book.students:
        for exercise in book.exercises:
            result = book.results.get((student, exercise))
            why = book.why_not_graded(student, exercise)
            status, reason = why or ("graded", result.reason if result else None)
            head = [_safe(one_line(student)), _safe(one_line(exercise)), status, _safe(clean(reason or ""))]
            if result is None:
                yield head + [""] * (len(COLUMNS) - len(head))
                continue
            head += ["true" if result.official else "false", result.prerequisites]
            for test in result.tests or [None]:
                yield [*head, *_test_cells(result, test), "" if result.seed is None else str(result.seed)]


def _test_cells(result: Result, test: TestResult | None) -> list[str]:
    if test is None:
        return [""] * 8
    counts = result.status == "graded" and test.outcome in COUNTED
    return [
        _safe(one_line(test.id)),
        _safe(one_line(test.title)),
        test.category,
        f"{test.points:.12g}" if counts else "",
        f"{test.max_points:.12g}" if counts else "",
        test.outcome,
        _safe(one_line(test.diagnosis or "")),
        _safe(clean(test.message or "")),
    ]


def _safe(text: str) -> str:
    """Text that stays text in a spreadsheet."""
    return "'" + text if text.startswith(FORMULA) else text
