"""Owns the files that other programs read: plain CSV, Canvas' gradebook and Moodle's grade import. Plain functions on plain rows.

Knows no results, no gradebook and no nbgrader: whoever has scores makes the rows. A score that does not exist is an empty field, never 0.
Names are other people's words: in a file that a spreadsheet opens they stay text.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from grader.text import some_of

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # a spreadsheet would run it
LISTED = 10  # names within a sentence
CANVAS_KEYS = ("ID", "SIS User ID", "SIS Login ID")


class ExportError(Exception):
    """A file that cannot be filled or written: says which and why."""


class Graded(msgspec.Struct, frozen=True, kw_only=True):
    """One student with the scores that are final, by exercise ("ex06")."""

    id: str
    first_name: str = ""
    last_name: str = ""
    email: str = ""
    lms_user_id: str = ""
    scores: Mapping[str, float] = {}


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """One exercise as another program may call it."""

    label: str  # "ex06"
    names: tuple[str, ...]  # a column with one of these names is meant, whatever the case
    max_points: float


class Filled(msgspec.Struct, frozen=True, kw_only=True):
    """A filled Canvas file, and what an instructor has to know about it."""

    content: bytes
    columns: dict[str, str]  # label -> the column that was filled
    filled: int  # fields
    notes: list[str]


def text_field(text: str) -> str:
    """Text that stays text in a spreadsheet: no formula."""
    return "'" + text if text.startswith(FORMULA) else text


def number_field(value: float | None) -> str:
    """A number with at most six decimals; nothing for what does not exist."""
    return "" if value is None else f"{value:.6f}".rstrip("0").rstrip(".")


def csv_file(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> bytes:
    """A table in UTF-8, quoted where it must be. Fields are written as they are: text goes through `text_field` first."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(columns)
    writer.writerows(rows)
    return text.getvalue().encode("utf-8", "replace")


def moodle_file(students: Iterable[Graded], columns: Sequence[Column]) -> bytes:
    """For Moodle's grade import: map "Email address" or "ID number" to the user there, and each exercise to its grade item."""
    head = ["Email address", "ID number", "First name", "Last name", *(column.label for column in columns)]
    rows = (
        [
            *map(text_field, (one.email, one.lms_user_id or one.id, one.first_name, one.last_name)),
            *(number_field(one.scores.get(column.label)) for column in columns),
        ]
        for one in students
    )
    return csv_file(head, rows)


def fill_canvas(exported: bytes, students: Sequence[Graded], columns: Sequence[Column]) -> Filled:
    """The gradebook that Canvas exported, with scores in the columns that it has; every other field stays as it is.

    A column or a student that is not in the file is named in the notes and never added: Canvas would make a new assignment of it.
    """
    rows = _canvas_rows(exported)
    head = rows[0]
    places = {column.label: _place(head, column) for column in columns}
    found = {label: place for label, place in places.items() if place is not None}
    if not found:
        named = ", ".join(name for name in head if re.search(r"\([0-9]+\)\s*$", name)) or "none at all"
        wanted = " or ".join(column.names[0] for column in columns)
        raise ExportError(f"no column of this file is one of these exercises ({wanted}); its assignments are: {named}")
    notes = [f"{label}: there is no such column, so it is left out" for label, place in places.items() if place is None]
    most = {column.label: column.max_points for column in columns}
    notes += _points_notes(rows, {label: (place, most[label]) for label, place in found.items()})
    keys = {name: head.index(name) for name in CANVAS_KEYS if name in head}
    filled, seen, strange = 0, set(), []
    for row in rows[1:]:
        if _is_no_student(row, head):
            continue
        student = _student_of(row, keys, students)
        if student is None:
            strange.append(row[0].strip() or "a row without a name")
            continue
        seen.add(student.id)
        for label, place in found.items():
            if label in student.scores:
                row[place] = number_field(student.scores[label])
                filled += 1
    if strange:
        notes.append(f"in Canvas but not in the roster, and left as they are: {some_of(strange, LISTED)}")
    unseen = [one.id for one in students if one.id not in seen and one.scores]
    if unseen:
        notes.append(f"graded but not in Canvas' file: {some_of(unseen, LISTED)}")
    text = io.StringIO(newline="")
    csv.writer(text).writerows(rows)
    content = text.getvalue().encode("utf-8-sig" if exported.startswith(b"\xef\xbb\xbf") else "utf-8")
    return Filled(content=content, columns={label: head[place] for label, place in found.items()}, filled=filled, notes=notes)


def _canvas_rows(exported: bytes) -> list[list[str]]:
    try:
        rows = list(csv.reader(io.StringIO(exported.decode("utf-8-sig"), newline=""), strict=True))
    except UnicodeDecodeError:
        raise ExportError("the file is not UTF-8, so it is not as Canvas exported it") from None
    except csv.Error as error:
        raise ExportError(f"the file is not CSV: {error}") from None
    if not rows or not rows[0] or rows[0][0].strip() != "Student" or "ID" not in rows[0]:
        raise ExportError("the file is no gradebook of Canvas: its first line begins with Student and has a column ID")
    if any(len(row) != len(rows[0]) for row in rows[1:]):
        number = next(index for index, row in enumerate(rows, start=1) if len(row) != len(rows[0]))
        raise ExportError(f"row {number} has another number of fields than the first; export the gradebook again")
    return rows


def _place(head: list[str], column: Column) -> int | None:
    """Where an exercise stands; an `ExportError` if it could be several columns."""
    wanted = [name.casefold() for name in column.names]
    for name in wanted:  # the first name that fits anything
        found = [i for i, title in enumerate(head) if re.sub(r"\s*\([0-9]+\)\s*$", "", title).strip().casefold() == name]
        found = found or [i for i, title in enumerate(head) if title.strip().casefold() == name]
        if len(found) > 1:
            raise ExportError(f"{column.label}: several columns are called {head[found[0]]!r}; say which with its number")
        if found:
            return found[0]
    return None


def _points_notes(rows: list[list[str]], found: Mapping[str, tuple[int, float]]) -> list[str]:
    for row in rows[1:4]:
        if row[0].strip() == "Points Possible":
            notes = []
            for label, (place, most) in found.items():
                text = row[place].strip()
                if re.fullmatch(r"[0-9]+(\.[0-9]+)?", text) and abs(float(text) - most) > 1e-6:
                    notes.append(
                        f"{label}: Canvas has it at {text} points, here it has {number_field(most)}; scores are not rescaled"
                    )
            return notes
    return []


def _is_no_student(row: list[str], head: list[str]) -> bool:
    identity = row[head.index("ID")].strip()
    return not identity or row[0].strip() in ("Points Possible", "Student, Test")


def _student_of(row: list[str], keys: Mapping[str, int], students: Sequence[Graded]) -> Graded | None:
    fields = {name: row[place].strip().casefold() for name, place in keys.items()}
    for student in students:
        mine = {value.casefold() for value in (student.id, student.email, student.lms_user_id) if value}
        numbers = {student.lms_user_id.casefold()} - {""}
        if fields.get("ID") in numbers or {fields.get("SIS User ID", ""), fields.get("SIS Login ID", "")} & mine - {""}:
            return student
    return None
