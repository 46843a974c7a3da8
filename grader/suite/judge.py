"""The `judge` fixture: whether code is fast enough, next to the reference and a slow anchor that do the same work at the same time.

Answers are checked in every round, on inputs that nobody has seen before. How a verdict comes about: docs/speed.md.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import torch

from grader.sandbox.client import Package, WorkerHung
from grader.sandbox.remote import Remote, RemoteFunction

from .arms import Arms, Contest, Sample
from .checks import Mistake, assert_close, assert_equal, not_assessed
from .inputs import AuthoringError
from .verdict import APART, BATCH, MAX_ROUNDS, MIN_GAP, Round, Series, Timing

SERIES = 3  # sets of workers that one verdict may take
SERIES_SECONDS = 20.0  # after which a series of rounds ends, on the wall clock: only a machine that is very busy gets there
LEAST_WAIT, LONG_WAIT = 0.5, 5.0  # seconds, and times the anchors' own, that code may wait in a round without computing
BAR = 40  # characters
PARTS = {0.75: "three quarters", 0.5: "half", 0.25: "a quarter"}

Make = Callable[[], Sequence[Any]]
Check = Callable[[Any, Any], None]
Open = Callable[[bool], contextlib.AbstractContextManager[Arms]]


class Timed(msgspec.Struct, frozen=True, kw_only=True):
    """What a suite's timed test is measured against, from course.toml, for the device in use."""

    names: Sequence[str]  # the graded names whose time it is
    slow: str  # the name of the chaff that is the slow anchor
    hint: str
    package: Package  # that chaff
    points: float
    size: int
    gap: float = MIN_GAP
    off: str | None = None  # why it is not measured here


def check_same(actual: Any, expected: Any) -> None:
    """The reference's answer: tensors and floats up to rounding, everything else exactly."""
    tensors = isinstance(expected, torch.Tensor) and expected.is_floating_point()
    (assert_close if tensors or isinstance(expected, float) else assert_equal)(actual, expected)


def settle(
    open_arms: Open, make: Make, check: Check, *, gap: float = MIN_GAP, clock: Callable[[], float] = time.monotonic
) -> Timing:
    """The verdict. `open_arms(fresh)` gives three warm arms; a fail stands only if fresh ones give it once more."""
    against: list[Timing] = []  # verdicts that cost points
    unlike = 0  # series in which the anchors could not be told apart
    last = Timing(verdict="not_assessed", share=0.0)
    for number in range(SERIES):
        try:
            with open_arms(number > 0) as arms:
                last = _series(arms, make, check, gap, clock)
        except WorkerHung:  # the learner's: it had a hundred times what the slow anchor takes
            last = Timing(verdict="fail", share=0.0)
        if last.verdict == "pass":
            return _unsettled(last, "two measurements disagree") if against else last
        if last.verdict != "not_assessed":
            against.append(last)
        shares = [one.share for one in against]
        if len(against) > 1 and (len(against) == SERIES or min(shares) == max(shares)):
            return sorted(against, key=lambda one: one.share)[len(against) // 2]
        unlike += last.reason.startswith(APART)
        if unlike > 1:
            return last
    if len(against) > 1:
        return max(against, key=lambda one: one.share)
    return _unsettled(last, "a first verdict was not confirmed") if against else last


def _unsettled(timing: Timing, why: str) -> Timing:
    reason = f"{why}: the machine is too noisy for a verdict" if timing.ratio is None else f"{why}; {timing.doubt}"
    return msgspec.structs.replace(timing, verdict="not_assessed", share=0.0, reason=reason, review=False)


def _series(arms: Arms, make: Make, check: Check, gap: float, clock: Callable[[], float]) -> Timing:
    """Rounds on one set of workers until something can be said."""
    series, end = Series(gap), clock() + SERIES_SECONDS
    order, shuffle = list(Arms._fields), random.SystemRandom().shuffle
    while len(series.rounds) < MAX_ROUNDS and (len(series.rounds) < BATCH or clock() < end):
        arguments = make()
        shuffle(order)
        samples = {name: getattr(arms, name).run(arguments) for name in order}
        check(samples["learner"].answer, samples["reference"].answer)
        series.add(Round(_cost(samples), samples["reference"].seconds, samples["slow"].seconds))
        found = series.verdict()
        if found is not None:
            return found
    return series.last_word()


def _cost(samples: dict[str, Sample]) -> float:
    """The learner's seconds in a round. Whoever sleeps uses up the time for rounds: then it is the wall's clock that counts. A busy
    machine lets everybody wait, the anchors too."""
    mine, *anchors = samples["learner"], samples["reference"], samples["slow"]
    waited = mine.wall - mine.seconds
    return mine.wall if waited > LEAST_WAIT + LONG_WAIT * max(anchor.wall for anchor in anchors) else mine.seconds


class Judge:
    """The `judge` fixture."""

    def __init__(
        self,
        timed: Timed | None,
        reference: Callable[[], Remote],
        contest: Callable[[Timed], Contest] | None = None,
        *,
        untimed: str = "not timed in this run",
    ) -> None:
        """`contest` gives the arms for a declaration; without it only answers are checked, and `untimed` says why."""
        self._timed, self._reference, self._contest, self._untimed = timed, reference, contest, untimed
        self.timing: Timing | None = None
        self.asked: tuple[RemoteFunction, Sequence[Any]] | None = None  # for an explanation

    @property
    def timed(self) -> Timed:
        """What course.toml says of this test, for the device in use."""
        if self._timed is None:
            raise AuthoringError("a test that uses `judge` needs an [[exercise.timed]] with its name in course.toml")
        return self._timed

    @property
    def size(self) -> int:
        """The size of the work, from course.toml."""
        return self.timed.size

    def __call__(self, function: RemoteFunction, make: Make, check: Check = check_same) -> None:
        """`function` (a graded name, or one of props) must take no longer than the limit between reference and slow anchor.

        `make` returns the arguments of one round, plain data, fresh at every call; `check(actual, expected)` compares an answer
        with the reference's.
        """
        timed = self.timed
        if function.is_held:
            raise AuthoringError("judge takes a function by name, not a method of an object that was made before")
        arguments = make()
        check(function(*arguments), self.right(function)(*arguments))  # right first
        self.asked = function, arguments
        if self._contest is None or timed.off:
            not_assessed(self._untimed or timed.off)
        contest = self._contest(timed)
        with contest.machine():
            found = settle(lambda fresh: contest.arms(function, make(), fresh=fresh), make, check, gap=timed.gap)
        self.timing = msgspec.structs.replace(found, device=contest.device)
        self._conclude(timed.names[0])

    def right(self, function: RemoteFunction) -> RemoteFunction:
        """The reference's function of the same name."""
        return function.in_session(self._reference()._session)

    def _conclude(self, what: str) -> None:
        timing = self.timing
        if timing.review:
            not_assessed(
                f"{what} takes {timing.ratio:.2g} times the reference's time, too little to be taken on trust: "
                "your instructor has to look at it"
            )
        if timing.verdict == "not_assessed":
            not_assessed(timing.reason)
        if timing.verdict in ("partial", "fail"):
            raise TooSlow(what, timing)


class TooSlow(Mistake):
    """The answers are right, but they take too long."""

    def __init__(self, what: str, timing: Timing) -> None:
        if timing.ratio is None:
            sentence = f"{what} does not come to an end in a hundred times what the slow way takes"
        else:
            sentence = (
                f"{what} is right, but takes {timing.ratio:.1f} times what the reference takes; "
                f"up to {timing.limit:.1f} times is full marks, and the slow way takes {timing.gap:.1f} times"
            )
            if timing.share:
                sentence += f": {PARTS[timing.share]} of the points"
        super().__init__(sentence, picture=bar(timing), open_picture=True)
        self.share = timing.share


def bar(timing: Timing) -> str | None:
    """Where the code lies between reference and slow way, on a logarithmic scale."""
    if timing.position is None:
        return None
    scale = max(1.0, timing.position) if timing.position > 0 else 1.0
    cells = ["-"] * (BAR + 1)
    limit, slow = round(BAR * 0.5 / scale), round(BAR / scale)
    mine = min(max(round(BAR * timing.position / scale), 0), BAR)
    cells[limit], cells[slow] = "|", "S"
    cells[mine] = "#"
    line = "R" + "".join(cells)
    return f"{line}\nR reference 1x   | limit {timing.limit:.1f}x   S slow way {timing.gap:.1f}x   # yours {timing.ratio:.1f}x"
