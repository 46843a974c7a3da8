"""`classroom export`: scores of the gradebook as CSV, for Canvas and for Moodle. Changes nothing in the classroom."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.text import Text

from grader.course import Course, Exercise
from grader.exports import Column, ExportError, Graded, csv_file, fill_canvas, moodle_file, number_field, text_field
from grader.grading.result import write_atomically
from grader.text import one_line

from .folder import Classroom, ClassroomError
from .nbgrader_api import opened
from .scorebook import Row, read_scores
from .submitted import label_of

COLUMNS = (
    "student", "last_name", "first_name", "email", "lms_user_id", "assignment", "status", "why", "item", "max_score", "auto_score",
    "manual_score", "extra_credit", "score", "needs_manual", "submitted_utc", "seconds_late", "late_penalty", "assignment_score",
    "assignment_max",
)  # fmt: skip
FINAL = "graded"


def export(
    console: Console,
    course: Course,
    classroom: Classroom,
    exercises: list[Exercise],
    *,
    csv: Path | None,
    canvas: Path | None,
    canvas_out: Path | None,
    canvas_columns: list[str],
    moodle: Path | None,
) -> None:
    """Write the files asked for; says what is not final, and so is in no file for a learning platform."""
    if not (csv or canvas or moodle):
        raise ClassroomError("say what to write: --csv FILE, --canvas EXPORTED.csv, --moodle FILE")
    labels = [label_of(one.file) for one in exercises]
    with opened(classroom) as api:
        rows = read_scores(course, classroom, api, labels)
    if not rows:
        raise ClassroomError("the gradebook has no students yet: `classroom init DIR --roster CSV`, or grade something")
    columns = _columns(exercises, rows, canvas_columns)
    students = final_scores(rows)
    if csv:
        _write(console, csv, csv_file(COLUMNS, map(_fields, rows)))
    if moodle:
        _write(console, moodle, moodle_file(students, columns))
    if canvas:
        out = canvas_out or canvas.with_name(f"{canvas.stem}-filled.csv")
        try:
            filled = fill_canvas(canvas.read_bytes(), students, columns)
        except OSError as error:
            raise ClassroomError(f"{canvas}: cannot be read: {error.strerror or error}") from None
        except ExportError as error:
            raise ClassroomError(f"{canvas}: {error}") from None
        _write(console, out, filled.content)
        for label, column in filled.columns.items():
            console.print(Text(f"  {label} is the column {column!r}"))
        for note in filled.notes:
            console.print(Text(f"  note: {one_line(note)}", style="yellow"))
    _say_what_is_missing(console, rows)
    if canvas:
        console.print(Text("Next: in Canvas, Grades > Import, and look at the preview before you accept it"))
    if moodle:
        console.print(Text("Next: in Moodle, Grades > Import > CSV file; map Email address (its case matters) or ID number"))


def final_scores(rows: list[Row]) -> list[Graded]:
    """Each student with the scores that are final: graded, up to date, and nothing left for the instructor."""
    scores: dict[str, dict[str, float]] = {}
    first: dict[str, Row] = {}
    for row in rows:
        first.setdefault(row.student, row)
        mine = scores.setdefault(row.student, {})
        if row.status == FINAL and row.assignment_score is not None:
            mine[row.assignment] = row.assignment_score
    return [
        Graded(
            id=row.student,
            first_name=row.first_name,
            last_name=row.last_name,
            email=row.email,
            lms_user_id=row.lms_user_id,
            scores=scores[row.student],
        )
        for row in first.values()
    ]


def _columns(exercises: list[Exercise], rows: list[Row], given: list[str]) -> list[Column]:
    """How other programs may call the exercises; `06=Week 3` says it."""
    own: dict[str, str] = {}
    for one in given:
        spec, equals, name = one.partition("=")
        wanted = next((exercise for exercise in exercises if spec.strip().lstrip("ex").lstrip("0") == str(exercise.number)), None)
        if not equals or wanted is None:
            raise ClassroomError(
                f"--canvas-column {one!r}: expected an exercise of this export and a column, such as 06='Week 3 (123)'"
            )
        own[wanted.file] = name.strip()
    most = {row.assignment: row.assignment_max for row in rows}
    columns = []
    for exercise in exercises:
        label = label_of(exercise.file)
        names = [
            label,
            exercise.file,
            exercise.title,
            f"Exercise {exercise.label}",
            f"Exercise {exercise.label} {exercise.title}",
        ]
        names += [f"{exercise.label} {exercise.title}", f"{exercise.label}: {exercise.title}", exercise.label]
        chosen = [own[exercise.file]] if exercise.file in own else names
        columns.append(Column(label=label, names=tuple(chosen), max_points=most.get(label, exercise.points)))
    return columns


def _fields(row: Row) -> list[str]:
    texts = (
        row.student,
        row.last_name,
        row.first_name,
        row.email,
        row.lms_user_id,
        row.assignment,
        row.status,
        row.why,
        row.item,
    )
    return [
        *(text_field(one_line(text)) for text in texts),
        number_field(row.max_score),
        number_field(row.auto_score),
        number_field(row.manual_score),
        number_field(row.extra_credit),
        number_field(row.score),
        "true" if row.needs_manual else "false",
        row.submitted,
        str(row.seconds_late),
        number_field(row.late_penalty),
        number_field(row.assignment_score),
        number_field(row.assignment_max),
    ]


def _write(console: Console, path: Path, content: bytes, write: Callable[[Path, bytes], None] = write_atomically) -> None:
    try:
        write(path.absolute(), content)
    except OSError as error:
        raise ClassroomError(f"{path}: cannot be written: {error.strerror or error}") from None
    console.print(Text(f"wrote {path}"))


def _say_what_is_missing(console: Console, rows: list[Row]) -> None:
    """How many have no final score, by assignment and reason."""
    counts: dict[str, Counter[str]] = {}
    for row in {(row.assignment, row.student): row for row in rows}.values():
        counts.setdefault(row.assignment, Counter())[row.status] += 1
    for label, found in counts.items():
        others = ", ".join(f"{number} {status}" for status, number in sorted(found.items()) if status != FINAL)
        console.print(Text(f"{label}  {found[FINAL]} final" + (f"; no score for {others}" if others else "")))
