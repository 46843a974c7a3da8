"""The Markdown of a run: a table, and what is wrong; nothing of a learner's words becomes markup."""

from __future__ import annotations

import msgspec

from grader.course import Course
from grader.grading.result import Result, TestResult
from grader.markdown import MAX_BYTES, as_markdown, plain


def one_test(outcome: str, message: str | None = None, **more) -> TestResult:
    common = {"category": "numerics", "points": 0.0, "max_points": 0.0, "visible": True}
    return TestResult(id="public::test_x", title="Two heads, twice.", outcome=outcome, message=message, **common, **more)


def result_of(exercise: str, tests: list[TestResult], **more) -> Result:
    fields = {
        "student": "you",
        "exercise": exercise,
        "status": "graded",
        "points": 0.0,
        "max_points": 0.0,
        "official": False,
        "tests": tests,
    }
    return Result(**(fields | more))


def test_a_table_and_what_is_wrong_in_what_was_started(course: Course):
    text = as_markdown(
        course,
        [
            result_of(
                "ex06_repeat_kv", [one_test("failed", "yours is 2", hint="Tiled?", picture="1 2\n3 4"), one_test("passed")]
            ),
            result_of("ex07_attention", [one_test("failed", "x")], reason="not started"),
            result_of("ex08_mask", [one_test("passed")]),
            result_of("ex09_flash", [], status="missing", points=None, reason="there is no ex09_flash.py"),
            result_of("ex10_multihead", [], status="error", points=None, reason="the file is too large"),
        ],
    )
    assert "| ❌ | 06 Repeat key and value heads | 1 of 2 examples |" in text
    assert "| · | 07 Scaled dot-product attention | not started |" in text
    assert "| ✅ | 08 Causal and padding masks | 1 of 1 examples |" in text
    assert "| · | 09 Flash attention, and when to fall back | not started |" in text
    assert "| ❌ | 10 Multi-head attention, put together | could not be graded: the file is too large |" in text
    assert "```text\nyours is 2\n1 2\n3 4\nlooks like: Tiled?\n```" in text
    assert text.count("\n### ") == 2 and "check" in text


def test_nothing_of_a_learners_words_becomes_markup(course: Course):
    hostile = "```\n</details><img src=x onerror=alert(1)> | a | b |\n\x1b[31m[x](javascript:y)\n````"
    text = as_markdown(course, [result_of("ex06_repeat_kv", [one_test("failed", hostile)], reason=hostile)])
    lines = text.split("\n")
    inside, fence, outside = False, "", []
    for line in lines:  # as CommonMark reads fences
        if not inside and line.startswith("```"):
            inside, fence = True, line.removesuffix("text")
        elif inside and line == fence:
            inside = False
        elif not inside:
            outside.append(line)
    assert not inside and "\x1b" not in text
    assert "img" not in "\n".join(outside) and "javascript" not in "\n".join(outside)
    assert plain("_a_|b <i>*x*</i> `y` [z](w)") == (
        "&#95;a&#95;&#124;b &#60;i&#62;&#42;x&#42;&#60;/i&#62; &#96;y&#96; &#91;z&#93;&#40;w&#41;"
    )


def test_the_feedback_policy_holds_here_too_and_length_has_an_end(course: Course):
    silent = msgspec.structs.replace(
        course, exercises=tuple(msgspec.structs.replace(one, feedback="verdict") for one in course.exercises)
    )
    results = [result_of("ex06_repeat_kv", [one_test("failed", "seen this")])]
    assert "seen this" in as_markdown(course, results) and "seen this" not in as_markdown(silent, results)
    long = [result_of("ex06_repeat_kv", [one_test("failed", "é" * MAX_BYTES)])]
    assert len(as_markdown(course, long).encode()) <= MAX_BYTES
