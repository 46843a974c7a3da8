"""What a result is worth in grade cells, and the words beside it."""

from __future__ import annotations

import math

import msgspec
import pytest

from grader.classroom.scores import cell_scores, cell_text, checked, clamp, points_by_category, verdict
from grader.course import Exercise
from grader.grading.result import Result, TestResult
from grader.submission import SourceFile

EXERCISE = Exercise(number=6, file="ex06_repeat_kv", title="Repeat heads", points=6, names=("repeat_kv",))


def record(name: str, category: str, points: float, outcome: str = "passed", **more) -> TestResult:
    earned = points if outcome == "passed" else 0.0
    given = {"title": f"Sentence of {name}.", "visible": False, **more}
    return TestResult(id=f"hidden::test_{name}", category=category, points=earned, max_points=points, outcome=outcome, **given)


def result(*tests: TestResult, **more) -> Result:
    points = sum(test.points for test in tests)
    most = sum(test.max_points for test in tests if test.outcome != "not_assessed")
    return Result(
        student="a",
        exercise="ex06_repeat_kv",
        status="graded",
        points=points,
        max_points=most,
        official=True,
        tests=list(tests),
        **more,
    )


def scores(*tests: TestResult) -> dict[str, float | None]:
    return {cell.category: cell.score for cell in cell_scores(result(*tests))}


def test_a_cell_is_the_sum_of_its_category():
    tests = [record("a", "shape", 2.0), record("b", "numerics", 3.0, "failed"), record("c", "numerics", 1.0)]
    example = record("d", "numerics", 0.0, visible=True)
    assert scores(*tests, example) == {"shape": 2.0, "numerics": 1.0}
    assert points_by_category([*tests, example]) == {"shape": 2.0, "numerics": 4.0}


def test_thirds_add_up_and_never_exceed_the_cell():
    tests = [record(str(i), "shape", 1 / 3) for i in range(3)] + [record(str(i), "numerics", 0.1) for i in range(10)]
    assert scores(*tests) == {"shape": 1.0, "numerics": 1.0}


def test_blocked_and_failed_tests_are_worth_nothing():
    assert scores(record("a", "shape", 2.0, "blocked"), record("b", "memory", 1.0, "failed")) == {"shape": 0.0, "memory": 0.0}


@pytest.mark.parametrize(
    ("tests", "expected"),
    [
        ([("shape", 2.0, "passed"), ("memory", 2.0, "not_assessed")], {"shape": 2.0, "memory": 2.0}),
        ([("shape", 2.0, "failed"), ("memory", 2.0, "not_assessed")], {"shape": 0.0, "memory": 0.0}),
        (
            [("shape", 2.0, "passed"), ("numerics", 2.0, "failed"), ("memory", 1.0, "not_assessed"), ("memory", 1.0, "passed")],
            {"shape": 2.0, "numerics": 0.0, "memory": 1.6},
        ),
        ([("shape", 2.0, "not_assessed")], {"shape": None}),
    ],
)
def test_what_was_not_assessed_changes_nobodys_share(tests, expected):
    records = [record(str(i), category, points, outcome) for i, (category, points, outcome) in enumerate(tests)]
    assert scores(*records) == pytest.approx(expected)
    one = result(*records)
    if one.max_points:
        total, most = math.fsum(scores(*records).values()), math.fsum(points for _, points, _ in tests)
        assert total / most == pytest.approx(one.points / one.max_points)


def test_a_result_that_is_not_graded_has_no_scores():
    with pytest.raises(ValueError, match="missing"):
        cell_scores(msgspec.structs.replace(result(), status="missing", points=None))


@pytest.mark.parametrize(("value", "expected"), [(-1, 0.0), (3, 2.0), (1.5, 1.5), (True, 1.0), (-0.0, 0.0)])
def test_a_score_is_a_plain_float_within_its_cell(value, expected):
    assert clamp(value, 2.0) == expected and type(clamp(value, 2.0)) is float and repr(clamp(value, 2)) != "-0.0"


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_refused(value):
    with pytest.raises(ValueError, match="no score"):
        clamp(value, 2.0)


# ---- words ----


def test_feedback_says_sentence_reason_and_hint_and_never_a_tests_name():
    tests = [
        record(
            "secret_name[float16]",
            "numerics",
            3.0,
            "failed",
            message="3 of 4 values are wrong",
            diagnosis="tiles",
            hint="Which heads?",
        ),
        record("other_name", "shape", 2.0),
        record("example", "numerics", 0.0, "failed", visible=True, message="yours is 2; expected 1"),
    ]
    one = result(*tests)
    cell = {cell.category: cell for cell in cell_scores(one)}["numerics"]
    text, whole = cell_text(EXERCISE, one, cell), verdict(EXERCISE, one, ("ex06_repeat_kv.py counts",))
    for expected in ("Sentence of secret_name", "3 of 4 values are wrong", "Which heads?"):
        assert expected in text and expected not in whole
    assert (
        "yours is 2" in whole and "yours is 2" not in text and "ex06_repeat_kv.py counts." in whole and "2 of 5 points" in whole
    )
    assert "test_secret" not in text + whole and "hidden::" not in text + whole and "tiles" not in text + whole


@pytest.mark.parametrize(("policy", "shown"), [("explain", True), ("sentence", False), ("verdict", False)])
def test_feedback_follows_the_exercises_policy(policy, shown):
    exercise = msgspec.structs.replace(EXERCISE, feedback=policy)
    one = result(record("a", "shape", 2.0, "failed", message="what was seen"))
    text = cell_text(exercise, one, cell_scores(one)[0])
    assert ("what was seen" in text) == shown and ("Sentence of a." in text) == (policy != "verdict")


def test_official_feedback_does_not_repeat_what_the_code_printed():
    one = result(record("a", "shape", 2.0), output="the hidden input is 7")
    assert "hidden input" not in verdict(EXERCISE, one)
    file = SourceFile(name="ex06_repeat_kv", content=b"", place="ex06.ipynb, solution cell")
    assert "hidden input" in checked(EXERCISE, one, file) and "ex06.ipynb, solution cell" in checked(EXERCISE, one, file)


def test_a_cell_says_what_could_not_be_assessed():
    one = result(record("a", "memory", 1.0), record("b", "memory", 1.0, "not_assessed"))
    text = cell_text(EXERCISE, one, cell_scores(one)[0])
    assert "1 of the 2 points could not be assessed" in text and "1 of them count" in text


def test_a_file_that_cannot_be_loaded_says_why_once():
    one = result(record("a", "shape", 2.0, "blocked"), reason="the file cannot be loaded: line 1")
    assert verdict(EXERCISE, one).count("the file cannot be loaded: line 1") == 1


def test_words_of_learners_cannot_draw_over_the_page():
    one = result(record("a", "shape", 2.0, "failed", message="\x1b[2Jgone\u202e"))
    text = cell_text(EXERCISE, one, cell_scores(one)[0])
    assert "\x1b[2J" not in text and "\u202e" not in text
