"""Owns due dates: how they are given, and how they stand in the gradebook (UTC, without a zone)."""

from __future__ import annotations

import datetime

from grader.course import Course

from .folder import ClassroomError

EXAMPLE = "06=2026-12-01T23:59+01:00"


def parse_due_dates(course: Course, given: list[str]) -> dict[str, datetime.datetime]:
    """`["06=2026-12-01T23:59+01:00"]` -> module and moment; a `ClassroomError` says what is wrong."""
    dates: dict[str, datetime.datetime] = {}
    for one in given:
        spec, equals, text = one.partition("=")
        if not equals:
            raise ClassroomError(f"--due {one!r}: expected an exercise and a date, such as {EXAMPLE}")
        exercise = course.exercise(spec)
        try:
            moment = datetime.datetime.fromisoformat(
                text.strip().removesuffix(" UTC") + ("+00:00" if text.endswith(" UTC") else "")
            )
        except ValueError:
            raise ClassroomError(f"--due {one!r}: {text!r} is no date and time, such as {EXAMPLE}") from None
        if moment.tzinfo is None:
            raise ClassroomError(f"--due {one!r}: say in which time zone, as an offset from UTC, such as {EXAMPLE}")
        dates[exercise.file] = moment
    return dates


def in_gradebook(moment: datetime.datetime) -> datetime.datetime:
    """As nbgrader's database holds it: UTC, without a zone."""
    return moment.astimezone(datetime.UTC).replace(tzinfo=None)


def shown(moment: datetime.datetime | None) -> str:
    """A gradebook's date for people."""
    return "no due date" if moment is None else f"due {moment:%Y-%m-%d %H:%M} UTC"
