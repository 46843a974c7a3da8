"""Owns the report in the terminal: what fits the width is shown, what is left out is said."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import groupby
from statistics import quantiles

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from grader.reporting.gradebook import ENOUGH, Gradebook, short, why_not_official
from grader.reporting.items import ENOUGH_STUDENTS, WORTH_A_LOOK, Item, signed
from grader.reporting.summary import Report
from grader.reporting.words import LEGEND, cell, count, label, mean, number, percent, sum_of
from grader.text import in_order, one_line, shorten

MANY_STUDENTS = 60  # above, unless all is asked for: no matrix, and the lists are cut
MANY_NAMES = 8  # in one row of a list that is cut
MANY_ROWS = 12  # of a list that is cut
HARDEST = 4  # tests of an exercise that are shown
MANY_DIAGNOSES = 3
FIRST = 10  # students and tests to look at that are shown
REASON = 240  # characters of a reason that are shown
NAME_WIDTH = 24
GAP = 2  # cells between columns, of which the box takes one
STYLES = {"ERROR": "bold magenta", "MISSING": "yellow", "-": "dim", "n/a": "dim"}


def print_report(report: Report, console: Console, *, everyone: bool = False) -> None:
    """The whole report, in the order in which an instructor asks: who has what, whom to help, what is wrong with a test."""
    book = report.book
    all_tests, everyone = everyone, everyone or len(book.students) <= MANY_STUDENTS
    if everyone:
        _print_matrix(book, console)
    else:
        _print_distribution(book, console)
    _print_at_risk(report, console, all_tests)
    _print_to_look_at(report, console, all_tests)
    _print_lists(book, console, everyone)
    _print_exercises(report, console)
    _print_items(report, console, all_tests)
    _print_alike(report, console)
    _print_regrade(report, console, everyone)
    if report.notes:
        _heading(console, "Notes")
        _print_lines(console, report.notes)
    print_skipped(book, console)


def style(book: Gradebook, student: str, exercise: str) -> str:
    """Colour beside the words, never instead of them."""
    shown, _ = cell(book, student, exercise)
    if shown in STYLES:
        return STYLES[shown]
    score = book.scores[student, exercise]
    return "green" if score.is_full else "red" if score.points <= ENOUGH else ""


def _print_matrix(book: Gradebook, console: Console) -> None:
    """Students x exercises; a class with many exercises gets several tables, each with the names."""
    names = [one_line(book.name(student)) for student in book.students]
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
    shown = [cell(book, student, exercise) for student in book.students]
    room = max(len(marks) for _, marks in shown)
    styles = [style(book, student, exercise) for student in book.students]
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
            words, marks = cell(book, student, exercise)
            used |= {words, *marks}
    for mark, meaning in LEGEND.items():
        if mark in used:
            console.print(Text(f" {mark:>7}  {meaning}", "dim"))


def _print_distribution(book: Gradebook, console: Console) -> None:
    """A class too large to read row by row: how the totals are spread."""
    shares = sorted(total.share for total in book.totals.values() if total.share is not None)
    line = f"{count(len(book.students), 'student')}, {count(len(book.exercises), 'exercise')}."
    if shares:
        quarter, half, three = quantiles(shares * 2, n=4, method="inclusive")  # twice: one alone has no quantiles
        line += (
            f" Points over what is graded: lowest {percent(shares[0])}, quarter {percent(quarter)},"
            f" median {percent(half)}, three quarters {percent(three)}, highest {percent(shares[-1])}."
        )
    console.print(Text(line))
    console.print(Text("--all prints every student's row, --out FILE.html writes the page with all of them.", "dim"))


def _print_at_risk(report: Report, console: Console, everyone: bool) -> None:
    found = report.at_risk
    if not found:
        return
    _heading(console, f"Help first: {count(len(found), 'student')} of {len(report.book.students)}")
    table = _table()
    table.add_column("student", no_wrap=True, width=NAME_WIDTH)
    table.add_column("share", justify="right", no_wrap=True)
    table.add_column("why", ratio=1, overflow="fold")
    for one in found if everyone else found[:FIRST]:
        name = shorten(one_line(report.book.name(one.student)), NAME_WIDTH)
        table.add_row(Text(name), percent(one.share), Text(one_line("; ".join(reason.words for reason in one.reasons))))
    console.print(table)
    _print_rest(console, len(found) - FIRST, "student", everyone)


def _print_to_look_at(report: Report, console: Console, everyone: bool) -> None:
    found = [item for item in report.to_look_at if item.urgency[0] >= WORTH_A_LOOK]
    if not found:
        return
    _heading(console, f"Look at these tests: {len(found)} of {len(report.items)}")
    table = _table()
    table.add_column("", no_wrap=True)
    table.add_column("test", ratio=1, overflow="fold")
    table.add_column("p", justify="right", no_wrap=True)
    table.add_column("why", ratio=1, overflow="fold")
    for item in found if everyone else found[:FIRST]:
        p = "-" if item.p is None else f"{item.p:.2f}"
        table.add_row(short(item.exercise), Text(one_line(label(item.test))), p, Text(item.flag, "yellow"))
    console.print(table)
    _print_rest(console, len(found) - FIRST, "test", everyone)


def _print_rest(console: Console, rest: int, thing: str, everyone: bool) -> None:
    if rest > 0 and not everyone:
        console.print(Text(f"and {count(rest, f'more {thing}')} (--all)", "dim"))


def _print_alike(report: Report, console: Console) -> None:
    if report.alike is None:
        return
    pairs = report.alike.pairs
    _heading(
        console, f"Resemble each other: {count(len(pairs), 'pair')}; for you to read, not a verdict (side by side with --out)"
    )
    _print_lines(
        console, (f"{short(one.exercise)}  {percent(one.share)}  {one.first}  and  {one.second}" for one in pairs[:MANY_ROWS])
    )
    if report.alike.unparsed:
        _print_lines(console, [f"{count(len(report.alike.unparsed), 'file')} could not be compared: no valid Python"])


def _print_regrade(report: Report, console: Console, everyone: bool) -> None:
    if report.regrade is None:
        return
    kinds = Counter(change.kind for change in report.regrade)
    said = ", ".join(f"{kinds[kind]} {kind}" for kind in ("gains", "loses", "status", "other tests") if kinds[kind])
    _heading(console, f"Regrade: {said or 'nothing changed'}")
    moved = [change for change in report.regrade if change.kind != "other tests"]
    for change in moved if everyone else moved[:MANY_ROWS]:
        sides = [status if points is None else f"{number(points[0])}/{number(points[1])}" for points, status in (
            (change.before, change.status_before), (change.after, change.status_after)
        )]  # fmt: skip
        tests = "; ".join(f"{one_line(flip.title)} ({flip.before} -> {flip.after})" for flip in change.flips)
        line = f"{short(change.exercise)}  {one_line(report.book.name(change.student))}: {sides[0]} -> {sides[1]}"
        _print_lines(console, [f"{line}  {tests}" if tests else line])
    _print_rest(console, len(moved) - MANY_ROWS, "change", everyone)


def _print_lists(book: Gradebook, console: Console, everyone: bool) -> None:
    waiting = [(entry.exercise, entry.status, entry.reason, entry.student) for entry in book.not_graded]
    _print_grouped(console, f"Not graded or in error ({len(waiting)})", waiting, everyone)
    reasons = [(result.exercise, "graded", result.reason, result.student) for result in book.graded if result.reason]
    _print_grouped(console, f"Graded, with a reason why everything failed ({len(reasons)})", reasons, everyone)
    unofficial = [(result.exercise, "graded*", why_not_official(result), result.student) for result in book.unofficial]
    _print_grouped(console, f"Not official ({len(unofficial)})", unofficial, everyone)
    fast = [(result.exercise, "graded", words, result.student) for result, words in book.to_review]
    _print_grouped(console, f"Too fast to be taken on trust: read the code ({len(fast)})", fast, everyone)


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


def _print_exercises(report: Report, console: Console) -> None:
    book = report.book
    _heading(console, "Exercises")
    table = _table()
    table.add_column("exercise", overflow="ellipsis", no_wrap=True, max_width=20)
    for heading in ("graded", "mean", "all points"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("most frequent diagnoses", ratio=1, overflow="fold")
    for summary in report.summaries:
        graded = summary.counts["graded"]
        found = ", ".join(f"{one_line(one.name)} {one.students}" for one in summary.mistakes[:MANY_DIAGNOSES])
        table.add_row(
            Text(one_line(summary.exercise)),
            f"{graded}/{len(book.students)}",
            mean(summary),
            f"{summary.full}/{len(summary.scores)}" if summary.scores else "-",
            Text(found or "-"),
        )
    console.print(table)


def _print_items(report: Report, console: Console, everyone: bool) -> None:
    """The tests that fewest pass, and those that the grader could not run; all of them with --all, and always in the files."""
    _heading(console, "Tests")
    which = "" if everyone else "; the hardest, and those the grader could not run"
    console.print(Text(f"p: share of the assessed who pass; r: correlation with the rest of the exercise{which}", "dim"))
    table = _table()
    table.add_column("test", ratio=1, overflow="fold")
    table.add_column("category", no_wrap=True)
    for heading in ("passed", "p", "r"):
        table.add_column(heading, justify="right", no_wrap=True)
    if everyone:
        table.add_column("note", overflow="fold", max_width=24)
    for summary in report.summaries:
        table.add_row(Text(one_line(summary.exercise), "bold"))
        items = summary.items if everyone else _telling(summary.items)
        for item in items:
            note = ", ".join(filter(None, ["public" if item.test.visible else "", item.flag]))
            r = item.item_rest if item.assessed >= ENOUGH_STUDENTS else None
            cells = [
                Padding(Text(one_line(label(item.test))), (0, 0, 0, 1)),
                item.test.category,
                f"{item.passed}/{item.assessed}" if item.assessed else "-",
                "-" if item.p is None else f"{item.p:.2f}",
                "-" if r is None else signed(r),
            ]
            table.add_row(*cells, *([Text(note, "yellow" if item.flags else "dim")] if everyone else []))
        if len(items) < len(summary.items):
            hidden = count(len(summary.items) - len(items), "more test")
            table.add_row(Padding(Text(f"{hidden}: --all, --items or --out", "dim"), (0, 0, 0, 1)))
    console.print(table)


def _telling(items: list[Item]) -> list[Item]:
    """One case of each of the tests that fewest pass, hardest first, after those that ended in the grader's own errors."""
    worst: dict[tuple[str, str], Item] = {}
    for item in items:
        key = (item.test.title, item.test.category)
        if item.p is not None and item.p < 1 and (key not in worst or item.p < (worst[key].p or 0)):
            worst[key] = item
    broken = [item for item in items if item.errors]
    hardest = sorted((item for item in worst.values() if not item.errors), key=lambda item: item.p or 0)
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
