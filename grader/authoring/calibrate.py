"""`python -m grader calibrate`: finds out which timed tests this machine can tell, and switches the others off by name.

Grades references and slow anchors through the real path, several times: a test stays on if the reference always passes and the
anchor always fails.
"""

from __future__ import annotations

import datetime
import statistics
from collections.abc import Sequence

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from grader.course import Course, Exercise, TimedTest
from grader.grading.calibration import Calibrated, entry, host, read_calibration, write_calibration
from grader.grading.grade import Grader
from grader.grading.result import TimingFigures
from grader.sandbox.client import Sandbox
from grader.submission import Problem, SourceFile

TRIES = 3


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What one timed test came to."""

    exercise: Exercise
    test: TimedTest
    calibrated: Calibrated


def calibrate(
    course: Course, exercises: Sequence[Exercise], sandbox: Sandbox, *, device: str = "cpu", tries: int = TRIES
) -> list[Finding]:
    """Measure the timed tests of these exercises; what was known of others stays."""
    grader = Grader(course, sandbox, carry_forward=False, device=device, calibrated=False)
    findings = [
        _examine(grader, exercise, test, tries)
        for exercise in exercises
        for test in exercise.timed
        if test.on(device) is not None
    ]
    known = read_calibration()
    for one in findings:
        known.tests[entry(one.exercise.file, device, one.test.test)] = one.calibrated
    write_calibration(known)
    return findings


def _examine(grader: Grader, exercise: Exercise, test: TimedTest, tries: int) -> Finding:
    materials = grader.materials(exercise)
    on = test.on(grader.device)
    file = f"{exercise.file}.py"
    slow = next((chaff.package.files[file] for chaff in materials.chaffs if chaff.name == on.slow), b"")
    gaps, off = [], None
    for _ in range(tries):
        for source, wanted, who in ((materials.references[file], "pass", "the reference"), (slow, "fail", "the slow way")):
            figures, said = _measure(grader, exercise, test, {**materials.references, file: source})
            if figures is not None and figures.gap is not None:
                gaps.append(figures.gap)
            if figures is None or figures.verdict != wanted:
                found = said if figures is None or figures.verdict == "not_assessed" else f"{who} got {figures.verdict}"
                off = f"calibrated on this machine: {found}"
                break
        if off:
            break
    when = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    gap = statistics.median(gaps) if gaps else None
    return Finding(exercise=exercise, test=test, calibrated=Calibrated(gap=gap, off=off, when=when))


def _measure(grader: Grader, exercise: Exercise, test: TimedTest, files: dict[str, bytes]) -> tuple[TimingFigures | None, str]:
    """The figures of one run of one test, and what it said."""

    def find(name: str) -> SourceFile | Problem:
        content = files.get(f"{name}.py")
        if content is None:
            return Problem(kind="missing", message=f"there is no {name}.py")
        return SourceFile(name=name, content=content, place=f"{name}.py")

    result = grader.grade(exercise, find, only=test.test, explain=False)
    timed = next((one for one in result.tests if one.category == "speed"), None)
    if timed is None or timed.outcome == "error":
        return None, result.reason or "the test could not be run"
    return timed.timing, timed.message or ""


def show(console: Console, findings: Sequence[Finding]) -> None:
    """One line per test: how far its anchors are apart here, and whether it is judged."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("exercise", "timed test", "gap", "here"):
        table.add_column(heading, justify="right" if heading == "gap" else "left")
    for one in findings:
        gap, off = one.calibrated.gap, one.calibrated.off
        table.add_row(
            one.exercise.label,
            one.test.test.removeprefix("test_").replace("_", " "),
            "" if gap is None else f"{gap:.1f}x",
            Text("off" if off else "judged", style="yellow" if off else "green"),
        )
    console.print(Text(f"On {host()}:\n"))
    console.print(table)
    console.print()
    for one in findings:
        if one.calibrated.off:
            console.print(Text(f"{one.exercise.label} {one.test.test}: {one.calibrated.off}", style="yellow"))
