"""Steps of nbgrader's own conversions (imports nbgrader). They run no code of anybody's in our assignments.

Only assignments that `classroom build` built are ours, as DIR/ladder/assignments says; nothing in a notebook can make one ours or not.
For every other assignment of the course each step does what nbgrader's own step in its place does.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from nbconvert.exporters.exporter import ResourcesDict
from nbformat.notebooknode import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_output
from nbgrader import utils
from nbgrader.api import Gradebook
from nbgrader.preprocessors import ClearSolutions, Execute, NbGraderPreprocessor, SaveAutoGrades
from traitlets import Unicode

from grader.course import COURSE_FILE, Course, Exercise, load_course
from grader.grading.result import Result
from grader.notebook import SOLUTION_CELL
from grader.submission import Problem, SourceFile

from .folder import Assignment, Classroom
from .scores import ENOUGH, CellScore, cell_scores, cell_text, clamp, points_by_category, verdict
from .standing import Standing, StandingError, standing_of

MAX_SHOWN_SOURCE = 50_000  # characters of the graded file that a feedback page shows


class OurStep(NbGraderPreprocessor):
    """What the steps below share: the classroom, and whether an assignment is ours."""

    classroom = Unicode(help="The classroom's folder.").tag(config=True)
    course = Unicode(help="The folder that holds course.toml.").tag(config=True)

    def assignment(self, resources: ResourcesDict) -> Assignment | None:
        """What was built under this name; None if it is not ours."""
        return Classroom(Path(self.classroom)).assignment(resources["nbgrader"]["assignment"]) if self.classroom else None


@functools.lru_cache(maxsize=4)
def _course(root: Path, changed: int) -> Course:
    return load_course(root)


class KeepStubs(OurStep, ClearSolutions):
    """In place of ClearSolutions: our source notebooks hold stubs already, and nothing else to clear."""

    def preprocess(self, nb: NotebookNode, resources: ResourcesDict) -> tuple[NotebookNode, ResourcesDict]:
        if self.assignment(resources) is not None:
            return nb, resources
        return ClearSolutions.preprocess(self, nb, resources)


class RepairCells(OurStep):
    """First step on a submitted notebook: whatever was done to its cells, each of ours is there once, as it was released.

    A learner's own cells and the text of the solution cell stay. Points, kinds and ids come from the gradebook.
    """

    def preprocess(self, nb: NotebookNode, resources: ResourcesDict) -> tuple[NotebookNode, ResourcesDict]:
        if self.assignment(resources) is None:
            return nb, resources
        at = resources["nbgrader"]
        with Gradebook(at["db_url"]) as gradebook:
            notebook = gradebook.find_notebook(at["notebook"], at["assignment"])
            points = {cell.name: cell.max_score for cell in notebook.grade_cells}
            tasks = {cell.name: cell.max_score for cell in notebook.task_cells}
            solutions = {cell.name for cell in notebook.solution_cells}
            ours = {
                cell.name: (cell.cell_type, cell.source or "", _marks(cell, points, tasks, cell.name in solutions))
                for cell in notebook.source_cells
            }
        theirs = _last_of_each(nb.cells, ours)
        cells: list[NotebookNode] = []
        waiting = list(ours)  # in the order of the released notebook
        for cell in nb.cells:
            name = next((name for name, index in theirs.items() if nb.cells[index] is cell), None)
            if name is None:
                cell.metadata.pop("nbgrader", None)
                cells.append(_plain(cell))
                continue
            cells.append(_ours(ours[name], _text(cell) if name in solutions else None))
            waiting.remove(name)
        for name in waiting:  # deleted ones
            cells.insert(_place_of(name, list(ours), cells), _ours(ours[name], None))
        nb.cells = cells
        nb.nbformat_minor = max(nb.nbformat_minor, 5)  # the first with ids of cells, which all have now
        nb.metadata.pop("celltoolbar", None)
        return nb, resources


def _place_of(name: str, order: list[str], cells: list[NotebookNode]) -> int:
    """Where a deleted cell belongs: after the one that came before it, else before the one that came after it."""
    ids = [cell.metadata.get("nbgrader", {}).get("grade_id") for cell in cells]
    before, after = order[: order.index(name)], order[order.index(name) + 1 :]
    last = max((index for index, one in enumerate(ids) if one in before), default=None)
    if last is not None:
        return last + 1
    return min((index for index, one in enumerate(ids) if one in after), default=len(cells))


def _marks(cell: Any, points: dict[str, float], tasks: dict[str, float], solution: bool) -> dict[str, Any]:
    """nbgrader's metadata of one source cell, as the gradebook has it."""
    marks = {
        "grade_id": cell.name,
        "grade": cell.name in points,
        "solution": solution,
        "locked": bool(cell.locked),
        "task": cell.name in tasks,
        "schema_version": 3,
        "cell_type": cell.cell_type,
        "checksum": cell.checksum,
    }
    most = {**points, **tasks}.get(cell.name)
    return marks if most is None else marks | {"points": float(most)}


def _last_of_each(cells: list[NotebookNode], ours: dict[str, Any]) -> dict[str, int]:
    """Where each of our cells stands; of copies, the last one."""
    found: dict[str, int] = {}
    for index, cell in enumerate(cells):
        marks = cell.metadata.get("nbgrader")
        name = marks.get("grade_id") if isinstance(marks, dict) else None
        if isinstance(name, str) and name in ours:
            found[name] = index
    return found


def _text(cell: NotebookNode) -> str:
    source = cell.get("source", "")
    return source if isinstance(source, str) else "".join(map(str, source))


def _ours(kind: tuple[str, str, dict[str, Any]], text: str | None) -> NotebookNode:
    """A fresh cell: nothing of a submitted one but the text of a solution."""
    cell_type, source, marks = kind
    make = new_code_cell if cell_type == "code" else new_markdown_cell
    return make(source if text is None else text, metadata={"nbgrader": marks}, id=marks["grade_id"])


def _plain(cell: NotebookNode) -> NotebookNode:
    """A learner's own cell, without its id, which may be one of ours."""
    if cell.cell_type == "code":
        return new_code_cell(_text(cell))
    pictures = cell.get("attachments")
    return new_markdown_cell(_text(cell), **({"attachments": pictures} if isinstance(pictures, dict) else {}))


class WriteScores(OurStep, Execute):
    """In place of Execute: writes our result into the grade cells, as nbgrader reads it there.

    Raises `StandingError` for a student whose result is missing, stale or in error, which stops that student alone.
    """

    def preprocess(self, nb: NotebookNode, resources: ResourcesDict) -> tuple[NotebookNode, ResourcesDict]:
        assignment = self.assignment(resources)
        if assignment is None:
            return Execute.preprocess(self, nb, resources)
        course = _course(Path(self.course), (Path(self.course) / COURSE_FILE).stat().st_mtime_ns)
        standing = standing_of(course, Classroom(Path(self.classroom)), resources["nbgrader"]["student"], assignment)
        cells = {cell.metadata.nbgrader.grade_id: cell for cell in nb.cells if "nbgrader" in cell.metadata}
        write_scores(cells, course.exercise(assignment.exercise), assignment, standing)
        resources["ladder"] = {"unscored": _unscored(assignment, standing) | close_others(cells, assignment)}
        return nb, resources


def write_scores(cells: dict[str, NotebookNode], exercise: Exercise, assignment: Assignment, standing: Standing) -> None:
    """Write outputs and scores into a notebook's cells, by id; a `StandingError` where they do not fit the result."""
    result = standing.result
    for name, points in assignment.cells.items():
        cell = cells.get(name)
        if cell is None or not utils.is_grade(cell) or utils.is_solution(cell) or cell.cell_type != "code":
            raise StandingError(f"the notebook has no grade cell {name}: run `classroom build` again")
        if abs(float(cell.metadata.nbgrader.points) - points) > ENOUGH:
            raise StandingError(
                f"grade cell {name} has {cell.metadata.nbgrader.points} points, not {points}: run `classroom build`"
            )
    _show_graded_source(cells.get(SOLUTION_CELL), standing.file)
    checker = cells.get(assignment.checker)
    if isinstance(standing.file, Problem):
        reason = f"No score: {standing.file.message}. Your instructor decides.\n"
        if checker is not None:
            checker.outputs = [new_output("stream", name="stdout", text=reason)]
        for name in assignment.cells:  # an error, so that no reader of this output gives points
            cells[name].outputs = [new_output("stream", name="stderr", text=reason)]
        return
    _check_points(assignment, result)
    if checker is not None:
        checker.outputs = [new_output("stream", name="stdout", text=verdict(exercise, result, standing.file.notes))]
    for score in cell_scores(result):
        cells[score.category].outputs = _outputs(cell_text(exercise, result, score), score)


def close_others(cells: dict[str, NotebookNode], assignment: Assignment) -> set[str]:
    """Grade cells that an instructor added and that only a kernel could grade: nothing runs here, and no output would be full marks."""
    others = {
        name: cell
        for name, cell in cells.items()
        if name not in assignment.cells and utils.is_grade(cell) and not utils.is_solution(cell) and cell.cell_type == "code"
    }
    for cell in others.values():
        cell.outputs = [new_output("stream", name="stderr", text="This cell is not run. Your instructor grades it by hand.\n")]
    return set(others)


def _check_points(assignment: Assignment, result: Result) -> None:
    found = points_by_category(result.tests)
    if found.keys() != assignment.cells.keys() or any(abs(found[name] - assignment.cells[name]) > ENOUGH for name in found):
        raise StandingError("the suite's points have changed since `classroom build`: build this exercise again, then grade")


def _outputs(text: str, score: CellScore) -> list[NotebookNode]:
    """Feedback, then the score. Nothing but the `repr` of a plain float is safe there: nbgrader takes all else for full marks."""
    if score.score is None:
        return [new_output("stream", name="stderr", text=text + "Nothing could be assessed here; your instructor decides.\n")]
    value = clamp(score.score, score.max_points)
    return [
        new_output("stream", name="stdout", text=text),
        new_output("execute_result", execution_count=1, data={"text/plain": repr(value)}),
    ]


def _show_graded_source(cell: NotebookNode | None, file: SourceFile | Problem) -> None:
    """What was graded, in the solution cell of the feedback: also where the learner wrote it in the file."""
    if cell is None or isinstance(file, Problem):
        return
    text = file.content.decode("utf-8", "replace")
    more = "" if len(text) <= MAX_SHOWN_SOURCE else "\n# ... and more, which is not shown here"
    cell.source = f"# What was graded: {file.place}\n" + text[:MAX_SHOWN_SOURCE] + more


def _unscored(assignment: Assignment, standing: Standing) -> set[str]:
    """The grade cells that have no score and wait for the instructor."""
    if isinstance(standing.file, Problem):
        return set(assignment.cells)
    return {cell.category for cell in cell_scores(standing.result) if cell.score is None}


class SaveScores(SaveAutoGrades):
    """In place of SaveAutoGrades: a cell without a score waits for the instructor, and is not a 0. A score that an instructor gave
    is to be looked at again only if the automatic one beside it has changed."""

    def _add_score(self, cell: NotebookNode, resources: ResourcesDict) -> None:
        name = cell.metadata["nbgrader"]["grade_id"]
        grade = self.gradebook.find_grade(name, self.notebook_id, self.assignment_id, self.student_id)
        before, flagged = grade.auto_score, grade.needs_manual_grade
        super()._add_score(cell, resources)
        if "ladder" not in resources:
            return
        if name in resources["ladder"]["unscored"]:
            grade.auto_score, grade.needs_manual_grade = None, grade.manual_score is None
        elif grade.manual_score is not None and grade.auto_score == before:
            grade.needs_manual_grade = flagged
        self.gradebook.db.commit()
