"""A resident process that grades submissions one after the other: torch is imported once, a zygote forked, then suites loaded.

Started by `batch` through multiprocessing's spawn; imports nothing of the course before the zygote is forked. It answers with
`Ready` or `Refused`, then for every `Task` with a `Finished` per exercise and a `Done` at the end.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING

import torch  # noqa: F401 - before the fork: the zygote inherits it

from grader.sandbox import jail
from grader.sandbox.client import Sandbox

if TYPE_CHECKING:
    from .batch import Finished, Job, Task


def serve(connection: Connection, job: Job) -> None:
    """Grade every submission that arrives until None does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the command's to handle
    try:
        jail.die_with_parent()
    except AttributeError:  # no prctl: not Linux
        pass
    with Sandbox(job.isolation, start="fork") as sandbox:
        from .batch import Done, Ready, Refused

        try:
            grade = grading(job, sandbox)
        except Exception as error:
            connection.send(Refused(f"{error}" or type(error).__name__))
            return
        connection.send(Ready())
        while (task := connection.recv()) is not None:
            for finished in grade(task):
                connection.send(finished)
            connection.send(Done(student=task.submission.key))


def grading(job: Job, sandbox: Sandbox) -> Callable[[Task], Iterator[Finished]]:
    """A function that grades one submission's exercises and writes their results; what is up to date is left alone.

    Whatever the course or this machine lacks is found here, before the first submission: it raises.
    """
    from grader.course import load_course

    from .batch import Finished, lost_result
    from .grade import Grader
    from .result import Result, ResultError, read_result, result_path, write_result

    course = load_course(job.root)
    grader = Grader(course, sandbox, official=True, carry_forward=job.carry_forward, patient=job.patient)
    for name in job.exercises:
        grader.materials(course.exercise(name))
    may_be_official = grader.probed() == []

    def fresh(path: Path, key: str) -> Result | None:
        """The result on disk, if it is what grading would make again."""
        try:
            result = read_result(path)
        except ResultError:
            return None
        if result.key != key or result.status == "error":
            return None
        return None if result.status == "graded" and may_be_official and not result.official else result

    def one(task: Task, name: str, known: dict[str, Result]) -> Finished:
        exercise, submission = course.exercise(name), task.submission
        path = result_path(job.out, submission.key, exercise.file)
        kept = fresh(path, grader.key(exercise, submission.file))
        explain, timed = submission.key not in job.undiagnosed, submission.key not in job.untimed
        result = kept or grader.grade(
            exercise, submission.file, student=submission.key, seed=job.seed, known=known, explain=explain, timed=timed
        )
        if kept is None:
            write_result(job.out, result)
        known[exercise.file] = result
        return Finished(
            exercise=exercise.file,
            kept=kept is not None,
            status=result.status,
            reason=result.reason,
            official=result.official,
        )

    def failed(task: Task, name: str, error: Exception) -> Finished:
        """A failure of the grader's own, which is no reason to lose the rest of the class."""
        reason = f"the grader failed: {type(error).__name__}: {error}"
        with contextlib.suppress(OSError, ResultError):
            write_result(job.out, lost_result(task.submission.key, name, reason))
        return Finished(exercise=name, kept=False, status="error", reason=reason, official=False)

    def grade(task: Task) -> Iterator[Finished]:
        known: dict[str, Result] = {}
        for name in task.finished:  # by a runner that died later
            with contextlib.suppress(ResultError):
                known[name] = read_result(result_path(job.out, task.submission.key, name))
        for name in task.exercises:
            try:
                finished = one(task, name, known)
            except Exception as error:
                finished = failed(task, name, error)
            yield finished

    return grade
