"""Remembers what trusted code answered, so that it need not be computed again: a reference's answers in one test, and a chaff's
whole run of one. Nothing of the learner's is ever in here."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from grader.sandbox import wire
from grader.sandbox.client import Package, Stream, WorkerGone
from grader.sandbox.remote import Local, Observation

MAX_TAPE = 32 << 20  # bytes of questions and answers that are kept for one test


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
        self._records = not tape.questions

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
        if self._records and not streams and self._tape.size <= MAX_TAPE:
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


_tapes: dict[tuple[int, str, str], Tape] = {}  # (seed, package, test)
_recordings: dict[tuple[int, str, str], Recording] = {}


def remember_only(seed: int, packages: Sequence[Package]) -> None:
    """Forget what is of no use to a run with this seed and these packages."""
    names = {package.name for package in packages}
    for kept in (_tapes, _recordings):
        for key in [key for key in kept if key[0] != seed or key[1] not in names]:
            del kept[key]


def tape(seed: int, package: Package, test: str) -> Tape:
    """The tape of one test's questions to one package; empty when it is new."""
    return _tapes.setdefault((seed, package.name, test), Tape())


def recorded(seed: int, package: Package, test: str, record: Callable[[], Recording]) -> Recording:
    """The recording of one test on one chaff, made when it is first wanted."""
    key = (seed, package.name, test)
    if key not in _recordings:
        _recordings[key] = record()
    return _recordings[key]
