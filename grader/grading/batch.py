"""Grades a class: hands submissions to resident runner processes, survives their deaths, and can be killed and started again.

Runs no learner code and imports no torch. Each result is written by the runner that made it, by atomic rename, before the next
begins: whatever is killed, only the exercise in work is lost.
"""

from __future__ import annotations

import multiprocessing
from collections import deque
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import msgspec

from grader.submission import Submission

from .result import Result, write_result

MAX_DEATHS = 2  # runners that one submission may take with it


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """What all runners of one batch need to know."""

    root: Path
    out: Path
    exercises: list[str]
    isolation: str = "auto"
    seed: int | None = None
    only: dict[str, list[str]] = {}  # student -> exercises, where these are not all
    carry_forward: bool = True  # whether an early mistake is made good for later exercises


class Done(msgspec.Struct, kw_only=True):
    """What became of one submission."""

    student: str
    graded: list[str] = []
    kept: list[str] = []
    errors: dict[str, str] = {}
    missing: list[str] = []
    unofficial: list[str] = []


class _Runner:
    """One resident process and what it is working on."""

    def __init__(self, job: Job) -> None:
        from . import runner

        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=runner.serve, args=(theirs, job), daemon=False)
        self.process.start()
        theirs.close()
        self.submission: Submission | None = None

    def give(self, submission: Submission) -> None:
        self.submission = submission
        self.connection.send(submission)

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.connection.close()


def grade_class(job: Job, submissions: Sequence[Submission], jobs: int) -> Iterator[Done]:
    """Grade every submission with `jobs` runners; yields each as it is done. Close the iterator to stop early."""
    waiting = deque(submissions)
    deaths: dict[str, int] = {}
    runners: list[_Runner] = []
    try:
        while waiting or any(runner.submission for runner in runners):
            while waiting and len(runners) < jobs:
                runners.append(_Runner(job))
            for runner in runners:
                if waiting and runner.submission is None:
                    try:
                        runner.give(waiting.popleft())
                    except OSError:  # it died before it could take anything: found below
                        pass
            busy = {runner.connection: runner for runner in runners if runner.submission}
            for ready in wait(list(busy)):
                runner = busy[ready]
                done = _answer(ready)
                if done is None:
                    done = _after_death(job, runner, waiting, deaths)
                    runners.remove(runner)
                runner.submission = None
                if done is not None:
                    yield done
    finally:
        for runner in runners:
            runner.end()


def _answer(connection: Any) -> Done | None:
    """What a runner sent, or None when it has died."""
    assert isinstance(connection, Connection)
    try:
        return connection.recv()
    except (EOFError, OSError):
        return None


def _after_death(job: Job, runner: _Runner, waiting: deque[Submission], deaths: dict[str, int]) -> Done | None:
    """Give the submission one more try in a fresh runner; then record that it cannot be graded."""
    submission = runner.submission
    assert submission is not None
    runner.end()
    deaths[submission.key] = deaths.get(submission.key, 0) + 1
    if deaths[submission.key] < MAX_DEATHS:
        waiting.appendleft(submission)
        return None
    reason = f"the grading process died {MAX_DEATHS} times on this submission (exit {runner.process.exitcode})"
    errors = {}
    for exercise in job.exercises:
        path = job.out / submission.key / f"{exercise.split('_')[0]}.json"
        if path.exists():
            continue  # graded before the death, or in an earlier run
        result = Result(
            student=submission.key, exercise=exercise, status="error", reason=reason, points=None, max_points=0.0, official=False
        )
        write_result(job.out, result)
        errors[exercise] = reason
    return Done(student=submission.key, errors=errors)
