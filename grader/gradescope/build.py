"""Makes the zip that an instructor uploads to Gradescope: two scripts, the options, and the course with its hidden suites. Runs no learner code.

The zip holds the answers: it is for Gradescope only, and never for learners.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from grader.archive import zip_of
from grader.authoring.kit import check_imports
from grader.authoring.papers import check_torch, learners_makefile
from grader.authoring.stubs import AuthoringError, given_files, stub_of
from grader.course import COURSE_FILE, Course, Exercise
from grader.grading.result import write_atomically

from .options import OPTIONS_FILE, VISIBILITIES, Options

SCRIPTS = Path(__file__).resolve().parents[1] / "templates" / "gradescope"
EXECUTABLE = ("setup.sh", "run_autograder")
COPIED = (COURSE_FILE, "pyproject.toml", "constraints.txt", "LICENSE", "README.md")
NEEDED = ("solutions", "tests/public", "tests/hidden")
LEFT_OUT = ("wheats",)  # of the solutions: nothing is compared with them
NOT_NEEDED = ("authoring", "classroom", "exports.py", "reporting", "report.py", "templates", "build.py")  # of the grader


def make_autograder(course: Course, out: Path, options: Options, torch: str = "") -> int:
    """Write the zip to `out`; returns its size. `torch` is what pip installs first: its words after `install`."""
    out = Path(out)
    if out.suffix.lower() != ".zip":
        raise AuthoringError(f"{out}: give a name that ends in .zip, such as autograder.zip")
    if out.is_dir():
        raise AuthoringError(f"{out} is a folder; give the name of the .zip to write")
    data = zip_of(_files(course, options, check_torch(torch)), EXECUTABLE)
    try:
        write_atomically(out, data)
    except OSError as error:
        raise AuthoringError(f"{out}: cannot be written: {error.strerror or error}") from None
    return len(data)


def make_options(
    exercises: Sequence[Exercise], visibility: str, *, leaderboard: bool, accept_unofficial: bool, minutes: float
) -> Options:
    """The options of an assignment, checked."""
    if visibility not in VISIBILITIES:
        raise AuthoringError(f"--visibility {visibility}: allowed are {', '.join(VISIBILITIES)}")
    return Options(
        exercises=[one.file for one in exercises],
        visibility=visibility,  # type: ignore[arg-type]
        leaderboard=leaderboard,
        accept_unofficial=accept_unofficial,
        minutes=minutes,
    )


def _files(course: Course, options: Options, torch: str) -> dict[str, bytes]:
    """Everything in the zip: name and content."""
    files = {name: (SCRIPTS / name).read_bytes() for name in EXECUTABLE}
    files[OPTIONS_FILE] = msgspec.json.format(msgspec.json.encode(options), indent=1) + b"\n"
    inner = {name: _read(course.root / name) for name in COPIED}
    inner["Makefile"] = learners_makefile(_read(course.root / "Makefile").decode(), torch).encode()
    inner["exercises/__init__.py"] = _read(course.root / "exercises/__init__.py")
    for name, text in given_files(course).items():
        inner[f"exercises/{name}"] = text.encode()
    for exercise in course.exercises:
        inner[f"exercises/{exercise.file}.py"] = stub_of(course, exercise).encode()
    for folder in NEEDED:
        inner |= _tree(course.root, folder, LEFT_OUT)
    if course.props_path.is_file():
        inner[course.props_path.relative_to(course.root).as_posix()] = _read(course.props_path)
    inner |= _tree(course.root, "grader", NOT_NEEDED)
    for exercise in course.exercises:
        if exercise.file in options.exercises and f"tests/hidden/test_{exercise.file}.py" not in inner:
            raise AuthoringError(f"{course.hidden_test_path(exercise)}: no such file, so {exercise.file} cannot be graded")
    check_imports(course, inner, "the autograder")
    return files | {f"course/{name}": content for name, content in inner.items()}


def _tree(root: Path, folder: str, left_out: Sequence[str]) -> dict[str, bytes]:
    """Python's files below a folder."""
    found = {}
    for path in sorted((root / folder).rglob("*")):
        inner = path.relative_to(root / folder)
        if any(part in left_out or part.startswith((".", "__pycache__")) for part in inner.parts):
            continue
        if path.is_file() and path.suffix in (".py", ".ini", ".toml"):
            found[path.relative_to(root).as_posix()] = _read(path)
    return found


def _read(path: Path) -> bytes:
    if path.is_symlink():
        raise AuthoringError(f"{path} is a symbolic link; an autograder holds files only")
    try:
        return path.read_bytes()
    except OSError as error:
        raise AuthoringError(f"{path}: cannot be read: {error.strerror or error}") from None
