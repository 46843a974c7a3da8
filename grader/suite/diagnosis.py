"""Names a mistake: replays a failed test on every chaff and looks for the one whose answers equal the learner's."""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
import torch

from grader.sandbox import wire
from grader.sandbox.client import Package, Stream, Transport, WorkerGone
from grader.sandbox.remote import Local, Observation, RemoteObject, Session

from .checks import TOLERANCE, all_close
from .recordings import Recording

TRIES = 450  # of chaffs on failed tests, for the diagnosis of one run: counted, so that the same run is told the same again
WORKER_TRIES = 25  # what a try in a worker costs of them
SECONDS = 2.0  # of CPU time at most, for exercises whose every call takes long
MEMORY_TOLERANCE = 0.1  # relative difference of two measured peaks that count as equal
MEMORY_NOISE = 1 << 20  # bytes by which two peaks of the same code differ, however small: a worker that did more before has gaps
MAX_QUESTION = 1 << 20  # bytes of a request that is remembered
PEAK, BY_HAND = "(peak)", "(by hand)"  # observations that are no answers of the learner's code


class Chaff(msgspec.Struct, frozen=True):
    """A wrong solution: its name, the hint a learner gets, the category it must fail in."""

    name: str
    hint: str
    category: str
    package: Package


def _holds_references(request: wire.Request) -> bool:
    """Whether an argument is an object of an earlier request, or a stream."""
    encoded = msgspec.json.encode(request)
    return b'{"h":[' in encoded or b'{"s":' in encoded


class MeasuredPeak(msgspec.Struct):
    """A memory figure inside a trace."""

    size: int


_local: dict[str, tuple[Package, Local]] = {}


def local(package: Package) -> Local:
    """The in-process executor of a trusted package, made once per process and made anew when the package has changed."""
    known, executor = _local.get(package.name, (None, None))
    if executor is None or (known is not package and known != package):
        if executor is not None:
            executor.close()
        executor = Local(package)
        _local[package.name] = package, executor
    return executor


@contextlib.contextmanager
def fresh_local(package: Package) -> Iterator[Local]:
    """An executor of its own for a package: nothing that earlier calls left behind is in it."""
    executor = Local(msgspec.structs.replace(package, name=f"{package.name}_fresh"))
    try:
        yield executor
    finally:
        executor.close()


def forget_objects() -> None:
    """Let go of what a run's tests made with references and chaffs."""
    for _, executor in _local.values():
        executor.forget()


class Question(msgspec.Struct, frozen=True):
    """A request as it was sent, complete in itself: no object or stream of an earlier one is part of it."""

    request: wire.Request
    data: bytes

    def digest(self, what: str) -> bytes:
        """Tells it from every other question."""
        return hashlib.blake2b(b"%b\0%b\0%b" % (what.encode(), msgspec.json.encode(self.request), self.data)).digest()

    def answer_of(self, package: Package, what: str) -> Observation:
        """What a trusted package answers."""
        blob = wire.Blob()
        blob.parts, blob.size = [self.data], len(self.data)
        executor = local(package)
        answer, data = executor.request(self.request, blob, {})
        if isinstance(answer, wire.Raised):
            return Observation(what, raised=answer.type, used=answer.used)
        session = Session(lambda: executor)
        value = wire.Decoder(data, handle=lambda handle: RemoteObject(session, handle, what)).decode(answer.value)
        return Observation(what, value=value, used=answer.used)


class Listener:
    """A transport that remembers the last question which the learner's code was asked, if it is complete in itself."""

    def __init__(self, transport: Callable[[], Transport]) -> None:
        self._transport = transport
        self.last: Question | None = None

    def request(
        self, request: wire.Request, blob: wire.Blob, streams: dict[int, Stream]
    ) -> tuple[wire.Ok | wire.Raised, bytearray]:
        """Pass it on."""
        self.last = None
        if request.handle is None and blob.size <= MAX_QUESTION and not _holds_references(request):
            self.last = Question(request, b"".join(blob.parts))
        return self._transport().request(request, blob, streams)

    def broken(self, reason: str) -> WorkerGone:
        """Pass it on."""
        return self._transport().broken(reason)


class Diverged(Exception):
    """A replay gave another answer than the learner's code: no need to go on."""


def is_like(recording: Recording, trace: Sequence[Observation]) -> bool:
    """Whether a learner's failed run saw the same answers as a chaff's run."""
    if not recording.failed or not trace or len(trace) != len(recording.trace):
        return False
    return all(same_observation(one, other) for one, other in zip(recording.trace, trace, strict=True))


def replay(session: Session, trace: Sequence[Observation], run: Callable[[], Any]) -> bool:
    """Run a failed test again in `session` and say whether it saw the answers of `trace` and failed, too.

    An empty trace says nothing, so it matches nothing.
    """
    expected = iter(trace)

    def watch(observation: Observation) -> None:
        wanted = next(expected, None)
        if wanted is None or not same_observation(observation, wanted):
            raise Diverged

    session.watch = watch
    try:
        run()
    except Diverged:
        return False
    except Exception:
        return bool(trace) and next(expected, None) is None
    return False


class Search:
    """Looks for the chaffs that explain failed tests, within a budget for one run.

    After the first failed test, chaffs that explained an earlier one are tried first, and the rest only if none of them fits.
    """

    def __init__(self, chaffs: Sequence[Chaff], tries: int = TRIES, seconds: float = SECONDS) -> None:
        self.chaffs, self.tries, self.seconds = chaffs, tries, seconds
        self.found: dict[str, list[str]] = {}  # test -> names
        self._likely: set[str] = set()

    def explain(self, test: str, chaffs: Sequence[Chaff], matches: Callable[[Chaff], bool], cost: int = 1) -> None:
        """Note the names of the `chaffs` that `matches` accepts for this test; `cost` is what one try takes of the budget.

        A search that the budget cuts short names nothing: one of the untried chaffs might fit as well.
        """
        names: list[str] = []
        for likely in (True, False):
            names = []
            for chaff in chaffs:
                if (chaff.name in self._likely) != likely:
                    continue
                if self.tries <= 0 or self.seconds <= 0:
                    names = []
                    break
                start = time.process_time()
                if matches(chaff):
                    names.append(chaff.name)
                self.seconds -= time.process_time() - start
                self.tries -= cost
            if names:
                break
        self._likely.update(names)
        self.found[test] = names


def settle(per_test: dict[str, list[str]]) -> dict[str, str | None]:
    """One name per failed test, or None. Of several that match one test, the one that explains the most tests is named."""
    explained = Counter(name for names in per_test.values() for name in names)
    settled: dict[str, str | None] = {}
    for test, names in per_test.items():
        best = max((explained[name] for name in names), default=0)
        leading = [name for name in names if explained[name] == best]
        settled[test] = leading[0] if len(leading) == 1 else None
    return settled


def same_observation(one: Observation, other: Observation) -> bool:
    """Whether two answers are the same: the same question, and the same value or exception. Where a forbidden call was used, the
    call is what counts."""
    if one.what != other.what or bool(one.used) != bool(other.used):
        return False
    if one.used:
        return bool(set(one.used) & set(other.used))
    return one.raised == other.raised and same_value(one.value, other.value)


def same_value(one: Any, other: Any) -> bool:
    """Equal up to the dtype's tolerance, NaN equal to NaN; objects that stayed away are equal when their types are."""
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        if one.shape != other.shape or one.dtype != other.dtype:
            return False
        if one.dtype not in TOLERANCE:
            return torch.equal(one, other)
        return all_close(one, other, TOLERANCE[one.dtype])
    if isinstance(one, MeasuredPeak) and isinstance(other, MeasuredPeak):
        return abs(one.size - other.size) <= max(MEMORY_TOLERANCE * max(one.size, other.size), MEMORY_NOISE)
    if isinstance(one, RemoteObject) and isinstance(other, RemoteObject):
        return one.type_name == other.type_name
    if type(one) is not type(other):
        return False
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(same_value(a, b) for a, b in zip(one, other, strict=True))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same_value(one[key], other[key]) for key in one)
    return one == other or (one != one and other != other)
