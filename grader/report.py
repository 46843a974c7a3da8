#!/usr/bin/env python3
"""The instructor's report: `python grader/report.py RESULTS [--out report.html] [...]`, the same as `python -m grader report`.

Owns the arguments and the exit code; what is reported lives in `grader/reporting/`. Runs no learner code and
imports of the grader only the schema of the results and the course, so it can be run wherever the result files are.
Exit code 0: reported, even if some files had to be skipped (they are named); 2: nothing usable, or a file that
cannot be read or written.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

if __name__ == "__main__":  # as a script Python puts grader/ first on the path; the package's parent belongs there
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

try:
    from rich.console import Console
    from rich.text import Text

    from grader.course import CourseError, load_course
    from grader.grading.result import write_atomically
    from grader.reporting.attempts import read_attempts
    from grader.reporting.gradebook import Gradebook, ReportError, read_gradebook
    from grader.reporting.summary import Report
    from grader.reporting.terminal import print_report, print_skipped
    from grader.text import one_line
except ModuleNotFoundError as error:
    if __name__ != "__main__" or (error.name or "").startswith("grader"):
        raise
    sys.exit(f"report: {error.name} is not installed here: use the Python of the project's .venv (`make setup`)")

ROOT = Path(__file__).resolve().parent.parent
FILES = {
    "out": "a page (HTML) with every test of every student; offline, printable",
    "csv": "one row per student, exercise and test",
    "items": "one row per test: difficulty, discrimination, flags (CSV)",
    "parquet": "the rows of --csv for data frames",
    "json": "all figures, for programs; the schema is in docs/report.md",
    "moodle": "grades for Moodle's import (CSV)",
}


@dataclass
class Wanted:
    """What was asked for on the command line."""

    results: Path
    files: dict[str, Path]  # by the names in FILES
    history: Sequence[Path] = ()
    before: Path | None = None
    gradebook: Path | None = None
    submissions: Path | None = None
    canvas: tuple[Path, Path] | None = None  # exported by Canvas, to be written
    student: str | None = None
    anonymous: bool = False
    everyone: bool = False


def run(wanted: Wanted, console: Console | None = None) -> int:
    """Print the report and write the files asked for; returns the exit code and never raises for bad input."""
    console = console or Console()
    try:
        report = _read(wanted, console)
    except ReportError as error:
        return _refuse(console, error)
    wrote, refused = _write_files(report, wanted)  # before the printing, which a closed pipe would cut short
    print_report(report, console, everyone=wanted.everyone)
    for line in wrote:
        console.print(Text(one_line(line)))
    return _refuse(console, refused) if refused else 0


def _read(wanted: Wanted, console: Console) -> Report:
    """Everything that the report rests on."""
    book = read_gradebook(wanted.results)
    if not book.results:
        print_skipped(book, console)
        raise ReportError(f"{wanted.results}: no usable result; expected RESULTS/<student>/exNN.json")
    if wanted.student is not None and wanted.student not in book.students:
        raise ReportError(f"{wanted.student}: no student of that name in {wanted.results}; give the folder's name")
    report = Report(book)
    report.notes += _apply_course(book)
    if wanted.gradebook is not None:
        from grader.reporting.classroom import join, read_classroom

        report.classroom = read_classroom(wanted.gradebook)
        report.notes += join(book, report.classroom)
    report.attempts = read_attempts(book, wanted.history)
    if wanted.before is not None:
        from grader.reporting.regrade import compare

        old = read_gradebook(wanted.before)
        if not old.results:
            raise ReportError(f"{wanted.before}: no usable result; --before takes an earlier folder of results")
        book.skipped += [(f"{wanted.before.name}/{name}", why) for name, why in old.skipped]
        report.regrade = compare(old, book)
    if wanted.submissions is not None:
        from grader.reporting.similarity import find_alike

        report.alike = find_alike(wanted.submissions, book.exercises, ROOT)
    if wanted.anonymous:
        from grader.reporting.anonymous import anonymous

        return anonymous(report)
    return report


def _apply_course(book: Gradebook) -> list[str]:
    """Titles and weights from course.toml; without it the report is made all the same, and says so."""
    try:
        course = load_course(ROOT)
    except CourseError as error:
        return [f"course.toml cannot be used, so every exercise weighs the points that were seen in it: {error}"]
    for exercise in course.exercises:
        book.weights[exercise.file], book.titles[exercise.file] = exercise.points, exercise.title
    strange = [one for one in book.exercises if one not in book.weights]
    return [f"not in course.toml, and weighed by the points that were seen: {', '.join(strange)}"] if strange else []


def _refuse(console: Console, error: ReportError) -> int:
    console.print(Text(f"report: {one_line(str(error))}", "red"))
    return 2


def _write_files(report: Report, wanted: Wanted) -> tuple[list[str], ReportError | None]:
    """(what was written, in lines to print; why one file was not)."""
    wrote: list[str] = []
    paths = dict(wanted.files) | ({"canvas": wanted.canvas[1]} if wanted.canvas else {})
    try:
        seen: dict[Path, str] = {}
        for name, path in paths.items():
            other = seen.setdefault(path.resolve(), name)
            if other != name:
                raise ReportError(f"{path}: is named for both --{other} and --{name}")
        for name, path in paths.items():
            notes: list[str] = []
            _write(path, _maker(name, report, wanted, notes))
            wrote += [f"wrote {path}", *notes]
    except ReportError as error:
        return wrote, error
    return wrote, None


def _maker(name: str, report: Report, wanted: Wanted, notes: list[str]) -> Callable[[], bytes]:
    """What makes the content of a file; imported only where it is asked for."""
    if name == "out":
        from grader.reporting.page import html_page

        return lambda: html_page(report, wanted.student)
    from grader.reporting.exports import WRITERS, canvas_csv

    if name == "canvas":
        assert wanted.canvas is not None
        exported = wanted.canvas[0]

        def fill() -> bytes:
            data, said = canvas_csv(report, exported)
            notes.extend(said)
            return data

        return fill
    return lambda: WRITERS[name](report)


def _write(path: Path, make: Callable[[], bytes]) -> None:
    """Replace the file at `path`, or the one that a link there leads to; devices and pipes are left alone."""
    path = path.resolve()
    if not path.parent.is_dir():
        raise ReportError(f"{path}: cannot be written: there is no folder {path.parent}")
    if path.exists() and not path.is_file():
        raise ReportError(f"{path}: cannot be written: it is not a plain file")
    data = make()
    try:
        write_atomically(path, data)
    except OSError as error:
        raise ReportError(f"{path}: cannot be written: {error.strerror}") from None


class _Help(argparse.HelpFormatter):
    """As the other commands write it."""

    def add_usage(self, usage, actions, groups, prefix=None):  # type: ignore[no-untyped-def]
        super().add_usage(usage, actions, groups, "Usage: ")


def _parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program, formatter_class=_Help, description="Who is where, which test is unfair, and whom to help.",
        epilog="docs/report.md explains every figure.",
    )  # fmt: skip
    parser.add_argument("results", metavar="RESULTS", type=Path, help="folder of <student>/exNN.json files, as `grade` writes it")
    parser.add_argument("--all", action="store_true", help="print every row and name, however large the class")
    written = parser.add_argument_group("what is written")
    for name, what in FILES.items():
        written.add_argument(f"--{name}", metavar="FILE", type=Path, help=what)
    written.add_argument(
        "--canvas", metavar=("EXPORTED", "FILE"), type=Path, nargs=2, help="fill in a gradebook that Canvas exported"
    )
    written.add_argument("--student", metavar="NAME", help="with --out: a page of this student alone, to hand to them")
    written.add_argument("--anonymous", action="store_true", help="without names and without anything that a student wrote")
    read = parser.add_argument_group("what is read besides")
    read.add_argument("--history", metavar="DIR", type=Path, nargs="+", default=[], help="earlier folders of results: attempts")
    read.add_argument(
        "--before", metavar="OLD", type=Path, help="results before a regrade: who gains and loses, and by which test"
    )
    read.add_argument(
        "--gradebook", metavar="FILE", type=Path, help="nbgrader's gradebook.db: names, manual scores, late penalties"
    )
    read.add_argument("--submissions", metavar="DIR", type=Path, help="what was handed in: pairs that resemble each other")
    return parser


def _wanted(argv: Sequence[str] | None, program: str) -> Wanted:
    parser = _parser(program)
    given = parser.parse_args(argv)
    if given.student is not None and given.out is None:
        parser.error("--student needs --out: the page of this student")
    if given.anonymous and (given.student or given.submissions or given.canvas or given.moodle):
        parser.error("--anonymous leaves out names: it goes with none of --student, --submissions, --canvas, --moodle")
    return Wanted(
        results=given.results,
        files={name: path for name in FILES if (path := getattr(given, name)) is not None},
        history=given.history,
        before=given.before,
        gradebook=given.gradebook,
        submissions=given.submissions,
        canvas=tuple(given.canvas) if given.canvas else None,
        student=given.student,
        anonymous=given.anonymous,
        everyone=given.all,
    )


def main(argv: Sequence[str] | None = None, program: str = "report") -> int:
    """The command line; returns the exit code."""
    try:
        wanted = _wanted(argv, program)
    except SystemExit as leaving:  # --help, or a mistake that argparse has explained
        return int(leaving.code or 0)
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")  # a console without the letters of a name still gets the report
    collected = gc.isenabled()
    gc.disable()  # of a large class there are a million small objects, all needed to the end: to look through them costs seconds
    try:
        return run(wanted)
    except BrokenPipeError:  # `report RESULTS | head`: the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130
    finally:
        if collected:
            gc.enable()


if __name__ == "__main__":
    sys.exit(main())
