"""Shows results as Markdown, for the page of a continuous-integration run. Decides nothing.

Messages hold a learner's words, so they stand in code blocks, where Markdown and HTML mean nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from grader.course import Course, Exercise
from grader.display import SHOWN_FAILURES, command, group_failures, is_complete, is_started, score
from grader.grading.result import Result
from grader.text import clean

MAX_BYTES = 500_000  # GitHub shows a summary of up to 1 MB


def as_markdown(course: Course, results: Sequence[Result]) -> str:
    """A table of all exercises, then what is wrong in those that were started and do not pass."""
    lines = [f"## {plain(course.name)}", "", "| | exercise | result |", "|---|---|---|"]
    for result in results:
        exercise = course.exercise(result.exercise)
        lines.append(f"| {_mark(result)} | {exercise.label} {plain(exercise.title)} | {plain(_state(result))} |")
    lines.append("")
    for result in results:
        if is_started(result) and not is_complete(result):
            lines += _wrong(course.exercise(result.exercise), result)
    return "\n".join(lines).encode()[:MAX_BYTES].decode("utf-8", "ignore")


def plain(text: str) -> str:
    """Text in which no character means anything to Markdown or HTML."""
    return re.sub(r"[^\w\s.,:/'-]|_", lambda match: f"&#{ord(match[0])};", " ".join(clean(text).split()))


def _mark(result: Result) -> str:
    if not is_started(result):
        return "·"
    return "✅" if is_complete(result) else "❌"


def _state(result: Result) -> str:
    if not is_started(result):
        return "not started"
    return f"could not be graded: {result.reason}" if result.status == "error" else score(result)


def _wrong(exercise: Exercise, result: Result) -> list[str]:
    lines = [f"### {exercise.label} {plain(exercise.title)}", ""]
    if result.reason:
        lines += _block(result.reason)
    groups = [] if exercise.feedback == "verdict" else group_failures(result.tests)
    if result.reason and result.tests and all(test.outcome == "blocked" for test in result.tests):
        groups = []
    for group in groups[:SHOWN_FAILURES]:
        lines += [f"**{plain(group.title)}**", ""]
        if exercise.feedback == "explain":
            said = [group.message or "", group.picture or "", f"looks like: {group.hint}" if group.hint else ""]
            lines += _block("\n".join(filter(None, said)))
        if group.others:
            lines += [f"{group.others} more failed for the same reason.", ""]
    if len(groups) > SHOWN_FAILURES:
        lines += [f"... and {len(groups) - SHOWN_FAILURES} more.", ""]
    return [*lines, f"On your machine: `{command(f'check EX={exercise.label}')}`", ""]


def _block(text: str) -> list[str]:
    """A fenced block that its content cannot end."""
    text = clean(text).strip()
    if not text:
        return []
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}text", *text.splitlines(), fence, ""]
