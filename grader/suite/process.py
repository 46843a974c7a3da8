"""The process that holds the learner's code: started when first needed, replaced after a death. Runs none of it itself."""

from __future__ import annotations

import contextlib
import math
import time

from grader.sandbox import wire
from grader.sandbox.client import Limits, Package, Sandbox, Worker, WorkerGone
from grader.sandbox.remote import Local

PEAK_SLACK = 1 << 20  # bytes


class LearnerProcess:
    """The worker that holds the learner's code: started when first needed, replaced after a death."""

    def __init__(self, sandbox: Sandbox, package: Package, limits: Limits) -> None:
        self._sandbox, self._package, self._limits = sandbox, package, limits
        self._watch = self._watching = True  # as it is to be, and as it is in the worker
        self._hurry = self._hurries = False
        self._until = math.inf  # on `time.monotonic`: when no request is answered any more
        self.worker: Worker | None = None
        self.printed: list[str] = []

    def start(self, seconds: float) -> float:
        """Have a worker ready, then let the time run that all of them have together; returns when it ends."""
        worker = self.transport()
        self._until = time.monotonic() + seconds
        worker.until = self._until
        return self._until

    def grant(self, seconds: float) -> float:
        """Give back time that was not the learner's; returns when the time ends now."""
        self._until += seconds
        if self.worker is not None:
            self.worker.until = self._until
        return self._until

    def transport(self) -> Worker:
        """The live worker. One that died inside a test stays dead until `renew`."""
        if self.worker is None:
            self.worker = self._sandbox.worker(self._package, self._limits)
            self.worker.until = self._until
            self._watching, self._hurries = True, False
            self._tell(self.worker)
        return self.worker

    def watch(self, wanted: bool) -> None:
        """Whether calls of forbidden functions are looked for from now on while the code runs."""
        self._watch = wanted
        self._tell_if_alive()

    def hurry(self, wanted: bool) -> None:
        """Whether speed is what counts from now on, since memory is not measured any more."""
        self._hurry = wanted
        self._tell_if_alive()

    def _tell_if_alive(self) -> None:
        if self.worker is not None and self.worker.alive:
            with contextlib.suppress(WorkerGone):
                self._tell(self.worker)

    def _tell(self, worker: Worker) -> None:
        if self._watch != self._watching:
            worker.request(wire.Request(operation="watch", extra=self._watch), wire.Blob(), {})
            self._watching = self._watch
        if self._hurry and not self._hurries:
            worker.request(wire.Request(operation="hurry"), wire.Blob(), {})
            self._hurries = True

    def renew(self, *, even_alive: bool = False) -> None:
        """Before a test: forget a dead worker, or any."""
        if self.worker is not None and (even_alive or not self.worker.alive):
            self.close()
        if self.worker is not None:
            self.worker.refill()

    def has_peaked(self) -> bool:
        """Whether the worker once held, or still holds, much more memory than it needs, so that a new peak would not be seen."""
        if self.worker is None:
            return False
        if self._hurries:  # it keeps what it freed
            return True
        try:
            peak, now = self.worker.memory("VmPeak"), self.worker.explained_memory()
        except WorkerGone:
            return True
        return peak is None or now is None or peak - now > PEAK_SLACK

    def close(self) -> None:
        """End the worker and keep what it printed."""
        if self.worker is not None:
            self.worker.kill()
            if sum(map(len, self.printed)) < self._limits.output_kb << 10:  # a worker has one limit, and so have many
                self.printed.append(self.worker.output())
            self.worker = None


class OwnProcess(LearnerProcess):
    """No jail at all: the code runs here, so that prints, breakpoints and debuggers work. Never for grading."""

    def __init__(self, package: Package, paths: dict[str, str]) -> None:
        self._local = Local(package, paths)

    def transport(self) -> Local:
        return self._local

    def start(self, seconds: float) -> float:
        """All the time it takes: a debugger may stop in it."""
        return math.inf

    def grant(self, seconds: float) -> float:
        """There is no end."""
        return math.inf

    def watch(self, wanted: bool) -> None:
        """Always: speed does not matter here."""

    def hurry(self, wanted: bool) -> None:
        """Never: nor does memory."""

    def renew(self, *, even_alive: bool = False) -> None:
        """Nothing to renew: there is one process."""

    def close(self) -> None:
        """Nothing to end."""

    def has_peaked(self) -> bool:
        """Never: nothing is measured here."""
        return False

    worker, printed = None, ()
