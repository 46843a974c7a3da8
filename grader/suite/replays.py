"""Runs a suite's tests again with chaffs in the learner's place: after a failure, to find the one that answers like the learner's
code; beforehand, while nobody waits, so that this takes no time later. Runs nothing of the learner's."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from grader.sandbox.client import Sandbox
from grader.sandbox.remote import Observation, Remote, Session

from .by_hand_check import ByHandCheck
from .checks import without_words
from .diagnosis import (
    BY_HAND,
    PEAK,
    WORKER_TRIES,
    Chaff,
    Question,
    Search,
    fresh_local,
    is_like,
    local,
    replay,
    same_observation,
    settle,
)
from .inputs import InputSource
from .judge import Judge
from .memory import PeakMemory
from .process import LearnerProcess
from .recordings import Recording, answered, has_room, recorded, recording

if TYPE_CHECKING:
    from .plugin import Suite

NOT_REPLAYED = ("speed",)  # categories


def function_name(item: pytest.Item) -> str:
    """The test function's name, whichever of its cases this is."""
    return getattr(item, "originalname", None) or item.name


class Case:
    """One test, set up by pytest, and the id that its inputs are drawn for."""

    def __init__(self, item: pytest.Function, id: str, category: str) -> None:
        self.item, self.id, self.category = item, id, category

    @property
    def can_be_replayed(self) -> bool:
        """Whether it is worth the time: training takes too long, and speed is another thing."""
        return self.category not in NOT_REPLAYED and "training" not in self.item.fixturenames

    @property
    def is_measured(self) -> bool:
        """Whether memory is measured in it: a chaff needs a worker then."""
        return "peak_memory" in self.item.fixturenames

    @property
    def wants_fresh(self) -> bool:
        """Whether code must not have done anything before."""
        return "fresh_learner" in self.item.fixturenames


class Replays:
    """The chaffs of one run, and what they explain."""

    def __init__(self, suite: Suite, sandbox: Sandbox | None, reference: Callable[[pytest.Item], Remote]) -> None:
        """`reference` is asked for the reference of a test."""
        self._suite, self._sandbox, self._reference = suite, sandbox, reference
        self._search = Search(suite.chaffs, seconds=suite.diagnosis_seconds)

    @property
    def found(self) -> dict[str, list[str]]:
        """By failed test, all chaffs that explain it."""
        return self._search.found

    def named(self) -> dict[str, str | None]:
        """By failed test, the chaff that explains it, as far as is known by now."""
        return settle(self._search.found)

    def explain(self, case: Case, trace: list[Observation], question: Question | None) -> None:
        """Look for chaffs that give the learner's answers. The last question, whose answer was wrong, rules out most of them."""
        asked = next((one.what for one in reversed(trace) if one.what not in (PEAK, BY_HAND)), "")
        wanted = next((one for one in reversed(trace) if one.what == asked), None)
        measured = any(one.what == PEAK for one in trace)
        quick = not (measured or case.wants_fresh or question is None or wanted is None)
        digest = question.digest(asked) if quick else b""
        keeps = self._suite.remember and not measured

        def matches(chaff: Chaff) -> bool:
            package = chaff.package
            if keeps and (known := recording(package, case.item.nodeid)) is not None:
                return is_like(known, trace)
            if quick and not same_observation(answered(package, digest, lambda: question.answer_of(package, asked)), wanted):
                return False
            if keeps:
                return is_like(self._recorded(case, chaff), trace)
            with self._stand_in(case, chaff, measured=measured) as (transport, process):
                session = Session(transport)
                arguments = self._arguments(case, chaff, session, process)
                return replay(session, trace, lambda: case.item.obj(**arguments))

        with _quiet():
            self._search.explain(case.item.nodeid, self._chaffs(measured=measured), matches, WORKER_TRIES if measured else 1)

    def rehearse(self, case: Case, enough: Callable[[], bool]) -> None:
        """Have every chaff answer this test, until it is enough: if the learner's code fails it later, that is known by then."""
        if not case.can_be_replayed or case.is_measured or not self._suite.remember:
            return
        with _quiet():
            for chaff in self._chaffs(measured=False):
                if enough() or not has_room():
                    return
                self._recorded(case, chaff)

    def holds_for_reference(self, case: Case) -> bool:
        """Whether the reference passes a test in the learner's place."""
        assert self._suite.reference is not None
        right = Chaff(name="", hint="", category="", package=self._suite.reference)
        # A fresh one: not the one that answers as reference.
        with self._stand_in(case, right, measured=case.is_measured, fresh=True) as (transport, process):
            try:
                case.item.obj(**self._arguments(case, right, Session(transport), process))
            except Exception:
                return False
        return True

    def _chaffs(self, *, measured: bool) -> list[Chaff]:
        return [one for one in self._suite.chaffs if one.category != "speed" and (not measured or one.category == "memory")]

    def _recorded(self, case: Case, chaff: Chaff) -> Recording:
        """What a chaff answers in this test, and whether it fails."""

        def record() -> Recording:
            with self._stand_in(case, chaff) as (transport, process):
                session = Session(transport)
                try:
                    case.item.obj(**self._arguments(case, chaff, session, process))
                except Exception:
                    return Recording(session.trace, failed=True)
                return Recording([], failed=False)

        return recorded(chaff.package, case.item.nodeid, record)

    @contextlib.contextmanager
    def _stand_in(
        self, case: Case, chaff: Chaff, *, measured: bool = False, fresh: bool = False
    ) -> Iterator[tuple[Callable, LearnerProcess | None]]:
        """What takes the learner's place in a replay: this process; a fresh copy in it; or a worker, for memory."""
        if measured:
            assert self._sandbox is not None
            process = LearnerProcess(self._sandbox, chaff.package, self._suite.limits)
            try:
                yield process.transport, process
            finally:
                process.close()
        elif fresh or case.wants_fresh:
            with fresh_local(chaff.package) as executor:
                yield lambda: executor, None
        else:
            yield lambda: local(chaff.package), None

    def _arguments(self, case: Case, chaff: Chaff, session: Session, process: LearnerProcess | None) -> dict[str, Any]:
        """What a test is called with when a chaff is in the learner's place; its inputs start anew."""
        InputSource.current = InputSource(self._suite.seed, case.id)
        ours = {
            "learner": Remote(session),
            "fresh_learner": Remote(session),
            "reference": self._reference(case.item) if self._suite.reference else None,
            "peak_memory": PeakMemory(process),
            "judge": Judge(self._suite.timed.get(function_name(case.item)), lambda: self._reference(case.item)),
            "by_hand": ByHandCheck(chaff.package, self._suite.rules, session),
        }
        return {name: ours.get(name, case.item.funcargs[name]) for name in case.item._fixtureinfo.argnames}


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Nothing is printed, as some chaffs would, and no words are made for what nobody reads."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()), without_words():
        yield
