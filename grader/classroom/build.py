"""`classroom build`: an nbgrader assignment from each exercise's lesson, stub and suite (imports nbgrader). Runs no learner code."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.text import Text

from grader.archive import zip_of
from grader.authoring.stubs import given_files
from grader.course import COURSE_FILE, Course, Exercise
from grader.display import amount
from grader.grading.result import write_atomically

from .dates import in_gradebook, parse_due_dates, shown
from .folder import Assignment, Classroom, ClassroomError
from .nbgrader_api import failure, opened
from .pages import ARCHIVE, CHECK_CELL, make_notebook
from .scores import points_by_category
from .submitted import label_of, read_stubs, suite_digest

# Of the grader, what a check in a notebook needs.
GRADER_ROOMS = ("sandbox", "suite")
GRADER_FILES = (
    *("__init__.py", "course.py", "display.py", "notebook.py", "submission.py", "text.py"),
    *("grading/__init__.py", "grading/grade.py", "grading/materials.py", "grading/result.py"),
    *("classroom/__init__.py", "classroom/in_notebook.py", "classroom/scores.py", "classroom/submitted.py"),
)
GRADER = Path(__file__).resolve().parents[1]


def build(
    console: Console,
    course: Course,
    classroom: Classroom,
    exercises: list[Exercise],
    *,
    due: list[str] | None = None,
    release: bool = False,
    force: bool = False,
) -> None:
    """Write source/exNN and let nbgrader make release/exNN of it; a `ClassroomError` stops at the first that cannot be built."""
    classroom.settings()
    dates = parse_due_dates(course, due or [])
    for file in dates.keys() - {exercise.file for exercise in exercises}:
        raise ClassroomError(f"--due names {label_of(file)}, which is not built now")
    collected = {exercise.file: collect_points(course, exercise) for exercise in exercises}
    with opened(classroom) as api:
        for exercise in exercises:
            label, points = label_of(exercise.file), collected[exercise.file]
            _check_cells(api, label, points)
            _write_source(course, classroom, exercise, points, force=force)
            before = classroom.assignment(label)
            built = Assignment(
                exercise=exercise.file,
                suite=suite_digest(course, exercise),
                cells=points,
                checker=CHECK_CELL,
                notebook=_digest(classroom.root / "source" / label / f"{label}.ipynb"),
            )
            classroom.write_assignment(label, built)  # first: nbgrader's steps ask whether an assignment is ours
            problem = failure(api.generate_assignment(label))
            if problem is not None:
                classroom.restore_assignment(label, before)
                raise ClassroomError(f"{label}: nbgrader cannot make the assignment: {problem}")
            moment, notes = _set_due_date(api, exercise, dates)
            parts = ", ".join(f"{name} {amount(most)}" for name, most in points.items())
            console.print(Text(f"{label}  {amount(exercise.points)} points ({parts}), {shown(moment)}"))
            if release:
                problem = failure(api.release_assignment(label))
                notes.append("released to the exchange" if problem is None else f"not released: {problem}")
            for note in notes:
                console.print(Text(f"      {note}"))
    _say_next(console, classroom, [label_of(one.file) for one in exercises], released=release)


def _say_next(console: Console, classroom: Classroom, labels: list[str], *, released: bool) -> None:
    console.print(Text(f"Next, in {classroom.root}:"))
    if not released:
        more = "      (and so on for the others)" if len(labels) > 1 else ""
        console.print(Text(f"  nbgrader release_assignment {labels[0]}{more}"))
        console.print(Text("  an assignment that was released before: add --force, and students fetch it anew"))
    console.print(Text(f"  students: nbgrader fetch_assignment {labels[0]}, work, nbgrader submit {labels[0]}"))
    console.print(Text(f"  then nbgrader collect {labels[0]}, and python -m grader classroom grade {labels[0][2:]}"))


def collect_points(course: Course, exercise: Exercise) -> dict[str, float]:
    """The points of an exercise's grade cells, from its suite itself; raises `ClassroomError` where they do not add up."""
    import torch  # noqa: F401 - test files import it

    from grader.grading.materials import make_suite, read_materials
    from grader.suite.plugin import run_suite

    materials = read_materials(course, exercise)
    if not materials.has_hidden:
        raise ClassroomError(f"{course.hidden_test_path(exercise)}: there is no such file; a classroom needs the grading suite")
    stubs = {f"{name}.py": text.encode() for name, text in read_stubs(course, exercise).items()}
    suite = make_suite(course, materials, stubs, seed=0)
    run = run_suite(msgspec.structs.replace(suite, debug_paths={}, chaffs=[]), None, collect_only=True)
    if run.problems:
        raise ClassroomError(f"the suite of {exercise.label} cannot be collected: {run.problems[0]}")
    points = points_by_category(run.tests)
    if abs(sum(points.values()) - exercise.points) > 1e-4:
        raise ClassroomError(
            f"the suite of {exercise.label} gives {sum(points.values()):g} points, course.toml says {exercise.points:g}"
        )
    return points


def _check_cells(api: Any, label: str, points: dict[str, float]) -> None:
    """Once work was handed in, nbgrader keeps the cells as they are; only their points may change."""
    from nbgrader.api import MissingEntry

    with api.gradebook as gradebook:
        try:
            notebook = gradebook.find_notebook(label, label)
        except MissingEntry:
            return
        cells = {cell.name for cell in notebook.grade_cells}
        count = len(notebook.submissions)
    new, gone = [name for name in points if name not in cells], sorted(cells - points.keys())
    if count and new:
        raise ClassroomError(
            f"{label} has {count} submissions, so its grade cells are fixed, and the suite now has another category: "
            f"{', '.join(new)}. Points may change, categories may not. Move these tests to one of {', '.join(sorted(cells))}"
        )
    lost = [name for name in gone if name in _categories()]
    if count and lost:
        raise ClassroomError(
            f"{label} has {count} submissions, so its grade cells are fixed, and the suite has no test of {', '.join(lost)} any more. "
            "Points may change, categories may not"
        )


def _categories() -> tuple[str, ...]:
    from grader.grading.result import CATEGORIES

    return CATEGORIES


def _write_source(course: Course, classroom: Classroom, exercise: Exercise, points: dict[str, float], *, force: bool) -> None:
    """source/exNN: the notebook, the stub and the archive for checks. What an instructor changed is not overwritten unasked."""
    label = label_of(exercise.file)
    folder = classroom.root / "source" / label
    path = folder / f"{label}.ipynb"
    before = classroom.assignment(label)
    kept = classroom.ours / "before" / path.name
    try:
        stub = read_stubs(course, exercise)[exercise.file]
        lesson = course.lesson_path(exercise).read_text(encoding="utf-8")
        archive = checker_archive(course, exercise)
    except OSError as error:
        raise ClassroomError(f"{error.filename or course.root}: cannot be read: {error.strerror or error}") from None
    notebook = make_notebook(exercise, lesson, stub, points).encode()
    try:
        if path.exists() and path.read_bytes() != notebook and not force:
            if before is None:
                raise ClassroomError(f"{path} is there already and was not built here; --force replaces it")
            if _digest(path) != before.notebook:
                raise ClassroomError(f"{path} was changed since it was built; --force replaces it, and keeps it as {kept}")
        folder.mkdir(parents=True, exist_ok=True)
        if path.exists() and (before is None or _digest(path) != before.notebook):
            kept.parent.mkdir(parents=True, exist_ok=True)  # not beside it: all of source/ is released
            write_atomically(kept, path.read_bytes())
        write_atomically(path, notebook)
        write_atomically(folder / f"{exercise.file}.py", stub.encode())
        write_atomically(folder / ARCHIVE, archive)
    except OSError as error:
        raise ClassroomError(f"{error.filename or folder}: cannot be written: {error.strerror or error}") from None


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def checker_archive(course: Course, exercise: Exercise) -> bytes:
    """What the check cell needs: the public tests of one exercise and the part of the grader that runs them. No secrets."""
    files: dict[str, bytes] = {"ladder_check.py": (GRADER / "classroom/kernel_side.py").read_bytes()}
    files[COURSE_FILE] = (course.root / COURSE_FILE).read_bytes()
    for name in GRADER_FILES:
        files[f"grader/{name}"] = (GRADER / name).read_bytes()
    for room in GRADER_ROOMS:
        for path in sorted((GRADER / room).iterdir()):
            if path.suffix in (".py", ".ini"):
                files[f"grader/{room}/{path.name}"] = path.read_bytes()
    for name, text in given_files(course).items():
        files[f"exercises/{name}"] = files[f"given/{name}"] = text.encode()
    for name, text in read_stubs(course, exercise).items():
        files[f"exercises/{name}.py"] = text.encode()
    public = course.public_test_path(exercise)
    files[f"tests/public/{public.name}"] = public.read_bytes()
    if course.props_path.is_file():
        files["tests/props.py"] = course.props_path.read_bytes()
    return zip_of(files)


def _set_due_date(api: Any, exercise: Exercise, dates: dict[str, Any]) -> tuple[Any, list[str]]:
    """(the date that counts, what to say): one given now, else the gradebook's, else course.toml's."""
    label = label_of(exercise.file)
    with api.gradebook as gradebook:
        assignment = gradebook.find_assignment(label)
        declared = None if exercise.due is None else in_gradebook(exercise.due)
        if exercise.file in dates:
            wanted = in_gradebook(dates[exercise.file])
        elif assignment.duedate is None:
            wanted = declared
        else:
            wanted = assignment.duedate
        if wanted != assignment.duedate:
            gradebook.update_or_create_assignment(label, duedate=wanted)
    if declared is not None and wanted != declared:
        return wanted, [f"course.toml says {shown(declared)}; the gradebook's date counts, --due {label[2:]}=... changes it"]
    return wanted, []
