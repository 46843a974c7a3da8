"""What a learner reads in the terminal."""

from __future__ import annotations

import io
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from grader.course import Course, load_course
from grader.display import amount, group_failures, is_complete, show_overview, show_result
from grader.grading.result import Result, TestResult, TimingFigures

COURSE = load_course(Path(__file__).resolve().parents[2])


def outcome(name: str, outcome: str = "failed", *, category: str = "numerics", points: float = 2.0, **fields) -> TestResult:
    visible = fields.pop("visible", False)
    most = 0.0 if visible else points
    return TestResult(
        id=f"hidden::{name}",
        title=f"{name} is right.",
        category=category,
        points=most if outcome == "passed" else 0.0,
        max_points=most,
        outcome=outcome,
        visible=visible,
        **fields,
    )


def result(*tests: TestResult, **fields) -> Result:
    values = {"student": "you", "exercise": "ex06_repeat_kv", "status": "graded", "official": False, "tests": list(tests)}
    values["points"] = sum(test.points for test in tests)
    values["max_points"] = sum(test.max_points for test in tests if test.outcome != "not_assessed")
    return Result(**{**values, **fields})


def shown(result: Result, course: Course = COURSE, *, everything: bool = False, short: bool = False, width: int = 100) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    show_result(console, course, course.exercise("06"), result, everything=everything, short=short)
    return console.file.getvalue()


def test_cases_of_one_sentence_and_tests_with_one_reason_are_told_once():
    tests = [
        outcome("a", message="m1", hint="same"),
        outcome("a", message="m2", hint="same"),
        outcome("b", message="m3", hint="same"),
        outcome("c", message="other"),
        outcome("d", message="other"),
        outcome("e", message="third"),
        outcome("f", "passed"),
    ]
    groups = group_failures(tests)
    assert [(group.title[0], group.cases, group.others) for group in groups] == [("a", 2, 1), ("c", 1, 1), ("e", 1, 0)]


def test_only_the_first_failures_are_shown_unless_all_are_asked_for():
    tests = [outcome(name, message=f"message {name}") for name in "abcdefg"]
    few, everything = shown(result(*tests)), shown(result(*tests), everything=True)
    assert "message d" in few and "message e" not in few and "and 3 more: " in few and "--all" in few
    assert "message g" in everything and "--all" not in everything


def test_on_a_small_screen_one_failure_is_shown_and_the_end_of_what_was_printed():
    tests = [outcome(name, message=f"message {name}") for name in "abc"]
    text = shown(result(*tests, output="\n".join(f"line {number}" for number in range(30))), short=True)
    assert "message a" in text and "message b" not in text and "and 2 more" in text
    assert "line 29" in text and "line 20" not in text and len(text.split("\n")) <= 23


@pytest.mark.parametrize(
    ("feedback", "sees", "misses"),
    [
        ("explain", ["a is right.", "what was seen", "the hint"], []),
        ("sentence", ["a is right.", "0 of 1 tests"], ["what was seen", "the hint"]),
        ("verdict", ["0 of 1 tests"], ["a is right.", "what was seen", "the hint"]),
    ],
)
def test_the_course_says_how_much_a_learner_is_told(feedback: str, sees: list[str], misses: list[str]):
    exercises = tuple(msgspec.structs.replace(one, feedback=feedback) for one in COURSE.exercises)
    text = shown(
        result(outcome("a", message="what was seen", hint="the hint")), msgspec.structs.replace(COURSE, exercises=exercises)
    )
    assert all(one in text for one in sees) and not any(one in text for one in misses)


def test_text_of_the_learners_is_shown_as_it_is_and_does_nothing_to_the_terminal():
    text = shown(
        result(outcome("a", message="[red]x[/red] \x1b[2J\x1b]0;title\x07\u202eevil"), output="[bold]\x1b[31mprinted\x07")
    )
    assert "[red]x[/red]" in text and "[bold]printed" in text
    assert not any(mark in text for mark in ("\x1b", "\x07", "\u202e"))


def test_what_is_not_assessed_counts_neither_way():
    tests = [outcome("a", "passed"), outcome("b", "not_assessed", message="needs a GPU")]
    assert is_complete(result(*tests))
    text = shown(result(*tests))
    assert "2 of 2 points" in text and "1 not assessed here" in text and "All done" in text


def test_how_fast_right_code_is_and_why_it_was_not_measured_is_told():
    figures = {"share": 1.0, "ratio": 1.62, "gap": 6.0, "rounds": 7, "review": False, "device": "cpu"}
    fast = outcome("a", "passed", category="speed", timing=TimingFigures(verdict="pass", **figures))
    text = shown(result(fast, outcome("b", "not_assessed", category="speed", message="the machine was too noisy")), width=120)
    assert "1.6 times the reference's time; the slow way takes 6.0 times" in text
    assert "b is right. Not assessed: the machine was too noisy" in text


def test_all_points_with_a_failed_example_are_not_complete():
    assert not is_complete(result(outcome("a", "passed"), outcome("b", visible=True)))


@pytest.mark.parametrize("status", ["error", "missing"])
def test_what_has_no_points_is_not_shown_as_zero(status: str):
    text = shown(result(status=status, points=None, max_points=10.0, reason="why it is so"))
    assert "why it is so" in text and "0 of" not in text and status in text


def test_reference_prerequisites_are_said():
    assert "right code for the earlier exercises" in shown(
        result(outcome("a", "passed"), outcome("b"), prerequisites="reference")
    )


def test_a_narrow_terminal_and_one_without_signs_lose_nothing():
    text = shown(result(outcome("a", message="what was seen")), width=40)
    assert "what was" in text and max(map(len, text.splitlines())) <= 40
    plain = Console(file=io.TextIOWrapper(io.BytesIO(), encoding="ascii"), width=80)
    show_overview(plain, COURSE, [result(outcome("a", "passed")), result(outcome("a"))])
    plain.file.flush()
    assert b"ok" in plain.file.buffer.getvalue() and b"no" in plain.file.buffer.getvalue()


@pytest.mark.parametrize(("points", "text"), [(4.0, "4"), (4.25, "4.25"), (0.0, "0"), (9.999999, "10"), (0.3, "0.3")])
def test_points_are_written_for_people(points: float, text: str):
    assert amount(points) == text


def test_a_picture_stands_below_what_was_seen():
    drawn = shown(result(outcome("a", message="what was seen", picture="yours   expected\n#..     ##.")))
    lines = [line.strip() for line in drawn.split("\n")]
    assert lines.index("yours   expected") == lines.index("seen  what was seen") + 1
    assert "#..     ##." in lines


def test_earlier_exercises_with_mistakes_are_named_where_something_fails():
    console = Console(file=io.StringIO(), width=100, highlight=False)
    for one in (result(outcome("a", message="seen")), result(outcome("a", "passed"))):
        show_result(console, COURSE, COURSE.exercise("06"), one, unfinished=[COURSE.exercise(3), COURSE.exercise(5)])
    text = console.file.getvalue()
    assert text.count("This exercise uses your 03 (RMSNorm and LayerNorm) and 05") == 1


def test_examples_alone_are_not_called_everything():
    only = result(outcome("a", "passed", visible=True))
    assert "All examples pass. They are a small part of what is graded" in shown(only)
    console = Console(file=io.StringIO(), width=100, highlight=False)
    show_overview(console, COURSE, [only])
    assert "a small part of what is graded" in console.file.getvalue()
