"""Makes Gradescope's results.json out of graded results: one entry per category, with what `check` would say about it. Decides nothing.

Everything in it is read by the student (or will be, when the instructor's visibility says so), so nothing is in it that `check` would not
show under the course's feedback policy: no hidden test's name, no expected value, no path.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from grader.course import Exercise
from grader.display import SHOWN_FAILURES, Failure, amount, group_failures
from grader.grading.result import CATEGORIES, Result, TestResult
from grader.submission import Problem, SourceFile
from grader.text import clean, one_line

from .options import Options

MAX_OUTPUT = 8_000  # characters of one entry
NOT_YOURS = "The autograder could not grade this submission. That is no fault of yours, and nothing is lost."


class Graded(msgspec.Struct, frozen=True, kw_only=True):
    """One exercise: what was handed in, and what came of it."""

    exercise: Exercise
    found: SourceFile | Problem
    result: Result | None = None  # None where there was nothing to grade


def document(
    graded: Sequence[Graded], options: Options, *, seconds: float, tokens_per_second: float | None = None
) -> dict[str, Any]:
    """All of results.json. Points add up to the score exactly, and maxima to the points of the exercises."""
    tests = [entry for one in graded for entry in _entries(one, options)]
    found: dict[str, Any] = {
        "score": round(sum(entry.get("score", 0.0) for entry in tests), 6),
        "execution_time": round(seconds, 1),
        "output": _cut("\n".join(_summary(graded, options))),
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "tests": tests,
        "leaderboard": [],
    }
    if tokens_per_second is not None:
        found["leaderboard"] = [{"name": "tokens per second", "value": round(tokens_per_second, 1), "order": "desc"}]
    return found


def fault(what: str, *, seconds: float = 0.0) -> dict[str, Any]:
    """A results.json without any score: Gradescope shows it as a failed run, and no zero gets into the gradebook."""
    return {
        "execution_time": round(seconds, 1),
        "output": f"{NOT_YOURS}\n\n{what}",
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "tests": [],
    }


def _entries(one: Graded, options: Options) -> list[dict[str, Any]]:
    exercise, result = one.exercise, one.result
    name = f"{exercise.label} {exercise.title}"
    if result is None:
        assert isinstance(one.found, Problem)
        return [
            _entry(
                f"{name}: not handed in",
                exercise.label,
                _not_graded(one.found),
                [exercise.label],
                "visible",
                0.0,
                exercise.points,
            )
        ]
    entries = []
    examples = [test for test in result.tests if test.visible]
    if examples:
        entries.append(
            _entry(f"{name}: public examples", f"{exercise.label}.0", _words(exercise, result, examples), [exercise.label])
        )
        entries[-1]["status"] = "passed" if all(test.outcome == "passed" for test in examples) else "failed"
    for number, category in enumerate(CATEGORIES, start=1):
        tests = [test for test in result.tests if not test.visible and test.category == category]
        most = _sum(test.max_points for test in tests if test.outcome != "not_assessed")
        if not tests or (most == 0 and all(test.outcome == "not_assessed" for test in tests)):
            continue
        heading, tags = f"{name}: {category.replace('_', ' ')}", [exercise.label, category]
        got = _sum(test.points for test in tests)
        text = _words(exercise, result, tests)
        entries.append(_entry(heading, f"{exercise.label}.{number}", text, tags, options.visibility, got, most))
    return [*entries, *_not_assessed(exercise, result, options)]


def _entry(
    name: str,
    number: str,
    output: str,
    tags: list[str],
    visibility: str = "visible",
    score: float | None = None,
    most: float = 0.0,
) -> dict[str, Any]:
    points = {} if score is None else {"score": score, "max_score": most}
    return {"name": name, "number": number, **points, "output": _cut(output), "tags": tags, "visibility": visibility}


def _not_assessed(exercise: Exercise, result: Result, options: Options) -> list[dict[str, Any]]:
    """What this machine cannot assess counts as much as the rest came to, so that it costs nobody a point."""
    left = round(exercise.points - result.max_points, 6)
    if left <= 0 or result.max_points <= 0:
        return []
    got = round((result.points or 0.0) * left / result.max_points, 6)
    text = f"{amount(left)} of {amount(exercise.points)} points cannot be assessed on this machine; they are given in proportion to the rest."
    heading, number = f"{exercise.label} {exercise.title}: not assessed here", f"{exercise.label}.{len(CATEGORIES) + 1}"
    return [_entry(heading, number, text, [exercise.label], options.visibility, got, left)]


def _summary(graded: Sequence[Graded], options: Options) -> list[str]:
    """What stands above the entries."""
    lines = []
    for one in graded:
        exercise, result = one.exercise, one.result
        name = f"{exercise.label} {exercise.title}"
        if result is None:
            lines.append(f"{name}: not handed in, so 0 of {amount(exercise.points)} points")
            continue
        if options.visibility == "visible":
            left_out = exercise.points - result.max_points > 1e-6
            points = f"{amount(result.points or 0.0)} of {amount(result.max_points)} points"
            lines.append(f"{name}: {points}" + (", of what can be assessed here" if left_out else ""))
        else:
            lines.append(f"{name}: graded")
        if isinstance(one.found, SourceFile):
            lines += [f"  {one_line(note)}" for note in one.found.notes]
        if result.reason:
            lines.append(f"  {one_line(result.reason)}")
        if result.prerequisites == "reference":
            lines.append("  graded on right code for the earlier exercises: an early mistake costs points once")
    return lines


def _not_graded(problem: Problem) -> str:
    """Why there was nothing to grade, and what to do."""
    what = "Hand in again, with this exercise under its own name; uploading the zip that `make submit` writes is the surest way."
    return f"{one_line(problem.message)}.\n\n{what}"


# ---- the words of one category -----------------------------------------------------------------------------------------


def _words(exercise: Exercise, result: Result, tests: Sequence[TestResult]) -> str:
    assessed = [test for test in tests if test.outcome != "not_assessed"]
    passed = sum(test.outcome == "passed" for test in assessed)
    lines = [f"{passed} of {len(assessed)} tests passed"]
    if len(assessed) < len(tests):
        lines[0] += f", {len(tests) - len(assessed)} not assessed here"
    if passed == len(assessed) or exercise.feedback == "verdict":
        return lines[0]
    if result.reason and all(test.outcome in ("blocked", "failed") for test in result.tests) and not result.points:
        return "\n".join([*lines, "", clean(result.reason)])
    groups = group_failures(tests)
    for group in groups[:SHOWN_FAILURES]:
        lines += ["", *_failure(exercise, group)]
    if len(groups) > SHOWN_FAILURES:
        lines += ["", f"... and {len(groups) - SHOWN_FAILURES} more. The first is the one to mend first."]
    return "\n".join(lines)


def _failure(exercise: Exercise, group: Failure) -> list[str]:
    lines = [f"✗ {clean(group.title)}"]
    if exercise.feedback == "explain":
        for label, text in (("seen", group.message), ("", group.picture), ("looks like", group.hint)):
            if text:
                first, *rest = clean(text).splitlines() or [""]
                lines.append(f"    {label + ': ' if label else ''}{first}")
                lines += [f"    {line}" for line in rest]
    if group.others:
        lines.append(f"    also: {group.others} more test{'s' if group.others > 1 else ''} failed for the same reason")
    return lines


def _cut(text: str) -> str:
    return text if len(text) <= MAX_OUTPUT else text[:MAX_OUTPUT] + "\n[...]"


def _sum(points: Any) -> float:
    return round(sum(points), 6)
