"""`classroom grade`: the batch grader over submitted/, then nbgrader's autograde and feedback, student by student (imports nbgrader).

Runs no learner code in this process. One student who cannot be graded is named and never stops the others; killed and started again, it
does only what is missing.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text

from grader.course import Course, Exercise
from grader.grading.batch import Done, Job, grade_class
from grader.grading.protocol import drawn
from grader.grading.result import ResultError, result_path
from grader.notebook import MAX_NOTEBOOK_BYTES
from grader.submission import Problem
from grader.text import one_line, some_of

from .folder import Assignment, Classroom, ClassroomError, Receipt
from .nbgrader_api import failure, opened
from .standing import StandingError, modules_of, result_digest, standing_of
from .submitted import (
    ClassroomSubmission,
    digest_of,
    find_notebook,
    label_of,
    read_stubs,
    students_who_submitted,
    submission_of,
    suite_digest,
)

STAND_INS = "stand_ins"
LISTED = 20
WORTH_A_PROCESS = 8  # submissions: another process that grades costs as much before it begins


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How a class is graded."""

    jobs: int
    isolation: str = "auto"
    seed: int | None = None
    students: tuple[str, ...] = ()  # only these; empty: all
    feedback: bool = True
    release: bool = False


class Outcome(msgspec.Struct, kw_only=True):
    """What became of one exercise over the class."""

    label: str
    written: list[str] = []  # students whose scores are in the gradebook now
    kept: list[str] = []  # and were there already
    waiting: dict[str, str] = {}  # handed in something that cannot be graded: the instructor decides
    stopped: dict[str, str] = {}  # no score was written: why
    strangers: list[str] = []  # not in the roster
    absent: list[str] = []  # in the roster, nothing handed in
    notes: dict[str, str] = {}  # of a student's notebook
    unofficial: list[str] = []
    late: list[str] = []
    unreleased: dict[str, str] = {}  # feedback that could not be made or released


def grade(console: Console, course: Course, classroom: Classroom, exercises: list[Exercise], options: Options) -> int:
    """Grade, write scores and feedback; returns the exit code: 0 all graded, 1 some were stopped."""
    classroom.settings()
    built = {exercise.file: classroom.assignment(label_of(exercise.file)) for exercise in exercises}
    for exercise in exercises:
        if built[exercise.file] is None:
            raise ClassroomError(f"{label_of(exercise.file)} is not built yet: python -m grader classroom build {exercise.label}")
    outcomes = []
    for exercise in exercises:
        assignment = built[exercise.file]
        assert assignment is not None
        outcome = _grade_exercise(console, course, classroom, exercise, assignment, options)
        _show(console, outcome, released=options.release)
        outcomes.append(outcome)
    if not any(one.written or one.kept or one.waiting or one.stopped for one in outcomes):
        label = outcomes[0].label
        raise ClassroomError(
            f"nothing was handed in yet: in {classroom.root}, nbgrader collect {label} fetches what students submitted"
        )
    _say_next(console, classroom, outcomes, options)
    return 1 if any(outcome.stopped or outcome.unreleased for outcome in outcomes) else 0


def _grade_exercise(
    console: Console, course: Course, classroom: Classroom, exercise: Exercise, assignment: Assignment, options: Options
) -> Outcome:
    label = label_of(exercise.file)
    outcome = Outcome(label=label)
    submitted = classroom.root / "submitted"
    students = [name for name in students_who_submitted(submitted, label) if not options.students or name in options.students]
    for name in list(students):
        shown = name.encode("utf-8", "replace").decode()
        why = (
            "is no valid Unicode"
            if shown != name
            else "holds * ? or [, which nbgrader takes for a pattern"
            if set("*?[") & set(name)
            else ""
        )
        if why:
            outcome.stopped[shown] = f"the folder's name {why}: rename it in submitted/, and name the student so"
            students.remove(name)
    stubs = read_stubs(course, exercise)
    submissions = [submission_of(submitted, name, exercise, stubs) for name in students]
    if submissions:
        _run_batch(console, course, classroom, exercise, submissions, options, outcome)
    with opened(classroom) as api:
        with api.gradebook as gradebook:
            roster = {student.id for student in gradebook.students}
        outcome.strangers = sorted(set(students) - roster)
        outcome.absent = [] if options.students else sorted(roster - set(students))
        with _bar(console, f"{label} scores", len(submissions)) as advance:
            for submission in submissions:
                if submission.key not in outcome.stopped:
                    _enter(course, classroom, api, exercise, assignment, submission, options, outcome)
                advance()
        outcome.strangers = [name for name in outcome.strangers if name not in outcome.stopped]
    return outcome


# ---- results --------------------------------------------------------------------------------------------------


def _run_batch(
    console: Console,
    course: Course,
    classroom: Classroom,
    exercise: Exercise,
    submissions: list[ClassroomSubmission],
    options: Options,
    outcome: Outcome,
) -> None:
    """Results of all submissions, with a receipt for each; whoever has none is in `outcome.stopped`."""
    modules, suite = modules_of(course, exercise), suite_digest(course, exercise)
    before = {one.key: digest_of(one, modules) for one in submissions}
    seed = drawn(options.seed)  # one for all of a run, as `grade` has it
    job = Job(root=course.root, out=classroom.results, exercises=[exercise.file], isolation=options.isolation, seed=seed)
    classroom.results.mkdir(parents=True, exist_ok=True)
    by_key = {one.key: one for one in submissions}
    batch = grade_class(job, submissions, min(options.jobs, -(-len(submissions) // WORTH_A_PROCESS)))
    try:
        with _bar(console, f"{outcome.label} grading", len(submissions)) as advance:
            for done in batch:
                _take(classroom, exercise, by_key[done.student], done, before[done.student], modules, suite, outcome)
                advance()
    finally:
        batch.close()


def _take(
    classroom: Classroom,
    exercise: Exercise,
    submission: ClassroomSubmission,
    done: Done,
    before: str,
    modules: list[str],
    suite: str,
    outcome: Outcome,
) -> None:
    """Keep a receipt of what was graded, unless it changed meanwhile."""
    student = submission.key
    if done.unofficial:
        outcome.unofficial.append(student)
    try:
        if digest_of(submission, modules) != before:
            classroom.forget_receipt(student, exercise.file)
            outcome.stopped[student] = "the submission changed while it was graded: run this again"
            return
        result = result_digest(result_path(classroom.results, student, exercise.file))
        old = classroom.receipt(student, exercise.file)
        if old is None or (old.submission, old.suite, old.result) != (before, suite, result):
            classroom.write_receipt(student, exercise.file, Receipt(submission=before, suite=suite, result=result))
    except (ResultError, ClassroomError) as error:
        outcome.stopped[student] = str(error)


# ---- gradebook and feedback -----------------------------------------------------------------------------------


def _enter(
    course: Course,
    classroom: Classroom,
    api: Any,
    exercise: Exercise,
    assignment: Assignment,
    submission: ClassroomSubmission,
    options: Options,
    outcome: Outcome,
) -> None:
    """Scores and feedback of one student; whatever goes wrong stays this student's."""
    student, label = submission.key, outcome.label
    try:
        standing = standing_of(course, classroom, student, assignment)
        receipt, notebook = standing.receipt, _look_at_notebook(label, submission)
        if notebook.note is not None:
            outcome.notes[student] = notebook.note
        state = _state(classroom, api, assignment, label, submission, receipt)
        if receipt.written == state and (classroom.root / "autograded" / student / label / f"{label}.ipynb").exists():
            outcome.kept.append(student)
        else:
            _autograde(classroom, api, label, submission, notebook)
            state = _state(classroom, api, assignment, label, submission, receipt)
            receipt = msgspec.structs.replace(receipt, written=state, page="")
            classroom.write_receipt(student, exercise.file, receipt)
            outcome.written.append(student)
        if isinstance(standing.file, Problem):
            outcome.waiting[student] = standing.file.message
        with api.gradebook as gradebook:
            if gradebook.find_submission(label, student).total_seconds_late > 0:
                outcome.late.append(student)
    except (StandingError, ClassroomError) as error:
        outcome.stopped[student] = str(error)
        return
    except Exception as error:  # of nbgrader or its database: the other students go on
        outcome.stopped[student] = f"{type(error).__name__}: {error}"
        return
    if options.feedback:
        try:
            problem = _give_feedback(classroom, api, exercise, submission, receipt, release=options.release)
        except Exception as error:  # of nbgrader
            problem = f"{type(error).__name__}: {error}"
        if problem is not None:
            outcome.unreleased[student] = problem


def _state(
    classroom: Classroom, api: Any, assignment: Assignment, label: str, submission: ClassroomSubmission, receipt: Receipt
) -> str:
    """Digest of all that an autograded notebook and its penalty were made from."""
    from nbgrader.api import MissingEntry

    with api.gradebook as gradebook:
        due = gradebook.find_assignment(label).duedate
        try:
            entered = gradebook.find_submission(label, submission.key)
            extension, changed = entered.extension, _changed_by_hand(entered) if entered.total_seconds_late > 0 else []
        except MissingEntry:
            extension, changed = None, []
    timestamp = submission.other("timestamp.txt", 1000)
    parts = [receipt.submission, receipt.suite, receipt.result, str(due), str(extension), str(timestamp)]
    parts += [msgspec.json.encode(assignment).decode(), classroom.settings().late, *changed]
    for name in _notebooks(submission.path):
        parts.append(name + hashlib.sha256((submission.path / name).read_bytes()).hexdigest())
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _changed_by_hand(submission: Any) -> list[str]:
    """Scores that an instructor gave: a late penalty is a share of them, too."""
    grades = (grade for notebook in submission.notebooks for grade in notebook.grades)
    return sorted(f"{one.name} {one.manual_score} {one.extra_credit}" for one in grades if one.manual_score or one.extra_credit)


def _notebooks(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.suffix == ".ipynb" and path.is_file() and not path.is_symlink())


class _Notebook(msgspec.Struct, frozen=True, kw_only=True):
    """The notebook of a submission: `content` is what stands in for it, None where it can be used as it is."""

    note: str | None = None  # why something has to stand in for it
    content: bytes | None = None  # empty: the released notebook


def _look_at_notebook(label: str, submission: ClassroomSubmission) -> _Notebook:
    """Whether nbgrader can use what was handed in."""
    name = find_notebook(submission.path, label)
    if name is None:
        why = "there is no notebook, so nbgrader has nowhere to send feedback; the released one stands in for it"
        return _Notebook(note=why, content=b"")
    content = submission.other(name, MAX_NOTEBOOK_BYTES)
    broken = content.message if isinstance(content, Problem) else _notebook_problem(content)
    if broken is not None:
        return _Notebook(note=f"{name} cannot be used ({broken}); the released notebook stands in for it", content=b"")
    if name == f"{label}.ipynb":
        return _Notebook()
    assert isinstance(content, bytes)
    return _Notebook(note=f"the notebook is called {name}, not {label}.ipynb; it was taken for it", content=content)


def _autograde(classroom: Classroom, api: Any, label: str, submission: ClassroomSubmission, notebook: _Notebook) -> None:
    """nbgrader's autograde on one submission, or on a stand-in where its notebook cannot be used; raises `StandingError`."""
    from nbgrader.utils import temp_attrs

    if notebook.content is None:
        problem = failure(api.autograde(label, submission.key, force=True))
    else:
        _make_stand_in(classroom, label, submission, notebook.content)
        with temp_attrs(api.coursedir, submitted_directory=f"{classroom.ours.name}/{STAND_INS}"):
            problem = failure(api.autograde(label, submission.key, force=True))
        shutil.rmtree(classroom.ours / STAND_INS / submission.key, ignore_errors=True)
    if problem is not None:
        raise StandingError(f"nbgrader could not take it: {problem}")


def _make_stand_in(classroom: Classroom, label: str, submission: ClassroomSubmission, notebook: bytes) -> None:
    """A copy of the submission with a notebook that nbgrader can read; submitted/ itself is never changed."""
    folder = classroom.ours / STAND_INS / submission.key / label
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for path in sorted(submission.path.iterdir()):
        if path.is_file() and not path.is_symlink() and path.suffix != ".ipynb" and path.stat().st_size <= MAX_NOTEBOOK_BYTES:
            shutil.copyfile(path, folder / path.name)
    released = classroom.root / "release" / label / f"{label}.ipynb"
    (folder / f"{label}.ipynb").write_bytes(notebook or released.read_bytes())


def _notebook_problem(content: bytes) -> str | None:
    """Why nbgrader could not read a notebook, or None."""
    import nbformat

    try:
        notebook = nbformat.reads(content.decode("utf-8"), as_version=4)
        json.dumps(notebook)
        for cell in notebook.cells:
            if cell.cell_type not in ("code", "markdown", "raw") or not isinstance(cell.metadata, dict):
                return "a cell is of no known kind"
    except RecursionError:
        return "nested beyond recursion"
    except Exception:  # JSON, Unicode, schema: nbformat raises many kinds
        return "it is not a notebook"
    return None


def _give_feedback(
    classroom: Classroom, api: Any, exercise: Exercise, submission: ClassroomSubmission, receipt: Receipt, *, release: bool
) -> str | None:
    """nbgrader's feedback page, under every name that this student's nbgrader may ask for; returns what went wrong."""
    student, label = submission.key, submission.assignment
    folder = classroom.root / "feedback" / student / label
    page = folder / f"{label}.html"
    state = _page_state(api, label, student, receipt)
    try:
        if not page.exists() or receipt.page != state:
            problem = failure(api.generate_feedback(label, student, force=True))
            if problem is not None:
                return f"nbgrader made no feedback: {problem}"
            for name in _notebooks(submission.path):  # feedback is fetched under the name of the notebook that was submitted
                other = folder / f"{Path(name).stem}.html"
                if other != page:
                    shutil.copyfile(page, other)
            classroom.write_receipt(student, exercise.file, msgspec.structs.replace(receipt, page=state))
        if release:
            if not (folder / "submission_secret.txt").exists():
                return "it was not handed in through nbgrader, which cannot deliver feedback then; the page is in feedback/"
            problem = failure(api.release_feedback(label, student))
            if problem is not None:
                return f"feedback was not released: {problem}"
    except OSError as error:
        return f"feedback could not be written: {error}"
    return None


def _page_state(api: Any, label: str, student: str, receipt: Receipt) -> str:
    """Digest of all that stands in a feedback page: scores and comments that an instructor gave, too."""
    parts = [receipt.written]
    with api.gradebook as gradebook:
        for notebook in gradebook.find_submission(label, student).notebooks:
            parts.append(f"{notebook.name} {notebook.late_submission_penalty}")
            parts += sorted(f"{one.name} {one.auto_score} {one.manual_score} {one.extra_credit}" for one in notebook.grades)
            parts += sorted(f"{one.name} {one.comment}" for one in notebook.comments)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


@contextlib.contextmanager
def _bar(console: Console, what: str, total: int) -> Iterator[Callable[[], None]]:
    """A progress bar in a terminal; elsewhere nothing."""
    if not console.is_terminal:
        yield lambda: None
        return
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TextColumn("students"))
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield lambda: progress.advance(task)


# ---- what is said ---------------------------------------------------------------------------------------------


def _show(console: Console, outcome: Outcome, *, released: bool) -> None:
    total = len(outcome.written) + len(outcome.kept) + len(outcome.stopped)
    kept = f", {len(outcome.kept)} of them already" if outcome.kept else ""
    console.print(
        Text(f"{outcome.label}  {len(outcome.written) + len(outcome.kept)} of {total} submissions in the gradebook{kept}")
    )
    if outcome.absent:
        _list(console, "handed in nothing", {name: "" for name in outcome.absent})
    if outcome.late:
        _list(console, "late", {name: "" for name in outcome.late})
    if outcome.strangers:
        _list(console, "not in the roster, graded all the same", {name: "" for name in outcome.strangers})
    if outcome.notes:
        _list(console, "notebook", outcome.notes)
    if outcome.unofficial:
        what = "NOT OFFICIAL: a hostile submission could get out of this sandbox (`doctor` says how)"
        console.print(Text(f"      {len(outcome.unofficial)} results are {what}", style="yellow"))
    if outcome.waiting:
        _list(console, "without a score; you decide in formgrader, under Manual Grading", outcome.waiting, "yellow")
    if outcome.stopped:
        _list(console, "STOPPED, no score was written", outcome.stopped, "red")
    if outcome.unreleased:
        _list(console, "no feedback " + ("released" if released else "made"), outcome.unreleased, "red")


def _list(console: Console, what: str, names: dict[str, str], style: str = "") -> None:
    if not any(names.values()):
        some = some_of([one_line(name) for name in names], LISTED)
        console.print(Text(f"      {len(names)} {what}: {some}", style=style))
        return
    console.print(Text(f"      {len(names)} {what}:", style=style))
    for name, why in list(names.items())[:LISTED]:
        console.print(Text(f"        {one_line(name)}: {one_line(why)}"))
    if len(names) > LISTED:
        console.print(Text(f"        ... and {len(names) - LISTED} more"))


def _say_next(console: Console, classroom: Classroom, outcomes: list[Outcome], options: Options) -> None:
    label = outcomes[0].label
    console.print(Text("Next:"))
    if any(outcome.stopped for outcome in outcomes):
        console.print(Text("  mend what stopped, and run this again: it does only what is missing"))
    console.print(Text(f"  look and comment: in {classroom.root}, jupyter lab, then Nbgrader > Formgrader"))
    if not options.release:
        console.print(Text(f"  give it back: python -m grader classroom grade {label[2:]} --release"))
    else:
        console.print(Text(f"  students: nbgrader fetch_feedback {label}"))
    console.print(Text("  scores: python -m grader classroom export --csv scores.csv"))
    console.print(Text(f"  report: python grader/report.py {os.path.relpath(classroom.results)}"))
