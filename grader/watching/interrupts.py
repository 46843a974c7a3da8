"""What ends a run of tests before it is over: a newer save, Ctrl-C."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType


class Outdated(KeyboardInterrupt):
    """What is running is of no use any more. Everything lets a KeyboardInterrupt through."""


class Interrupts:
    """Lets another thread, and Ctrl-C, end what the main thread is running: once per run, and nothing outside of a run."""

    def __init__(self) -> None:
        self.ended = False  # Ctrl-C was pressed
        self._running = self._outdated = self._puts_off = False
        self._main = threading.main_thread().ident

    def __enter__(self) -> Interrupts:
        self._before = {number: signal.signal(number, self._handle) for number in (signal.SIGINT, signal.SIGUSR1)}
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def interrupt(self) -> None:
        """From any thread: what is running is outdated."""
        assert self._main is not None
        signal.pthread_kill(self._main, signal.SIGUSR1)

    def check(self) -> None:
        """End the run if it was told to end and something on the way ignored that."""
        if self._outdated:
            raise Outdated

    @contextlib.contextmanager
    def run(self) -> Iterator[None]:
        """Something that can be ended: raises `Outdated`."""
        self._outdated, self._running = False, True
        try:
            yield
        finally:
            self._running = False

    @contextlib.contextmanager
    def put_off(self) -> Iterator[None]:
        """Something that asks for itself whether Ctrl-C was pressed, and that must not be torn."""
        self._puts_off = True
        try:
            yield
        finally:
            self._puts_off = False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        first_time = not (self._outdated or self.ended)
        self.ended = self.ended or number == signal.SIGINT
        if self._running:
            self._outdated = True
            if first_time:
                raise Outdated
        elif number == signal.SIGINT and not self._puts_off:
            raise KeyboardInterrupt
