"""Owns the files for other programs: tables for spreadsheets and data frames, grades for Canvas and Moodle, JSON.

Only what counts has numbers: what is not graded stays empty, never 0. Plain functions: rows in, bytes out. The columns are
documented in docs/report.md.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from grader.exports import csv_file, text_field
from grader.grading.result import Result, TestResult
from grader.reporting.gradebook import COUNTED, Gradebook, ReportError, short
from grader.reporting.items import Item
from grader.text import clean, one_line, some_of

if TYPE_CHECKING:
    from grader.reporting.summary import Report

JSON_SCHEMA = 1
TESTS = (
    "student", "exercise", "status", "reason", "official", "prerequisites", "test", "title", "category",
    "points", "max_points", "outcome", "diagnosis", "message", "seed",
)  # fmt: skip
ITEMS = (
    "exercise", "test", "title", "category", "max_points", "public", "assessed", "passed", "p", "discrimination", "item_rest",
    "inconclusive", "errors", "flags",
)  # fmt: skip


def csv_bytes(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> bytes:
    """A table in UTF-8: texts that a spreadsheet would run stay texts, None is an empty cell."""
    return csv_file(columns, ([_cell(value) for value in row] for row in rows))


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.12g}"
    return str(value) if isinstance(value, int) else text_field(value)


# One row per student, exercise and test


def rows_of_tests(book: Gradebook) -> Iterator[tuple[Any, ...]]:
    """The columns of TESTS. Summed over a student's exercise, `points` and `max_points` are those of the result."""
    for student in book.students:
        for exercise in book.exercises:
            result = book.results.get((student, exercise))
            status, reason = book.why_not_graded(student, exercise) or ("graded", result.reason if result else None)
            head = (one_line(student), one_line(exercise), status, clean(reason or ""))
            if result is None:
                yield head + (None,) * (len(TESTS) - len(head))
                continue
            head += (result.official, result.prerequisites)
            for test in result.tests or [None]:
                yield (*head, *_test_cells(result, test), result.seed)


def _test_cells(result: Result, test: TestResult | None) -> tuple[Any, ...]:
    if test is None:
        return (None,) * 8
    counts = result.status == "graded" and test.outcome in COUNTED
    return (
        one_line(test.id),
        one_line(test.title),
        test.category,
        test.points if counts else None,
        test.max_points if counts else None,
        test.outcome,
        one_line(test.diagnosis or ""),
        clean(test.message or ""),
    )


def csv_of_tests(report: Report) -> bytes:
    """One row per student, exercise and test."""
    return csv_bytes(TESTS, rows_of_tests(report.book))


def parquet_of_tests(report: Report) -> bytes:
    """The same table for data frames, with its types, and texts as they are."""
    try:
        import polars
    except ImportError:
        raise ReportError("Parquet needs polars: install it (`make setup-instructor`), or leave out --parquet") from None
    types = dict.fromkeys(TESTS, polars.String)  # also the seed, which may have more digits than a data frame's whole numbers
    types |= {"official": polars.Boolean, "points": polars.Float64, "max_points": polars.Float64}
    for name in ("status", "exercise", "prerequisites", "category", "outcome", "student"):
        types[name] = polars.Categorical
    rows = ((*row[:-1], None if row[-1] is None else str(row[-1])) for row in rows_of_tests(report.book))
    table = io.BytesIO()
    polars.DataFrame(list(rows), schema=types, orient="row").write_parquet(table)
    return table.getvalue()


# One row per test


def item_row(item: Item) -> tuple[Any, ...]:
    """The columns of ITEMS."""
    test = item.test
    return (
        one_line(item.exercise), one_line(test.id), one_line(test.title), test.category, test.max_points, test.visible, item.assessed,
        item.passed, _rounded(item.p), _rounded(item.discrimination), _rounded(item.item_rest), item.inconclusive, item.errors,
        " ".join(flag.name for flag in item.flags),
    )  # fmt: skip


def csv_of_items(report: Report) -> bytes:
    """One row per test: how hard it is, how well it tells students apart, and what is odd about it."""
    return csv_bytes(ITEMS, map(item_row, report.items))


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


# Grades for a learning platform


def course_points(book: Gradebook, student: str, exercise: str, out_of: float | None = None) -> float | None:
    """Points on the course's scale, or on that of a platform's column; None for what has none."""
    score = book.scores.get((student, exercise))
    if score is None or score.share is None:
        return None
    return round(score.share * (out_of or book.weight(exercise)), 4)


def moodle_csv(report: Report) -> bytes:
    """A row per student, for Moodle's import of grades: map `ID number` or `Email address`, then the columns of the exercises."""
    book = report.book
    people = report.classroom.people if report.classroom else {}
    columns = ["ID number", "Email address", "First name", "Last name"]
    columns += [one_line(f"{short(exercise)} {book.titles.get(exercise, '')}") for exercise in book.exercises]
    rows = []
    for student in book.students:
        person = people.get(student)
        names = [person.first_name, person.last_name] if person else [one_line(book.name(student)), ""]
        head = [person.lms_id or student if person else student, person.email if person else "", *names]
        rows.append([*map(one_line, head), *(course_points(book, student, exercise) for exercise in book.exercises)])
    return csv_bytes(columns, rows)


IDENTIFIERS = ("sis user id", "sis login id", "integration id", "id")


def canvas_csv(report: Report, exported: Path) -> tuple[bytes, list[str]]:
    """(a gradebook that Canvas exported, with our points filled in; what could not be matched).

    Columns are never added, for Canvas would make an assignment of each. A column belongs to an exercise if its name, before the
    ` (number)`, is or begins with `ex06`, or is the exercise's title. A row belongs to a student by any of its ids or the email.
    """
    table = _read_csv(exported)
    head = next((number for number, row in enumerate(table) if "ID" in row and row[0].strip("\ufeff ") == "Student"), None)
    if head is None:
        raise ReportError(
            f"{exported}: is not a gradebook exported by Canvas: it has no row that begins with Student and holds ID"
        )
    columns = _canvas_columns(report.book, table[head])
    keys = [number for number, name in enumerate(table[head]) if name.strip().casefold() in IDENTIFIERS]
    students = _canvas_students(report)
    possible = next((row for row in table[head + 1 :] if row and row[0].strip() == "Points Possible"), [])
    filled, unknown, seen = 0, [], set()
    for row in table[head + 1 :]:
        if row is possible or not row or not row[0].strip():
            continue
        ids = [row[number].strip() for number in keys if number < len(row)]
        student = next((students[one.casefold()] for one in ids if one and one.casefold() in students), None)
        if student is None:
            unknown.append(row[0])
            continue
        seen.add(student)
        for number, exercise in columns.items():
            value = course_points(report.book, student, exercise, _number(possible[number]) if number < len(possible) else None)
            if value is not None and number < len(row):
                row[number] = f"{value:.12g}"
                filled += 1
    notes = [f"Canvas: {filled} grades filled in"]
    for words, missing in (
        ("no column for", [short(one) for one in report.book.exercises if one not in columns.values()]),
        ("rows of nobody in these results", [one_line(name) for name in unknown if "Student, Test" not in name]),
        ("no row for", [one_line(one) for one in report.book.students if one not in seen]),
    ):
        if missing:
            shown = some_of(missing, 5)
            notes.append(f"Canvas: {words} {shown}" if words.startswith("no ") else f"Canvas: {words}: {shown}")
    text = io.StringIO(newline="")
    csv.writer(text).writerows([one if _number(one) is not None else text_field(one) for one in row] for row in table)
    return text.getvalue().encode(), notes


def _read_csv(path: Path) -> list[list[str]]:
    try:
        text = path.read_bytes().decode("utf-8-sig")
        return list(csv.reader(io.StringIO(text, newline=""), strict=True))
    except OSError as error:
        raise ReportError(f"{path}: cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise ReportError(f"{path}: is not a CSV file in UTF-8: {error}") from None


def _canvas_columns(book: Gradebook, names: Sequence[str]) -> dict[int, str]:
    """Column -> exercise; the first column that fits."""
    columns: dict[int, str] = {}
    for exercise in book.exercises:
        title = book.titles.get(exercise, "").casefold()
        for number, name in enumerate(names):
            plain = re.sub(r"\s*\([0-9]+\)$", "", name.strip()).casefold()
            begins = re.match(rf"{re.escape(short(exercise))}(?![0-9])", plain) is not None
            if number not in columns and (begins or plain in (exercise.casefold(), title or None)):
                columns[number] = exercise
                break
    return columns


def _canvas_students(report: Report) -> dict[str, str]:
    """Every id that a student is known by -> the student."""
    known = {student.casefold(): student for student in report.book.students}
    for student, person in (report.classroom.people if report.classroom else {}).items():
        for one in (person.lms_id, person.email):
            if one:
                known.setdefault(one.casefold(), student)
    return known


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


# JSON


def report_json(report: Report) -> bytes:
    """The figures of the report, for programs; the schema is documented in docs/report.md."""
    book = report.book
    alpha, alpha_students = report.reliability
    document = {
        "schema": JSON_SCHEMA,
        "exercises": [_exercise(report, one) for one in report.summaries],
        "students": [_student(report, student) for student in book.students],
        "reliability": {"alpha": _rounded(alpha), "students": alpha_students},
        "at_risk": [
            {"student": one.student, "share": _rounded(one.share), "weight": one.weight,
             "reasons": [{"name": reason.name, "words": reason.words} for reason in one.reasons]}
            for one in report.at_risk
        ],
        "hosts": [
            {"host": one.name, "results": one.results, "assessed": one.assessed, "inconclusive": one.inconclusive} for one in report.hosts
        ],
        "similar": None if report.alike is None else [
            {"exercise": one.exercise, "students": [one.first, one.second], "share": _rounded(one.share), "characters": one.characters}
            for one in report.alike.pairs
        ],
        "regrade": None if report.regrade is None else [
            {"student": one.student, "exercise": one.exercise, "kind": one.kind, "before": one.before, "after": one.after,
             "status": [one.status_before, one.status_after],
             "tests": [{"test": flip.id, "before": flip.before, "after": flip.after, "points": flip.points} for flip in one.flips]}
            for one in report.regrade
        ],
        "skipped": [{"file": name, "reason": why} for name, why in book.skipped],
        "notes": report.notes,
    }  # fmt: skip
    return msgspec.json.format(msgspec.json.encode(_plain(document)), indent=1) + b"\n"


def _plain(value: Any) -> Any:
    """Names of folders may hold bytes that are no text."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value


def _exercise(report: Report, summary: Any) -> dict[str, Any]:
    return {
        "exercise": summary.exercise,
        "title": summary.title,
        "weight": report.book.weight(summary.exercise),
        **{name.replace(" ", "_"): summary.counts[name] for name in ("graded", "error", "missing", "not graded", "not official")},
        "mean_share": _rounded(summary.share),
        "all_points": summary.full,
        "histogram": summary.histogram,
        "categories": [{"category": one.category, "share": _rounded(one.share)} for one in summary.categories],
        "mistakes": [{"name": one.name, "students": one.students, "hint": one.hint} for one in summary.mistakes],
        "reliability": {"kr20": _rounded(summary.reliability), "students": summary.reliability_students},
        "time_to_pass": [{"days": round(one.time, 6), "trying": one.at_risk, "passed": one.passed, "not_passed": round(one.left, 6)}
                         for one in summary.survival],
        "tests": [dict(zip(ITEMS[1:], item_row(item)[1:], strict=True)) for item in summary.items],
    }  # fmt: skip


def _student(report: Report, student: str) -> dict[str, Any]:
    book, total = report.book, report.book.total(student)
    results = {}
    for exercise in book.exercises:
        score, why = book.scores.get((student, exercise)), book.why_not_graded(student, exercise)
        results[exercise] = {
            "status": why[0] if why else "graded",
            "reason": why[1] if why else None,
            "points": score.points if score else None,
            "max_points": score.max_points if score else None,
            "official": score.official if score else None,
            "attempts": len(report.attempts.get((student, exercise), ())),
        }
    sums = None if total is None else {"points": round(total.points, 6), "max_points": total.max_points, "graded": total.graded}
    return {"student": student, "name": book.name(student), "total": sums, "results": results}


WRITERS: dict[str, Callable[[Report], bytes]] = {
    "csv": csv_of_tests, "items": csv_of_items, "parquet": parquet_of_tests, "json": report_json, "moodle": moodle_csv
}  # fmt: skip
