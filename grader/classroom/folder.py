"""Owns what of a classroom's folder is ours: DIR/ladder/ with settings, assignments, receipts and results. Runs no learner code.

    DIR/ladder/settings.json                    what `classroom init` was told
    DIR/ladder/assignments/ex06.json            what `classroom build` built: the grade cells and their points
    DIR/ladder/results/<student>/ex06.json      results, as docs/results.md describes them
    DIR/ladder/receipts/<student>/ex06.json     which files a result was made from

A receipt ties a result to a submission: where it does not fit what lies in submitted/ now, no score is written.
"""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec

from grader.grading.result import ResultError, result_path, write_atomically

OURS = "ladder"
LATE_METHODS = ("none", "zero")


class ClassroomError(Exception):
    """A classroom that cannot be used as asked: says what, where, and how to mend it."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What `classroom init` was told, so that it need not be told again."""

    course_id: str
    exchange: str  # a folder
    late: str = "none"  # "none", "zero" or "10%": of the score, for each day begun


class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    """One exercise as nbgrader's assignment of the same label."""

    exercise: str  # "ex06_repeat_kv"
    suite: str  # digest of its test files
    cells: dict[str, float]  # grade cell (a category of the suite) -> its points
    checker: str  # name of the cell that calls the public tests
    notebook: str = ""  # digest of the notebook in source/, as it was built


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """What a result was made from, and whether the gradebook has it."""

    submission: str  # digest of the files that were graded
    suite: str  # digest of the test files
    result: str  # digest of the result file
    written: str = ""  # digest of all that the autograded notebook was made from; empty until it is
    page: str = ""  # digest of all that the feedback page was made from; empty until it is


Kind = TypeVar("Kind", Settings, Assignment, Receipt)


class Classroom:
    """The folder of one nbgrader course."""

    def __init__(self, root: Path) -> None:
        self.root = Path(root).absolute()
        self.ours = self.root / OURS
        self.results = self.ours / "results"

    def settings(self) -> Settings:
        """What init was told; raises `ClassroomError` where there was no init."""
        found = _read(self.ours / "settings.json", Settings)
        if found is None:
            raise ClassroomError(f"{self.root} is no classroom yet: python -m grader classroom init {self.root} makes it one")
        return found

    def is_initialised(self) -> bool:
        return (self.ours / "settings.json").is_file()

    def write_settings(self, settings: Settings) -> None:
        _write(self.ours / "settings.json", settings)

    def assignment(self, label: str) -> Assignment | None:
        """What `build` built as "ex06"; None for any other assignment of this course."""
        return _read(self.ours / "assignments" / f"{label}.json", Assignment) if _is_name(label) else None

    def assignments(self) -> list[str]:
        """The labels of all that was built, in order."""
        return sorted(path.stem for path in (self.ours / "assignments").glob("ex*.json"))

    def write_assignment(self, label: str, assignment: Assignment) -> None:
        _write(self.ours / "assignments" / f"{label}.json", assignment)

    def restore_assignment(self, label: str, before: Assignment | None) -> None:
        """Take back what was written, when it could not be built."""
        if before is None:
            (self.ours / "assignments" / f"{label}.json").unlink(missing_ok=True)
        else:
            self.write_assignment(label, before)

    def receipt(self, student: str, exercise: str) -> Receipt | None:
        """The receipt of a result; None where there is none, or a damaged one: then it is graded again."""
        try:
            return _read(result_path(self.ours / "receipts", student, exercise), Receipt)
        except (ClassroomError, ResultError):
            return None

    def write_receipt(self, student: str, exercise: str, receipt: Receipt) -> None:
        _write(result_path(self.ours / "receipts", student, exercise), receipt)

    def forget_receipt(self, student: str, exercise: str) -> None:
        result_path(self.ours / "receipts", student, exercise).unlink(missing_ok=True)


def _is_name(label: str) -> bool:
    return label not in ("", ".", "..") and "/" not in label and "\0" not in label


def _read(path: Path, kind: type[Kind]) -> Kind | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ClassroomError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (msgspec.MsgspecError, ValueError) as error:
        raise ClassroomError(f"{path}: damaged ({error}); remove it and run the command that wrote it again") from None


def _write(path: Path, content: msgspec.Struct) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n")
    except OSError as error:
        raise ClassroomError(f"{path}: cannot be written: {error.strerror or error}") from None
