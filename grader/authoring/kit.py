"""Owns the learner's kit: the folder that a learner gets. Runs no learner code.

In it: the stubs with their lessons, the public tests and what `look` shows, the grader that a learner runs, course.toml and papers of its
own (papers.py).
Not in it: solutions, wheats, chaffs, hidden tests, what only instructors use, and the repository's history.
"""

from __future__ import annotations

import ast
import os
import shutil
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path

from grader.authoring.leaks import check_nothing_leaks
from grader.authoring.papers import check_torch, papers
from grader.authoring.stubs import AuthoringError, given_files, stub_of
from grader.course import COURSE_FILE, Course

COPIED = (COURSE_FILE, "pyproject.toml", "constraints.txt", "LICENSE")
# Of the grader, what learners do not run.
INSTRUCTORS_ONLY = ("authoring", "classroom", "exports.py", "gradescope", "reporting", "report.py", "templates")
SUITE_HELPERS = ("__init__.py", "conftest.py")  # beside the public tests, where there are any


def make_kit(course: Course, out: Path, torch: str = "") -> list[str]:
    """Write the kit to `out`, which must be a new or an empty folder; returns the names of its files.

    `torch` is what learners install first where they ask for no other: pip's words, such as "torch==2.13.0 --index-url ADDRESS".
    The kit is built beside `out` and then renamed, so `out` never holds a part of one.
    """
    out = Path(out).absolute()
    _check_out(course, out)
    files = _files(course) | {name: text.encode() for name, text in papers(course, check_torch(torch)).items()}
    check_nothing_leaks(course, files)
    check_imports(course, files)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        building = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    except OSError as error:
        raise AuthoringError(f"{out}: cannot be written: {error.strerror or error}") from None
    try:
        for name, content in files.items():
            path = building / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        os.chmod(building, 0o755)
        os.rename(building, out)  # replaces an empty folder, and refuses one that was filled meanwhile
    except OSError as error:
        raise AuthoringError(f"{out}: cannot be written: {error.strerror or error}") from None
    finally:
        shutil.rmtree(building, ignore_errors=True)
    return sorted(files)


def _check_out(course: Course, out: Path) -> None:
    if out.is_symlink():
        raise AuthoringError(f"{out} is a symbolic link; give a new or an empty folder")
    if out.is_dir():
        if any(out.iterdir()):
            raise AuthoringError(f"{out} is not empty; give a new or an empty folder, nothing is overwritten")
    elif out.exists():
        raise AuthoringError(f"{out} is a file; give a new or an empty folder")
    for folder in ("exercises", "solutions", "tests", "grader"):
        if out.is_relative_to(course.root / folder):
            raise AuthoringError(f"{out} lies within the course's own {folder}/; give a folder elsewhere")


def _files(course: Course) -> dict[str, bytes]:
    """Everything that the kit holds: name and content."""
    missing: list[str] = []
    files: dict[str, bytes] = {}

    def add(name: str) -> None:
        path = course.root / name
        if path.is_symlink():
            raise AuthoringError(f"{path} is a symbolic link; a kit holds files only")
        try:
            files[name] = path.read_bytes()
        except FileNotFoundError:
            missing.append(name)
        except OSError as error:
            raise AuthoringError(f"{path}: cannot be read: {error.strerror or error}") from None

    for name in COPIED:
        add(name)
    if COURSE_FILE in files:
        files[COURSE_FILE] = _without_timed(files[COURSE_FILE])
    add("exercises/__init__.py")
    for name, text in given_files(course).items():
        files[f"exercises/{name}"] = text.encode()
    for exercise in course.exercises:
        files[f"exercises/{exercise.file}.py"] = stub_of(course, exercise).encode()  # fresh, whatever lies in exercises/
        add(f"exercises/{exercise.file}.md")
        add(f"tests/public/test_{exercise.file}.py")
    helpers = [course.props_path, *(course.root / "tests" / "public" / name for name in SUITE_HELPERS)]
    helpers += [course.look_path(exercise) for exercise in course.exercises]
    for path in helpers:
        if path.exists():
            add(path.relative_to(course.root).as_posix())
    add("grader/__init__.py")
    for path in sorted((course.root / "grader").rglob("*")):
        inner = path.relative_to(course.root / "grader")
        if inner.parts[0] in INSTRUCTORS_ONLY or any(part.startswith((".", "__pycache__")) for part in inner.parts):
            continue
        if path.is_symlink() or path.is_file():
            add(f"grader/{inner.as_posix()}")
    if missing:
        raise AuthoringError(f"{course.root} lacks what a kit holds: {', '.join(dict.fromkeys(missing))}")
    return files


def _without_timed(course: bytes) -> bytes:
    """course.toml without [[exercise.timed]], which names tests and chaffs that a learner has not got."""
    kept, skipping = [], False
    for line in course.decode().splitlines(keepends=True):
        if line.startswith("["):
            skipping = line.strip() == "[[exercise.timed]]"
        if not skipping:
            kept.append(line)
    text = "".join(kept)
    wanted = tomllib.loads(course.decode())
    for exercise in wanted["exercise"]:
        exercise.pop("timed", None)
    if tomllib.loads(text) != wanted:
        raise AuthoringError(f"{COURSE_FILE}: write [[exercise.timed]] on a line of its own, and its keys below it")
    return text.encode()


def check_imports(course: Course, files: Mapping[str, bytes], what: str = "the kit") -> None:
    """The grader in the kit imports nothing, at import time, that the kit leaves out."""
    for name in files:
        if not (name.startswith("grader/") and name.endswith(".py")):
            continue
        try:
            tree = ast.parse(files[name])
        except (SyntaxError, ValueError) as error:
            raise AuthoringError(f"{name}, line {getattr(error, 'lineno', None) or 1}: not valid Python: {error}") from None
        for node in tree.body:
            for module in _imported(node, name):
                file, package = f"{module.replace('.', '/')}.py", f"{module.replace('.', '/')}/__init__.py"
                left_out = {file, package}.isdisjoint(files)
                if left_out and ((course.root / file).exists() or (course.root / package).exists()):
                    raise AuthoringError(f"{name}, line {node.lineno}: imports {module}, which {what} leaves out")


def _imported(node: ast.stmt, name: str) -> list[str]:
    """The grader's modules that a top-level statement of the file `name` may import."""
    modules: list[str] = []
    if isinstance(node, ast.Import):
        modules = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        base = ".".join(name.split("/")[: -node.level]) if node.level else ""
        module = ".".join(filter(None, (base, node.module)))
        modules = [module, *(f"{module}.{alias.name}" for alias in node.names)]
    return [module for module in modules if module.split(".")[0] == "grader"]
