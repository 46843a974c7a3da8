"""The `watch` command: a verdict at every save. Runs no learner code: `Grader` has the sandbox do it.

What failed last time is run first, and a test among it that fails again is told at once; what needs a clock comes last, once
everything else is right. A newer save, and Ctrl-C, interrupt what is running. The inputs stay the same from save to save, so that an
error stays put while it is looked for and references need not compute again; once everything passes they are drawn anew. While nothing
is saved, chaffs answer the tests ahead, so that the next mistake is named at once. Where there are two cores, a second process
runs a part of the tests (`pair`).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path

from grader.course import Course, Exercise
from grader.grading.grade import Grader
from grader.grading.materials import MaterialError
from grader.grading.protocol import drawn
from grader.grading.result import Result
from grader.progress import remember, unfinished_below
from grader.sandbox.client import SandboxError
from grader.submission import own_submission
from grader.suite.records import TestRecord

from .interrupts import Interrupts, Outdated
from .saves import Saves
from .screen import Screen

LATER = "it is timed once everything else is right"


class Watch:
    """One session: a grader that stays warm, and what is known from one save to the next."""

    def __init__(self, course: Course, grader: Grader, screen: Screen, exercise: Exercise | None) -> None:
        self.course, self.grader, self.screen = course, grader, screen
        self._exercise, self._pinned = exercise, exercise is not None
        self._submission = own_submission(course.root)
        self._failed: dict[str, frozenset[str]] = {}  # exercise -> ids of the tests that failed last time
        self._seeds: dict[str, int] = {}
        self._ours = {course.exercise_path(one): one for one in course.exercises}
        self._interrupts = Interrupts()

    def run(self) -> None:
        """Give verdicts until Ctrl-C."""
        folders = [self.course.exercises_dir, *(self.course.root / "tests" / name for name in ("public", "hidden"))]
        there = [folder for folder in folders if folder.is_dir()]
        with (
            self._interrupts,
            Saves(there, lambda path: path.suffix == ".py", self._interrupts.interrupt) as saves,
            contextlib.suppress(KeyboardInterrupt),
        ):
            since: float | None = None
            if self._exercise is None:
                self.screen.show_waiting(self.course)
            else:
                self._verdict(self._exercise, since)
            while not self._interrupts.ended:
                with self._interrupts.put_off():
                    self._rehearse(lambda: saves.wait(0) or self._interrupts.ended)
                if self._interrupts.ended:
                    break
                saves.wait()
                if since := self._chosen(saves.take()):
                    self._verdict(self._exercise, since)

    def _chosen(self, saved: set[Path]) -> float | None:
        """Decide what the saved files mean; when they were saved, or None if they concern nothing that is watched."""
        if not saved <= self._ours.keys():  # a given file or a test
            self.grader.forget_materials()
        mine = [self._ours[path] for path in saved if path in self._ours]
        if not self._pinned and mine:
            self._exercise = max(mine, key=lambda one: (_saved_at(self.course.exercise_path(one)) or 0.0, one.number))
        if self._exercise is None:
            return None
        needed = {self._exercise.file, *(one.file for one in self.course.prerequisites_of(self._exercise))}
        if mine and not any(one.file in needed for one in mine):
            return None
        now = time.time()
        times = [at for path in saved if (at := _saved_at(path)) is not None and now - at < 5.0]
        return min(times, default=now)

    def _verdict(self, exercise: Exercise, since: float | None) -> None:
        """Check one exercise and show what came of it, unless it is outdated before."""
        with contextlib.suppress(Outdated), self._interrupts.run():
            result = self._check(exercise, since)
            self._failed[exercise.file] = frozenset(
                test.id for test in result.tests if test.outcome in ("failed", "blocked", "error")
            )
            if result.status == "graded" and not self._failed[exercise.file]:
                self._seeds[exercise.file] = drawn(None)
            below = unfinished_below(self.course, exercise)
            is_timed_next = not self._failed[exercise.file] and any(test.message == LATER for test in result.tests)
            self.screen.show_result(self.course, exercise, result, below, since, is_timed_next=is_timed_next)
            remember(self.course, [result])
            if below and result.status == "graded" and self._failed[exercise.file]:
                better = self._on_references(exercise, result)
                if better is not None:
                    self.screen.show_result(self.course, exercise, better, below, since)
                    remember(self.course, [better])
            elif is_timed_next:
                timed = self.grader.grade(
                    exercise, self._submission.file, seed=result.seed, watcher=self._check_interrupts, own=True
                )
                self.screen.show_result(self.course, exercise, timed, below, since)
                remember(self.course, [timed])
        with contextlib.suppress(SandboxError, MaterialError):  # said where it is needed
            self.grader.sandbox.prepare(self.grader.materials(exercise).limits)

    def _rehearse(self, enough: Callable[[], bool]) -> None:
        """While nothing is saved, see how chaffs answer, so that the next mistake is named at once."""
        if self._exercise is not None and (seed := self._seeds.get(self._exercise.file)) is not None:
            with contextlib.suppress(MaterialError):  # said where it is needed
                self.grader.rehearse(self._exercise, self._submission.file, seed, enough)

    def _check(self, exercise: Exercise, since: float | None) -> Result:
        first = self._failed.get(exercise.file, frozenset())
        early: list[TestRecord] = []
        told = False

        def watcher(record: TestRecord, diagnosis: str | None) -> None:
            nonlocal told
            self._interrupts.check()
            if told or record.id not in first:
                return
            early.append(record)
            if record.outcome in ("failed", "blocked") or len(early) == len(first):
                told = True
                hint = next((chaff.hint for chaff in self.grader.materials(exercise).chaffs if chaff.name == diagnosis), None)
                self.screen.show_early(exercise, early, hint, since)

        self.screen.show_beginning(exercise, since)
        seed = self._seeds.setdefault(exercise.file, drawn(None))
        return self.grader.grade(
            exercise, self._submission.file, seed=seed, first=first, watcher=watcher, own=True, untimed=LATER
        )

    def _check_interrupts(self, *_: object) -> None:
        self._interrupts.check()

    def _on_references(self, exercise: Exercise, result: Result) -> Result | None:
        """The result that `check` would show, where an earlier exercise is wrong; None if it is the same."""
        known = {
            one.file: Result(student="you", exercise=one.file, status="missing", points=None, max_points=0.0, official=False)
            for one in self.course.prerequisites_of(exercise)
        }  # at least one of them is wrong, which is all that is asked
        again = self.grader.grade(
            exercise, self._submission.file, seed=result.seed, known=known, watcher=self._check_interrupts, untimed=LATER
        )
        return again if again.prerequisites == "reference" else None


def _saved_at(path: Path) -> float | None:
    try:
        return path.stat().st_mtime
    except OSError:
        return None
