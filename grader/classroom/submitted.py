"""Owns how nbgrader's submitted/ is read: one student's work on one assignment, in a .py file or in the notebook. Runs no learner code.

submitted/<student>/ex09/ex09_flash.py      the exercise; where it is untouched, the solution cell of ex09.ipynb counts
submitted/<student>/ex09/ex07_attention.py  earlier exercises that it imports, where the student handed them in with it
submitted/<student>/ex07/...                else the student's own earlier submission
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

import msgspec

from grader.course import Course, Exercise
from grader.notebook import MAX_NOTEBOOK_BYTES, SolutionCell, choose, is_untouched, read_solution_cell
from grader.submission import Problem, SourceFile, Submission


class ClassroomSubmission(Submission, frozen=True, kw_only=True):
    """What one student handed in for one assignment; `path` is submitted/<student>/<assignment>."""

    assignment: str  # "ex09"
    stubs: dict[str, str]  # module -> its stub, for the exercise and what it builds on
    live_cell: str | None = None  # the solution cell as it was last run, in a learner's own notebook

    def file(self, name: str) -> SourceFile | Problem:
        """The file of module `name`, from this submission or, for an earlier exercise, from the student's own earlier one."""
        found = _in_folder(super().file(name), self, name, self.stubs.get(name, ""))
        label = label_of(name)
        if label == self.assignment or not _is_untouched(found, self.stubs.get(name, "")):
            return found
        earlier = self.path.parent / label
        if not earlier.is_dir():
            return found
        other = msgspec.structs.replace(self, path=earlier, assignment=label, live_cell=None).file(name)
        if not isinstance(other, SourceFile) or _is_untouched(other, self.stubs.get(name, "")):
            return found
        note = f"{name} comes from the submission of {label}"
        return msgspec.structs.replace(other, place=f"../{label}/{other.place}", notes=(*other.notes, note))


def _in_folder(file: SourceFile | Problem, submission: ClassroomSubmission, name: str, stub: str) -> SourceFile | Problem:
    """The .py file or the solution cell of one folder."""
    notebook = find_notebook(submission.path, label_of(name))
    cell: SolutionCell | Problem | None
    if submission.live_cell is not None and label_of(name) == submission.assignment:
        return _named(choose(file, notebook or f"{label_of(name)}.ipynb", SolutionCell(source=submission.live_cell), stub), name)
    if notebook is None:
        return file
    content = submission.other(notebook, MAX_NOTEBOOK_BYTES)
    if isinstance(content, Problem):
        cell = Problem(kind="unreadable", message="cannot be used: " + content.message)
    else:
        cell = read_solution_cell(content, name, stub)
    return _named(choose(file, notebook, cell, stub), name)


def _named(chosen: SourceFile | Problem, name: str) -> SourceFile | Problem:
    return msgspec.structs.replace(chosen, name=name) if isinstance(chosen, SourceFile) else chosen


def find_notebook(folder: Path, label: str) -> str | None:
    """The assignment's notebook: `ex06.ipynb`, else the only notebook there is, under whatever name."""
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".ipynb") and not name.startswith("."))
    except OSError:
        return None
    if f"{label}.ipynb" in names:
        return f"{label}.ipynb"
    return names[0] if len(names) == 1 and not _is_other(names[0], label) else None


def _is_other(name: str, label: str) -> bool:
    """Whether a notebook is that of another exercise: ex03.ipynb beside the files of ex05."""
    stem = name.removesuffix(".ipynb")
    return stem != label and len(stem) == len(label) and stem[:2] == "ex" and stem[2:].isdigit()


def _is_untouched(found: SourceFile | Problem, stub: str) -> bool:
    if isinstance(found, Problem):
        return found.kind == "missing"
    return is_untouched(found.content.decode("utf-8", "replace"), stub)


def label_of(module: str) -> str:
    """`ex06_repeat_kv` -> `ex06`, the assignment's name."""
    return module.split("_")[0]


def read_stubs(course: Course, exercise: Exercise) -> dict[str, str]:
    """The stubs of an exercise and of what it builds on, from the solutions where they are: in exercises/ somebody may have written
    their own. Raises `AuthoringError` or OSError."""
    stubs = {}
    for one in (*course.prerequisites_of(exercise), exercise):
        path = course.solution_path(one)
        if path.is_file():
            stubs[one.file] = _stub(course, one, path.stat().st_mtime_ns)
        else:  # in a learner's copy
            stubs[one.file] = course.exercise_path(one).read_text(encoding="utf-8")
    return stubs


@functools.lru_cache(maxsize=64)
def _stub(course: Course, exercise: Exercise, changed: int) -> str:
    from grader.authoring.stubs import stub_of

    return stub_of(course, exercise)


def submission_of(submitted: Path, student: str, exercise: Exercise, stubs: dict[str, str]) -> ClassroomSubmission:
    """One student's submission of one exercise."""
    label = label_of(exercise.file)
    path = submitted / student / label
    return ClassroomSubmission(student=student, key=student, path=path, kind="folder", assignment=label, stubs=stubs)


def students_who_submitted(submitted: Path, label: str) -> list[str]:
    """Whose folder holds a submission of the assignment, sorted."""
    try:
        names = [name for name in os.listdir(submitted) if not name.startswith(".")]
    except FileNotFoundError:
        return []
    return sorted(name for name in names if (submitted / name / label).is_dir())


def digest_of(submission: Submission, modules: Iterable[str]) -> str:
    """Changes when anything that is graded changes: the files, and which of them count."""
    digest = hashlib.sha256()
    for module in modules:
        found = submission.file(module)
        parts = [found.message.encode()] if isinstance(found, Problem) else [found.content, *(n.encode() for n in found.notes)]
        for part in (module.encode(), type(found).__name__.encode(), *parts):
            digest.update(b"%d " % len(part) + part)
    return digest.hexdigest()


def suite_digest(course: Course, exercise: Exercise) -> str:
    """Changes when the exercise's tests change."""
    digest = hashlib.sha256()
    for path in (course.public_test_path(exercise), course.hidden_test_path(exercise)):
        digest.update(path.name.encode() + b"\0" + (path.read_bytes() if path.is_file() else b"") + b"\0")
    return digest.hexdigest()
