"""Owns what an nbgrader gradebook adds to our results: names, manual scores, late penalties, due dates. Only reads it.

The file is SQLite, with the schema of nbgrader 0.8 and 0.9. nbgrader itself is not needed to read it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote

from grader.reporting.attempts import Pair
from grader.reporting.gradebook import ENOUGH, Adjustment, Gradebook, ReportError, short
from grader.text import some_of

CELLS = """
select submitted_assignment.student_id, assignment.name, base_cell.name,
       coalesce(grade_cells.max_score, task_cells.max_score), grade.auto_score, grade.manual_score, grade.extra_credit
from grade
join submitted_notebook on submitted_notebook.id = grade.notebook_id
join submitted_assignment on submitted_assignment.id = submitted_notebook.assignment_id
join assignment on assignment.id = submitted_assignment.assignment_id
join base_cell on base_cell.id = grade.cell_id
left join grade_cells on grade_cells.id = base_cell.id
left join task_cells on task_cells.id = base_cell.id
order by base_cell.rowid
"""
SUBMITTED = """
select submitted_assignment.student_id, assignment.name, submitted_assignment.timestamp, assignment.duedate,
       submitted_assignment.extension, total(submitted_notebook.late_submission_penalty)
from submitted_assignment
join assignment on assignment.id = submitted_assignment.assignment_id
left join submitted_notebook on submitted_notebook.assignment_id = submitted_assignment.id
group by submitted_assignment.id
"""
STUDENTS = "select id, first_name, last_name, email, lms_user_id from student"
LISTED = 5  # names within a sentence
EPOCH = datetime(1970, 1, 1)  # from which SQLAlchemy counts an interval when it is kept in SQLite


@dataclass(frozen=True)
class Person:
    """A student as the roster has them."""

    student: str  # the id, which is also the name of the folder of results
    first_name: str = ""
    last_name: str = ""
    email: str = ""
    lms_id: str = ""

    @property
    def name(self) -> str:
        return " ".join(filter(None, [self.first_name, self.last_name])) or self.student


@dataclass
class Cell:
    """One grade cell of one submission."""

    name: str
    max_points: float
    auto: float | None
    manual: float | None
    extra: float

    @property
    def score(self) -> float | None:
        base = self.manual if self.manual is not None else self.auto
        return None if base is None else base + self.extra


@dataclass
class Classroom:
    """What an nbgrader gradebook says; assignments are named as our files: `ex06`."""

    people: dict[str, Person] = field(default_factory=dict)
    cells: dict[Pair, list[Cell]] = field(default_factory=dict)  # by student and assignment
    penalties: dict[Pair, float] = field(default_factory=dict)
    submitted: dict[Pair, datetime] = field(default_factory=dict)  # UTC
    due_dates: dict[Pair, datetime] = field(default_factory=dict)  # with extensions
    overdue: dict[Pair, bool] = field(default_factory=dict)  # by student and our exercise, once joined: handed in too late


def read_classroom(path: Path) -> Classroom:
    """Read a gradebook.db; a `ReportError` says what is wrong with any other file."""
    found = Classroom()
    with _opened(path) as database:
        for student, *fields in database.execute(STUDENTS):
            found.people[student] = Person(student, *(one or "" for one in fields))
        for student, assignment, cell, most, auto, manual, extra in database.execute(CELLS):
            cells = found.cells.setdefault((student, assignment), [])
            cells.append(Cell(cell, most or 0.0, auto, manual, extra or 0.0))
        for student, assignment, submitted, due, extension, penalty in database.execute(SUBMITTED):
            pair = (student, assignment)
            found.penalties[pair] = penalty
            if submitted:
                found.submitted[pair] = _utc(submitted)
            if due:
                found.due_dates[pair] = _utc(due) + (datetime.fromisoformat(extension) - EPOCH if extension else timedelta())
    return found


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    if not path.is_file():
        raise ReportError(f"{path}: there is no such file" if not path.exists() else f"{path}: is not a plain file")
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path.resolve()))}?mode=ro", uri=True)) as database:
            yield database
    except (sqlite3.Error, ValueError, TypeError, OverflowError) as error:
        raise ReportError(f"{path}: is not a gradebook of nbgrader 0.8 or 0.9: {error}") from None


def _utc(text: str) -> datetime:
    """nbgrader keeps UTC without saying so."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def join(book: Gradebook, classroom: Classroom) -> list[str]:
    """Add the roster and every grade that people or dates changed to `book`; returns what an instructor has to know."""
    exercises = {short(exercise): exercise for exercise in book.exercises}
    known = set(book.students)
    strangers = [student for student in book.students if student not in classroom.people]
    for student, person in classroom.people.items():
        book.names[student] = person.name
        if student not in known:
            book.students.append(student)
    notes = [f"not in the gradebook's roster: {', '.join(strangers)}"] if strangers else []
    differing, waiting = [], []
    for (student, assignment), cells in classroom.cells.items():
        exercise = exercises.get(assignment)
        if exercise is None:
            continue
        adjusted = _adjustment(book, student, exercise, cells, classroom.penalties.get((student, assignment), 0.0))
        if adjusted is not None:
            book.adjustments[student, exercise] = adjusted
        if _differs(book, student, exercise, cells):
            differing.append(f"{student} {assignment}")
        if any(cell.score is None for cell in cells):
            waiting.append(f"{student} {assignment}")
    for pair in classroom.due_dates.keys() & classroom.submitted.keys():
        if pair[1] in exercises:
            classroom.overdue[pair[0], exercises[pair[1]]] = classroom.submitted[pair] > classroom.due_dates[pair]
    if differing:
        which = some_of(differing, LISTED)
        notes.append(f"the gradebook's automatic scores are not those of these results: {which}; run `classroom grade` again")
    if waiting:
        notes.append(f"grade cells without a score yet, so that our points count: {some_of(waiting, LISTED)}")
    unknown = sorted({assignment for _, assignment in classroom.cells} - set(exercises))
    if unknown:
        notes.append(f"assignments of the gradebook without results here: {', '.join(unknown)}")
    return notes


def _adjustment(book: Gradebook, student: str, exercise: str, cells: list[Cell], penalty: float) -> Adjustment | None:
    """None where nothing was changed, and where the changes are no whole: a cell still waits for its score."""
    result = book.results.get((student, exercise))
    by_hand = [cell for cell in cells if cell.manual is not None or cell.extra]
    graded = result is not None and result.status == "graded"
    if not by_hand and not (penalty > 0 and graded):
        return None
    if not graded and any(cell.manual is None for cell in cells):
        return None
    scores = [cell.score for cell in cells]
    if any(score is None for score in scores):
        return None
    lines = [_in_words(cell) for cell in by_hand]
    if penalty > 0:
        lines.append(f"late: -{penalty:g}")
    return Adjustment(
        points=sum(score or 0.0 for score in scores),
        max_points=sum(cell.max_points for cell in cells),
        by_hand=bool(by_hand),
        penalty=penalty,
        lines=tuple(lines),
    )


def _in_words(cell: Cell) -> str:
    words = f"{cell.name}: "
    if cell.manual is not None:
        was = "no score" if cell.auto is None else f"{cell.auto:g}"
        words += f"{cell.manual:g} by hand instead of {was}"
    if cell.extra:
        words += f"{', ' if cell.manual is not None else ''}{cell.extra:+g} extra credit"
    return words


def _differs(book: Gradebook, student: str, exercise: str, cells: list[Cell]) -> bool:
    """Whether the automatic scores, as shares, are not those of our result: one of the two is out of date."""
    result = book.results.get((student, exercise))
    auto = [cell.auto for cell in cells]
    most = sum(cell.max_points for cell in cells if cell.auto is not None)
    if result is None or result.status != "graded" or result.max_points <= 0 or most <= 0 or None in auto:
        return False
    return abs(sum(one or 0.0 for one in auto) / most - (result.points or 0.0) / result.max_points) > 1e3 * ENOUGH
