"""Owns the words and numbers that the terminal and the page share: marks, points, shares."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grader.grading.result import TestResult
from grader.reporting.gradebook import Gradebook, Total

if TYPE_CHECKING:
    from grader.reporting.summary import Summary

LEGEND = {
    "ERROR": "the grader failed: no points exist",
    "MISSING": "nothing was handed in",
    "-": "not graded",
    "n/a": "nothing could be assessed here",
    "*": "not official",
    "r": "on reference prerequisites",
    "m": "with points given by hand",
    "l": "less for being late",
}


def cell(book: Gradebook, student: str, exercise: str) -> tuple[str, str]:
    """(what stands in the matrix, its marks): `("7.5/10", "*r")`, `("ERROR", "")`. Never a 0 for what is not graded."""
    score = book.scores.get((student, exercise))
    if score is None:
        result = book.results.get((student, exercise))
        return ("-", "") if result is None else (result.status.upper(), "")
    marks = "" if score.official else "*"
    marks += "r" if score.prerequisites == "reference" else ""
    marks += ("m" if score.by_hand else "") + ("l" if score.late else "")
    if score.max_points <= 0:
        return "n/a", marks
    return f"{number(score.points)}/{number(score.max_points)}", marks


def label(test: TestResult) -> str:
    """The title, with the case of a parametrized test: `Any dtype is repeated [float16]`."""
    bracket = test.id.find("[")
    return test.title if bracket < 0 else f"{test.title} {test.id[bracket:]}"


def sum_of(total: Total | None) -> str:
    """`17.5/20`, `17.5/20*` when a part is not official; `-` when nothing is graded."""
    if total is None:
        return "-"
    if total.max_points <= 0:
        return "n/a"
    return f"{number(total.points)}/{number(total.max_points)}{'' if total.official else '*'}"


def mean(summary: Summary) -> str:
    """`7.3/10`, or a percentage when not all were assessed out of the same points; `-` without any."""
    if summary.mean is not None:
        points, most = summary.mean
        return f"{number(points)}/{number(most)}"
    return percent(summary.share)


def number(value: float) -> str:
    """Points with at most two decimals: `7.5`, `10`, `3.33`."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def percent(share: float | None) -> str:
    """`67 %`; 100 and 0 only for all and none."""
    if share is None:
        return "-"
    rounded = round(100 * share)
    if rounded == 100 and share < 1 - 1e-9:
        rounded = 99
    if rounded == 0 and share > 1e-9:
        rounded = 1
    return f"{rounded} %"


def count(n: int, thing: str) -> str:
    """`1 file`, `2 files`."""
    return f"{n} {thing}" if n == 1 else f"{n} {thing}s"
