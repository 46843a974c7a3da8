"""Grades one upload, as Gradescope runs it, and always leaves a results.json: with points, or with a sentence on why there are none.

Runs no learner code: the grading processes ask the sandbox. What a student may read goes into results.json, everything else to the
standard output, which Gradescope shows to instructors only.
"""

from __future__ import annotations

import contextlib
import signal
import tempfile
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from grader.course import Course, CourseError, Exercise, load_course
from grader.display import is_complete
from grader.grading.batch import BatchError, Job, grade_class
from grader.grading.result import Result, ResultError, read_result, result_path, write_atomically
from grader.submission import SourceFile, SubmissionError
from grader.text import clean

from .document import Graded, document, fault
from .locate import STUDENT, Upload, find_upload
from .options import OPTIONS_FILE, Options, OptionsError, read_options
from .speed import GENERATE, MODEL, can_be_measured, measure

SPARE_SECONDS = 30.0  # of Gradescope's limit, for starting and for writing the results
TELL = "Please tell your instructor, and hand in again later."
WEAK = (
    "This autograder's machine cannot keep code of strangers apart well enough, so nothing was graded. "
    "Please tell your instructor: docs/gradescope.md of the course says, under Isolation, what to do."
)


class Fault(Exception):
    """Not graded, through no fault of the student's: `str` is for the student, `detail` for the instructor."""

    def __init__(self, sentence: str, detail: str) -> None:
        super().__init__(sentence)
        self.detail = detail


class OutOfTime(Exception):
    """The run took nearly as long as Gradescope allows."""


def run(autograder: Path, root: Path) -> int:
    """Grade `autograder`/submission with the course in `root`; returns 0, or 1 if nothing could be graded."""
    started = time.monotonic()
    code = 0
    try:
        options = read_options(autograder / "source" / OPTIONS_FILE)
        with _deadline(options.minutes * 60 - SPARE_SECONDS):
            found = _graded(autograder / "submission", root, options, started)
    except Fault as error:
        print(f"NOT GRADED: {error.detail}")
        found, code = fault(str(error), seconds=time.monotonic() - started), 1
    except OutOfTime:
        print(
            f"NOT GRADED: it took longer than {options.minutes:g} minutes; {OPTIONS_FILE} and Gradescope's settings say how long a run may take"
        )
        sentence = "Grading took too long. If your code waits or loops for long, mend that and hand in again; otherwise tell your instructor."
        found, code = fault(sentence, seconds=time.monotonic() - started), 1
    except (BatchError, CourseError, OptionsError, SubmissionError) as error:
        print(f"NOT GRADED: {error}")
        found, code = fault(TELL, seconds=time.monotonic() - started), 1
    except Exception:
        print(f"NOT GRADED: the grader itself failed\n{traceback.format_exc()}")
        found, code = fault(TELL, seconds=time.monotonic() - started), 1
    results = autograder / "results"
    results.mkdir(parents=True, exist_ok=True)
    write_atomically(results / "results.json", msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n")
    return code


def _graded(folder: Path, root: Path, options: Options, started: float) -> dict[str, Any]:
    course = load_course(root)
    wanted = [one for one in course.exercises if one.file in options.exercises]
    unknown = sorted(set(options.exercises) - {one.file for one in wanted})
    if unknown or not wanted:
        raise Fault(TELL, f"{OPTIONS_FILE} names {', '.join(unknown) or 'no exercises'}; course.toml has others")
    if not folder.is_dir():
        raise Fault(TELL, f"{folder}: there is no such folder; Gradescope puts the student's files there")
    upload = find_upload(folder, course)
    files = {one.file: upload.file(one.file) for one in wanted}
    gradable = [one for one in wanted if isinstance(files[one.file], SourceFile)]
    with tempfile.TemporaryDirectory(prefix="attention-ladder-results-") as out:
        results = _results(root, Path(out), upload, gradable) if gradable else {}
    for one in gradable:
        _check(one, results.get(one.file), options)
    speed = _speed(course, root, upload, results) if options.leaderboard else None
    graded = [Graded(exercise=one, found=files[one.file], result=results.get(one.file)) for one in wanted]
    _tell_the_instructor(graded, speed)
    return document(graded, options, seconds=time.monotonic() - started, tokens_per_second=speed)


def _results(root: Path, out: Path, upload: Upload, exercises: list[Exercise]) -> dict[str, Result]:
    """Through the batch grader, so that a submission that takes the grading process with it is survived."""
    job = Job(root=root, out=out, exercises=[one.file for one in exercises])
    with contextlib.closing(grade_class(job, [upload], 1)) as batch:
        for _ in batch:
            pass
    results = {}
    for one in exercises:
        try:
            results[one.file] = read_result(result_path(out, STUDENT, one.file))
        except ResultError as error:
            raise Fault(TELL, str(error)) from None
    return results


def _check(exercise: Exercise, result: Result | None, options: Options) -> None:
    """No result is turned into points that is none."""
    if result is None or result.status != "graded" or result.points is None:
        why = "there is no result" if result is None else f"{result.status}: {result.reason}"
        details = [test.detail for test in result.tests if test.detail] if result else []
        raise Fault(TELL, "\n".join([f"{exercise.file}: {why}", *details[:3]]))
    if not result.official and not options.accept_unofficial:
        environment = result.environment
        tier = environment.isolation if environment else "?"
        could = ", ".join((environment and environment.probe) or ["nothing was probed"])
        raise Fault(
            WEAK,
            f"isolation tier {tier}: the hostile probe could {could}. docs/gradescope.md, under Isolation, says what to do; "
            f'with "accept_unofficial": true in {OPTIONS_FILE} points are given all the same',
        )
    if result.max_points <= 0:
        raise Fault(TELL, f"{exercise.file}: nothing could be assessed on this machine")


def _speed(course: Course, root: Path, upload: Upload, results: dict[str, Result]) -> float | None:
    """For the leaderboard: only where the learner's own model and own `generate` are right."""
    if not can_be_measured(course):
        return None
    generate, model = results.get(course.exercise(GENERATE).file), results.get(course.exercise(MODEL).file)
    if generate is None or not is_complete(generate) or generate.prerequisites != "own":
        return None
    if model is not None and not is_complete(model):
        return None
    return measure(root, upload.file)


def _tell_the_instructor(graded: list[Graded], speed: float | None) -> None:
    """Facts for the instructor, who alone sees the standard output; code of the learner's may have printed what it was given."""
    for one in graded:
        result = one.result
        print(f"--- {one.exercise.file}: {one.found.place if isinstance(one.found, SourceFile) else one.found.message}")
        if result is None:
            continue
        environment = result.environment
        tier = environment.isolation if environment else "?"
        official = (
            "official"
            if result.official
            else f"NOT OFFICIAL, the probe could {', '.join((environment and environment.probe) or [])}"
        )
        print(
            f"{result.points:g} of {result.max_points:g} points, seed {result.seed}, {result.seconds:g} s, isolation {tier}, {official}"
        )
        if result.output:
            print(f"the code printed:\n{clean(result.output)[:20_000]}")
    if speed is not None:
        print(f"--- leaderboard: {speed:.1f} tokens per second of CPU time")


@contextlib.contextmanager
def _deadline(seconds: float) -> Iterator[None]:
    """Raise `OutOfTime` in here after so long; whatever is in work is ended on the way out."""

    def ring(*_: object) -> None:
        raise OutOfTime

    handler = signal.signal(signal.SIGALRM, ring)
    timer = signal.setitimer(signal.ITIMER_REAL, max(seconds, 1.0))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, *timer)
