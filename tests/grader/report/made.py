"""Makes small classes through the real result schema, and shows what the report says of them."""

from __future__ import annotations

import base64
import csv
import io
import json
import re
import zlib
from pathlib import Path

from rich.console import Console

from grader import report
from grader.grading.result import Result, TestResult, write_result

EX06, EX07 = "ex06_repeat_kv", "ex07_attention"


def a_test(name: str, outcome: str = "passed", most: float = 5, **others) -> TestResult:
    given = {
        "id": f"hidden::test_{name}",
        "title": f"The {name} is right",
        "category": "numerics",
        "points": most if outcome == "passed" else 0.0,
        "max_points": most,
        "visible": False,
    }
    return TestResult(outcome=outcome, **(given | others))


def graded(student: str, *tests: TestResult, exercise: str = EX06, **others) -> Result:
    assessed = [test for test in tests if test.outcome not in ("not_assessed", "error")]
    given = {
        "points": sum(test.points for test in assessed),
        "max_points": sum(test.max_points for test in assessed),
        "official": True,
        "seed": 7,
    }
    return Result(student=student, exercise=exercise, status="graded", tests=list(tests), **(given | others))


def ungraded(student: str, status: str, reason: str | None, exercise: str = EX06, **others) -> Result:
    given = {"points": None, "max_points": 0, "official": True}
    return Result(student=student, exercise=exercise, status=status, reason=reason, **(given | others))


def tree(folder: Path, *results: Result) -> Path:
    for result in results:
        write_result(folder, result)
    return folder


def show(results: Path, width: int = 80, expect: int = 0, **options) -> str:
    """The report as printed, without colours; files to write and what is read besides as in `report.Wanted`."""
    console = Console(file=io.StringIO(), width=width, color_system=None)
    files = {name: options.pop(name) for name in report.FILES if name in options}
    assert report.run(report.Wanted(results, files, **options), console) == expect
    return console.file.getvalue()


def rows(results: Path, folder: Path) -> list[dict[str, str]]:
    path = folder / "table.csv"
    show(results, csv=path)
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, strict=True))


def page(results: Path, folder: Path) -> str:
    path = folder / "report.html"
    show(results, out=path)
    return path.read_text(encoding="utf-8")


def data_of(html: str) -> dict:
    """What the page's script reads."""
    packed, text = re.search(
        r'<script type="application/json" id="data"( data-packed="deflate")?>(.*?)</script>', html, re.DOTALL
    ).groups()
    return json.loads(zlib.decompress(base64.b64decode(text)) if packed else text)


def line_of(text: str, beginning: str) -> str:
    """The first line that begins so, with its white space as single spaces."""
    lines = [" ".join(line.split()) for line in text.splitlines()]
    return next(line for line in lines if line.startswith(beginning))


def section(text: str, heading: str) -> str:
    """From a heading to the next empty line."""
    return text.split(f"\n{heading}", 1)[1].split("\n\n")[0]
