"""Runners that only play, for tests of a batch: they import no torch, so that they start in a moment.

They note what they do in a file. A submission's name says how each exercise ends: "dies-1" kills its runner in the first exercise
every time, "dies-once-2" only in the first try of the second; a "slow" one takes a moment.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from multiprocessing.connection import Connection

from grader.grading.protocol import Finished, Job, Ready, Refused, Task, finished
from grader.grading.result import Result


def play(job: Job, task: Task) -> Finished:
    """Note a task and pretend to grade it."""
    log, line = job.out / "log", f"{task.student} {task.exercise}\n"
    first = line not in log.read_text()
    with log.open("a") as file:
        file.write(line)
    number = 1 + job.exercises.index(task.exercise)
    if task.student == f"dies-{number}" or (task.student == f"dies-once-{number}" and first):
        os.kill(os.getpid(), signal.SIGKILL)
    if task.student.startswith("sleeps"):
        time.sleep(600)
    if task.student.startswith("slow"):
        time.sleep(0.2)
    with (job.out / "who").open("a") as file:
        file.write(f"{task.exercise} {os.getppid()}\n")
    result = Result(student=task.student, exercise=task.exercise, status="graded", points=1.0, max_points=1.0, official=True)
    return finished(result)


def playing(connection: Connection, job: Job) -> None:
    connection.send(Ready())
    while (task := connection.recv()) is not None:
        connection.send(play(job, task))


def refusing(connection: Connection, job: Job) -> None:
    connection.send(Refused("the course has no suite"))


def ending(connection: Connection, job: Job) -> None:
    sys.exit(3)


def answering_then_ending(connection: Connection, job: Job) -> None:
    """Takes one task, then leaves between two."""
    connection.send(Ready())
    connection.send(play(job, connection.recv()))


if __name__ == "__main__":
    connection = Connection(int(sys.argv[2]))
    globals()[sys.argv[1]](connection, connection.recv())
