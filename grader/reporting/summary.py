"""Owns what follows for each exercise from the results of a class: scores, categories, mistakes, reliability, time to pass."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from grader.grading.result import CATEGORIES, Result
from grader.reporting.attempts import Attempt, Pair, are_known, time_to_pass
from grader.reporting.gradebook import COUNTED, Gradebook, Score
from grader.reporting.items import Host, Item, hosts_of, items_of, worth_a_look
from grader.reporting.risk import AtRisk, at_risk

if TYPE_CHECKING:
    from grader.reporting.classroom import Classroom
    from grader.reporting.regrade import Change
    from grader.reporting.similarity import Found
    from grader.reporting.statistics import Step

BINS = 10  # of the histograms


@dataclass(frozen=True)
class Mistake:
    """A known mistake that was seen."""

    name: str
    students: int
    hint: str


@dataclass(frozen=True)
class CategoryScore:
    """What a class earned of one category's points."""

    category: str
    points: float
    max_points: float

    @property
    def share(self) -> float | None:
        return self.points / self.max_points if self.max_points > 0 else None


@dataclass
class Summary:
    """One exercise over the class."""

    exercise: str
    title: str
    counts: Counter[str]  # "graded", "error", "missing", "not graded", "not official"
    scores: list[Score]  # of everybody for whom anything was assessed
    mistakes: list[Mistake]  # most frequent first
    categories: list[CategoryScore]
    items: list[Item]
    reliability: float | None  # KR-20 over the tests with points
    reliability_students: int
    tries: list[tuple[float, bool]] = field(default_factory=list)  # (days, has passed), where attempts are known

    @property
    def full(self) -> int:
        """How many have all points."""
        return sum(score.is_full for score in self.scores)

    @property
    def share(self) -> float | None:
        """Mean of points / max_points."""
        return sum(score.share or 0.0 for score in self.scores) / len(self.scores) if self.scores else None

    @property
    def mean(self) -> tuple[float, float] | None:
        """(mean points, max_points); None when students were assessed out of different maxima."""
        maxima = {score.max_points for score in self.scores}
        if len(maxima) != 1:
            return None
        return sum(score.points for score in self.scores) / len(self.scores), maxima.pop()

    @property
    def histogram(self) -> list[int]:
        return histogram([score.share or 0.0 for score in self.scores])

    @cached_property
    def survival(self) -> list[Step]:
        from grader.reporting.statistics import survival

        return survival([days for days, _ in self.tries], [passed for _, passed in self.tries])


def histogram(shares: list[float]) -> list[int]:
    """Students in each tenth of the points; the last one holds those with all of them too."""
    counts = [0] * BINS
    for share in shares:
        counts[min(BINS - 1, max(0, int(share * BINS + 1e-9)))] += 1
    return counts


@dataclass
class Report:
    """Everything that the terminal, the page and the files show."""

    book: Gradebook
    attempts: dict[Pair, list[Attempt]] = field(default_factory=dict)
    classroom: Classroom | None = None
    regrade: list[Change] | None = None
    alike: Found | None = None
    notes: list[str] = field(default_factory=list)  # what an instructor has to know about the sources
    is_anonymous: bool = False

    @cached_property
    def has_history(self) -> bool:
        return are_known(self.attempts)

    @cached_property
    def summaries(self) -> list[Summary]:
        return [self._summary(exercise) for exercise in self.book.exercises]

    @cached_property
    def items(self) -> list[Item]:
        return [item for summary in self.summaries for item in summary.items]

    @cached_property
    def to_look_at(self) -> list[Item]:
        return worth_a_look(self.items)

    @cached_property
    def hosts(self) -> list[Host]:
        return hosts_of(self.book)

    @cached_property
    def at_risk(self) -> list[AtRisk]:
        return at_risk(self.book, self.attempts, self.classroom.overdue if self.classroom else {})

    @cached_property
    def reliability(self) -> tuple[float | None, int]:
        """(Cronbach's alpha over the exercises, students it rests on): those graded in every exercise."""
        import numpy as np

        from grader.reporting.statistics import alpha

        book = self.book
        scores = np.full((len(book.students), len(book.exercises)), np.nan)
        for row, student in enumerate(book.students):
            for column, exercise in enumerate(book.exercises):
                score = book.scores.get((student, exercise))
                if score is not None and score.share is not None:
                    scores[row, column] = score.share * book.weight(exercise)
        return alpha(scores)

    def _summary(self, exercise: str) -> Summary:
        book = self.book
        counts: Counter[str] = Counter()
        results: list[Result] = []
        for student in book.students:
            why = book.why_not_graded(student, exercise)
            counts[why[0] if why else "graded"] += 1
            result = book.results.get((student, exercise))
            if result is not None:
                results.append(result)
                counts["not official"] += result.status == "graded" and not result.official
        scores = [book.scores[student, exercise] for student in book.students if (student, exercise) in book.scores]
        items, reliability, rests_on = items_of(exercise, results)
        return Summary(
            exercise=exercise,
            title=book.titles.get(exercise, ""),
            counts=counts,
            scores=[score for score in scores if score.max_points > 0],
            mistakes=_mistakes(results),
            categories=_categories(results),
            items=items,
            reliability=reliability,
            reliability_students=rests_on,
            tries=self._tries(exercise) if self.has_history else [],
        )

    def _tries(self, exercise: str) -> list[tuple[float, bool]]:
        runs = (self.attempts.get((student, exercise)) for student in self.book.students)
        return [tried for one in runs if one and (tried := time_to_pass(one)) is not None]


def _mistakes(results: list[Result]) -> list[Mistake]:
    seen: Counter[str] = Counter()
    hints: dict[str, str] = {}
    for result in results:
        if result.status == "graded":
            seen.update({test.diagnosis for test in result.tests if test.diagnosis})
        for test in result.tests:
            if test.diagnosis and test.hint:
                hints.setdefault(test.diagnosis, test.hint)
    ordered = sorted(seen.items(), key=lambda pair: (-pair[1], pair[0]))
    return [Mistake(name, students, hints.get(name, "")) for name, students in ordered]


def _categories(results: list[Result]) -> list[CategoryScore]:
    """In the order of the schema; only those that have points."""
    points: Counter[str] = Counter()
    most: Counter[str] = Counter()
    for result in results:
        if result.status == "graded":
            for test in result.tests:
                if test.outcome in COUNTED:
                    points[test.category] += test.points
                    most[test.category] += test.max_points
    return [CategoryScore(one, points[one], most[one]) for one in CATEGORIES if most[one] > 0]
