"""Owns the HTML page: one file that works offline, on paper and without a mouse, and sends no request.

Its words are in templates/report.html, its looks in report.css, what it does in report.js.
"""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

from grader.reporting.charts import Artist, Chart
from grader.reporting.gradebook import ReportError, short
from grader.reporting.items import ENOUGH_STUDENTS, STEADY_STUDENTS, WORTH_A_LOOK, signed
from grader.reporting.payload import packed, payload
from grader.reporting.progress import reached_by_day
from grader.reporting.regrade import by_test
from grader.reporting.summary import Report, Summary, histogram
from grader.reporting.words import LEGEND, cell, count, label, mean, number, percent
from grader.text import clean, in_order, one_line

TEMPLATES = Path(__file__).parent.parent / "templates"
FIRST = 6  # entries of the short lists at the top
NAMED = 200  # names of one reason that are written out; the table of the class can be filtered for the rest
CHANGES = 500  # rows of a regrade that are written out; the JSON has all


def html_page(report: Report, only: str | None = None) -> bytes:
    """The page in UTF-8. `only`: of this one student, to be handed to them.

    Everything foreign is cleaned by the filters and escaped by the template, or put in as text by the script.
    """
    try:
        import jinja2  # only for this: the terminal's report starts faster without
    except ImportError:
        raise ReportError("the page needs jinja2: install it (`make setup-instructor`), or leave out --out") from None
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "line": one_line, "lines": clean, "number": number, "percent": percent, "short": short, "signed": signed,
    }  # fmt: skip
    style, script = ((TEMPLATES / name).read_text(encoding="utf-8") for name in ("report.css", "report.js"))
    data, is_packed = packed(payload(report, only, details=only is None))
    artist = Artist() if only is None else None
    urgent = [item for item in report.to_look_at if item.urgency[0] >= WORTH_A_LOOK]
    page = environment.get_template("report.html").render(
        report=report, book=report.book, only=only, style=style, script=script, style_hash=_hash(style), script_hash=_hash(script),
        data=data, is_packed=is_packed, charts=_class_charts(report, artist) if artist else [],
        exercises=[_drawn(summary, artist) for summary in report.summaries] if artist else [],
        waiting=_waiting(report), still_open=_open(report), unofficial=_unofficial(report), to_review=_to_review(report),
        legend=_legend(report), urgent=urgent,
        first=FIRST, numbers=_numbers(report),
        test_changes=by_test(report.regrade or []), changes=CHANGES, ENOUGH_STUDENTS=ENOUGH_STUDENTS, STEADY_STUDENTS=STEADY_STUDENTS,
        cell=cell, count=count, label=label, mean=mean,
    )  # fmt: skip
    return page.encode()


def _hash(text: str) -> str:
    """What the page's policy allows: this script and no other, this style and no other."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _class_charts(report: Report, artist: Artist) -> list[Chart]:
    shares = [total.share for total in report.book.totals.values() if total.share is not None]
    charts = [artist.histogram("Totals of the class, over what is graded", histogram(shares))]
    days = reached_by_day(report)
    if len(days) > 1:
        charts.append(artist.progress("Progress: share of all points that the class has reached", days))
    return charts


def _drawn(summary: Summary, artist: Artist) -> tuple[Summary, list[Chart]]:
    name = short(summary.exercise)
    charts = [artist.histogram(f"{name}: points", summary.histogram)]
    if summary.tries:
        charts.append(artist.survival(f"{name}: time to pass", summary.survival, [days for days, _ in summary.tries]))
    return summary, charts


def _numbers(report: Report) -> dict[str, int]:
    """By student, the number under which the script finds them."""
    return {student: number for number, student in enumerate(report.book.students)}


Group = tuple[str, str, str, list[str], int]  # exercise, status, reason, names written out, all


def _waiting(report: Report) -> list[Group]:
    """Who is not graded, one entry for all with the same reason; errors first, for they are the instructor's to mend."""
    groups = _grouped((one.exercise, one.status, one.reason, one.student) for one in report.book.not_graded)
    return sorted(groups, key=lambda group: ("error", "missing", "not graded").index(group[1]))


def _open(report: Report) -> list[tuple[int, str, str, str]]:
    """(how many, status, reason, in which exercises): the same in short; what is missing needs no reason."""
    counts: dict[tuple[str, str], Counter[str]] = {}
    for one in report.book.not_graded:
        reason = one_line(one.reason) if one.status == "error" else ""
        counts.setdefault((one.status, reason), Counter())[short(one.exercise)] += 1
    groups = [
        (found.total(), status, reason, ", ".join(f"{name} {n}" for name, n in found.items()))
        for (status, reason), found in counts.items()
    ]
    return sorted(groups, key=lambda group: (("error", "missing", "not graded").index(group[1]), -group[0]))


def _unofficial(report: Report) -> list[Group]:
    from grader.reporting.gradebook import why_not_official

    return _grouped((one.exercise, "graded", why_not_official(one), one.student) for one in report.book.unofficial)


def _to_review(report: Report) -> list[Group]:
    return _grouped((one.exercise, "graded", words, one.student) for one, words in report.book.to_review)


def _grouped(rows: Iterable[tuple[str, str, str, str]]) -> list[Group]:
    ordered = sorted(rows, key=lambda row: (in_order(row[0]), row[1], row[2], in_order(row[3])))
    groups = []
    for (exercise, status, reason), group in groupby(ordered, key=lambda row: row[:3]):
        students = [row[3] for row in group]
        groups.append((exercise, status, reason, students[:NAMED], len(students)))
    return groups


def _legend(report: Report) -> list[tuple[str, str]]:
    """The marks that are used, with their meaning."""
    book = report.book
    used: set[str] = set()
    for student in book.students:
        for exercise in book.exercises:
            words, marks = cell(book, student, exercise)
            used |= {words, *marks}
    return [(mark, meaning) for mark, meaning in LEGEND.items() if mark in used]
