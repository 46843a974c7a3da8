"""Owns the result of one student on one exercise: its schema, its file, its reading and writing.

Runs no code of anybody's and imports nothing of the grader, so that a report can be made anywhere.
The schema is documented in docs/results.md.
"""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from typing import Literal

import msgspec

SCHEMA = 1
MAX_NAME_BYTES = 255  # of a folder's name, on every file system in use

Status = Literal["graded", "error", "missing"]
Outcome = Literal["passed", "failed", "error", "not_assessed", "blocked"]
Category = Literal["shape", "numerics", "gradients", "robustness", "by_hand", "speed", "memory"]
CATEGORIES: tuple[Category, ...] = Category.__args__  # type: ignore[attr-defined]


class TimingFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What a timed test measured, next to the reference and a slow anchor on the same machine at the same time."""

    verdict: Literal["pass", "partial", "fail", "not_assessed"]
    share: float  # of the points
    ratio: float | None  # time / the reference's time
    gap: float | None  # the slow anchor's time / the reference's time
    rounds: int
    review: bool  # too fast to be believed: a person has to look at the code
    device: str


class TestResult(msgspec.Struct, frozen=True, kw_only=True):
    """One test of one run."""

    __test__ = False  # not a test class, whatever pytest makes of the name

    id: str  # "hidden::test_heads_are_repeated[float16]"
    title: str  # the sentence that a learner reads
    category: Category
    points: float  # awarded; a timed test may earn a part of them, and is `failed` then
    max_points: float  # 0 for the public examples
    outcome: Outcome
    visible: bool  # True for the public tests
    message: str | None = None  # what was seen, for the learner
    diagnosis: str | None = None  # name of the chaff whose outputs equal the learner's
    hint: str | None = None  # that chaff's hint
    picture: str | None = None  # lines of a small drawing: yours beside the right one, where a learner may see that
    detail: str | None = None  # for the instructor alone: the traceback of an `error`
    timing: TimingFigures | None = None  # of a timed test that was measured


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """Where a run happened and how it was isolated."""

    isolation: str  # "A" to "D"
    layers: list[str]
    probe: list[str] | None  # what the hostile probe could do; None: not probed
    device: str  # "cpu" or the GPU's name
    versions: dict[str, str]  # python, torch, numpy, grader


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One student on one exercise."""

    schema: int = SCHEMA
    student: str
    exercise: str  # "ex06_repeat_kv"
    status: Status
    reason: str | None = None  # why not graded, or why everything failed at once
    points: float | None  # None unless graded
    max_points: float  # assessed points only
    official: bool
    prerequisites: Literal["own", "reference"] = "own"
    tests: list[TestResult] = []
    output: str | None = None  # what the learner's code printed, capped
    environment: Environment | None = None
    seed: int | None = None
    key: str = ""  # hash of submission, suite, grader and kind of hardware
    started: str = ""  # UTC, ISO 8601
    seconds: float = 0.0


class _Schema(msgspec.Struct):
    """What is read first of any file: the rest may mean anything."""

    schema: object = None


class ResultError(Exception):
    """A result file that cannot be used or written: says which and why."""


def result_path(results: Path, student: str, exercise: str) -> Path:
    """`RESULTS/<student>/exNN.json`; a `ResultError` for a name that would lead out of `RESULTS` or is none."""
    problem = _name_problem(student)
    if problem is not None:
        raise ResultError(f"{student!r} cannot name a folder of results: {problem}")
    match = re.fullmatch(r"(ex[0-9]{2})(_[a-z0-9_]+)?", exercise)
    if match is None:
        raise ResultError(f"{exercise!r} cannot name a result: expected an exercise's name such as ex06_repeat_kv")
    return results / student / f"{match[1]}.json"


def _name_problem(student: str) -> str | None:
    """Why a student's key cannot be the name of a folder, or None."""
    if student in ("", ".", ".."):
        return "it is no name of its own"
    if "/" in student or "\0" in student or (os.sep != "/" and os.sep in student):
        return "it holds a character that no name can hold"
    try:
        length = len(student.encode())
    except UnicodeEncodeError:
        return "it is no valid Unicode"
    return f"it is longer than {MAX_NAME_BYTES} bytes" if length > MAX_NAME_BYTES else None


def write_result(results: Path, result: Result) -> Path:
    """Write by atomic rename: a reader sees the old file or the new one, never half of one."""
    path = result_path(results, result.student, result.exercise)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, msgspec.json.format(msgspec.json.encode(result), indent=1) + b"\n")
    return path


def write_atomically(path: Path, data: bytes) -> None:
    """Replace `path` by `data` in one step that survives a kill at any moment."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def read_result(path: Path) -> Result:
    """Read one result file; raises `ResultError` that names the file and what is wrong with it."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ResultError(f"{path}: cannot be read: {error.strerror}") from None
    try:
        schema = msgspec.json.decode(data, type=_Schema).schema
        if schema != SCHEMA:
            raise ResultError(f"{path}: schema {schema!r}, this grader reads {SCHEMA}")
        result = msgspec.json.decode(data, type=Result)
    except RecursionError:
        raise ResultError(f"{path}: not a result file: nested beyond recursion") from None
    except (msgspec.MsgspecError, ValueError) as error:  # ValueError: a number with thousands of digits
        raise ResultError(f"{path}: not a result file: {error}") from None
    if result.status == "graded" and result.points is None:
        raise ResultError(f"{path}: not a result file: it is graded, but has no points")
    return result
