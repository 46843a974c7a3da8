"""Owns the roster: reads a CSV of students and says, line by line, what is wrong with it. Touches no gradebook."""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from pathlib import Path

import msgspec

from .folder import ClassroomError

COLUMNS = ("id", "first_name", "last_name", "email", "lms_user_id")
# What registrars and learning platforms call them.
OTHER_NAMES = {
    "id": ("student_id", "student", "username", "login", "sis login id"),
    "first_name": ("firstname", "first name", "given name", "vorname"),
    "last_name": ("lastname", "last name", "surname", "family name", "nachname"),
    "email": ("email address", "e-mail", "mail"),
    "lms_user_id": ("lms_id", "lms id", "canvas_id", "moodle_id", "id number", "idnumber"),
}
MAX_ID = 128  # characters, of the gradebook's column
MAX_FIELD = 200
LISTED = 10


class Student(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the roster."""

    id: str
    first_name: str = ""
    last_name: str = ""
    email: str = ""
    lms_user_id: str = ""

    def known(self) -> dict[str, str]:
        """The fields that are filled in: an empty one never erases what the gradebook has."""
        fields = msgspec.structs.asdict(self)
        return {name: value for name, value in fields.items() if name != "id" and value}


def read_roster(path: Path) -> list[Student]:
    """The students of a CSV file in UTF-8; a `ClassroomError` names every line with a mistake."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise ClassroomError(f"{path}: no such file") from None
    except UnicodeDecodeError as error:
        line = path.read_bytes().count(b"\n", 0, error.start) + 1
        raise ClassroomError(f"{path}, line {line}: not UTF-8; save the file as CSV UTF-8") from None
    except OSError as error:
        raise ClassroomError(f"{path}: cannot be read: {error.strerror or error}") from None
    lines = text.split("\n", 1)[0]
    delimiter = ";" if lines.count(";") > lines.count(",") else ","
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        return _students(path, reader)
    except csv.Error as error:
        raise ClassroomError(f"{path}, line {reader.line_num}: not CSV: {error}") from None


def _students(path: Path, reader: csv.reader) -> list[Student]:
    header = next(reader, None)
    if header is None:
        raise ClassroomError(f"{path} is empty; its first line names the columns: {','.join(COLUMNS)}")
    columns = [_column(name) for name in header]
    wrong = [name for name, column in zip(header, columns, strict=True) if column is not None and columns.count(column) > 1]
    if "id" not in columns or wrong:
        what = f"has {' and '.join(wrong)}, which mean the same" if wrong else "has no column `id`"
        raise ClassroomError(f"{path}, line 1: {what}; allowed are {', '.join(COLUMNS)}")
    students: list[Student] = []
    first: dict[str, int] = {}
    problems: list[str] = []
    for row in reader:
        line = reader.line_num
        if not any(field.strip() for field in row):
            continue
        if len(row) != len(header):
            problems.append(f"line {line}: {len(row)} fields, the first line has {len(header)}; quote a comma within a name")
            continue
        fields = {column: value.strip() for column, value in zip(columns, row, strict=True) if column}
        found = _problems(fields)
        folded = unicodedata.normalize("NFC", fields["id"]).casefold()
        if not found and folded in first:
            found = [f"id {fields['id']!r} stands on line {first[folded]} already"]
        first.setdefault(folded, line)
        problems += [f"line {line}: {problem}" for problem in found]
        students.append(Student(**fields))
    if problems:
        more = [f"... and {len(problems) - LISTED} more"] if len(problems) > LISTED else []
        raise ClassroomError("\n  ".join([f"{path} has mistakes; nothing was changed:", *problems[:LISTED], *more]))
    if not students:
        raise ClassroomError(f"{path} names no students")
    return students


def _column(name: str) -> str | None:
    """Which of ours a column is; None for one that is of no use here."""
    plain = name.strip().casefold()
    return next((column for column in COLUMNS if plain == column or plain in OTHER_NAMES[column]), None)


def _problems(fields: dict[str, str]) -> list[str]:
    name = fields["id"]
    problems = [f"{field} is longer than {MAX_FIELD} characters" for field, value in fields.items() if len(value) > MAX_FIELD]
    problems += [f"{field} holds a control character" for field, value in fields.items() if not value.isprintable()]
    if not name:
        problems.append("no id")
    elif len(name) > MAX_ID or len(name.encode()) > 200:
        problems.append(f"the id is longer than {MAX_ID} characters")
    elif name.startswith((".", "-")) or re.search(r'[/\\*?\[\]{}+:"<>|]', name):
        problems.append(
            f'id {name!r}: it names folders, so it must not begin with . or - nor hold any of / \\ * ? [ ] {{ }} + : " < > |'
        )
    if fields.get("email") and not re.fullmatch(r"[^@\s]+@[^@\s]+", fields["email"]):
        problems.append(f"email {fields['email']!r} is none")
    return problems
