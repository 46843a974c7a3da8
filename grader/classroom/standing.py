"""Owns what may be written into a gradebook for one student: a result that was made from what lies in submitted/ now, or why not."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from grader.course import Course, Exercise
from grader.grading.result import Result, ResultError, read_result, result_path
from grader.submission import Problem, SourceFile

from .folder import Assignment, Classroom, Receipt
from .submitted import digest_of, label_of, read_stubs, submission_of, suite_digest


class StandingError(Exception):
    """No score may be written for this student; `str` says why and what to do."""


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """A result that fits the submission, and the file that it is about; a `Problem` where there is none to grade."""

    result: Result
    file: SourceFile | Problem
    receipt: Receipt


def modules_of(course: Course, exercise: Exercise) -> list[str]:
    """What is read of a submission: the exercise and all that it builds on."""
    return [one.file for one in (*course.prerequisites_of(exercise), exercise)]


def result_digest(path: Path) -> str:
    """Of all that a result file says but when it was made; empty where there is none."""
    try:
        result = read_result(path)
    except ResultError:
        return ""
    seed = result.seed if result.status == "graded" else None  # what cannot be graded is tried again each time, with a new one
    same = msgspec.structs.replace(result, started="", seconds=0.0, seed=seed)
    return hashlib.sha256(msgspec.json.encode(same)).hexdigest()


def standing_of(course: Course, classroom: Classroom, student: str, assignment: Assignment) -> Standing:
    """What may be written for this student; raises `StandingError`."""
    exercise = course.exercise(assignment.exercise)
    again = f"run `python -m grader classroom grade {exercise.label}`, which grades and then autogrades"
    try:
        path = result_path(classroom.results, student, exercise.file)
    except ResultError as error:
        raise StandingError(str(error)) from None
    receipt = classroom.receipt(student, exercise.file)
    if receipt is None:
        raise StandingError(f"not graded yet: {again}")
    submission = submission_of(classroom.root / "submitted", student, exercise, read_stubs(course, exercise))
    if receipt.submission != digest_of(submission, modules_of(course, exercise)):
        raise StandingError(f"the submission has changed since it was graded: {again}")
    if receipt.suite != suite_digest(course, exercise):
        raise StandingError(f"the tests of {label_of(exercise.file)} have changed since it was graded: {again}")
    if receipt.result != result_digest(path):
        raise StandingError(f"{path} is not the result that was graded: {again}")
    try:
        result = read_result(path)
    except ResultError as error:
        raise StandingError(f"{error}: {again}") from None
    file = submission.file(exercise.file)
    if result.status == "graded" and isinstance(file, Problem):
        raise StandingError(f"{file.message}, but a result exists: {again}")
    if result.status != "graded" and isinstance(file, SourceFile):
        raise StandingError(f"could not be graded: {result.reason or 'no reason was given'}; {again}")
    return Standing(result=result, file=file, receipt=receipt)
