"""Owns the words and numbers that the terminal and the page share: marks, points, shares."""

from __future__ import annotations

from grader.grading.result import Result, TestResult
from grader.reporting.gradebook import Summary, Total

LEGEND = {
    "ERROR": "the grader failed: no points exist",
    "MISSING": "nothing was handed in",
    "-": "not graded",
    "n/a": "nothing could be assessed here",
    "*": "not official",
    "r": "on reference prerequisites",
}


def cell(result: Result | None) -> tuple[str, str]:
    """(what stands in the matrix, its marks): `("7.5/10", "*r")`, `("ERROR", "")`. Never a 0 for what is not graded."""
    if result is None:
        return "-", ""
    if result.status != "graded":
        return result.status.upper(), ""
    marks = ("" if result.official else "*") + ("r" if result.prerequisites == "reference" else "")
    if result.max_points <= 0:
        return "n/a", marks
    return f"{number(result.points or 0.0)}/{number(result.max_points)}", marks


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
