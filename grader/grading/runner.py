"""A resident process that grades one task after the other: torch is imported once, a zygote forked, then suites loaded.

Started by `local.Runner` as `python -m grader.grading.runner FD PARENT`; imports nothing of the course before the zygote is forked.
It is sent a `Job` and says `Ready` or `Refused`, then answers every `Task` with `Finished`. It writes nothing to disk.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

import torch  # noqa: F401 - before the fork: the zygote inherits it

from grader.sandbox import jail
from grader.sandbox.client import Sandbox
from grader.sandbox.environment import trade_memory_for_time

MAX_TRIES = 2  # of one task whose zygote is killed from outside, out of memory perhaps

if TYPE_CHECKING:
    from .protocol import Finished, Job, Task


def main() -> None:
    """Serve the parent until it says None or goes away."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the command's to handle
    try:
        jail.die_with_parent()
    except AttributeError:  # no prctl: not Linux
        pass
    if os.getppid() != int(sys.argv[2]):
        return  # it died before it could be bound to
    connection = Connection(int(sys.argv[1]))
    try:
        serve(connection)
    except (EOFError, ConnectionError):
        pass


def serve(connection: Connection) -> None:
    """Grade every task that arrives until None does."""
    job: Job = connection.recv()
    with Sandbox(job.isolation, start="fork") as sandbox:
        trade_memory_for_time()
        from .protocol import Ready, Refused

        try:
            grade = grading(job, sandbox)
        except Exception as error:
            connection.send(Refused(f"{error}" or type(error).__name__))
            return
        connection.send(Ready())
        while (task := connection.recv()) is not None:
            connection.send(grade(task))


def grading(job: Job, sandbox: Sandbox) -> Callable[[Task], Finished]:
    """A function that grades one task; a result from an earlier batch that is up to date is left alone.

    Whatever the course or this machine lacks is found here, before the first submission: it raises.
    """
    from grader.course import load_course

    from .grade import UNTIMED, Grader
    from .protocol import finished, lost_result

    course = load_course(job.root)
    grader = Grader(
        course,
        sandbox,
        official=True,
        carry_forward=job.carry_forward,
        patient=job.patient,
        remember=job.seed is not None,
    )
    for name in job.exercises:
        grader.materials(course.exercise(name))
    may_be_official = grader.probed() == []

    def is_fresh(task: Task) -> bool:
        """Whether the earlier result is what grading would make again."""
        before = task.before
        if before is None or before.status == "error":
            return False
        if before.status == "graded" and may_be_official and not before.official:
            return False
        return before.key == grader.key(course.exercise(task.exercise), task.files.__getitem__)

    def grade(task: Task) -> Finished:
        try:
            if is_fresh(task):
                assert task.before is not None
                return finished(task.before, kept=True)
            for _ in range(MAX_TRIES):
                result = grader.grade(
                    course.exercise(task.exercise),
                    task.files.__getitem__,
                    student=task.student,
                    seed=job.seed,
                    known=task.known,
                    explain=task.student not in job.undiagnosed,
                    untimed=UNTIMED if task.student in job.untimed else None,
                )
                if sandbox.intact():
                    break
            else:
                result = lost_result(task.student, task.exercise, f"the zygote was killed {MAX_TRIES} times")
        except Exception as error:  # a failure of the grader's own is no reason to lose the rest of the class
            result = lost_result(task.student, task.exercise, f"the grader failed: {type(error).__name__}: {error}")
        return finished(result)

    return grade


if __name__ == "__main__":
    main()
