"""Owns the choice between an exercise's .py file and the notebooks that lie beside it. Runs no learner code.

nbgrader hands a learner one notebook per exercise, and there it is clear which counts. Elsewhere a folder may hold several notebooks, or
one of another name, so the cell must say for which exercise it is: by the notebook's name or by its own first line.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from grader.course import Exercise
from grader.notebook import SolutionCell, choose, read_solution_cell, solution_mark
from grader.submission import Problem, SourceFile


def pick(file: SourceFile | Problem, exercise: Exercise, notebooks: Mapping[str, bytes], stub: str) -> SourceFile | Problem:
    """What is graded of one exercise, with notes that say so. `notebooks`: place and content; `stub`: what learners were given."""
    for place, content in sorted(notebooks.items(), key=lambda one: (not _is_named_after(one[0], exercise), one[0])):
        cell = read_solution_cell(content, exercise.file, stub)
        if cell is None or not (_is_named_after(place, exercise) or _says_so(cell, exercise)):
            continue
        chosen = choose(file, place, cell, stub)
        return msgspec.structs.replace(chosen, name=exercise.file) if isinstance(chosen, SourceFile) else chosen
    return file


def _is_named_after(place: str, exercise: Exercise) -> bool:
    """`ex06.ipynb` or `ex06_repeat_kv.ipynb`, in whatever folder."""
    stem = place.rpartition("/")[2].lower().removesuffix(".ipynb")
    return stem in (exercise.file, f"ex{exercise.label}")


def _says_so(cell: SolutionCell | Problem, exercise: Exercise) -> bool:
    return isinstance(cell, SolutionCell) and cell.source.lstrip().startswith(solution_mark(exercise.file))
