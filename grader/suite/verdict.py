"""Decides from measured rounds whether code is fast enough. Arithmetic only: it runs nothing and reads no clock.

In every round three arms do the same work: the learner's code, the reference, and a slow anchor. The limit of a round is the
geometric mean of what reference and anchor took in it, so that a machine that is slow for a moment is slow for all three.
"""

from __future__ import annotations

import math
import statistics
from typing import Literal, NamedTuple

import msgspec

BATCH = 7  # rounds between two looks at the figures
MAX_ROUNDS = 56
MIN_FAIL_ROUNDS = 14
ALPHA = 1e-4  # of the sign test that stands behind a fail
MAX_OVER = 0.25  # share of rounds over the limit that a pass may have
MIN_GAP = 1.5  # slow anchor / reference, under which nothing is told apart
HOPELESS = 0.85  # of the gap that is asked for: anchors closer than that after enough rounds will not be told apart
HOPELESS_ROUNDS = 14
MIN_ORDERED = 0.85  # share of rounds in which the slow anchor must be the slower one
CLEAR = 0.3  # between reference (0) and slow anchor (1), on a logarithmic scale: code that stays under it in every round is fast
CLEAR_ROUNDS = 4
FAR = 5.0  # times the slow anchor's slowest round: so far off that a few rounds are enough
FAR_ROUNDS = 3
REVIEW_RATIO = 0.2  # of the reference's time, under which a person has to look
HALFWAY = 0.5  # where the limit lies between reference (0) and slow anchor (1), on a logarithmic scale
NOTHING_LEFT = 0.7  # from here on there are no points; between the two there is a part of them
MIN_PARTIAL_GAP = 5.0  # anchors closer together than this leave no room for parts
SHARES = (0.75, 0.5, 0.25)

APART = "this machine cannot tell the fast way from the slow one"

Word = Literal["pass", "partial", "fail", "not_assessed"]


class Round(NamedTuple):
    """Seconds that each arm took for the same work."""

    learner: float
    reference: float
    slow: float


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """A verdict and the figures behind it."""

    verdict: Word
    share: float  # of the points, 0 to 1; nothing is said by it if the verdict is not_assessed
    reason: str = ""  # why not assessed
    ratio: float | None = None  # learner / reference, median over rounds
    gap: float | None = None  # slow anchor / reference, median over rounds
    rounds: int = 0
    review: bool = False  # too fast to be believed: a person has to look
    device: str = "cpu"

    @property
    def position(self) -> float | None:
        """0 as fast as the reference, 1 as slow as the anchor; logarithmic, and beyond both ends."""
        if not self.ratio or not self.gap or self.gap <= 1:
            return None
        return math.log(self.ratio) / math.log(self.gap)

    @property
    def limit(self) -> float | None:
        """Times the reference's time that are allowed."""
        return None if self.gap is None else self.gap**HALFWAY

    @property
    def doubt(self) -> str:
        """Why measured code got no verdict."""
        return (
            f"it takes {self.ratio or 0:.1f} times what the reference takes, against a limit of {self.limit or 0:.1f}: too close, or the "
            "machine too noisy, for a verdict"
        )


class Series:
    """The rounds of one set of workers, and what they say so far."""

    def __init__(self, gap: float = MIN_GAP) -> None:
        """`gap`: how far apart the anchors must be, at least 1.5, before anything is said."""
        self.gap = max(gap, MIN_GAP)
        self.rounds: list[Round] = []

    def add(self, one: Round) -> None:
        """One more round; a clock that stood still is taken for a nanosecond."""
        self.rounds.append(Round(*(max(seconds, 1e-9) for seconds in one)))

    def timing(self, verdict: Word, share: float = 0.0, reason: str = "") -> Timing:
        """A verdict with this series' figures."""
        if not self.rounds:
            return Timing(verdict=verdict, share=share, reason=reason)
        return Timing(
            verdict=verdict,
            share=share,
            reason=reason,
            ratio=statistics.median(one.learner / one.reference for one in self.rounds),
            gap=statistics.median(one.slow / one.reference for one in self.rounds),
            rounds=len(self.rounds),
        )

    def verdict(self) -> Timing | None:
        """What can be said by now; None if it takes more rounds."""
        if self._is_far_off():
            return self.timing("fail")
        if self._is_clearly_fast():
            return self._pass()
        if len(self.rounds) >= HOPELESS_ROUNDS and self.timing("fail").gap < HOPELESS * self.gap:
            return self.last_word()
        if len(self.rounds) % BATCH or not self.rounds or not self.anchors_separate():
            return None
        side = self._side(HALFWAY)
        if side == "under":
            return self._pass()
        if side is None:
            return None
        nothing_left = "over" if self.timing("fail").gap < MIN_PARTIAL_GAP else self._side(NOTHING_LEFT)
        return self._part() if nothing_left == "under" else self.timing("fail") if nothing_left == "over" else None

    def last_word(self) -> Timing:
        """What is said when there will be no more rounds. Where it is only open by how far the code is over the limit, its median
        place counts."""
        if self.anchors_separate() and self._side(HALFWAY) == "over":
            return self._part() if self.timing("partial").position < NOTHING_LEFT else self.timing("fail")
        if not self.anchors_separate():
            reason = (
                f"{APART}: they are a factor of "
                f"{self.timing('not_assessed').gap or 1:.2g} apart here, and it takes {self.gap:.2g}"
            )
        else:
            reason = self.timing("not_assessed").doubt
        return self.timing("not_assessed", reason=reason)

    def anchors_separate(self) -> bool:
        """Whether reference and slow anchor can be told apart here: by their medians, by their fastest rounds, in nearly all."""
        if not self.rounds:
            return False
        median = statistics.median(one.slow / one.reference for one in self.rounds)
        fastest = min(one.slow for one in self.rounds) / min(one.reference for one in self.rounds)
        ordered = sum(one.slow > one.reference for one in self.rounds)
        return min(median, fastest) >= self.gap and ordered >= MIN_ORDERED * len(self.rounds)

    def _side(self, position: float) -> Literal["under", "over"] | None:
        """On which side of a limit between the anchors the learner's code lies, if that can be told."""
        over = sum(one.learner > _between(one.reference, one.slow, position) for one in self.rounds)
        fastest = _between(min(one.reference for one in self.rounds), min(one.slow for one in self.rounds), position)
        mine, count = min(one.learner for one in self.rounds), len(self.rounds)
        if over <= MAX_OVER * count and mine < fastest:
            return "under"
        if count >= MIN_FAIL_ROUNDS and mine > fastest and binomial_tail(over, count) < ALPHA:
            return "over"
        return None

    def _pass(self) -> Timing:
        passed = self.timing("pass", 1.0)
        return msgspec.structs.replace(passed, review=passed.ratio < REVIEW_RATIO)

    def _is_clearly_fast(self) -> bool:
        if len(self.rounds) < CLEAR_ROUNDS or not self.anchors_separate():
            return False
        return all(one.reference < one.slow and one.learner < _between(one.reference, one.slow, CLEAR) for one in self.rounds)

    def _part(self) -> Timing:
        """Too slow for all points, but under the line where none are left: a part of them, by where the code lies."""
        step = (NOTHING_LEFT - HALFWAY) / len(SHARES)
        position = self.timing("partial").position
        return self.timing("partial", SHARES[min(max(int((position - HALFWAY) / step), 0), len(SHARES) - 1)])

    def _is_far_off(self) -> bool:
        if len(self.rounds) < FAR_ROUNDS or not all(one.slow >= MIN_GAP * one.reference for one in self.rounds):
            return False
        return min(one.learner for one in self.rounds) > FAR * max(one.slow for one in self.rounds)


def _between(reference: float, slow: float, position: float) -> float:
    return math.exp((1 - position) * math.log(reference) + position * math.log(slow))


def binomial_tail(successes: int, count: int) -> float:
    """The probability of at least so many heads in `count` throws of a fair coin."""
    return sum(math.comb(count, one) for one in range(successes, count + 1)) / 2**count
