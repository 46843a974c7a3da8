"""Owns the report in the terminal: what fits the width is shown, what is left out is said."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from statistics import quantiles

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from grader.grading.result import Result
from grader.reporting.gradebook import ENOUGH, Gradebook, Item, short, why_not_official
from grader.reporting.words import LEGEND, cell, count, label, mean, percent, sum_of
from grader.text import in_order, one_line, shorten

MANY_STUDENTS = 60  # above, unless all is asked for: no matrix, and the lists are cut
MANY_NAMES = 8  # in one row of a list that is cut
MANY_ROWS = 30  # of a list that is cut
HARDEST = 4  # tests of an exercise that are shown
MANY_DIAGNOSES = 3
REASON = 240  # characters of a reason that are shown
NAME_WIDTH = 24
GAP = 2  # cells between columns, of which the box takes one
STYLES = {"ERROR": "bold magenta", "MISSING": "yellow", "-": "dim", "n/a": "dim"}


def print_report(book: Gradebook, console: Console, *, everyone: bool = False) -> None:
    """The whole report, in the order in which an instructor asks: who has what, who has nothing, what went wrong."""
    all_tests, everyone = everyone, everyone or len(book.students) <= MANY_STUDENTS
    if everyone:
        _print_matrix(book, console)
    else:
        _print_distribution(book, console)
    _print_lists(book, console, everyone)
    _print_exercises(book, console)
    _print_items(book, console, all_tests)
    print_skipped(book, console)


def style(result: Result | None) -> str:
    """Colour beside the words, never instead of them."""
    shown, _ = cell(result)
    if result is None or shown in STYLES:
        return STYLES[shown]
    points = result.points or 0.0
    return "green" if points >= result.max_points - ENOUGH else "red" if points <= ENOUGH else ""


def _print_matrix(book: Gradebook, console: Console) -> None:
    """Students x exercises; a class with many exercises gets several tables, each with the names."""
    names = [one_line(student) for student in book.students]
    columns = [*(_column(book, exercise) for exercise in book.exercises), _total_column(book)]
    room = console.width - GAP - max(map(_width, columns))  # names give way, points never
    name_width = max(len("student"), min(NAME_WIDTH, room, max(map(cell_len, names))))
    for block in _blocks(columns, console.width - name_width):
        table = _table(expand=False)
        table.add_column("student", width=name_width, no_wrap=True)
        for heading, cells in block:
            table.add_column(Text(heading), width=_width((heading, cells)), no_wrap=True, justify="right")
        for row, name in enumerate(names):
            table.add_row(Text(shorten(name, name_width)), *(cells[row] for _, cells in block))
        console.print(table)
        console.print()
    _print_legend(book, console)


Column = tuple[str, list[Text]]


def _column(book: Gradebook, exercise: str) -> Column:
    results = [book.results.get((student, exercise)) for student in book.students]
    shown = [cell(result) for result in results]
    room = max(len(marks) for _, marks in shown)
    styles = map(style, results)
    cells = [Text(words + marks.ljust(room), look) for (words, marks), look in zip(shown, styles, strict=True)]
    return one_line(short(exercise)), cells


def _total_column(book: Gradebook) -> Column:
    """`17.5/20* (2 of 3)`: a sum over what is graded says over how much."""
    cells = []
    for student in book.students:
        total = book.total(student)
        partly = total is not None and total.graded < len(book.exercises)
        part = f" ({total.graded} of {len(book.exercises)})" if total and partly else ""
        cells.append(Text(sum_of(total) + part, "bold" if total else STYLES["-"]))
    return "total", cells


def _width(column: Column) -> int:
    heading, cells = column
    return max([cell_len(heading), *(cell.cell_len for cell in cells)])


def _blocks(columns: list[Column], room: int) -> list[list[Column]]:
    """Consecutive columns that fit side by side, at least one to a block."""
    blocks: list[list[Column]] = []
    left = 0
    for column in columns:
        needed = GAP + _width(column)
        if not blocks or needed > left:
            blocks.append([])
            left = room
        blocks[-1].append(column)
        left -= needed
    return blocks


def _print_legend(book: Gradebook, console: Console) -> None:
    used: set[str] = set()
    for student in book.students:
        for exercise in book.exercises:
            words, marks = cell(book.results.get((student, exercise)))
            used |= {words, *marks}
    for mark, meaning in LEGEND.items():
        if mark in used:
            console.print(Text(f" {mark:>7}  {meaning}", "dim"))


def _print_distribution(book: Gradebook, console: Console) -> None:
    """A class too large to read row by row: how the totals are spread."""
    totals = [total for student in book.students if (total := book.total(student)) and total.max_points > 0]
    shares = sorted(total.points / total.max_points for total in totals)
    line = f"{count(len(book.students), 'student')}, {count(len(book.exercises), 'exercise')}."
    if shares:
        quarter, half, three = quantiles(shares * 2, n=4, method="inclusive")  # twice: one alone has no quantiles
        line += (
            f" Points over what is graded: lowest {percent(shares[0])}, quarter {percent(quarter)},"
            f" median {percent(half)}, three quarters {percent(three)}, highest {percent(shares[-1])}."
        )
    console.print(Text(line))
    console.print(Text("--all prints every student's row, --out FILE.html writes the page with all of them.", "dim"))


def _print_lists(book: Gradebook, console: Console, everyone: bool) -> None:
    waiting = [(entry.exercise, entry.status, entry.reason, entry.student) for entry in book.not_graded]
    _print_grouped(console, f"Not graded or in error ({len(waiting)})", waiting, everyone)
    reasons = [(result.exercise, "graded", result.reason, result.student) for result in book.graded if result.reason]
    _print_grouped(console, f"Graded, with a reason why everything failed ({len(reasons)})", reasons, everyone)
    unofficial = [(result.exercise, "graded*", why_not_official(result), result.student) for result in book.unofficial]
    _print_grouped(console, f"Not official ({len(unofficial)})", unofficial, everyone)


def _print_grouped(console: Console, title: str, rows: list[tuple[str, str, str, str]], everyone: bool) -> None:
    """Rows of (exercise, status, reason, student), one line for all students with the same reason."""
    if not rows:
        return
    _heading(console, title)
    rows = [(short(exercise), status, one_line(reason), student) for exercise, status, reason, student in rows]
    rows.sort(key=lambda row: (in_order(row[0]), row[1], row[2], in_order(row[3])))
    groups = [(key, [row[3] for row in group]) for key, group in groupby(rows, key=lambda row: row[:3])]
    table = _table()
    table.add_column("exercise", no_wrap=True, max_width=12)
    table.add_column("status", no_wrap=True)
    table.add_column("reason", ratio=1, overflow="fold")
    table.add_column("students", ratio=1, overflow="fold")
    for (exercise, status, reason), students in groups if everyone else groups[:MANY_ROWS]:
        named = students if everyone else students[:MANY_NAMES]
        names = ", ".join(shorten(one_line(student), NAME_WIDTH) for student in named)
        more = f" and {len(students) - len(named)} more (--all)" if len(named) < len(students) else ""
        table.add_row(Text(one_line(exercise)), Text(status), Text(shorten(reason, REASON)), Text(names + more))
    console.print(table)
    if not everyone and len(groups) > MANY_ROWS:
        hidden = groups[MANY_ROWS:]
        rest = sum(len(students) for _, students in hidden)
        console.print(Text(f"and {len(hidden)} more rows about {count(rest, 'result')} (--all)", "dim"))


def _print_exercises(book: Gradebook, console: Console) -> None:
    _heading(console, "Exercises")
    table = _table()
    table.add_column("exercise", overflow="ellipsis", no_wrap=True, max_width=20)
    for heading in ("graded", "mean", "all points"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("most frequent diagnoses", ratio=1, overflow="fold")
    for summary in book.summaries:
        graded = summary.counts["graded"]
        found = ", ".join(f"{one_line(name)} {times}" for name, times, _ in summary.diagnoses[:MANY_DIAGNOSES])
        table.add_row(
            Text(one_line(summary.exercise)),
            f"{graded}/{len(book.students)}",
            mean(summary),
            f"{summary.full}/{len(summary.scores)}" if summary.scores else "-",
            Text(found or "-"),
        )
    console.print(table)


def _print_items(book: Gradebook, console: Console, everyone: bool) -> None:
    """The tests that fewest pass, and those that need an author's eye; all of them with --all, and always in CSV and page."""
    _heading(
        console,
        "Tests: share of the assessed who pass" + ("" if everyone else "; the hardest, and those the grader could not run"),
    )
    table = _table()
    table.add_column("test", ratio=1, overflow="fold")
    table.add_column("category", no_wrap=True)
    table.add_column("passed", justify="right", no_wrap=True)
    table.add_column("share", justify="right", no_wrap=True)
    table.add_column("note", no_wrap=True)
    for summary in book.summaries:
        table.add_row(Text(one_line(summary.exercise), "bold"))
        items = summary.items if everyone else _telling(summary.items)
        for item in items:
            note = item.flag if not item.test.visible else ", ".join(filter(None, ["public", item.flag]))
            table.add_row(
                Padding(Text(one_line(label(item.test))), (0, 0, 0, 1)),
                item.test.category,
                f"{item.passed}/{item.assessed}" if item.assessed else "-",
                percent(item.share),
                Text(note, "yellow" if item.flag else "dim"),
            )
        if len(items) < len(summary.items):
            hidden = count(len(summary.items) - len(items), "more test")
            table.add_row(Padding(Text(f"{hidden}: --all, --csv or --out", "dim"), (0, 0, 0, 1)))
    console.print(table)


def _telling(items: list[Item]) -> list[Item]:
    """One case of each of the tests that fewest pass, hardest first, after those that ended in the grader's own errors."""
    worst: dict[tuple[str, str], Item] = {}
    for item in items:
        key = (item.test.title, item.test.category)
        if item.share is not None and item.share < 1 and (key not in worst or item.share < worst[key].share):
            worst[key] = item
    broken = [item for item in items if item.errors]
    hardest = sorted((item for item in worst.values() if not item.errors), key=lambda item: item.share)
    return broken + hardest[:HARDEST]


def print_skipped(book: Gradebook, console: Console) -> None:
    """Files that could not be used, each by name: nothing is left out in silence."""
    if not book.skipped:
        return
    _heading(console, f"Skipped: {count(len(book.skipped), 'file')} that cannot be used")
    _print_lines(console, (f"{name}: {why}" for name, why in book.skipped))


def _print_lines(console: Console, lines: Iterable[str]) -> None:
    for line in lines:
        console.print(Padding(Text(shorten(one_line(line), REASON), overflow="fold"), (0, 0, 0, 2)))


def _table(expand: bool = True) -> Table:
    """Columns GAP cells apart, with a line under their headings."""
    return Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, GAP - 1, 0, 0), expand=expand)


def _heading(console: Console, words: str) -> None:
    console.print()
    console.print(Text(words, "bold"))
