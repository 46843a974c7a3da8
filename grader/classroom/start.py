"""`classroom init`: an nbgrader course folder with configuration, roster, exchange and due dates. Run again, it loses nothing."""

from __future__ import annotations

import os
import re
import shutil
import stat
from pathlib import Path

import msgspec
from rich.console import Console
from rich.text import Text

from grader.course import Course
from grader.grading.result import write_atomically
from grader.text import some_of

from .dates import in_gradebook, parse_due_dates, shown
from .folder import LATE_METHODS, Classroom, ClassroomError, Settings
from .nbgrader_api import configured, opened
from .roster import Student, read_roster
from .submitted import label_of

CONFIG = "nbgrader_config.py"
OUR_CONFIG = "ladder_config.py"
LOADS = f"load_subconfig({OUR_CONFIG!r})"
LISTED = 10

THEIR_CONFIG = f"""# nbgrader's configuration of this course; yours to edit. What you set below the first line wins.
c = get_config()
{LOADS}  # written by `python -m grader classroom init`, which overwrites that file and never this one
"""
OUR_TEMPLATE = """# Written by `python -m grader classroom init`; it overwrites this file. Your own settings go into nbgrader_config.py.
import sys

if {root!r} not in sys.path:
    sys.path.append({root!r})

c = get_config()
c.CourseDirectory.course_id = {course_id!r}
c.CourseDirectory.root = {classroom!r}
c.Exchange.root = {exchange!r}
c.OurStep.classroom = {classroom!r}
c.OurStep.course = {root!r}

# A learner's .py file is handed in beside the notebook, and must not be replaced by the stub.
c.Autograde.exclude_overwriting = {excluded}
c.OverwriteCells.add_missing_cells = True

# In assignments of this course nbgrader's kernel runs nothing: results come from `python -m grader classroom grade`.
# In every other assignment each of these steps is nbgrader's own.
c.GenerateAssignment.preprocessors = [
    "nbgrader.preprocessors.IncludeHeaderFooter",
    "nbgrader.preprocessors.InstantiateTests",
    "nbgrader.preprocessors.LockCells",
    "grader.classroom.preprocessors.KeepStubs",
    "nbgrader.preprocessors.ClearOutput",
    "nbgrader.preprocessors.CheckCellMetadata",
    "nbgrader.preprocessors.ComputeChecksums",
    "nbgrader.preprocessors.SaveCells",
    "nbgrader.preprocessors.ClearHiddenTests",
    "nbgrader.preprocessors.ClearMarkScheme",
    "nbgrader.preprocessors.ComputeChecksums",
    "nbgrader.preprocessors.CheckCellMetadata",
]
c.Autograde.sanitize_preprocessors = [
    "grader.classroom.preprocessors.RepairCells",
    "nbgrader.preprocessors.ClearOutput",
    "nbgrader.preprocessors.DeduplicateIds",
    "nbgrader.preprocessors.OverwriteKernelspec",
    "nbgrader.preprocessors.OverwriteCells",
    "nbgrader.preprocessors.CheckCellMetadata",
]
c.Autograde.autograde_preprocessors = [
    "grader.classroom.preprocessors.WriteScores",
    "nbgrader.preprocessors.IgnorePattern",
    "nbconvert.preprocessors.ClearMetadataPreprocessor",
    "nbgrader.preprocessors.LimitOutput",
    "grader.classroom.preprocessors.SaveScores",
    "nbgrader.preprocessors.AssignLatePenalties",
    "nbgrader.preprocessors.CheckCellMetadata",
]
{late}"""
STUDENTS_TEMPLATE = """# What students' nbgrader needs to fetch and submit. Their Jupyter has to find it:
# /etc/jupyter/nbgrader_config.py is for everybody on a machine.
c = get_config()
c.CourseDirectory.course_id = {course_id!r}
c.Exchange.root = {exchange!r}
"""


def start_classroom(
    console: Console,
    course: Course,
    classroom: Classroom,
    *,
    roster: Path | None = None,
    exchange: Path | None = None,
    course_id: str | None = None,
    late: str | None = None,
    due: list[str] | None = None,
) -> None:
    """Make the folder, or bring it up to date; options that are not given keep what an earlier run was told."""
    students = read_roster(roster) if roster is not None else []
    dates = parse_due_dates(course, due or [])
    settings = _settings(course, classroom, exchange, course_id, late)
    fresh = not classroom.is_initialised()
    try:
        classroom.root.mkdir(parents=True, exist_ok=True)
        for name in ("source", "submitted"):
            (classroom.root / name).mkdir(exist_ok=True)
        notes = [*_make_exchange(Path(settings.exchange)), *_write_configs(course, classroom, settings)]
    except OSError as error:
        raise ClassroomError(f"{error.filename or classroom.root}: cannot be written: {error.strerror or error}") from None
    classroom.write_settings(settings)
    with opened(classroom) as api, api.gradebook as gradebook:
        new, changed, strangers = _enter_students(gradebook, students)
        for exercise in course.exercises:
            if exercise.file in dates:
                label = label_of(exercise.file)
                gradebook.update_or_create_assignment(label, duedate=in_gradebook(dates[exercise.file]))
                notes.append(f"{label} is {shown(in_gradebook(dates[exercise.file]))}")
        total = len(gradebook.students)
    did = "is now a classroom" if fresh else "was a classroom already; it is up to date"
    console.print(Text(f"{classroom.root} {did}"))
    console.print(Text(f"  course     {settings.course_id}"))
    console.print(Text(f"  exchange   {settings.exchange}"))
    console.print(Text(f"  late       {_late_in_words(settings.late)}"))
    console.print(Text(f"  students   {total} in the gradebook" + (f", {new} new, {changed} changed" if students else "")))
    if strangers:
        notes.append(f"in the gradebook but not in this roster, and kept: {some_of(strangers, LISTED)}")
    for note in notes:
        console.print(Text(f"  note: {note}"))
    console.print(Text("Next:"))
    if not total:
        console.print(Text(f"  python -m grader classroom init {classroom.root} --roster roster.csv"))
    console.print(Text("  python -m grader classroom build 06      (without a number: all exercises)"))
    console.print(Text(f"  students need {classroom.root / 'students' / CONFIG}"))


def _settings(course: Course, classroom: Classroom, exchange: Path | None, course_id: str | None, late: str | None) -> Settings:
    """What is asked for now, else what was asked for before, else the defaults."""
    if classroom.is_initialised():
        settings = classroom.settings()
        if course_id is not None and course_id != settings.course_id:
            raise ClassroomError(
                f"this classroom's course id is {settings.course_id!r}, and what was released and handed in lies under it; "
                "another id needs another folder"
            )
    else:
        slug = re.sub(r"[^a-z0-9]+", "-", course.name.lower()).strip("-")
        theirs = configured(classroom.root)  # of a course that nbgrader had before us
        their_id, their_exchange = theirs.CourseDirectory.get("course_id"), theirs.Exchange.get("root")
        if course_id and their_id and course_id != their_id:
            raise ClassroomError(f"{classroom.root / CONFIG} sets the course id {their_id!r}; change it there")
        settings = Settings(
            course_id=str(course_id or their_id or slug), exchange=str(their_exchange or classroom.root / "exchange")
        )
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", settings.course_id):
            raise ClassroomError(f"course id {settings.course_id!r}: letters, digits, dots, dashes and underscores only")
    if exchange is not None:
        settings = msgspec.structs.replace(settings, exchange=str(exchange.absolute()))
    if late is not None:
        settings = msgspec.structs.replace(settings, late=_late(late))
    return settings


def _late(text: str) -> str:
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*%", text.strip())
    if text in LATE_METHODS or (match and 0 < float(match[1]) <= 100):
        return text.strip()
    raise ClassroomError(f"--late {text!r}: expected none, zero, or a percentage a day such as 10%")


def _late_in_words(late: str) -> str:
    words = {"none": "late submissions lose nothing", "zero": "late submissions get 0 points"}
    return words.get(late, f"late submissions lose {late} of their score for each day begun")


def _make_exchange(exchange: Path) -> list[str]:
    """nbgrader wants a folder that everybody can write to; one that is there already keeps its mode."""
    if not exchange.exists():
        exchange.mkdir(parents=True)
        exchange.chmod(0o777)
        return []
    mode = stat.S_IMODE(exchange.stat().st_mode)
    if not exchange.is_dir():
        raise ClassroomError(f"{exchange} is not a folder; give another one with --exchange")
    if mode & 0o007 != 0o007 or not os.access(exchange, os.W_OK):
        return [f"{exchange} has mode {mode:o}; students can submit only if it is 777: chmod 777 {exchange}"]
    return []


def _write_configs(course: Course, classroom: Classroom, settings: Settings) -> list[str]:
    """Ours is always written anew; an instructor's own file never is."""
    excluded = {label_of(one.file): [f"{one.file}.py"] for one in course.exercises}
    names = "".join(f"    {label!r}: {files!r},\n" for label, files in excluded.items())
    common = {"course_id": settings.course_id, "exchange": settings.exchange}
    text = OUR_TEMPLATE.format(
        root=str(course.root),
        classroom=str(classroom.root),
        excluded=f"{{\n{names}}}",
        late=_late_config(settings.late),
        **common,
    )
    write_atomically(classroom.root / OUR_CONFIG, text.encode())
    (classroom.root / "students").mkdir(exist_ok=True)
    write_atomically(classroom.root / "students" / CONFIG, STUDENTS_TEMPLATE.format(**common).encode())
    path = classroom.root / CONFIG
    if not path.exists():
        write_atomically(path, THEIR_CONFIG.encode())
        return []
    before = path.read_bytes()
    if OUR_CONFIG.encode() in before:
        return []
    shutil.copy2(path, path.with_suffix(".py.before"))
    write_atomically(path, f"{LOADS}  # added by `python -m grader classroom init`; what follows wins\n\n".encode() + before)
    return [f"{path} was there already: it got one more line, at its top; {path.name}.before is what it was"]


def _late_config(late: str) -> str:
    if late in LATE_METHODS:
        return f"c.LateSubmissionPlugin.penalty_method = {late!r}\n"
    lines = 'c.AssignLatePenalties.plugin_class = "grader.classroom.late.PercentPerDay"\n'
    return lines + f"c.PercentPerDay.percent = {float(late.rstrip('% '))!r}\n"


def _enter_students(gradebook, students: list[Student]) -> tuple[int, int, list[str]]:
    """(new, changed, who is in the gradebook only). Nobody is ever removed."""
    before = {student.id: student for student in gradebook.students}
    new = changed = 0
    for student in students:
        known = student.known()
        old = before.get(student.id)
        if old is None:
            new += 1
        elif any((getattr(old, name) or "") != value for name, value in known.items()):
            changed += 1
        else:
            continue
        gradebook.update_or_create_student(student.id, **known)
    listed = {student.id for student in students}
    return new, changed, sorted(name for name in before if students and name not in listed)
