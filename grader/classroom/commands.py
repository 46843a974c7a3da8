"""The commands `classroom init`, `build`, `grade` and `export`: arguments, and errors as sentences. The work is done in the other modules."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from grader.course import Course, Exercise, load_course
from grader.grading.result import write_atomically

from .folder import Classroom, ClassroomError

ROOT = Path(__file__).resolve().parents[2]  # of the course
REMEMBERED = Path(".ladder") / "classroom"  # within the course: the classroom of the last `init`

app = typer.Typer(
    name="classroom",
    help="An nbgrader classroom: init DIR, build, grade, export. See docs/classroom.md.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
console = Console(highlight=False)

Exercises = Annotated[list[str] | None, typer.Argument(metavar="[EX]...", help="Exercises: 06 08. Default: all that apply.")]
DirOption = Annotated[Path | None, typer.Option("--dir", metavar="DIR", help="The classroom. Default: that of the last init.")]
DueOption = Annotated[
    list[str] | None, typer.Option("--due", metavar="EX=DATE", help="Such as 06=2026-12-01T23:59+01:00; may be repeated.")
]


def _open(folder: Path | None) -> tuple[Course, Classroom]:
    """The course, and the classroom that is meant."""
    course = load_course(ROOT)
    if folder is None:
        if Classroom(Path.cwd()).is_initialised():
            folder = Path.cwd()
        else:
            try:
                folder = Path((ROOT / REMEMBERED).read_text(encoding="utf-8").strip())
            except OSError:
                raise ClassroomError("which classroom? Give --dir DIR; `classroom init DIR` makes one") from None
    classroom = Classroom(folder)
    classroom.settings()
    return course, classroom


def _remember(classroom: Classroom) -> None:
    try:
        (ROOT / REMEMBERED).parent.mkdir(exist_ok=True)
        write_atomically(ROOT / REMEMBERED, f"{classroom.root}\n".encode())
    except OSError:
        pass  # --dir does without


def _wanted(course: Course, given: list[str] | None, default: list[Exercise]) -> list[Exercise]:
    names = [part for one in given or [] for part in one.replace(",", " ").split()]
    wanted = {course.exercise(name).number: course.exercise(name) for name in names}
    return [wanted[number] for number in sorted(wanted)] or default


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="New, or an nbgrader course that exists already.")],
    roster: Annotated[
        Path | None, typer.Option(metavar="CSV", help="Columns id, first_name, last_name, email, lms_user_id.")
    ] = None,
    exchange: Annotated[Path | None, typer.Option(metavar="DIR", help="nbgrader's exchange. Default: DIR/exchange.")] = None,
    course_id: Annotated[str | None, typer.Option(metavar="ID", help="nbgrader's course id. Default: the course's name.")] = None,
    late: Annotated[str | None, typer.Option(metavar="HOW", help="none, zero, or a percentage a day: 10%.")] = None,
    due: DueOption = None,
) -> None:
    """Make an nbgrader course: configuration, roster, exchange, due dates. Safe to run again.

    Exit code 0: done; 2: something in the way, which is named.
    """
    from .start import start_classroom

    course, classroom = load_course(ROOT), Classroom(folder)
    if classroom.root.is_relative_to(course.root):
        raise ClassroomError(f"{classroom.root} lies within the course's own folder; give a folder elsewhere")
    start_classroom(console, course, classroom, roster=roster, exchange=exchange, course_id=course_id, late=late, due=due)
    _remember(classroom)


@app.command()
def build(
    exercises: Exercises = None,
    dir_: DirOption = None,
    due: DueOption = None,
    release: Annotated[
        bool, typer.Option("--release", help="Also release to the exchange, which is final for students.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace a notebook in source/ that was changed by hand.")] = False,
) -> None:
    """Make nbgrader assignments from lessons, stubs and suites.

    Exit code 0: built; 2: something cannot be built, which is named.
    """
    course, classroom = _open(dir_)
    from .build import build as build_assignments

    wanted = _wanted(course, exercises, list(course.exercises))
    build_assignments(console, course, classroom, wanted, due=due, release=release, force=force)


@app.command()
def grade(
    exercises: Exercises = None,
    dir_: DirOption = None,
    student: Annotated[list[str] | None, typer.Option(metavar="ID", help="Only this student; may be repeated.")] = None,
    release: Annotated[bool, typer.Option("--release", help="Also release the feedback to the students.")] = False,
    no_feedback: Annotated[bool, typer.Option("--no-feedback", help="Make no feedback pages.")] = False,
    jobs: Annotated[
        int, typer.Option(metavar="N", min=1, max=256, help="Processes that grade. Default: one per core.")
    ] = os.cpu_count() or 1,
    seed: Annotated[int | None, typer.Option(metavar="N", help="Repeat a run: its inputs. Default: new in each run.")] = None,
    isolation: Annotated[str, typer.Option(metavar="TIER", help="Isolation tier: auto, A, B, C or D. See `doctor`.")] = "auto",
) -> None:
    """Grade what was collected: results, gradebook, feedback. Stopped and started again, it does only what is missing.

    Exit code 0: all graded; 1: some were stopped; 2: wrong usage.
    """
    course, classroom = _open(dir_)
    from .grading import Options
    from .grading import grade as grade_assignments
    from .submitted import students_who_submitted

    built = [one for one in course.exercises if f"ex{one.label}" in classroom.assignments()]
    default = [one for one in built if students_who_submitted(classroom.root / "submitted", f"ex{one.label}")]
    wanted = _wanted(course, exercises, default)
    if not wanted:
        what = "nothing was handed in yet: `nbgrader collect ex06` fetches submissions" if built else "nothing is built yet"
        raise ClassroomError(f"{classroom.root}: {what}")
    if release and no_feedback:
        raise ClassroomError("--release releases feedback, so it does not go with --no-feedback")
    options = Options(
        jobs=jobs, isolation=isolation, seed=seed, students=tuple(student or ()), feedback=not no_feedback, release=release
    )
    raise typer.Exit(grade_assignments(console, course, classroom, wanted, options))


@app.command()
def export(
    exercises: Exercises = None,
    dir_: DirOption = None,
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="A row per student, assignment and item.")] = None,
    canvas: Annotated[
        Path | None, typer.Option(metavar="EXPORTED", help="The gradebook that Canvas exported; a filled copy is written.")
    ] = None,
    canvas_out: Annotated[Path | None, typer.Option(metavar="FILE", help="The copy. Default: EXPORTED-filled.csv.")] = None,
    canvas_column: Annotated[
        list[str] | None, typer.Option(metavar="EX=NAME", help="Which column an exercise is: 06='Week 3 (123)'. May be repeated.")
    ] = None,
    moodle: Annotated[Path | None, typer.Option(metavar="FILE", help="For Moodle's grade import.")] = None,
) -> None:
    """Write the gradebook's scores: CSV, Canvas, Moodle. A score that is not final is left empty.

    Exit code 0: written; 2: something is in the way, which is named.
    """
    course, classroom = _open(dir_)
    from .export import export as export_scores

    built = [one for one in course.exercises if f"ex{one.label}" in classroom.assignments()]
    wanted = _wanted(course, exercises, built)
    unbuilt = [one.label for one in wanted if one not in built]
    if unbuilt or not wanted:
        raise ClassroomError(
            f"not built yet: {', '.join(unbuilt) or 'anything'}; python -m grader classroom build makes assignments"
        )
    export_scores(
        console,
        course,
        classroom,
        wanted,
        csv=csv,
        canvas=canvas,
        canvas_out=canvas_out,
        canvas_columns=canvas_column or [],
        moodle=moodle,
    )
