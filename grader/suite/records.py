"""What became of a suite's tests, in plain data: of one run, or of the two parts of one."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import msgspec

from .diagnosis import Chaff, settle
from .verdict import Timing


class TestRecord(msgspec.Struct, kw_only=True):
    """What became of one test."""

    __test__ = False

    id: str
    title: str
    category: str
    max_points: float
    visible: bool
    outcome: str = "blocked"
    share: float = 0.0  # of the points, for a test that is failed in part
    timing: Timing | None = None  # of a timed test
    message: str | None = None
    diagnosis: str | None = None
    hint: str | None = None
    picture: str | None = None
    detail: str | None = None

    @property
    def points(self) -> float:
        """What it gives."""
        return self.max_points * (1.0 if self.outcome == "passed" else self.share)

    @property
    def was_run(self) -> bool:
        """Whether its turn came; a test that could not be run says why."""
        return self.outcome != "blocked" or self.message is not None


class SuiteRun(msgspec.Struct, kw_only=True):
    """What became of one run."""

    tests: list[TestRecord] = []
    blocked_by: str | None = None  # why nothing ran: the learner's file cannot be imported
    problems: list[str] = []  # faults of the suite itself
    output: str = ""
    matches: dict[str, list[str]] = {}  # by the id of a failed test, the chaffs that give the same answers


def name_mistakes(run: SuiteRun, chaffs: Sequence[Chaff]) -> None:
    """Settle on one name for each failed test, or none."""
    hints = {chaff.name: chaff.hint for chaff in chaffs}
    named = settle(run.matches)
    for record in run.tests:
        if record.id in named:
            name = named[record.id]
            record.diagnosis, record.hint = name, hints.get(name) if name else None


def merged(one: SuiteRun, other: SuiteRun, chaffs: Sequence[Chaff]) -> SuiteRun | None:
    """The whole run of which two processes made a part each; None if they did not have the same tests."""
    if [record.id for record in one.tests] != [record.id for record in other.tests]:
        return None
    run = SuiteRun(
        tests=[theirs if theirs.was_run else mine for mine, theirs in zip(one.tests, other.tests, strict=True)],
        blocked_by=one.blocked_by or other.blocked_by,
        problems=list(dict.fromkeys([*one.problems, *other.problems])),
        output=one.output + other.output[_same(one.output, other.output) :],  # what is printed on import, both have
        matches={**one.matches, **other.matches},
    )
    name_mistakes(run, chaffs)
    return run


def _same(one: str, other: str) -> int:
    """How many characters the lines have with which both texts begin."""
    pairs = zip(one.splitlines(keepends=True), other.splitlines(keepends=True), strict=False)
    return sum(len(line) for line, _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
