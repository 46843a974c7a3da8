"""Owns reading nbgrader's gradebook (imports nbgrader): one row per student, assignment and item. Writes nothing."""

from __future__ import annotations

from typing import Any

import msgspec

from grader.course import Course

from .folder import Classroom
from .standing import StandingError, standing_of


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One grade cell of one student. `None`: there is no such number, which is not 0."""

    student: str
    last_name: str
    first_name: str
    email: str
    lms_user_id: str
    assignment: str
    status: str  # "graded", "needs manual", "outdated", "not graded", "not handed in"
    why: str  # of a status that has a reason
    item: str
    max_score: float
    auto_score: float | None = None
    manual_score: float | None = None
    extra_credit: float | None = None
    score: float | None = None
    needs_manual: bool = False
    submitted: str = ""  # UTC
    seconds_late: int = 0
    late_penalty: float | None = None  # of the whole assignment
    assignment_score: float | None = None  # all items, without the penalty's points
    assignment_max: float = 0.0


def read_scores(course: Course, classroom: Classroom, api: Any, labels: list[str]) -> list[Row]:
    """Every student of the gradebook with every item of these assignments, by assignment and then by student."""
    rows: list[Row] = []
    with api.gradebook as gradebook:
        for label in labels:
            assignment = gradebook.find_assignment(label)
            cells = [(cell.name, cell.max_score) for notebook in assignment.notebooks for cell in notebook.grade_cells]
            cells += [(cell.name, cell.max_score) for notebook in assignment.notebooks for cell in notebook.task_cells]
            submissions = {one.student.id: one for one in assignment.submissions}
            for student in sorted(gradebook.students, key=lambda one: (one.last_name or "", one.first_name or "", one.id)):
                rows += _rows(course, classroom, label, student, submissions.get(student.id), cells)
    return rows


def _rows(
    course: Course, classroom: Classroom, label: str, student: Any, submission: Any | None, cells: list[tuple[str, float]]
) -> list[Row]:
    common = {
        "student": student.id,
        "last_name": student.last_name or "",
        "first_name": student.first_name or "",
        "email": student.email or "",
        "lms_user_id": student.lms_user_id or "",
        "assignment": label,
        "assignment_max": sum(most for _, most in cells),
    }
    handed_in = (classroom.root / "submitted" / student.id / label).is_dir()
    if submission is None:
        status, why = ("not graded", "run `classroom grade`") if handed_in else ("not handed in", "")
        return [Row(**common, status=status, why=why, item=name, max_score=most) for name, most in cells]
    grades = {grade.name: grade for notebook in submission.notebooks for grade in notebook.grades}
    scores = {name: _score(grades.get(name)) for name, _ in cells}
    status, why = _status(course, classroom, label, student.id, grades, scores)
    penalty = submission.late_submission_penalty or 0.0
    total = None if None in scores.values() else max(0.0, sum(scores.values()) - penalty)
    common |= {
        "submitted": "" if submission.timestamp is None else f"{submission.timestamp:%Y-%m-%d %H:%M:%S}",
        "seconds_late": int(submission.total_seconds_late),
        "late_penalty": penalty,
        "assignment_score": total,
    }
    return [
        Row(
            **common,
            status=status,
            why=why,
            item=name,
            max_score=most,
            auto_score=getattr(grades.get(name), "auto_score", None),
            manual_score=getattr(grades.get(name), "manual_score", None),
            extra_credit=getattr(grades.get(name), "extra_credit", None),
            score=scores[name],
            needs_manual=bool(getattr(grades.get(name), "needs_manual_grade", False)),
        )
        for name, most in cells
    ]


def _score(grade: Any | None) -> float | None:
    """As nbgrader counts it: a manual score in place of the automatic one, and extra credit; None where there is neither."""
    if grade is None:
        return None
    score = grade.auto_score if grade.manual_score is None else grade.manual_score
    return None if score is None else score + (grade.extra_credit or 0.0)


def _status(
    course: Course, classroom: Classroom, label: str, student: str, grades: dict[str, Any], scores: dict[str, float | None]
) -> tuple[str, str]:
    ours = classroom.assignment(label)
    if ours is not None and (classroom.root / "submitted" / student / label).is_dir():
        try:
            standing = standing_of(course, classroom, student, ours)
        except StandingError as error:
            return ("not graded" if None in scores.values() else "outdated"), str(error)
        if not standing.receipt.written:
            return "not graded", "run `classroom grade`"
    if any(grade.needs_manual_grade for grade in grades.values()):
        return "needs manual", "in formgrader, under Manual Grading"
    if None in scores.values():
        return "not graded", ""
    return "graded", ""
