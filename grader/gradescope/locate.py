"""Finds the exercises in whatever a student uploaded: loose files, a kit, a folder in a folder, a zip, a notebook. Runs no learner code.

Reads names only, follows no symbolic link, and looks at so many entries and no more.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from grader.course import Course, Exercise
from grader.notebook import MAX_NOTEBOOK_BYTES
from grader.picking import pick
from grader.submission import IGNORED_FOLDERS, Problem, SourceFile, Submission

STUDENT = "submission"  # what the results of the one student are kept under
MAX_DEPTH = 4
MAX_ENTRIES = 20_000
MAX_NOTEBOOKS = 40
PASSED_OVER = (*IGNORED_FOLDERS, "exercises", "node_modules", "site-packages")


class Upload(Submission, frozen=True, kw_only=True):
    """What one student uploaded. Where an exercise's .py file is missing or untouched, a notebook's solution cell counts."""

    exercises: dict[str, Exercise]  # by their files' names
    stubs: dict[str, str]
    notebooks: tuple[str, ...] = ()  # beside the exercises

    def file(self, name: str) -> SourceFile | Problem:
        """The file of module `name`, or the solution cell that stands for it."""
        found = super().file(name)
        exercise = self.exercises.get(name)
        if exercise is None or not self.notebooks:
            return found
        contents = {one: content for one in self.notebooks if isinstance(content := self.other(one, MAX_NOTEBOOK_BYTES), bytes)}
        return pick(found, exercise, contents, self.stubs[name])


class _Folder(msgspec.Struct, kw_only=True):
    """What one folder of the upload holds."""

    path: Path
    depth: int
    exercises: set[str]
    notebooks: list[str]
    zips: list[str]


def find_upload(folder: Path, course: Course) -> Upload:
    """The student's work. The folder nearest to the top that holds an exercise is taken; at one level, the one that holds most."""
    names = {one.file for one in course.exercises}
    folders = list(_walk(folder, names))
    with_exercises = [one for one in folders if one.exercises]
    with_notebooks = [one for one in folders if one.notebooks]
    zips = [one.path / name for one in folders for name in one.zips]
    notes: list[str] = []
    path, kind, notebooks = folder, "folder", []
    if with_exercises or with_notebooks:
        chosen, *others = sorted(with_exercises or with_notebooks, key=lambda one: (one.depth, -len(one.exercises), one.path))
        path, notebooks = chosen.path, chosen.notebooks
        if others:
            where = ", ".join(_shown(one.path, folder) for one in others[:3])
            notes.append(f"exercises were found in {_shown(path, folder)} and in {where}; the first counts")
    elif len(zips) == 1:
        path, kind = zips[0], "zip"
    return Upload(
        student=STUDENT,
        key=STUDENT,
        path=path,
        kind=kind,
        notes=tuple(notes),
        exercises={one.file: one for one in course.exercises},
        stubs={one.file: _stub(course, one) for one in course.exercises},
        notebooks=tuple(notebooks[:MAX_NOTEBOOKS]),
    )


def _walk(top: Path, names: set[str]) -> Iterator[_Folder]:
    """Every folder down to a depth, breadth first; `exercises/` belongs to the folder that it lies in."""
    waiting: list[tuple[Path, int]] = [(top, 0)]
    left = MAX_ENTRIES
    for path, depth in waiting:
        entries = _entries(path, left)
        left -= len(entries)
        found = _Folder(path=path, depth=depth, exercises=set(), notebooks=[], zips=[])
        for entry in entries:
            inner = _entries(Path(entry.path), left) if entry.name == "exercises" and _is_folder(entry) else []
            left -= len(inner)
            for one in (*inner, entry):
                if one.name.endswith(".py") and one.name[:-3] in names:
                    found.exercises.add(one.name)
                elif one.name.lower().endswith(".ipynb") and one.name not in found.notebooks:
                    found.notebooks.append(one.name)
                elif one.name.lower().endswith(".zip"):
                    found.zips.append(one.name if one is entry else f"exercises/{one.name}")
            if depth < MAX_DEPTH and _is_folder(entry) and not entry.name.startswith(".") and entry.name not in PASSED_OVER:
                waiting.append((Path(entry.path), depth + 1))
        yield found


def _entries(path: Path, most: int) -> Sequence[os.DirEntry[str]]:
    try:
        with os.scandir(path) as entries:
            return sorted((entry for _, entry in zip(range(max(most, 0)), entries, strict=False)), key=lambda entry: entry.name)
    except OSError:
        return []


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _stub(course: Course, exercise: Exercise) -> str:
    try:
        return course.exercise_path(exercise).read_text(encoding="utf-8")
    except OSError:
        return ""


def _shown(path: Path, top: Path) -> str:
    inner = path.relative_to(top).as_posix()
    return "the top" if inner == "." else f"{inner}/"
