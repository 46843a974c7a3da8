"""Says whether two machines have the same course, grader and torch: only then are their results the same. Imports no torch."""

from __future__ import annotations

import hashlib
import platform
from importlib import metadata
from pathlib import Path

import msgspec

from grader.course import COURSE_FILE, load_course

ROOMS = ("sandbox", "suite", "grading")


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """What results depend on, besides the hardware."""

    course: str  # hash of course.toml, suites, references, chaffs and given files
    grader: str  # hash of the grader's code, as far as it decides about results
    python: str
    torch: str

    def differences(self, other: Version) -> list[str]:
        """In words: what is not the same there."""
        names = {"course": "another course", "grader": "another grader", "python": "Python {}", "torch": "torch {}"}
        return [
            words.format(getattr(other, name)) + (f" (here {getattr(self, name)})" if "{}" in words else "")
            for name, words in names.items()
            if getattr(self, name) != getattr(other, name)
        ]


def version_of(root: Path) -> Version:
    """Of the course in `root`, graded by this Python."""
    course = load_course(root)
    given = [course.props_path, *course.exercises_dir.glob("*.py")]
    exercises = {course.exercise_path(one) for one in course.exercises}
    files = [root / COURSE_FILE, *(path for path in given if path.is_file() and path not in exercises)]
    for folder in ("tests/public", "tests/hidden", "solutions"):
        files += [path for path in (root / folder).rglob("*.py") if path.is_file()]
    grader = Path(__file__).resolve().parents[1]
    code = [path for room in ROOMS for path in (grader / room).glob("*.py")]
    return Version(
        course=_hash(root, files),
        grader=_hash(grader, code),
        python=".".join(platform.python_version_tuple()[:2]),
        torch=metadata.version("torch"),
    )


def _hash(folder: Path, files: list[Path]) -> str:
    digest = hashlib.sha256()
    for path in sorted(files):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(folder).as_posix()} {len(content)} ".encode() + content)
    return digest.hexdigest()[:16]
