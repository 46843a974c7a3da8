"""Remembers what trusted code answered, so that it need not be computed again: a reference's answers in one test, and a chaff's
whole run of one. Nothing of the learner's is ever in here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import torch

from grader.sandbox import wire
from grader.sandbox.client import Package, Stream, WorkerGone
from grader.sandbox.remote import Local, Observation

MAX_TAPE = 32 << 20  # bytes of questions and answers that are kept for one test
MAX_HELD = 64 << 20  # bytes of what chaffs answered
OBJECT_BYTES = 200  # of a Python object, about


class Recording(msgspec.Struct):
    """One run of one test on a chaff: what it answered, and whether it failed."""

    trace: list[Observation]
    failed: bool


class Tape:
    """The questions that one test asked one package, in their order, and the answers."""

    def __init__(self) -> None:
        self.questions: list[tuple[wire.Request, bytes]] = []
        self.answers: list[tuple[wire.Ok | wire.Raised, bytes]] = []
        self.size = 0

    def add(self, request: wire.Request, question: bytes, message: wire.Ok | wire.Raised, answer: bytes) -> None:
        """Write one question and its answer down."""
        self.questions.append((request, question))
        self.answers.append((message, answer))
        self.size += len(question) + len(answer)


class Player:
    """A transport that answers from a tape as long as the same questions are asked as before, and then goes on with the package
    itself, which is brought to where the tape left it."""

    def __init__(self, tape: Tape, package: Callable[[], Local]) -> None:
        self._tape, self._package = tape, package
        self._step = 0
        self._live: Local | None = None
        self._records = True  # once it is live

    def request(
        self, request: wire.Request, blob: wire.Blob, streams: dict[int, Stream]
    ) -> tuple[wire.Ok | wire.Raised, bytearray]:
        """The answer, from the tape or from the package."""
        question, step = b"".join(blob.parts), self._step
        self._step += 1
        if self._live is None and step < len(self._tape.questions) and self._tape.questions[step] == (request, question):
            message, answer = self._tape.answers[step]
            return message, bytearray(answer)
        message, answer = self._go_live(step).request(request, blob, streams)
        # Where an earlier run of the test broke off, this one goes on.
        if self._records and step == len(self._tape.questions) and not streams and self._tape.size <= MAX_TAPE:
            self._tape.add(request, question, message, bytes(answer))
        else:
            self._records = False  # what a stream yields is known to the test alone
        return message, answer

    def _go_live(self, step: int) -> Local:
        if self._live is None:
            self._live = self._package()
            self._live.forget()  # objects are numbered from 1 on in every test
            for request, question in self._tape.questions[:step]:
                blob = wire.Blob()
                blob.parts, blob.size = [question], len(question)
                self._live.request(request, blob, {})
        return self._live

    def broken(self, reason: str) -> WorkerGone:
        """Never true of trusted code."""
        raise AssertionError(reason)


class _Memory:
    """What is known of one exercise with one seed."""

    def __init__(self) -> None:
        self.clear(None)

    def clear(self, of: tuple[int, str] | None) -> None:
        """Forget everything; from now on it is about this seed and exercise."""
        self.of = of
        self.packages: dict[str, Package] = {}
        self.tapes: dict[tuple[str, str], Tape] = {}  # (package, test)
        self.recordings: dict[tuple[str, str], Recording] = {}
        self.answers: dict[tuple[str, bytes], Observation] = {}  # (package, question)
        self.held = 0  # bytes of recordings and answers

    def check(self, package: Package) -> None:
        """Forget what a package of this name said when it held something else."""
        known = self.packages.setdefault(package.name, package)
        if known is not package and known != package:
            self.packages[package.name] = package
            for kept in (self.tapes, self.recordings, self.answers):
                for key in [key for key in kept if key[0] == package.name]:
                    del kept[key]


_memory = _Memory()


def remember_only(seed: int, exercise: str) -> None:
    """Forget what is of no use to a run of this exercise with this seed."""
    if _memory.of != (seed, exercise):
        _memory.clear((seed, exercise))


def forget_all() -> None:
    """Forget everything."""
    _memory.clear(None)


def tape(package: Package, test: str) -> Tape:
    """The tape of one test's questions to one package; empty when it is new."""
    _memory.check(package)
    return _memory.tapes.setdefault((package.name, test), Tape())


def recording(package: Package, test: str) -> Recording | None:
    """The recording of one test on one chaff, if there is one."""
    _memory.check(package)
    return _memory.recordings.get((package.name, test))


def has_room() -> bool:
    """Whether more of what chaffs answer would be kept."""
    return _memory.held <= MAX_HELD


def recorded(package: Package, test: str, record: Callable[[], Recording]) -> Recording:
    """The recording of one test on one chaff, made when it is first wanted."""
    return _kept(_memory.recordings, package, test, record, lambda recording: sum(map(_weight, recording.trace)))


def answered(package: Package, question: bytes, ask: Callable[[], Observation]) -> Observation:
    """What a chaff answers to one question, of which `question` is a digest; asked when it is first wanted."""
    return _kept(_memory.answers, package, question, ask, _weight)


def _kept(known: dict, package: Package, what: Any, make: Callable[[], Any], weigh: Callable[[Any], int]) -> Any:
    _memory.check(package)
    if (found := known.get((package.name, what))) is not None:
        return found
    made = make()
    if has_room():
        _memory.held += weigh(made)
        known[package.name, what] = made
    return made


def _weight(value: Any) -> int:
    """About the bytes that a value takes."""
    if isinstance(value, Observation):
        return _weight(value.value)
    if isinstance(value, torch.Tensor):
        return OBJECT_BYTES + value.nbytes
    if isinstance(value, dict):
        return OBJECT_BYTES + sum(_weight(item) for pair in value.items() for item in pair)
    if isinstance(value, tuple | list):
        return OBJECT_BYTES + sum(map(_weight, value))
    return OBJECT_BYTES
