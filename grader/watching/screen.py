"""What `watch` shows: one verdict at a time, on a screen that is cleared for each. Decides nothing."""

from __future__ import annotations

import time
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from grader import display
from grader.course import Course, Exercise
from grader.grading.result import Result, TestResult
from grader.suite.records import TestRecord

ROOMY = 45  # lines of a terminal from which on more than one failure is shown


class Screen:
    """The terminal; where there is none, as in a pipe, verdicts follow each other."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def show_waiting(self, course: Course) -> None:
        """No exercise is chosen yet."""
        self._clear()
        folder = course.exercises_dir.relative_to(course.root)
        self._console.print()
        self._line(f"Waiting for the first save: write in {folder}/ and save, and that exercise is checked.")
        self._line("Ctrl-C ends.", style="dim")
        self._console.print()

    def show_beginning(self, exercise: Exercise, since: float | None) -> None:
        """Something is being checked: the old verdict stays until there is a new one."""
        if since is not None:
            self._line(f"Saved: exercise {exercise.label} is being checked ...", style="dim")
            return
        self._clear()
        self._console.print()
        self._console.print(Text.assemble((f"  Exercise {exercise.label}", "bold"), f"  {exercise.title}   checking ..."))

    def show_early(self, exercise: Exercise, tests: Sequence[TestRecord], hint: str | None, since: float | None) -> None:
        """What became of the tests that failed last time, while the rest still runs."""
        failed = [test for test in tests if test.outcome != "passed"]
        self._clear()
        self._console.print()
        heading = Text.assemble((f"  Exercise {exercise.label}", "bold"), f"  {exercise.title}   ")
        if not failed:
            heading.append("what failed before passes now", style="bold green")
        else:
            heading.append("not yet", style="bold yellow")
        self._console.print(heading)
        self._console.print()
        if failed and exercise.feedback != "verdict":
            display.show_failures(self._console, exercise, [_told(failed[0], hint)], shown=1)
        self._line(f"{_clock(since)} The rest is being checked ...", style="dim")

    def show_result(
        self,
        course: Course,
        exercise: Exercise,
        result: Result,
        unfinished: Sequence[Exercise],
        since: float | None,
        *,
        is_timed_next: bool = False,
    ) -> None:
        """The whole verdict, as `check` shows it, but short. With `is_timed_next` it is not the last word."""
        self._clear()
        short = self._console.height < ROOMY
        display.show_result(
            self._console, course, exercise, result, unfinished=unfinished, short=short, is_last=not is_timed_next
        )
        if is_timed_next:
            self._line("Everything else is right; how fast it is, is being measured ...", style="dim")
        self._line(f"{_clock(since)} The next save is checked, too; Ctrl-C ends.", style="dim")

    def _clear(self) -> None:
        if self._console.is_terminal:
            self._console.clear()

    def _line(self, sentence: str, style: str = "") -> None:
        self._console.print(Text(f"  {sentence}", style=style))


def _clock(since: float | None) -> str:
    """When, and how long after the save."""
    now = time.time()
    moment = time.strftime("%H:%M:%S", time.localtime(now))
    return f"{moment}." if since is None else f"{moment}, {max(0.0, now - since):.2f} s after the save."


def _told(test: TestRecord, hint: str | None) -> TestResult:
    return TestResult(
        id=test.id,
        title=test.title,
        category=test.category,
        points=0.0,
        max_points=test.max_points,
        outcome=test.outcome,
        visible=test.visible,
        message=test.message,
        hint=hint,
        picture=test.picture,
    )
