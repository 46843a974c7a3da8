"""Runners on this machine: resident child processes, each with a clean environment and at one task at a time. Runs no learner code
and imports no torch.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING

from grader.sandbox.environment import clean_environment

from .protocol import TASK_SECONDS, BatchError, Died, Finished, Job, Ready, Refused, Task

if TYPE_CHECKING:
    from .batch import Batch

ROOT = Path(__file__).resolve().parents[2]
MAX_FALSE_STARTS = 2  # runners that may die before they are ready, one after the other
GOODBYE_SECONDS = 5.0
TICK = 10.0  # seconds between two looks at runners that say nothing


class Runner:
    """One resident process."""

    command = ("-m", "grader.grading.runner")

    def __init__(self, job: Job) -> None:
        self.connection, theirs = Pipe()
        self.process = subprocess.Popen(
            [sys.executable, *self.command, str(theirs.fileno()), str(os.getpid())],
            pass_fds=[theirs.fileno()],
            cwd=ROOT,
            env=clean_environment(),
            stdin=subprocess.DEVNULL,
            process_group=0,  # Ctrl-C does not reach it
        )
        theirs.close()
        self.ready = False
        self.task: Task | None = None
        self.exercise = ""  # of its last task
        self.since = time.monotonic()  # when it was last given something
        with contextlib.suppress(OSError):  # dead already: that is noticed where it is listened to
            self.connection.send(job)

    def give(self, task: Task) -> None:
        """Send it a task."""
        self.task, self.exercise, self.since = task, task.exercise, time.monotonic()
        with contextlib.suppress(OSError):
            self.connection.send(task)

    def receive(self) -> Ready | Refused | Finished | None:
        """What it sent, or None when it has died."""
        assert isinstance(self.connection, Connection)
        try:
            return self.connection.recv()
        except (EOFError, OSError):
            return None

    def answer(self, task: Task) -> Finished | Died | Refused:
        """Give it a task and wait for what comes of it, for those that have one runner and nothing else to do."""
        if not self.ready:
            first = self.receive() if self.connection.poll(TASK_SECONDS) else None
            if isinstance(first, Refused):
                return first
            if first is None:
                return Refused(f"the grading process ends before it can grade anything (exit {self.end(1.0)})")
            self.ready = True
        self.give(task)
        answered = self.connection.poll(TASK_SECONDS)
        message = self.receive() if answered else None
        self.task = None
        return message if isinstance(message, Finished) else Died(self.death(answered))

    def death(self, answered: bool = True) -> str:
        """End it and say of what it died."""
        if not answered:
            self.end()
            return f"the grading process did not answer within {TASK_SECONDS:g} s"
        return f"exit {self.end(1.0)}"  # its end of the pipe closes a moment before it has an exit code

    def say_goodbye(self) -> None:
        """Ask an idle one to end, so that it can tidy up."""
        if self.ready and self.task is None:
            with contextlib.suppress(OSError):
                self.connection.send(None)

    def end(self, patience: float = 0.0) -> int:
        """End it, after it had `patience` seconds to do so by itself; returns its exit code."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(patience)
        self.process.kill()
        code = self.process.wait()
        self.connection.close()
        return code


class LocalRunners:
    """An executor of `jobs` runners on this machine."""

    def __init__(self, job: Job, jobs: int) -> None:
        self.job, self.jobs = job, jobs
        self.runners: list[Runner] = []
        self._false_starts = 0

    def fill(self, batch: Batch) -> None:
        """Start runners that are missing and give the idle ones something to do."""
        for runner in self.runners:
            if runner.ready and runner.task is None:
                others = {other.exercise for other in self.runners if other is not runner}
                if (task := batch.take(runner.exercise, others)) is not None:
                    runner.give(task)
        starting = sum(not runner.ready for runner in self.runners)
        while len(self.runners) < self.jobs and starting < batch.waiting:
            self.runners.append(Runner(self.job))
            starting += 1

    def listen(self) -> Iterator[tuple[Task, Finished | Died]]:
        """Wait until some runner says something or dies."""
        runners = {runner.connection: runner for runner in self.runners}
        for connection in wait(list(runners), TICK):
            runner = runners[connection]
            message = runner.receive()
            if isinstance(message, Refused):
                raise BatchError(message.reason)
            if isinstance(message, Ready):
                runner.ready, self._false_starts = True, 0
            elif isinstance(message, Finished):
                assert runner.task is not None
                task, runner.task = runner.task, None
                yield task, message
            else:
                yield from self._bury(runner, answered=True)
        for runner in list(self.runners):
            if time.monotonic() - runner.since > TASK_SECONDS and (runner.task is not None or not runner.ready):
                yield from self._bury(runner, answered=False)

    def _bury(self, runner: Runner, *, answered: bool) -> Iterator[tuple[Task, Died]]:
        self.runners.remove(runner)
        reason, task = runner.death(answered), runner.task
        if not runner.ready:
            self._false_starts += 1
            if self._false_starts >= MAX_FALSE_STARTS:
                raise BatchError(f"the grading process ends before it can grade anything ({reason})")
        if task is not None:
            yield task, Died(reason)

    def end(self) -> None:
        """End all runners, the idle ones in peace."""
        for runner in self.runners:
            runner.say_goodbye()
        for runner in self.runners:
            runner.end(GOODBYE_SECONDS if runner.ready and runner.task is None else 0.0)
