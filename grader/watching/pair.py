"""Two processes share the tests of one run, each on a core of its own: a verdict needs half the time.

The second is a fork from before anything secret was loaded, and has a sandbox of its own. It is sent suites, and runs of each what
the first has not taken. Where it cannot be had, or is lost, the first does everything.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import threading
import time
from collections.abc import Callable
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from grader.sandbox import affinity, jail
from grader.sandbox.client import Sandbox, SandboxError
from grader.sandbox.environment import trade_memory_for_time
from grader.suite.sharing import LEADER, PARTNER, Board, Share

from .interrupts import Interrupts

if TYPE_CHECKING:
    from grader.suite.plugin import Suite, Watcher
    from grader.suite.records import SuiteRun, TestRecord

GRACE_SECONDS = 30.0  # beyond the time of the whole exercise, until a process that says nothing is given up
GOODBYE_SECONDS = 2.0


class Run(NamedTuple):
    """Run your part of a suite."""

    number: int
    suite: Suite


class Rehearse(NamedTuple):
    """See how chaffs answer the tests of your part, until there is something else to do."""

    number: int
    suite: Suite


class News(NamedTuple):
    """A test that failed last time has just run."""

    number: int
    record: TestRecord
    diagnosis: str | None


class Done(NamedTuple):
    """A run is over; None if it was ended before."""

    number: int
    run: SuiteRun | None


class Channel:
    """Messages to and from another process. Two threads carry them, so that no interruption leaves half a message behind."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._out: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._in: queue.SimpleQueue[Any] = queue.SimpleQueue()
        for carry in (self._write, self._read):
            threading.Thread(target=carry, daemon=True).start()

    def send(self, message: Any) -> None:
        """Have it sent."""
        self._out.put(ForkingPickler.dumps(message))

    def receive(self, seconds: float | None = None) -> Any:
        """The next message, or None when the other side is gone. Raises `queue.Empty` after some seconds."""
        return self._in.get(timeout=seconds)

    def has_news(self) -> bool:
        """Whether `receive` would give something at once."""
        return not self._in.empty()

    def _write(self) -> None:
        with contextlib.suppress(OSError):  # who reads notices that the other side is gone
            while True:
                self._connection.send_bytes(self._out.get())

    def _read(self) -> None:
        try:
            while True:
                self._in.put(self._connection.recv())
        except (EOFError, OSError):
            self._in.put(None)


class Pair:
    """The first of the two, with the interface of `grader.grading.grade.Runs`."""

    def __init__(self, isolation: str) -> None:
        """Forks the second. This process must have torch loaded, and hold nothing secret."""
        self._board = Board()
        self._pid = 0
        self._channel: Channel | None = None
        self._open: int | None = None  # the number of the run that is not over there, and is waited for
        self._theirs: SuiteRun | None = None
        if not hasattr(os, "fork") or len(affinity.cores()) < 2:
            return
        self._connection, theirs = Pipe()
        self._pid = os.fork()
        if self._pid == 0:
            self._connection.close()
            _serve(theirs, isolation, self._board)
        theirs.close()

    def __enter__(self) -> Pair:
        return self

    def __exit__(self, *error: object) -> None:
        self._part()

    def run(self, suite: Suite, sandbox: Sandbox, watcher: Watcher | None) -> SuiteRun:
        """Run a suite. What is timed is run here alone, with nothing beside it."""
        from grader.suite.plugin import run_suite
        from grader.suite.records import merged

        is_timed = suite.untimed is None and bool(suite.timed)
        if is_timed or not self._is_ready():
            self._board.end()  # nor a rehearsal
            return run_suite(suite, sandbox, watcher)
        number = self._board.begin((suite.learner.main, suite.seed))
        self._theirs = None

        def tell(record: TestRecord, diagnosis: str | None) -> None:
            if watcher is not None:
                watcher(record, diagnosis)
            while self._open == number and self._channel.has_news():
                self._receive(watcher, 0.0)

        try:
            self._channel.send(Run(number, suite))
            self._open = number
            mine = run_suite(suite, sandbox, tell, share=Share(self._board, number, LEADER))
            self._wait(watcher, suite.exercise_seconds + GRACE_SECONDS)
        except KeyboardInterrupt:
            self._stop()
            raise
        whole = merged(mine, self._theirs, suite.chaffs) if self._theirs is not None else None
        return whole if whole is not None else run_suite(suite, sandbox, watcher)

    def rehearse(self, suite: Suite, sandbox: Sandbox, enough: Callable[[], bool]) -> None:
        """See how chaffs answer, here until it is enough, there until something else is to be done."""
        from grader.suite.plugin import rehearse_suite

        share = None
        if self._is_ready():
            number = self._board.begin((suite.learner.main, suite.seed))
            self._channel.send(Rehearse(number, suite))
            share = Share(self._board, number, LEADER)
        rehearse_suite(suite, sandbox, enough, share)

    def _is_ready(self) -> bool:
        """Whether the other process is there. What it is still doing ends when it is sent something else to do."""
        if self._pid and self._channel is None:  # its threads come after the zygote's fork
            self._channel = Channel(self._connection)
        return bool(self._pid)

    def _wait(self, watcher: Watcher | None, seconds: float) -> None:
        """Until the run there is over, or has taken too long."""
        end = time.monotonic() + seconds
        while self._open is not None:
            self._receive(watcher, max(0.0, end - time.monotonic()))

    def _receive(self, watcher: Watcher | None, seconds: float) -> None:
        """One message. A process that is gone, or says nothing for so long, is done without from now on."""
        try:
            message = self._channel.receive(seconds)
        except queue.Empty:
            message = None
        if message is None:
            self._part()
        elif message.number != self._open:
            pass  # from a run that was ended
        elif isinstance(message, Done):
            self._open, self._theirs = None, message.run
        elif watcher is not None:
            watcher(message.record, message.diagnosis)

    def _stop(self) -> None:
        """The run is of no use any more: end it there, too."""
        self._open = None
        self._board.end()
        if self._pid:
            os.kill(self._pid, signal.SIGUSR1)

    def _part(self) -> None:
        """Go on alone."""
        pid, self._pid, self._open = self._pid, 0, None
        if not pid:
            return
        self._board.end()
        (self._channel or Channel(self._connection)).send(None)
        end = time.monotonic() + GOODBYE_SECONDS
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(pid, os.WNOHANG)[0] == 0:
                if time.monotonic() > end:
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, 0)
                    return
                time.sleep(0.01)


def _serve(connection: Connection, isolation: str, board: Board) -> NoReturn:
    """The second process, from its fork to its end."""
    try:
        with contextlib.suppress(AttributeError):  # no prctl: not Linux
            jail.die_with_parent()
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null, stream)
        with Interrupts() as interrupts, Sandbox(isolation, start="fork") as sandbox:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the first one's to handle
            trade_memory_for_time()
            _work(Channel(connection), board, sandbox, interrupts)
    finally:
        os._exit(0)


def _work(channel: Channel, board: Board, sandbox: Sandbox, interrupts: Interrupts) -> None:
    """Take part in run after run."""
    from grader.suite.plugin import rehearse_suite, run_suite

    while (message := channel.receive()) is not None:
        number, suite = message
        share = Share(board, number, PARTNER)
        if isinstance(message, Rehearse):
            rehearse_suite(suite, sandbox, channel.has_news, share)
            continue

        def watcher(record: TestRecord, diagnosis: str | None, number: int = number, suite: Suite = suite) -> None:
            if record.id in suite.first:
                channel.send(News(number, record, diagnosis))

        run = None
        with contextlib.suppress(KeyboardInterrupt), interrupts.run():
            run = run_suite(suite, sandbox, watcher, share=share)
        board.let_go()
        channel.send(Done(number, run))
        with contextlib.suppress(SandboxError):  # said where it is needed
            sandbox.prepare(suite.limits)
