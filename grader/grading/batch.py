"""Grades a class: hands submissions to resident runner processes, survives their deaths, and can be killed and started again.

Runs no learner code and imports no torch. Each result is written by the runner that made it, by atomic rename, before the next
begins: whatever is killed, only the exercise in work is lost.
"""

from __future__ import annotations

import contextlib
import multiprocessing
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path

import msgspec

from grader.submission import Submission

from .result import Result, Status, write_result

MAX_DEATHS = 2  # runners that one exercise of a submission may take with it, or that may die before they are ready
GOODBYE_SECONDS = 5.0


class BatchError(Exception):
    """Nothing can be graded here; `str` says why."""


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """What all runners of one batch need to know."""

    root: Path
    out: Path
    exercises: list[str]  # their files' names, in the order of the course
    isolation: str = "auto"
    seed: int | None = None
    only: dict[str, list[str]] = {}  # student -> exercises, where these are not all
    patient: bool = False  # whether diagnosis may take all the time it needs
    undiagnosed: frozenset[str] = frozenset()  # students whose mistakes need no name
    untimed: frozenset[str] = frozenset()  # students whose code is not timed
    carry_forward: bool = True  # whether an early mistake is made good for later exercises


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """What a runner is given: a submission, its exercises that are still to be done, and those that are done in this batch."""

    submission: Submission
    exercises: list[str]
    finished: list[str] = []


class Ready(msgspec.Struct, frozen=True):
    """What a runner says first."""


class Refused(msgspec.Struct, frozen=True):
    """What it says if it can grade nothing at all."""

    reason: str


class Finished(msgspec.Struct, frozen=True, kw_only=True):
    """What it says after each exercise."""

    exercise: str
    kept: bool  # the result on disk was up to date
    status: Status
    reason: str | None
    official: bool


class Done(msgspec.Struct, kw_only=True):
    """What became of one submission."""

    student: str
    graded: list[str] = []
    kept: list[str] = []
    errors: dict[str, str] = {}
    missing: list[str] = []
    unofficial: list[str] = []

    def note(self, finished: Finished) -> None:
        """Take one exercise into account; what an earlier try graded is not only kept."""
        exercise = finished.exercise
        if exercise in self.graded and finished.kept:
            return
        (self.kept if finished.kept else self.graded).append(exercise)
        if finished.status == "error":
            self.errors[exercise] = finished.reason or ""
        elif finished.status == "missing":
            self.missing.append(exercise)
        elif not finished.official:
            self.unofficial.append(exercise)


def lost_result(student: str, exercise: str, reason: str) -> Result:
    """What stands in place of a result that could not be made."""
    return Result(student=student, exercise=exercise, status="error", reason=reason, points=None, max_points=0.0, official=False)


def _serve(connection: Connection, job: Job) -> None:
    """What a runner's process does; torch is imported there and not here."""
    from .runner import serve

    serve(connection, job)


class _Runner:
    """One resident process and what it is working on."""

    def __init__(self, job: Job) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, job), daemon=False)
        self.process.start()
        theirs.close()
        self.ready = False
        self.task: Task | None = None
        self.began_with: list[str] = []  # the exercise with which its last task began

    def receive(self) -> Ready | Refused | Finished | Done | None:
        """What it sent, or None when it has died."""
        assert isinstance(self.connection, Connection)
        try:
            return self.connection.recv()
        except (EOFError, OSError):
            return None

    def say_goodbye(self) -> None:
        """Ask an idle one to end, so that it can tidy up."""
        if self.ready and self.task is None:
            with contextlib.suppress(OSError):
                self.connection.send(None)

    def end(self, patience: float = 0.0) -> int | None:
        """End it, after it had `patience` seconds to do so by itself; returns its exit code."""
        self.process.join(patience)
        self.process.kill()
        self.process.join()
        self.connection.close()
        return self.process.exitcode


def grade_class(job: Job, submissions: Sequence[Submission], jobs: int) -> Iterator[Done]:
    """Grade every submission with `jobs` runners; yields each as it is done. Close the iterator to stop early.

    Raises `BatchError` when the course or the machine is such that nothing can be graded.
    """
    batch = _Batch(job, submissions, jobs)
    try:
        while batch.waiting or batch.busy():
            batch.employ()
            yield from batch.listen()
    finally:
        batch.end()


class _Batch:
    """The runners, the tasks that wait, and what is known of the submissions in work."""

    def __init__(self, job: Job, submissions: Sequence[Submission], jobs: int) -> None:
        self.job, self.jobs = job, jobs
        self.waiting = deque(
            Task(submission=submission, exercises=list(job.only.get(submission.key, job.exercises))) for submission in submissions
        )
        self.runners: list[_Runner] = []
        self.done: dict[str, Done] = {}
        self.deaths: Counter[tuple[str, str]] = Counter()
        self.false_starts = 0

    def busy(self) -> list[_Runner]:
        """Those at work."""
        return [runner for runner in self.runners if runner.task]

    def employ(self) -> None:
        """Give every runner something to do, and start as many as there is work for."""
        idle = [runner for runner in self.runners if runner.ready and not runner.task]
        for runner in idle[: len(self.waiting)]:
            task = self._next(runner)
            try:
                runner.connection.send(task)
                runner.task, runner.began_with = task, task.exercises[:1]
            except OSError:  # it is gone, which is not this task's fault
                self.waiting.appendleft(task)
        starting = sum(not runner.ready for runner in self.runners)
        while len(self.runners) < self.jobs and starting < len(self.waiting):
            self.runners.append(_Runner(self.job))
            starting += 1

    def _next(self, runner: _Runner) -> Task:
        """Take a task from those that wait: one that begins with the exercise that this runner knows by now, or else with one
        that no other is at, or else the first."""
        others = [other.began_with for other in self.runners if other is not runner]
        ranks = (lambda task: task.exercises[:1] == runner.began_with, lambda task: task.exercises[:1] not in others)
        for fits in ranks:
            for index, task in enumerate(self.waiting):
                if fits(task):
                    del self.waiting[index]
                    return task
        return self.waiting.popleft()

    def listen(self) -> Iterator[Done]:
        """Wait until some runner says something or dies."""
        runners = {runner.connection: runner for runner in self.runners}
        for connection in wait(list(runners)):
            runner = runners[connection]
            message = runner.receive()
            if isinstance(message, Refused):
                raise BatchError(message.reason)
            if isinstance(message, Ready):
                runner.ready, self.false_starts = True, 0
            elif isinstance(message, Finished):
                self._note(runner.task, message)
            elif isinstance(message, Done):
                runner.task = None
                yield self.done.pop(message.student, message)
            else:
                yield from self._after_death(runner)

    def _note(self, task: Task | None, finished: Finished) -> None:
        assert task is not None
        self.done.setdefault(task.submission.key, Done(student=task.submission.key)).note(finished)
        task.exercises.remove(finished.exercise)
        task.finished.append(finished.exercise)

    def _after_death(self, runner: _Runner) -> Iterator[Done]:
        """Let another runner try once more what this one died of; then record that it cannot be graded, and go on."""
        self.runners.remove(runner)
        code, task = runner.end(1.0), runner.task  # its end of the pipe closes a moment before it has an exit code
        if not runner.ready:
            self.false_starts += 1
            if self.false_starts >= MAX_DEATHS:
                raise BatchError(f"the grading process ends before it can grade anything (exit {code})")
        if task is None:
            return
        if task.exercises:
            exercise, student = task.exercises[0], task.submission.key
            self.deaths[student, exercise] += 1
            if self.deaths[student, exercise] >= MAX_DEATHS:
                reason = f"the grading process died {MAX_DEATHS} times on this submission (exit {code})"
                write_result(self.job.out, lost_result(student, exercise, reason))
                self._note(task, Finished(exercise=exercise, kept=False, status="error", reason=reason, official=False))
        if task.exercises:
            self.waiting.appendleft(task)
        else:
            yield self.done.pop(task.submission.key)

    def end(self) -> None:
        """End all runners, the idle ones in peace."""
        for runner in self.runners:
            runner.say_goodbye()
        for runner in self.runners:
            runner.end(GOODBYE_SECONDS if runner.ready and runner.task is None else 0.0)
