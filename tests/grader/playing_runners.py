"""Runners that only play, for tests of a batch: they import no torch, so that they start in a moment.

They note what they do in a file. A submission's name says how each exercise ends: "dies-1" kills its runner in the first exercise
every time, "dies-once-2" only in the first try of the second.
"""

from __future__ import annotations

import os
import signal
import sys
from multiprocessing.connection import Connection

from grader.grading.batch import Done, Finished, Job, Ready, Refused
from grader.grading.result import Result, write_result


def playing(connection: Connection, job: Job) -> None:
    log = job.out / "log"
    connection.send(Ready())
    while (task := connection.recv()) is not None:
        student = task.submission.key
        for number, exercise in enumerate(job.exercises, start=1):
            if exercise not in task.exercises:
                continue
            line = f"{student} {exercise}\n"
            first = line not in log.read_text()
            with log.open("a") as file:
                file.write(line)
            if student == f"dies-{number}" or (student == f"dies-once-{number}" and first):
                os.kill(os.getpid(), signal.SIGKILL)
            result = Result(student=student, exercise=exercise, status="graded", points=1.0, max_points=1.0, official=True)
            write_result(job.out, result)
            connection.send(Finished(exercise=exercise, kept=False, status="graded", reason=None, official=True))
        connection.send(Done(student=student))


def refusing(connection: Connection, job: Job) -> None:
    connection.send(Refused("the course has no suite"))


def ending(connection: Connection, job: Job) -> None:
    sys.exit(3)


def waiting_then_ending(connection: Connection, job: Job) -> None:
    """Takes one task, then leaves between two."""
    connection.send(Ready())
    task = connection.recv()
    for exercise in task.exercises:
        connection.send(Finished(exercise=exercise, kept=True, status="missing", reason="no file", official=False))
    connection.send(Done(student=task.submission.key))
