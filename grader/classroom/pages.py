"""Owns the notebook that an assignment is (imports nbformat): lesson, solution cell, check, grade cells. Runs no learner code.

The ids of its cells are fixed: `start`, `solution`, `check`, and the categories of the suite. nbgrader keeps scores under them, so they
stay as they are when tests change.
"""

from __future__ import annotations

import re
from typing import Any

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from grader.course import Exercise
from grader.display import amount
from grader.lessons import lesson_lines
from grader.notebook import SOLUTION_CELL, solution_mark

from .submitted import label_of

START_CELL, CHECK_CELL = "start", "check"
ARCHIVE = "ladder.zip"
CATEGORY_WORDS = {
    "shape": "Shapes",
    "numerics": "Values",
    "gradients": "Gradients",
    "robustness": "Robustness",
    "by_hand": "Written by hand",
    "speed": "Speed",
    "memory": "Memory",
}


def make_notebook(exercise: Exercise, lesson: str, stub: str, points: dict[str, float]) -> str:
    """The notebook's JSON, the same for the same input."""
    label = label_of(exercise.file)
    top, hints = _sections(lesson)
    path = f'import sys; sys.path.insert(0, "{ARCHIVE}")  # the public examples, and what runs them\n'
    cells = [
        *(new_markdown_cell(text) for text in top[:1]),
        new_markdown_cell(_how_to_work(exercise)),
        *(new_markdown_cell(text) for text in top[1:]),
        *(new_markdown_cell(_folded(number, text)) for number, text in enumerate(hints, start=1)),
        new_markdown_cell("## Your solution"),
        new_code_cell(
            f'# Run this first: it lets cells import earlier exercises.\n{path}from ladder_check import start\nstart("{label}")',
            metadata=_marks(START_CELL, locked=True),
        ),
        new_code_cell(_solution(exercise, stub), metadata=_marks(SOLUTION_CELL, solution=True)),
        new_code_cell(
            "# Checks what would be handed in now: the cell above as it was last run, or the .py file. Run it as often as you like.\n"
            f'{path}from ladder_check import check\ncheck("{label}")',
            metadata=_marks(CHECK_CELL, locked=True),
        ),
        new_markdown_cell(
            "## Your points\n\nNothing to do below: here your points and the reasons will stand, one cell for each part, when your "
            "work has been graded. The grading suite looks at much more than the examples above."
        ),
        *(
            new_code_cell(
                f"# {CATEGORY_WORDS[name]}: {amount(most)} of {amount(exercise.points)} points, given by the course's grading suite.",
                metadata=_marks(name, locked=True, grade=True, points=most),
            )
            for name, most in points.items()
        ),
    ]
    for index, cell in enumerate(cells):
        cell.id = cell.metadata.get("nbgrader", {}).get("grade_id", f"lesson-{index}")
    kernel = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}
    notebook = new_notebook(cells=cells, metadata={"kernelspec": kernel, "language_info": {"name": "python"}})
    nbformat.validate(notebook)
    return nbformat.writes(notebook) + "\n"


def _marks(grade_id: str, *, locked: bool = False, solution: bool = False, grade: bool = False, **more: float) -> dict[str, Any]:
    marks = {"grade_id": grade_id, "schema_version": 3, "locked": locked, "solution": solution, "grade": grade, "task": False}
    return {"nbgrader": marks | more}


def _solution(exercise: Exercise, stub: str) -> str:
    """The stub, under a line that finds the cell again."""
    return f"{solution_mark(exercise.file)}: only this cell is graded, so imports and helpers belong in it\n\n{stub.strip()}"


def _how_to_work(exercise: Exercise) -> str:
    file = f"{exercise.file}.py"
    names = ", ".join(f"`{name}`" for name in exercise.names)
    return (
        f"You write {names}, **either** in the solution cell of this notebook **or** in `{file}` beside it, where your editor and "
        "debugger work. As soon as something is written in the file, the file counts; while it is untouched, the cell counts. The "
        "check cell says which one it looked at.\n\n"
        "Check as often as you like, save the notebook, then submit the assignment. Lines that begin with `%` or `!` are left out "
        "when the cell is graded."
    )


def _folded(number: int, text: str) -> str:
    return f"<details>\n<summary>Hint {number}</summary>\n\n{text}\n\n</details>"


def _sections(lesson: str) -> tuple[list[str], list[str]]:
    """(the lesson cut at its second-level headings, its hints)."""
    sections: list[list[str]] = [[]]
    for line, is_heading in lesson_lines(lesson):
        if is_heading and line.startswith("## "):
            sections.append([])
        sections[-1].append(line)
    texts = ["\n".join(lines).strip() for lines in sections]
    hints = next((text for text in texts if text.startswith("## Hints")), "")
    pieces = re.split(r"^### Hint [0-9]+.*$", hints, flags=re.MULTILINE)[1:]
    return [text for text in texts if text and not text.startswith("## Hints")], [piece.strip() for piece in pieces]
