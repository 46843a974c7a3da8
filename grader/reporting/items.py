"""Owns the analysis of the tests: how hard each is, how well it tells students apart, and which one an author should look at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan, sqrt
from typing import TYPE_CHECKING

from grader.grading.result import Result, TestResult
from grader.reporting.gradebook import COUNTED, Gradebook

if TYPE_CHECKING:
    import numpy as np

HARD, EASY = 0.2, 0.95  # p beyond these says little about most students
LOW_CORRELATION = 0.15
OFTEN_INCONCLUSIVE = 0.2
ENOUGH_STUDENTS = 10  # below, a correlation is mostly chance and flags nothing
STEADY_STUDENTS = 30  # below, it is shown with a warning

# How much a flag matters: an author looks at what is unfair before what is merely easy.
URGENT, WORTH_A_LOOK, MINOR = 3, 2, 1


@dataclass(frozen=True)
class Flag:
    """Why an author should look at a test."""

    name: str  # for files: "negative", "error", "low", "hard", "inconclusive", "easy"
    words: str
    weight: int


@dataclass
class Item:
    """One test of a suite, over the class."""

    exercise: str
    test: TestResult  # as first met: its title, category and case
    passed: int = 0
    assessed: int = 0
    inconclusive: int = 0
    errors: int = 0
    discrimination: float | None = None
    item_rest: float | None = None

    @property
    def p(self) -> float | None:
        """Difficulty: the share of the assessed who pass, so a hard test has a small p."""
        return self.passed / self.assessed if self.assessed else None

    @property
    def inconclusive_share(self) -> float:
        seen = self.assessed + self.inconclusive
        return self.inconclusive / seen if seen else 0.0

    @property
    def flags(self) -> list[Flag]:
        """The weightiest first."""
        flags = []
        if (unfair := self._correlation_flag()) is not None:
            flags.append(unfair)
        if self.errors:
            flags.append(Flag("error", f"{self.errors} x grader error", URGENT))
        if self.assessed and self.passed == 0:
            flags.append(Flag("hard", "nobody passes", WORTH_A_LOOK))
        elif self.p is not None and self.p < HARD:
            flags.append(Flag("hard", f"few pass: p {self.p:.2f}", WORTH_A_LOOK))
        if self.inconclusive and not self.assessed:
            flags.append(Flag("inconclusive", "never assessed here", MINOR))
        elif self.inconclusive_share > OFTEN_INCONCLUSIVE:
            flags.append(Flag("inconclusive", f"no verdict for {100 * self.inconclusive_share:.0f} %", WORTH_A_LOOK))
        if self.assessed and self.passed == self.assessed:
            flags.append(Flag("easy", "everybody passes", MINOR))
        elif self.p is not None and self.p > EASY:
            flags.append(Flag("easy", f"nearly all pass: p {self.p:.2f}", MINOR))
        return sorted(flags, key=lambda flag: -flag.weight)

    def _correlation_flag(self) -> Flag | None:
        """Of a test that hardly anybody fails, only a clear sign: one unlucky student decides its correlation."""
        r, p = self.item_rest, self.p
        if r is None or p is None or self.assessed < ENOUGH_STUDENTS:
            return None
        chance = 1 / sqrt(self.assessed)  # standard error of a correlation that is 0
        if r < -chance and (p <= EASY or r < -2 * chance):
            return Flag("negative", f"the better fail it: r\u00a0{signed(r)}", URGENT)
        if r < LOW_CORRELATION and p <= EASY:
            return Flag("low", f"tells nobody apart: r\u00a0{signed(r)}", WORTH_A_LOOK)
        return None

    @property
    def flag(self) -> str:
        return ", ".join(flag.words for flag in self.flags)

    @property
    def urgency(self) -> tuple[int, float]:
        """Larger: look at it earlier. Among the equally flagged, the smaller correlation first."""
        weight = max((flag.weight for flag in self.flags), default=0)
        return weight, -(1.0 if self.item_rest is None else self.item_rest)


def signed(value: float) -> str:
    """`-0.23` with a true minus sign, `0.41`."""
    return f"{value:.2f}".replace("-0.00", "0.00").replace("-", "−")


def items_of(exercise: str, results: Sequence[Result]) -> tuple[list[Item], float | None, int]:
    """(the tests of one exercise in the suite's order, KR-20 over those with points, students that it rests on).

    Results in which everything failed at once, as with a file that cannot be loaded, say nothing of a test and are left out.
    """
    import numpy as np  # a wrong path is told faster without

    from grader.reporting.statistics import discrimination, item_rest

    items: dict[str, Item] = {}
    columns: dict[str, int] = {}
    for result in results:
        for test in result.tests:
            if test.id not in items:
                columns[test.id] = len(items)
                items[test.id] = Item(exercise, test)
            items[test.id].errors += test.outcome == "error"
    if not items:
        return [], None, 0
    rows = [result for result in results if result.status == "graded" and not result.reason]
    passed = np.full((len(rows), len(items)), np.nan)
    for row, result in enumerate(rows):
        for test in result.tests:
            item = items[test.id]
            if test.outcome in COUNTED:
                right = test.outcome == "passed"
                passed[row, columns[test.id]] = right
                item.assessed += 1
                item.passed += right
            elif test.outcome == "not_assessed":
                item.inconclusive += 1
    points = np.array([item.test.max_points for item in items.values()])
    correlations, differences = item_rest(passed, points), discrimination(passed, points)
    for item, correlation, difference in zip(items.values(), correlations, differences, strict=True):
        item.item_rest = None if isnan(correlation) else float(correlation)
        item.discrimination = None if isnan(difference) else float(difference)
    return list(items.values()), *_kr20(passed[:, points > 0])


def _kr20(passed: np.ndarray) -> tuple[float | None, int]:
    """Over the tests that most were assessed for: one that needs a GPU nobody has must not empty the sum."""
    import numpy as np

    from grader.reporting.statistics import alpha

    return alpha(passed[:, (~np.isnan(passed)).sum(axis=0) * 2 > len(passed)])


def worth_a_look(items: Sequence[Item]) -> list[Item]:
    """The tests to look at, the most urgent first; those that are merely easy come last."""
    return sorted((item for item in items if item.flags), key=lambda item: item.urgency, reverse=True)


@dataclass(frozen=True)
class Host:
    """Machines that look alike in their results, and how often they came to no verdict."""

    name: str
    results: int
    assessed: int
    inconclusive: int
    reasons: list[tuple[str, int]]  # what was said instead of a verdict, most frequent first

    @property
    def share(self) -> float:
        seen = self.assessed + self.inconclusive
        return self.inconclusive / seen if seen else 0.0


def hosts_of(book: Gradebook) -> list[Host]:
    """By device, isolation and version of torch, for a result names no machine; the most inconclusive first."""
    results: Counter[str] = Counter()
    assessed: Counter[str] = Counter()
    reasons: dict[str, Counter[str]] = {}
    for result in book.graded:
        where = result.environment
        host = f"{where.device}, isolation {where.isolation}, torch {where.versions.get('torch', '?')}" if where else "unknown"
        results[host] += 1
        said = reasons.setdefault(host, Counter())
        for test in result.tests:
            if test.outcome == "not_assessed":
                said[test.message or "no reason given"] += 1
            elif test.outcome in COUNTED:
                assessed[host] += 1
    found = [Host(host, results[host], assessed[host], said.total(), said.most_common()) for host, said in reasons.items()]
    return sorted(found, key=lambda host: -host.share)
