"""Owns the hints of a lesson: reads the three of exNN_name.md and remembers, for one learner, which were shown.

Runs no code. The memory is a convenience: if it cannot be read or written, the hints are shown all the same.
"""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

import msgspec

from grader.course import Course, Exercise

HINTS = 3
STATE = Path(".ladder") / "hints.json"


class LessonError(Exception):
    """A lesson without its three hints: says which and what is wrong."""


class Hint(msgspec.Struct, frozen=True, kw_only=True):
    """One hint, ready to be shown."""

    number: int  # 1 to 3
    text: str  # Markdown
    repeated: bool = False  # all three had been shown before; this is the last one again

    @property
    def is_last(self) -> bool:
        return self.number == HINTS


def read_hints(course: Course, exercise: Exercise) -> tuple[str, str, str]:
    """The three hints of a lesson, from the gentlest to the plainest."""
    path = course.lesson_path(exercise)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise LessonError(f"{path}: there is no such lesson") from None
    except (OSError, UnicodeDecodeError) as error:
        raise LessonError(f"{path}: cannot be read: {error}") from None
    hints: dict[int, list[str]] = {}
    sections = 0
    inside = False
    current: list[str] = []
    for line, is_heading in lesson_lines(text):
        if is_heading and re.match(r"#{1,2}\s", line):
            inside = re.fullmatch(r"##\s+Hints\s*", line) is not None
            sections += inside
        elif is_heading and inside and re.match(r"###\s", line):
            title = re.fullmatch(r"###\s+Hint ([0-9]+)\b.*", line)
            if title is None:
                raise LessonError(f"{path}: {line.strip()!r} stands under '## Hints'; only '### Hint 1' to '### Hint 3' may")
            number = int(title[1])
            if number != len(hints) + 1 or number > HINTS:
                raise LessonError(f"{path}: '### Hint {number}' is number {len(hints) + 1} of the hints; a lesson has 1, 2 and 3")
            current = hints[number] = []
        elif inside and hints:
            current.append(line)
    if sections != 1:
        raise LessonError(f"{path}: a lesson has one section '## Hints', this one has {sections}")
    if len(hints) != HINTS:
        raise LessonError(f"{path}: a lesson has three hints, '### Hint 1' to '### Hint 3'; this one has {len(hints)}")
    texts = ["\n".join(lines).strip() for lines in hints.values()]
    for number, hint in enumerate(texts, start=1):
        if not hint:
            raise LessonError(f"{path}: hint {number} is empty")
    return texts[0], texts[1], texts[2]


def next_hint(course: Course, exercise: Exercise) -> Hint:
    """The first hint not yet shown, and remembers it; after the third, the third again."""
    texts = read_hints(course, exercise)
    shown = hints_shown(course, exercise)
    number = min(shown + 1, HINTS)
    if shown < HINTS:
        _remember(course, exercise, number)
    return Hint(number=number, text=texts[number - 1], repeated=shown == HINTS)


def hints_shown(course: Course, exercise: Exercise) -> int:
    """How many hints of the exercise were shown, 0 to 3."""
    return _state(course).get(exercise.file, 0)


def forget_hints(course: Course, exercise: Exercise) -> None:
    """Start again at the first hint."""
    _remember(course, exercise, 0)


def lesson_lines(text: str) -> list[tuple[str, bool]]:
    """The lines, and whether each may be a heading: within a fenced block, `# a comment` is code."""
    result = []
    fence = ""
    for line in text.splitlines():
        mark = re.match(r" {0,3}(`{3,}|~{3,})", line)
        result.append((line, not fence and not mark))
        if mark and not fence:
            fence = mark[1]
        elif mark and mark[1][0] == fence[0] and len(mark[1]) >= len(fence) and not line.strip().strip(fence[0]):
            fence = ""
    return result


def _state(course: Course) -> dict[str, int]:
    """What was shown; whatever is damaged in the file counts as not shown."""
    try:
        with open(course.root / STATE, "rb") as stream:
            found = msgspec.json.decode(stream.read(100_000))
    except (OSError, msgspec.MsgspecError, ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {file: shown for file, shown in found.items() if type(shown) is int and 0 <= shown <= HINTS}


def _remember(course: Course, exercise: Exercise, shown: int) -> None:
    path = course.root / STATE
    content = msgspec.json.format(msgspec.json.encode({**_state(course), exercise.file: shown}, order="sorted"))
    temporary = ""
    try:
        path.parent.mkdir(exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(prefix=".hints.", dir=path.parent)
        with open(descriptor, "wb") as stream:
            stream.write(content + b"\n")
        os.replace(temporary, path)
        temporary = ""
    except OSError:
        return  # a folder that cannot be written still shows its hints
    finally:
        if temporary:
            Path(temporary).unlink(missing_ok=True)
