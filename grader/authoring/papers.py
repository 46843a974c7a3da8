"""Owns the papers of a learner's kit: README, Makefile, .gitignore and the workflow, all made from the course's own. Runs no code.

The kit's README is a template (grader/templates/kit/README.md) into which sections of the course's README are copied, and its Makefile
is the course's without the targets that only instructors and authors have: so neither can tell of something else than the course does.
"""

from __future__ import annotations

import re
from pathlib import Path

from grader.course import Course, Exercise
from grader.submitting import HAND_IN

from .stubs import AuthoringError

TEMPLATES = Path(__file__).resolve().parents[1] / "templates" / "kit"
WORKFLOW = ".github/workflows/check.yml"
LEFT_OUT, HELD = (
    "# A learner's kit holds none of the following",
    "# A learner's kit holds this again",
)  # begin lines of the Makefile
EASY = 6  # the exercise to begin with

GITIGNORE = """\
.venv/
.ladder/
__pycache__/
*.egg-info/
submission*.zip
*.pt
*.safetensors
"""


def papers(course: Course, torch: str = "") -> dict[str, str]:
    """Names and texts. `torch` is what the kit's Makefile installs first where nobody asks for another: pip's words after `install`."""
    return {
        "README.md": learners_readme(course),
        "Makefile": learners_makefile(_read(course, "Makefile"), torch),
        WORKFLOW: (TEMPLATES / "check.yml").read_text(encoding="utf-8"),
        ".gitignore": GITIGNORE,
    }


# ---- README ----------------------------------------------------------------------------------------------------------


def learners_readme(course: Course) -> str:
    """The README of a kit."""
    readme = _read(course, "README.md")
    first = next((one for one in course.exercises if one.number == EASY), course.exercises[0])
    template = (TEMPLATES / "README.md").read_text(encoding="utf-8")
    fields = {
        "course": course.name,
        "label": first.label,
        "file": first.file,
        "ladder": _ladder(course, _section(readme, "The ladder")),
        "commands": _section(readme, "For learners"),
        "installing": _section(readme, "Installing"),
        "hand_in": course.hand_in or HAND_IN,
    }
    return re.sub(r"\{(\w+)\}", lambda match: fields[match[1]], template)


def _section(text: str, heading: str) -> str:
    """What stands under a heading of a Markdown text, up to the next heading of any level."""
    found = re.search(rf"^##+ {re.escape(heading)}\n(.*?)(?=^##|\Z)", text, re.MULTILINE | re.DOTALL)
    if found is None:
        raise AuthoringError(f"README.md: there is no section '## {heading}', from which a kit's README is made")
    return found[1].strip()


def _ladder(course: Course, section: str) -> str:
    """The README's table with the exercises that this course has, and what each is worth."""
    rows = {int(row[2:4]): row for row in section.splitlines() if re.match(r"\| [0-9]{2} \|", row)}
    table = ["| | exercise | points | you write | it teaches |", "|---|---|---|---|---|"]
    table += [_with_points(one, rows.get(one.number) or _row(one)) for one in course.exercises]
    after = section.rpartition("\n|")[2].partition("\n")[2] if rows else section
    return "\n".join([*table, *([after] if after else [])])


def _row(exercise: Exercise) -> str:
    """For an exercise that the README does not tell of."""
    names = ", ".join(f"`{name}`" for name in exercise.names)
    return f"| {exercise.label} | [{exercise.title}](exercises/{exercise.file}.md) | {names} | |"


def _with_points(exercise: Exercise, row: str) -> str:
    empty, label, title, rest = row.split("|", 3)
    return "|".join((empty, label, title, f" {exercise.points:g} ", rest))


# ---- Makefile --------------------------------------------------------------------------------------------------------


def learners_makefile(text: str, torch: str = "") -> str:
    """The course's Makefile without what only instructors and authors have."""
    lines, is_held = [], True
    for line in text.splitlines():
        if line.startswith(LEFT_OUT):
            is_held = False
        elif line.startswith(HELD):
            is_held = True
        elif is_held:
            lines.append(line)
    targets = {name for line in lines if (found := re.match(r"([a-z][a-z -]*):", line)) for name in found[1].split()}
    for number, line in enumerate(lines):
        if line.startswith(".PHONY:"):
            lines[number] = " ".join([".PHONY:", *(name for name in line.split()[1:] if name in targets)])
        elif torch and line.startswith("TORCH ?="):
            lines[number] = f"TORCH ?= {torch}"
    return "\n".join(lines).rstrip() + "\n"


def check_torch(words: str) -> str:
    """What an instructor gave as `--torch`, fit to stand in a Makefile and on a shell's command line."""
    words = " ".join(words.split())
    if words and (not re.fullmatch(r"[A-Za-z0-9 .,:/=+@_-]*", words) or "torch" not in words):
        raise AuthoringError(
            f"--torch {words!r}: expected what follows `pip install`, such as: torch==2.13.0 --index-url ADDRESS"
        )
    return words


def _read(course: Course, name: str) -> str:
    try:
        return (course.root / name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise AuthoringError(f"{course.root / name}: cannot be read: {error}") from None
