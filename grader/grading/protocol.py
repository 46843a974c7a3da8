"""What a batch and its runners say to each other, wherever these are: one task, one answer. Plain data; imports no torch."""

from __future__ import annotations

import secrets
from pathlib import Path

import msgspec

from grader.submission import Problem, SourceFile

from .result import Result, Status

TASK_SECONDS = 1800.0  # after which a runner that does not answer is taken for dead: a suite's own limits are far below


def drawn(seed: int | None) -> int:
    """The seed of a run's inputs: the given one, or a new one that nobody can know beforehand."""
    return secrets.randbits(48) if seed is None else seed


class BatchError(Exception):
    """Nothing can be graded here; `str` says why."""


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """What all runners of one batch need to know."""

    root: Path  # of the course; a runner on another machine takes its own
    out: Path  # where the batch writes results; runners write nothing
    exercises: list[str]  # their files' names, in the order of the course
    isolation: str = "auto"
    seed: int | None = None
    only: dict[str, list[str]] = {}  # student -> exercises, where these are not all
    patient: bool = False  # whether diagnosis may take all the time it needs
    undiagnosed: frozenset[str] = frozenset()  # students whose mistakes need no name
    untimed: frozenset[str] = frozenset()  # students whose code is not timed
    carry_forward: bool = True  # whether an early mistake is made good for later exercises


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """One exercise of one submission, with all that is needed to grade it: a runner reads no disk of the batch's."""

    student: str
    exercise: str
    files: dict[str, SourceFile | Problem]  # this exercise's and those it builds on
    before: Result | None = None  # what is on disk from an earlier batch
    known: dict[str, Result] = {}  # what this batch found out about earlier exercises; without their tests


class Ready(msgspec.Struct, frozen=True):
    """What a runner says first."""


class Refused(msgspec.Struct, frozen=True):
    """What it says if it can grade nothing at all."""

    reason: str


class Finished(msgspec.Struct, frozen=True, kw_only=True):
    """What it says of each task. Without a `result`, the one on disk is up to date."""

    exercise: str
    status: Status
    reason: str | None
    official: bool
    result: Result | None = None

    @property
    def kept(self) -> bool:
        """Whether the result on disk stays."""
        return self.result is None


class Died(msgspec.Struct, frozen=True):
    """What is said in place of a runner that died of a task, or never answered."""

    reason: str


def finished(result: Result, *, kept: bool = False) -> Finished:
    """The answer that tells of a result."""
    return Finished(
        exercise=result.exercise,
        status=result.status,
        reason=result.reason,
        official=result.official,
        result=None if kept else result,
    )


def lost_result(student: str, exercise: str, reason: str) -> Result:
    """What stands in place of a result that could not be made."""
    return Result(student=student, exercise=exercise, status="error", reason=reason, points=None, max_points=0.0, official=False)
