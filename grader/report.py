#!/usr/bin/env python3
"""The instructor's report: `python grader/report.py RESULTS [--csv FILE] [--out report.html]`.

Owns the arguments and the exit code; what is reported lives in `grader/reporting/`. Runs no learner code and
imports of the grader only the schema of the results, so it can be run wherever the result files are.
Exit code 0: reported, even if some files had to be skipped (they are named); 2: nothing usable, or a file that
cannot be written.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path

if __name__ == "__main__":  # as a script Python puts grader/ first on the path; the package's parent belongs there
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

try:
    from rich.console import Console
    from rich.text import Text

    from grader.grading.result import write_atomically
    from grader.reporting.gradebook import Gradebook, ReportError, read_gradebook
    from grader.reporting.page import html_page
    from grader.reporting.table import csv_table
    from grader.reporting.terminal import print_report, print_skipped
    from grader.text import one_line
except ModuleNotFoundError as error:
    if __name__ != "__main__" or (error.name or "").startswith("grader"):
        raise
    sys.exit(f"report: {error.name} is not installed here: use the Python of the project's .venv (`make setup`)")


def run(
    results: Path,
    csv: Path | None = None,
    html: Path | None = None,
    console: Console | None = None,
    *,
    everyone: bool = False,
) -> int:
    """Print the report of RESULTS and write the files asked for; returns the exit code and never raises for bad input.

    `everyone` prints every row and name, however large the class.
    """
    console = console or Console()
    try:
        book = read_gradebook(results)
    except ReportError as error:
        return _refuse(console, error)
    if not book.results:
        print_skipped(book, console)
        return _refuse(console, ReportError(f"{results}: no usable result; expected RESULTS/<student>/exNN.json"))
    wrote, refused = _write_files(book, csv, html)  # before the printing, which a closed pipe would cut short
    print_report(book, console, everyone=everyone)
    for path in wrote:
        console.print(Text(f"wrote {one_line(str(path))}"))
    return _refuse(console, refused) if refused else 0


def _refuse(console: Console, error: ReportError) -> int:
    console.print(Text(f"report: {one_line(str(error))}", "red"))
    return 2


def _write_files(book: Gradebook, csv: Path | None, html: Path | None) -> tuple[list[Path], ReportError | None]:
    """(the files written, why one was not)."""
    wrote: list[Path] = []
    try:
        if csv and html and csv.resolve() == html.resolve():
            raise ReportError(f"{csv}: is named for both the table and the page")
        for path, make in ((csv, csv_table), (html, html_page)):
            if path:
                _write(path, book, make)
                wrote.append(path)
    except ReportError as error:
        return wrote, error
    return wrote, None


def _write(path: Path, book: Gradebook, make: Callable[[Gradebook], bytes]) -> None:
    """Replace the file at `path`, or the one that a link there leads to; devices and pipes are left alone."""
    path = path.resolve()
    if not path.parent.is_dir():
        raise ReportError(f"{path}: cannot be written: there is no folder {path.parent}")
    if path.exists() and not path.is_file():
        raise ReportError(f"{path}: cannot be written: it is not a plain file")
    data = make(book)
    try:
        write_atomically(path, data)
    except OSError as error:
        raise ReportError(f"{path}: cannot be written: {error.strerror}") from None


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="report", description="Report the results of a class.")
    parser.add_argument("results", metavar="RESULTS", type=Path, help="folder of <student>/exNN.json files")
    parser.add_argument("--csv", metavar="FILE", type=Path, help="write one row per student, exercise and test")
    parser.add_argument("--out", metavar="FILE", type=Path, help="write a page (HTML) with every test of every student")
    parser.add_argument("--all", action="store_true", help="print every row and name, however large the class")
    try:
        arguments = parser.parse_args(argv)
    except SystemExit as leaving:  # --help, or a mistake that argparse has explained
        return int(leaving.code or 0)
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")  # a console without the letters of a name still gets the report
    try:
        return run(arguments.results, arguments.csv, arguments.out, everyone=arguments.all)
    except BrokenPipeError:  # `report RESULTS | head`: the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
