"""Packs what a learner hands in: one zip with the exercises, and a word on everything that is not in it. Runs no learner code.

Files are found by the very code that a grader finds them with (submission.py), and the finished archive is read back by it: what is
packed is what will be graded. The same files give the same bytes.
"""

from __future__ import annotations

import ast
import hashlib
import os
import stat
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from grader.archive import OLDEST, zip_of
from grader.course import Course, Exercise
from grader.grading.result import write_atomically
from grader.notebook import MAX_NOTEBOOK_BYTES
from grader.picking import pick
from grader.playing.own import GIVEN, unsolved
from grader.progress import Checked, read_progress
from grader.submission import (
    IGNORED_FOLDERS,
    MAX_ARCHIVE_BYTES,
    MAX_LISTED,
    OTHER_ARCHIVES,
    SourceFile,
    Submission,
    SubmissionError,
    looks_like,
    own_submission,
)
from grader.text import one_line

NAME = "submission.zip"
CHECKPOINTS = (".pt", ".pth", ".safetensors", ".bin", ".ckpt", ".npz", ".npy", ".onnx", ".gguf", ".pkl", ".pickle", ".h5")
LISTED = 12
HAND_IN = "Hand in this one file where your course collects exercises."


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """One file of the submission."""

    place: str  # in the archive
    content: bytes
    exercise: Exercise | None = None  # None: a notebook
    unwritten: tuple[str, ...] = ()  # graded names that are as the stub has them

    @property
    def is_started(self) -> bool:
        return self.exercise is None or set(self.unwritten) != set(self.exercise.names)


class Pack(msgspec.Struct, kw_only=True):
    """What is handed in, and what a learner should know of it, in sentences."""

    items: list[Item] = []
    look_at: list[str] = []  # what will probably cost points
    left_out: list[str] = []  # what is rightly not in it


def pack(course: Course, wanted: Sequence[Exercise]) -> Pack:
    """Collect the exercises, those that they build on, and all notebooks."""
    numbers = {one.number for exercise in wanted for one in (*course.prerequisites_of(exercise), exercise)}
    exercises = [one for one in course.exercises if one.number in numbers]
    submission = own_submission(course.root)
    found = Pack()
    _look_around(course, exercises, submission, found)
    notebooks = {item.place: item.content for item in found.items}
    for exercise in exercises:
        file = submission.file(exercise.file)
        if not isinstance(file, SourceFile) or not _item(file, exercise).is_started:
            file = pick(
                file, exercise, notebooks, stub=file.content.decode("utf-8", "replace") if isinstance(file, SourceFile) else ""
            )
        if isinstance(file, SourceFile):
            found.items.append(_item(file, exercise))
            found.look_at += [*_mistakes(course, exercise, file), *file.notes]
        else:
            found.look_at.append(f"{exercise.label} is not in it: {file.message}")
    found.items.sort(key=lambda item: (item.exercise is None, item.place))
    if sum(len(item.content) for item in found.items) > MAX_ARCHIVE_BYTES:
        size = amount(sum(len(item.content) for item in found.items))
        raise SubmissionError(
            f"all files together have {size}, at most {amount(MAX_ARCHIVE_BYTES)} can be handed in: clear the outputs of notebooks"
        )
    if not any(item.exercise and item.is_started for item in found.items):
        unused = [f"{place} holds no solution cell of these exercises" for place in notebooks]
        raise SubmissionError("; ".join(["there is nothing to hand in yet: no exercise is started", *unused, *found.look_at[:3]]))
    return found


def archive(items: Sequence[Item]) -> bytes:
    """The zip that is handed in."""
    return zip_of({item.place: item.content for item in items})


def write(out: Path, items: Sequence[Item]) -> str:
    """Write the archive in one step, and read it back as a grader does; returns its SHA-256."""
    if out.suffix.lower() != ".zip":
        raise SubmissionError(f"{out}: give a name that ends in .zip, such as {NAME}")
    if out.is_dir():
        raise SubmissionError(f"{out} is a folder; give the name of the .zip to write")
    if out.exists() and not _is_a_submission(out):
        raise SubmissionError(f"{out} exists and is no submission of this course; it is left alone: give another name")
    data = archive(items)
    try:
        write_atomically(out, data)
    except OSError as error:
        raise SubmissionError(f"{out}: cannot be written: {error.strerror or error}") from None
    written = own_submission(out)
    for item in items:
        if item.exercise is None:
            continue
        file = written.file(item.exercise.file)
        if not isinstance(file, SourceFile) or file.content != item.content:
            raise SubmissionError(f"{out}: {item.place} cannot be read back; is the disk full or damaged?")
    return hashlib.sha256(data).hexdigest()


def amount(count: int) -> str:
    """Bytes for people: 512 B, 3.4 kB, 2.1 GB."""
    size, unit = float(count), "B"
    for larger in ("kB", "MB", "GB"):
        if size < 1000:
            break
        size, unit = size / 1000, larger
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"


def _is_a_submission(path: Path) -> bool:
    """Whether a file is what this module wrote, so that it may be replaced."""
    try:
        with zipfile.ZipFile(path) as file:
            return all(entry.date_time == OLDEST for entry in file.infolist())
    except (OSError, zipfile.BadZipFile, ValueError):
        return False


# ---- what a learner reads ----------------------------------------------------------------------------------------------


def show(console: Console, course: Course, found: Pack, out: Path, checksum: str) -> None:
    """What is in the archive, what is not, and where it goes."""
    size = amount(out.stat().st_size)
    console.print()
    _print(console, Text(f"{out.name}  {_count(len(found.items), 'file')}, {size}", style="bold"), below=1)
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    for column in ({}, {}, {"justify": "right", "no_wrap": True}, {}):
        table.add_column(**column)
    checked = read_progress(course)
    for item in found.items:
        if item.is_started:
            state, style = _state(course, item, checked)
            label = item.exercise.label if item.exercise else ""
            table.add_row(label, one_line(item.place), amount(len(item.content)), Text(state, style=style))
    _print(console, table, indent=4, below=1)
    untouched = [item.exercise.label for item in found.items if item.exercise and not item.is_started]
    if untouched:
        _print(console, Text(f"Not started, and packed as the stubs are: {', '.join(untouched)}"), below=1)
    for title, sentences, style in (
        ("Look at this before you hand it in", found.look_at, "yellow"),
        ("Left out", found.left_out, ""),
    ):
        if sentences:
            _print(console, Text(title, style=f"bold {style}"))
            more = [f"... and {len(sentences) - LISTED} more"] if len(sentences) > LISTED else []
            listed = Table.grid(padding=(0, 1, 0, 0))
            for sentence in [*sentences[:LISTED], *more]:
                listed.add_row("-", Text(one_line(sentence)))
            _print(console, listed, indent=4, below=1)
    _print(console, Text(f"sha256 {checksum}", style="dim"))
    console.print(Text(f"  This is the file: {out.resolve()}", style="bold"), soft_wrap=True)  # a path to be copied
    _print(console, Text(course.hand_in or HAND_IN), below=1)


def _state(course: Course, item: Item, checked: dict[str, Checked]) -> tuple[str, str]:
    """What is known of a file from the last check: words and their style."""
    if item.exercise is None:
        return "notebook", ""
    last = checked.get(item.exercise.file)
    if item.unwritten:
        return f"not written: {', '.join(item.unwritten)}", "yellow"
    if last is None:
        return "not checked yet", "yellow"
    if last.content != hashlib.sha256(item.content).hexdigest():
        return "changed since the last check", "yellow"
    if last.max_points:
        words = f"{last.points:g} of {last.max_points:g} points"
    else:
        words = f"{last.passed} of {last.tests} examples"
    return words, "green" if last.is_complete else "yellow"


def _print(console: Console, what: RenderableType, indent: int = 2, below: int = 0) -> None:
    console.print(Padding(what, (0, 0, below, indent), expand=False))


def _count(n: int, thing: str) -> str:
    return f"{n} {thing}" if n == 1 else f"{n} {thing}s"


# ---- one exercise ------------------------------------------------------------------------------------------------------


def _item(file: SourceFile, exercise: Exercise) -> Item:
    missing = tuple(name for name in exercise.names if name in unsolved(file.content))
    return Item(place=f"exercises/{exercise.file}.py", content=file.content, exercise=exercise, unwritten=missing)


def _mistakes(course: Course, exercise: Exercise, file: SourceFile) -> list[str]:
    """What can be told of a file without running it: it is no Python, lacks a graded name, or needs a file that is not handed in."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(file.content)
    except SyntaxError as error:
        return [f"{file.place}, line {error.lineno or 1}: not valid Python ({error.msg}), so it gets no points"]
    except (ValueError, RecursionError, MemoryError) as error:
        return [f"{file.place}: not valid Python ({error or 'nested too deeply'}), so it gets no points"]
    known = {one.file for one in course.exercises} | {name.removesuffix(".py") for name in GIVEN}
    bound = _bound(tree)
    wrong = [f"{file.place}: {name} is not defined in it" for name in exercise.names if name not in bound and "*" not in bound]
    for node in ast.walk(tree):
        for name in _siblings(node):
            if name not in known:
                wrong.append(f"{file.place}, line {node.lineno}: imports {name}, which is not handed in: move it into this file")
    return wrong


def _bound(tree: ast.Module) -> set[str]:
    """Every name that is given a value anywhere in a file; "*" for whatever a star imports."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.alias):
            names.add(node.asname or node.name)
    return names


def _siblings(node: ast.AST) -> list[str]:
    """The files beside this one that a statement imports."""
    if isinstance(node, ast.Import):
        dotted = [alias.name.split(".") for alias in node.names]
        return [parts[1] for parts in dotted if parts[0] == "exercises" and len(parts) > 1]
    if not isinstance(node, ast.ImportFrom):
        return []
    parts = (node.module or "").split(".")
    if node.level == 1 or (node.level == 0 and parts[0] == "exercises"):
        inner = parts if node.level == 1 else parts[1:]
        return [inner[0]] if inner and inner[0] else [alias.name for alias in node.names]
    return []


# ---- what lies around --------------------------------------------------------------------------------------------------


def _look_around(course: Course, exercises: Sequence[Exercise], submission: Submission, found: Pack) -> None:
    """Notebooks are taken along; of everything else that lies beside the exercises it is said why it is not."""
    expected = {f"{one.file}.py" for one in course.exercises}
    lessons = {f"{one.file}.md" for one in course.exercises}
    for folder in ("exercises", ""):
        for entry in _entries(submission.path / folder):
            name = entry.name
            place = one_line(f"{folder}/{name}" if folder else name)
            lower = name.lower()
            if entry.is_dir(follow_symlinks=False):
                if folder and name not in IGNORED_FOLDERS:
                    found.left_out.append(f"{place}/: only files that are graded are packed")
            elif name in expected:
                continue  # packed, or its trouble was told
            elif lower.endswith(".ipynb"):
                _take_notebook(submission.path / folder / name, place, found)
            elif (meant := next((one for one in course.exercises if looks_like(name, f"{one.file}.py")), None)) is not None:
                if meant in exercises:
                    found.look_at.append(
                        f"{place} is not in it: it is not named {meant.file}.py. Rename it if it is the right one"
                    )
            elif lower.endswith(CHECKPOINTS):
                size = _size_of(entry)
                found.left_out.append(f"{place} ({size}): checkpoints and data are not graded, and uploads of 100 MB are refused")
            elif folder and name not in {*GIVEN, "__init__.py", *lessons} and not name.startswith("."):
                why = (
                    "an archive is not opened"
                    if lower.endswith((".zip", *OTHER_ARCHIVES))
                    else "it is no exercise of this course"
                )
                found.left_out.append(f"{place}: {why}")


def _entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            listed = [entry for _, entry in zip(range(MAX_LISTED), entries, strict=False)]
    except OSError:
        return  # told where its files were looked for
    yield from sorted((entry for entry in listed if not entry.name.startswith(".")), key=lambda entry: entry.name)


def _take_notebook(path: Path, place: str, found: Pack) -> None:
    try:
        size = path.lstat().st_size
        if stat.S_ISREG(path.lstat().st_mode) and size <= MAX_NOTEBOOK_BYTES:
            found.items.append(Item(place=place, content=path.read_bytes()))
            return
    except OSError as error:
        found.look_at.append(f"{place} is not in it: it cannot be read: {error.strerror}")
        return
    why = (
        f"{amount(size)}, at most {amount(MAX_NOTEBOOK_BYTES)}: clear its outputs"
        if size > MAX_NOTEBOOK_BYTES
        else "it is no file"
    )
    found.look_at.append(f"{place} is not in it: {why}")


def _size_of(entry: os.DirEntry[str]) -> str:
    try:
        return amount(entry.stat(follow_symlinks=False).st_size)
    except OSError:
        return "size unknown"
