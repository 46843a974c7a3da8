"""A resident process that grades submissions one after the other: torch is imported once, a zygote forked, then suites loaded.

Started by `batch` through multiprocessing's spawn; imports nothing of the course before the zygote is forked.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING

import torch  # noqa: F401 - before the fork: the zygote inherits it

from grader.sandbox import jail
from grader.sandbox.client import Sandbox

if TYPE_CHECKING:
    from grader.submission import Submission

    from .batch import Done, Job


def serve(connection: Connection, job: Job) -> None:
    """Grade every submission that arrives; answer each with its `Done`, until None arrives."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the command's to handle
    try:
        jail.die_with_parent()
    except AttributeError:  # no prctl: not Linux
        pass
    with Sandbox(job.isolation, start="fork") as sandbox:
        grade = grading(job, sandbox)
        while (submission := connection.recv()) is not None:
            connection.send(grade(submission))


def grading(job: Job, sandbox: Sandbox) -> Callable[[Submission], Done]:
    """A function that grades one submission's exercises and writes their results; what is up to date is left alone."""
    from grader.course import load_course

    from .batch import Done
    from .grade import Grader
    from .result import Result, ResultError, read_result, result_path, write_result

    course = load_course(job.root)
    grader = Grader(course, sandbox, official=True, carry_forward=job.carry_forward)

    def fresh(path: Path, key: str) -> Result | None:
        """The result on disk, if it is what grading would make again."""
        try:
            result = read_result(path)
        except ResultError:
            return None
        return result if result.key == key and result.status != "error" else None

    def results(submission: Submission) -> Iterator[tuple[Result, bool]]:
        known: dict[str, Result] = {}
        for exercise in map(course.exercise, job.only.get(submission.key, job.exercises)):
            path = result_path(job.out, submission.key, exercise.file)
            kept = fresh(path, grader.key(exercise, submission.file))
            result = kept or grader.grade(exercise, submission.file, student=submission.key, seed=job.seed, known=known)
            if kept is None:
                write_result(job.out, result)
            known[exercise.file] = result
            yield result, kept is not None

    def grade(submission: Submission) -> Done:
        found = list(results(submission))
        return Done(
            student=submission.key,
            graded=[result.exercise for result, kept in found if not kept],
            kept=[result.exercise for result, kept in found if kept],
            errors={result.exercise: result.reason or "" for result, _ in found if result.status == "error"},
            missing=[result.exercise for result, _ in found if result.status == "missing"],
            unofficial=[result.exercise for result, _ in found if result.status == "graded" and not result.official],
        )

    return grade
