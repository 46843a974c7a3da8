"""Owns the data that the page carries for its script: every test and feedback of every student, each text once, packed.

The script that reads it is templates/report.js.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable
from typing import Any

from grader.grading.result import Result, TestResult
from grader.reporting.gradebook import ENOUGH, short, why_not_official
from grader.reporting.summary import Report
from grader.reporting.words import cell, label, number, sum_of
from grader.text import clean, one_line

PACKED = 200_000  # characters from which the data is compressed
OUTCOMES = {"passed": "p", "failed": "f", "blocked": "b", "not_assessed": "n", "error": "e"}
NOTHING = (-1,) * 5  # no message, diagnosis, hint, picture or detail
NOWHERE = "."  # the outcome of a test that a result does not have


class _Texts:
    """Texts by number: most feedback of a class is said to many."""

    def __init__(self) -> None:
        self.numbers: dict[Any, int] = {}
        self.seen: dict[tuple[str, Callable[[str], str]], int] = {}  # by the text as it came, so that each is cleaned once

    def number(self, text: str | None, cleaned: Callable[[str], str] = one_line) -> int:
        """-1 for nothing."""
        if not text:
            return -1
        found = self.seen.get((text, cleaned))
        if found is None:
            found = self.seen[text, cleaned] = self.add(cleaned(text))
        return found

    def add(self, text: Any) -> int:
        return self.numbers.setdefault(text, len(self.numbers))

    @property
    def all(self) -> list[Any]:
        return list(self.numbers)


def payload(report: Report, only: str | None = None, *, details: bool = True) -> dict[str, Any]:
    """Plain data for JSON. `only`: of one student. `details`: also what is for the instructor alone."""
    book, texts, feedback = report.book, _Texts(), _Texts()
    tests = {summary.exercise: {item.test.id: item.test for item in summary.items} for summary in report.summaries}
    risks = {one.student: [reason.words for reason in one.reasons] for one in report.at_risk}
    students = []
    for student in book.students if only is None else [only]:
        total = book.total(student)
        students.append(
            {
                "name": one_line(book.name(student)),
                "folder": one_line(student) if book.name(student) != student else "",
                "total": sum_of(total),
                "share": -1 if total is None or total.share is None else round(total.share, 4),
                "graded": total.graded if total else 0,
                "risk": [one_line(words) for words in risks.get(student, ())] if only is None else [],
                "cells": [_cell(report, student, one, list(tests[one]), texts, feedback, details) for one in book.exercises],
            }
        )
    return {
        "exercises": [
            {
                "file": one_line(exercise),
                "short": one_line(short(exercise)),
                "title": one_line(book.titles.get(exercise, "")),
                "tests": [
                    [one_line(label(test)), test.category, test.max_points, int(test.visible)]
                    for test in tests[exercise].values()
                ],
            }
            for exercise in book.exercises
        ],
        "students": students,
        "feedback": feedback.all,
        "texts": texts.all,
    }


def _cell(
    report: Report, student: str, exercise: str, tests: list[str], texts: _Texts, feedback: _Texts, details: bool
) -> dict[str, Any]:
    """One student on one exercise; what is usual is left out."""
    book = report.book
    shown, marks = cell(book, student, exercise)
    score, why = book.scores.get((student, exercise)), book.why_not_graded(student, exercise)
    share = score.share if score else None
    found: dict[str, Any] = {"shown": shown, "tone": _tone(shown, share)}
    if marks:
        found["marks"] = marks
    if share is not None:
        found["share"] = round(share, 4)
    if why is not None:
        found["status"], found["why"] = why[0], texts.number(why[1])
    result, adjusted = book.results.get((student, exercise)), book.adjustments.get((student, exercise))
    if result is not None:
        found |= _run(result, tests, texts, feedback, details)
    if adjusted is not None:
        found["adjusted"] = [one_line(line) for line in adjusted.lines]
    runs = report.attempts.get((student, exercise), [])
    if len(runs) > 1:
        found["runs"] = [
            [f"{run.when:%Y-%m-%d %H:%M}" if run.when else "", _points(run.points, run.max_points) or run.status] for run in runs
        ]
    return found


def _points(points: float | None, most: float) -> str:
    return "" if points is None else f"{number(points)}/{number(most)}"


def _tone(shown: str, share: float | None) -> str:
    if share is None:
        return {"ERROR": "error", "MISSING": "missing"}.get(shown, "absent")
    return "full" if share >= 1 - ENOUGH else "none" if share <= ENOUGH else "part" if share >= 0.5 else "low"


def _run(result: Result, tests: list[str], texts: _Texts, feedback: _Texts, details: bool) -> dict[str, Any]:
    mine = {test.id: test for test in result.tests}
    outcomes, said = "", []
    for name in tests:
        test = mine.get(name)
        outcomes += NOWHERE if test is None else OUTCOMES[test.outcome]
        if test is not None and test.outcome != "passed":
            said.append(_feedback(test, texts, feedback, details))
    found: dict[str, Any] = {"outcomes": outcomes}
    if any(one >= 0 for one in said):
        found["said"] = said
    if result.status == "graded" and result.reason:
        found["reason"] = texts.number(result.reason)
    if result.status == "graded" and not result.official:
        found["unofficial"] = texts.number(why_not_official(result))
    if result.prerequisites == "reference":
        found["reference"] = 1
    if result.output:
        found["output"] = texts.number(result.output, clean)
    if result.seed is not None and details:
        found["seed"] = str(result.seed)  # JavaScript's numbers have 53 bits
    if result.started:
        found["started"] = one_line(result.started)
    return found


def _feedback(test: TestResult, texts: _Texts, feedback: _Texts, details: bool) -> int:
    parts = (
        texts.number(test.message, clean),
        texts.number(test.diagnosis),
        texts.number(test.hint),
        texts.number(test.picture, clean),
        texts.number(test.detail, clean) if details else -1,
    )
    return -1 if parts == NOTHING else feedback.add(parts)


def packed(data: dict[str, Any]) -> tuple[str, bool]:
    """(what stands in the page, whether it is compressed). Holds no `<`, so no name can end the element that it is in."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    if len(text) < PACKED:
        return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029"), False
    return base64.b64encode(zlib.compress(text.encode(), 6)).decode(), True
