"""The arms of a timed test: one worker each, and a clock that is read outside of it. Runs no code of anybody's itself."""

from __future__ import annotations

import contextlib
import fcntl
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec

from grader.sandbox import affinity
from grader.sandbox.client import Limits, Package, Sandbox, Worker, WorkerGone, WorkerHung
from grader.sandbox.remote import LearnerError, RemoteFunction, RemoteObject, Session

from .checks import fail, not_assessed
from .inputs import AuthoringError

ANCHOR_CPU_SECONDS = 3600  # of a worker that holds a reference or a slow anchor, and serves many learners one after the other
PATIENCE = 100.0  # times the slow anchor's time that one call of the learner's may take
LEAST_PATIENCE = 2.0  # seconds


class Sample(NamedTuple):
    """One call: what came back, and the seconds it took by the clock in use."""

    answer: Any
    seconds: float
    wall: float = 0.0  # the same call by the clock on the wall


class Arm(Protocol):
    """Something that does the work of one round."""

    def run(self, arguments: Sequence[Any]) -> Sample:
        """Once, on these arguments."""


class Arms(NamedTuple):
    """The three that are compared."""

    learner: Arm
    reference: Arm
    slow: Arm


class WorkerArm:
    """A function of one package in a worker of its own.

    On the CPU a round costs all CPU time that the process has used since its last round ended, whatever thread used it and whenever:
    what is done ahead, in the background, or only when the answer is fetched, is in it. On a GPU it is the time from the question
    to the answer, which must have left the GPU by then.
    """

    def __init__(self, worker: Worker, function: RemoteFunction, device: str) -> None:
        self._worker, self._device, self._owner = worker, device, function._session
        self._session = Session(lambda: worker)
        self._function = function.in_session(self._session)
        self._used = self._cpu_time()

    def _cpu_time(self) -> float:
        used = self._worker.cpu_time()
        if used is None:
            not_assessed("time can only be measured on Linux, outside the worker")
        return used

    def run(self, arguments: Sequence[Any]) -> Sample:
        """The call, its answer fetched as plain data."""
        if self._device == "cuda":
            self._session.ask("settle", "settle", extra=self._device)
        start = time.perf_counter()
        try:
            answer = self._function(*arguments)
        except LearnerError as error:
            error.session = self._owner  # whichever worker it was in
            raise
        wall, before = time.perf_counter() - start, self._used
        self._used = self._cpu_time()
        self._session.trace.clear()
        self._worker.refill()
        if _is_remote(answer):
            fail(f"{self._function.what} does not return plain data")
        return Sample(answer, wall if self._device == "cuda" else self._used - before, wall)


class AnchorArm(WorkerArm):
    """The reference or a slow anchor: whatever goes wrong in it is no fault of the learner's."""

    def run(self, arguments: Sequence[Any]) -> Sample:
        try:
            return super().run(arguments)
        except WorkerHung:
            not_assessed("this machine is too slow, or too busy, to measure anything")
        except (LearnerError, WorkerGone) as error:
            raise AuthoringError(f"{self._function.what} of the reference or the slow anchor failed: {error}") from error


def _is_remote(answer: Any) -> bool:
    if isinstance(answer, tuple | list):
        return any(map(_is_remote, answer))
    return isinstance(answer, RemoteObject)


class Anchors:
    """Workers with references and slow anchors, kept from one learner to the next as long as the same packages are asked for."""

    def __init__(self) -> None:
        self._workers: dict[tuple[int, str], tuple[Package, Worker]] = {}

    def get(self, sandbox: Sandbox, package: Package, limits: Limits, *, fresh: bool) -> Worker:
        """A worker that holds this package and has done nothing but such rounds; `fresh`: nothing at all."""
        key = (id(sandbox), package.name)
        known, worker = self._workers.get(key, (None, None))
        if worker is not None and (fresh or known != package or not worker.is_up()):
            worker.kill()
            worker = None
        if worker is None:
            worker = sandbox.worker(package, msgspec.structs.replace(limits, cpu_seconds=ANCHOR_CPU_SECONDS))
            self._workers[key] = package, worker
        affinity.stay([worker.pid], affinity.cores())  # the core of this run, which may not be that of the run it was made in
        worker.refill()
        return worker

    def keep_only(self, main: str | None) -> None:
        """End the workers of other exercises, or all: one is graded at a time."""
        for key in [key for key, (package, _) in self._workers.items() if package.main != main]:
            self._workers.pop(key)[1].kill()


_anchors = Anchors()


class Contest(msgspec.Struct, frozen=True, kw_only=True):
    """What is compared: the same function of three packages, on one kind of device."""

    sandbox: Sandbox
    learner: Package
    reference: Package
    slow: Package
    limits: Limits
    device: str = "cpu"

    @contextlib.contextmanager
    def arms(self, function: RemoteFunction, warm_up: Sequence[Any], *, fresh: bool) -> Iterator[Arms]:
        """The three arms, each warmed up by one call. The learner's is always in a new worker, the others only if it must be so."""
        _anchors.keep_only(self.reference.main)
        try:
            yield from self._warm(function, warm_up, fresh)
        except KeyboardInterrupt:
            _anchors.keep_only(None)  # one of them may be at a question whose answer nobody waits for
            raise

    def _warm(self, function: RemoteFunction, warm_up: Sequence[Any], fresh: bool) -> Iterator[Arms]:
        anchors = []
        for package in (self.reference, self.slow):
            worker = _anchors.get(self.sandbox, package, self.limits, fresh=fresh)
            arm = AnchorArm(worker, function, self.device)
            start = time.monotonic()
            arm.run(warm_up)
            anchors.append(arm)
            patience = max(PATIENCE * (time.monotonic() - start), LEAST_PATIENCE)
        limits = msgspec.structs.replace(self.limits, call_seconds=min(self.limits.call_seconds, patience))
        worker = self.sandbox.worker(self.learner, limits)
        try:
            learner = WorkerArm(worker, function, self.device)
            learner.run(warm_up)
            yield Arms(learner, *anchors)
        finally:
            worker.kill()

    @contextlib.contextmanager
    def machine(self) -> Iterator[None]:
        """Nobody else of ours measures on this GPU meanwhile; on the CPU everybody may."""
        if self.device == "cpu":
            yield
            return
        with open(Path(tempfile.gettempdir(), f"attention-ladder-{self.device}-0.lock"), "a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
