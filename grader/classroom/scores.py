"""Owns what a result is worth in a gradebook whose maxima are fixed, and the words that stand beside it. Decides no test.

A grade cell is one category of the suite. Its score is what the category's tests earned. Where tests could not be assessed on this
machine, they are neither won nor lost: the cell gets their points at the student's own share of all that was assessed, so that
score / maximum over the whole exercise is exactly points / max_points of the result. A grade cell says so.
"""

from __future__ import annotations

import io
import math

import msgspec
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from grader.course import Exercise
from grader.display import EXAMPLES_ONLY, amount, is_complete, score, show_findings
from grader.grading.result import CATEGORIES, Result, TestResult
from grader.submission import Problem, SourceFile
from grader.text import clean, one_line

WIDTH = 100  # of feedback in a notebook, in characters
DIGITS = 6  # of points: the cases of a parametrized test share its points in fractions
ENOUGH = 1e-6


class CellScore(msgspec.Struct, frozen=True, kw_only=True):
    """One grade cell of one student."""

    category: str
    max_points: float
    earned: float  # by the tests that passed
    assessed: float  # of `max_points`
    score: float | None  # for the gradebook; None: nothing was assessed at all


def points_by_category(tests: list[TestResult]) -> dict[str, float]:
    """The points that a suite gives, by category, in the categories' fixed order."""
    most = {name: round(math.fsum(test.max_points for test in tests if test.category == name), DIGITS) for name in CATEGORIES}
    return {name: points for name, points in most.items() if points > 0}


def cell_scores(result: Result) -> list[CellScore]:
    """The score of every grade cell. A result that is not graded has none: ValueError."""
    if result.status != "graded":
        raise ValueError(f"a result that is {result.status} has no scores")
    cells = []
    for category, most in points_by_category(result.tests).items():
        tests = [test for test in result.tests if test.category == category]
        earned = round(math.fsum(test.points for test in tests if test.outcome == "passed"), DIGITS)
        left_out = math.fsum(test.max_points for test in tests if test.outcome == "not_assessed")
        cells.append((category, most, min(earned, most), round(most - left_out, DIGITS) if left_out else most))
    assessed = math.fsum(cell[3] for cell in cells)
    share = math.fsum(cell[2] for cell in cells) / assessed if assessed > ENOUGH else None
    return [
        CellScore(
            category=category,
            max_points=most,
            earned=earned,
            assessed=part,
            score=None if share is None else clamp(earned + (most - part) * share if part < most else earned, most),
        )
        for category, most, earned, part in cells
    ]


def clamp(value: float, most: float) -> float:
    """A plain float from 0 to `most`, whatever number it was: what nbgrader takes for anything else is full marks."""
    value, most = float(value), float(most)
    if not math.isfinite(value) or not math.isfinite(most):
        raise ValueError(f"{value} of {most} points is no score")
    return min(max(value, 0.0), most) + 0.0  # -0.0 becomes 0.0


# ---- words ----------------------------------------------------------------------------------------------------


def verdict(exercise: Exercise, result: Result, notes: tuple[str, ...] = ()) -> str:
    """The whole result for its learner. Failures of hidden tests stand in their grade cells; what the code printed is left out,
    since it may hold the inputs of hidden tests."""
    console, text = _page()
    style = "green" if (result.points or 0.0) >= result.max_points - ENOUGH else "yellow" if result.points else "red"
    heading = Text.assemble((f"Exercise {exercise.label}", "bold"), f"  {exercise.title}   ", (score(result), f"bold {style}"))
    console.print(heading, "")
    if result.reason == "not started":
        console.print(Text("Not started: nothing was written in the solution cell or in the .py file.\n"))
    else:
        show_findings(console, exercise, result, everything=True, examples_only=True)
    for note in notes:
        console.print(Text(f"Note: {one_line(note)}."))
    if result.prerequisites == "reference":
        console.print(Text("Graded on right code for the earlier exercises, because a mistake there is not punished twice."))
    if not result.official:
        console.print(Text("Not official: graded where learner code is not fully locked in.", style="yellow"))
    return text.getvalue()


def checked(exercise: Exercise, result: Result, file: SourceFile | Problem) -> str:
    """A check in a learner's notebook: what was looked at, the examples, and what to do next."""
    console, text = _page()
    if result.status != "graded":
        console.print(Text(f"Nothing could be checked: {result.reason}."))
        return text.getvalue()
    good = is_complete(result)
    console.print(Text.assemble((f"Exercise {exercise.label}", "bold"), f"  {exercise.title}   "), end="")
    console.print(Text(score(result), style=f"bold {'green' if good else 'red'}"))
    if isinstance(file, SourceFile):
        console.print(Text(f"Checked: {file.place}", style="dim"))
        for note in file.notes:
            console.print(Text(f"Note: {one_line(note)}."))
    console.print()
    if result.reason == "not started":
        names = ", ".join(exercise.names)
        console.print(
            Text(f"Not started. Write {names} in the solution cell and run it, or write {exercise.file}.py; then check again.")
        )
        return text.getvalue()
    show_findings(console, exercise, result, everything=True)
    if result.output:
        console.print(Text("Your code printed", style="bold"))
        console.print(Padding(Text(clean(result.output).rstrip()), (0, 0, 1, 2)))
    if good:
        console.print(Text(f"All examples pass. {EXAMPLES_ONLY}", style="green"))
        console.print(Text("Save the notebook before you submit it."))
    else:
        console.print(Text("Mend the first one first. The hints are below the lesson, folded."))
    return text.getvalue()


def cell_text(exercise: Exercise, result: Result, cell: CellScore) -> str:
    """What stands above the score of a grade cell."""
    console, text = _page()
    tests = [test for test in result.tests if test.category == cell.category and not test.visible]
    show_findings(console, exercise, msgspec.structs.replace(result, tests=tests), everything=True)
    if cell.assessed < cell.max_points:
        part = amount(cell.max_points - cell.assessed)
        console.print(Text(f"{part} of the {amount(cell.max_points)} points could not be assessed on the grading machine."))
        if cell.score is not None:
            share = f"{amount(cell.score - cell.earned)} of them count, your share of all the others"
            console.print(Text(f"They are neither won nor lost: {share}."))
    return text.getvalue()


def _page() -> tuple[Console, io.StringIO]:
    """A console that writes what a notebook shows: colours as escape sequences, lines of a fixed width."""
    text = io.StringIO()
    options = {"force_terminal": True, "color_system": "standard", "legacy_windows": False, "highlight": False}
    return Console(file=text, width=WIDTH, no_color=False, _environ={}, **options), text
