"""Names a mistake: replays a failed test on every chaff and looks for the one whose answers equal the learner's."""

from __future__ import annotations

import contextlib
import io
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import torch

from grader.sandbox.client import Package
from grader.sandbox.remote import Local, Observation, RemoteObject, Session

from .checks import TOLERANCE

SECONDS = 0.6  # of CPU time for the diagnosis of one run
MEMORY_TOLERANCE = 0.1  # relative difference of two measured peaks that count as equal


class Chaff(msgspec.Struct, frozen=True):
    """A wrong solution: its name, the hint a learner gets, the category it must fail in."""

    name: str
    hint: str
    category: str
    package: Package


class MeasuredPeak(msgspec.Struct):
    """A memory figure inside a trace."""

    size: int


_local: dict[str, Local] = {}


def local(package: Package) -> Local:
    """The in-process executor of a trusted package, made once per process."""
    if package.name not in _local:
        _local[package.name] = Local(package)
    return _local[package.name]


class Diverged(Exception):
    """A replay gave another answer than the learner's code: no need to go on."""


def replay(session: Session, trace: Sequence[Observation], run: Callable[[], Any]) -> bool:
    """Run a failed test again in `session` and say whether it saw the answers of `trace` and failed, too.

    What the replayed code prints is dropped. An empty trace says nothing, so it matches nothing.
    """
    expected = iter(trace)

    def watch(observation: Observation) -> None:
        wanted = next(expected, None)
        if wanted is None or not same_observation(observation, wanted):
            raise Diverged

    session.watch = watch
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            run()
    except Diverged:
        return False
    except Exception:
        return bool(trace) and next(expected, None) is None
    return False


class Search:
    """Looks for the chaffs that explain failed tests, within a budget of CPU time for one run.

    After the first failed test, chaffs that explained an earlier one are tried first, and the rest only if none of them fits.
    """

    def __init__(self, chaffs: Sequence[Chaff], seconds: float = SECONDS) -> None:
        self.chaffs, self.seconds = chaffs, seconds
        self.found: dict[str, list[str]] = {}  # test -> names
        self._likely: set[str] = set()

    def explain(self, test: str, chaffs: Sequence[Chaff], matches: Callable[[Chaff], bool]) -> None:
        """Note the names of the `chaffs` that `matches` accepts for this test."""
        names: list[str] = []
        for likely in (True, False):
            for chaff in chaffs:
                if (chaff.name in self._likely) == likely and self.seconds > 0:
                    start = time.process_time()
                    if matches(chaff):
                        names.append(chaff.name)
                    self.seconds -= time.process_time() - start
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
    """Whether two answers are the same: the same question, and the same value, exception or forbidden call."""
    if (one.what, one.raised, one.used) != (other.what, other.raised, other.used):
        return False
    return same_value(one.value, other.value)


def same_value(one: Any, other: Any) -> bool:
    """Equal up to the dtype's tolerance, NaN equal to NaN; objects that stayed away are equal when their types are."""
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        if one.shape != other.shape or one.dtype != other.dtype:
            return False
        if one.dtype not in TOLERANCE:
            return torch.equal(one, other)
        finite = other[other.isfinite()].abs()
        limit = TOLERANCE[one.dtype] * max(1.0, finite.max().item() if finite.numel() else 1.0)
        return torch.allclose(one.double(), other.double(), rtol=0.0, atol=limit, equal_nan=True)
    if isinstance(one, MeasuredPeak) and isinstance(other, MeasuredPeak):
        return abs(one.size - other.size) <= MEMORY_TOLERANCE * max(one.size, other.size)
    if isinstance(one, RemoteObject) and isinstance(other, RemoteObject):
        return one.type_name == other.type_name
    if type(one) is not type(other):
        return False
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(same_value(a, b) for a, b in zip(one, other, strict=True))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same_value(one[key], other[key]) for key in one)
    return one == other or (one != one and other != other)
