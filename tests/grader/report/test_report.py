"""The instructor's report: what is not graded is never a 0, foreign text is harmless, bad files are named."""

from __future__ import annotations

import base64
import hashlib
import html as html_module
import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from rich.cells import cell_len

from grader import report
from grader.grading.result import Environment, TestResult, TimingFigures, result_path, write_result
from grader.reporting.gradebook import read_gradebook
from grader.reporting.summary import Report
from grader.reporting.words import number, percent
from grader.text import clean, in_order, one_line, shorten

from .made import EX06, EX07, a_test, data_of, graded, line_of, page, rows, section, show, tree, ungraded

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "grader" / "report.py"


@pytest.fixture
def results(tmp_path) -> Path:
    """A class of six in which nothing is alike: right, half, error, missing, absent, unofficial on references."""
    failed = {"outcome": "failed", "diagnosis": "tiled", "hint": "Are the heads tiled?", "message": "48 of 96 differ"}
    return tree(
        tmp_path / "results",
        graded("ada", a_test("shape"), a_test("value")),
        graded("ada", a_test("mask", most=10), exercise=EX07),
        graded("bob", a_test("shape"), a_test("value", **failed)),
        ungraded("bob", "missing", "no file ex07_attention.py", exercise=EX07),
        ungraded("cyd", "error", "the zygote did not start"),
        graded("cyd", a_test("mask", "failed", most=10), exercise=EX07),
        graded("dan", a_test("shape", "failed"), a_test("value", "blocked")),
        graded(
            "eve",
            a_test("shape"),
            a_test("value", **failed),
            official=False,
            prerequisites="reference",
            environment=Environment(isolation="C", layers=[], probe=["open a socket"], device="cpu", versions={}),
        ),
        ungraded("eve", "missing", None, exercise=EX07),
        graded("fay", a_test("shape", "not_assessed"), a_test("value")),
    )


# The matrix and its totals


def test_the_matrix_shows_points_of_max_and_totals_over_what_is_graded(results):
    text = show(results)
    assert line_of(text, "student") == "student ex06 ex07 total"
    assert line_of(text, "ada") == "ada 10/10 10/10 20/20"
    assert line_of(text, "bob") == "bob 5/10 MISSING 5/10 (1 of 2)"
    assert line_of(text, "cyd") == "cyd ERROR 0/10 0/10 (1 of 2)"
    assert line_of(text, "dan") == "dan 0/10 - 0/10 (1 of 2)"
    assert line_of(text, "eve") == "eve 5/10*r MISSING 5/10* (1 of 2)"
    assert line_of(text, "fay") == "fay 5/5 - 10/10 (1 of 2)"  # 5 of the 5 assessed: all that the exercise weighs


def test_every_mark_that_is_used_is_explained_and_no_other(results, tmp_path):
    text = show(results)
    for legend in ("ERROR the grader failed", "MISSING nothing", "- not graded", "* not official", "r on reference"):
        assert line_of(text, legend)
    assert "nothing could be assessed" not in text
    plain = show(tree(tmp_path / "plain", graded("ada", a_test("shape"))))
    assert "not official" not in plain and "MISSING" not in plain and "not graded" not in plain


def test_a_student_with_nothing_graded_has_no_total(tmp_path):
    text = show(tree(tmp_path, ungraded("ada", "error", "x"), graded("bob", a_test("shape"))))
    assert line_of(text, "ada") == "ada ERROR -"


def test_points_of_an_ungraded_result_are_never_shown_or_counted(tmp_path):
    broken = ungraded("ada", "error", "x", points=0.0, max_points=10, tests=[a_test("shape", "failed")])
    results = tree(tmp_path / "r", broken, graded("bob", a_test("shape"), a_test("value")))
    text = show(results, everyone=True)
    assert "0/10" not in text.replace("10/10", "") and line_of(text, "ada") == "ada ERROR -"
    assert line_of(section(text, "Exercises"), EX06) == f"{EX06} 1/2 10/10 1/1 -"
    assert line_of(section(text, "Tests"), "The shape is right").endswith("1/1 1.00 - everybody passes")
    [row] = [row for row in rows(results, tmp_path) if row["student"] == "ada"]
    assert (row["points"], row["max_points"], row["outcome"]) == ("", "", "failed")


def test_nothing_assessed_is_neither_0_nor_full(tmp_path):
    text = show(tree(tmp_path, graded("ada", a_test("speed", "not_assessed"))), everyone=True)
    assert line_of(text, "ada") == "ada n/a n/a"
    assert line_of(section(text, "Exercises"), EX06) == f"{EX06} 1/1 - - -"
    assert line_of(section(text, "Tests"), "The speed is right").endswith("numerics - - - never assessed here")


def test_shared_points_that_miss_the_maximum_by_rounding_are_all_points(tmp_path):
    cases = [a_test(f"case{i}", most=0.1) for i in range(10)]
    result = graded("ada", *cases, max_points=1)
    assert result.points < 1
    text = show(tree(tmp_path, result))
    assert line_of(text, "ada") == "ada 1/1 10/10"
    assert line_of(section(text, "Exercises"), EX06).endswith("1/1 -")


def test_a_total_is_official_only_if_all_of_it_is(tmp_path):
    results = tree(
        tmp_path,
        graded("ada", a_test("shape"), official=False),
        graded("ada", a_test("mask"), exercise=EX07),
    )
    assert line_of(show(results), "ada") == "ada 5/5* 5/5 20/20*"


def test_students_and_exercises_are_in_natural_order_and_names_may_differ_by_case_only(tmp_path):
    names = ["s10", "s2", "Anna", "anna", "s1"]
    results = tree(tmp_path, *(graded(name, a_test("shape")) for name in names))
    write_result(results, graded("s1", a_test("shape"), exercise="ex10_multihead"))
    write_result(results, graded("s1", a_test("shape"), exercise="ex09_flash"))
    book = read_gradebook(results)
    assert book.students == ["Anna", "anna", "s1", "s2", "s10"]
    assert book.exercises == [EX06, "ex09_flash", "ex10_multihead"]
    assert len(book.results) == 7


# Width and size


@pytest.mark.parametrize("width", [30, 80, 140])
def test_the_report_keeps_to_the_width_and_loses_no_points(tmp_path, width):
    long = "名前" * 30
    names = ["a-very-long-name-from-an-identity-provider-4711", "a-very-long-name-from-an-identity-provider-4712", long]
    exercises = [f"ex{number:02}_some_name" for number in range(1, 17)]
    right = a_test("shape", most=13)
    tree(tmp_path, *(graded(name, right, exercise=exercise) for name in names for exercise in exercises))
    text = show(tmp_path, width=width)
    assert max(map(cell_len, text.splitlines())) <= width
    matrix = text.split("\nExercises\n")[0]
    assert len(re.findall(r"\b13/13\b", matrix)) == len(names) * len(exercises)
    assert len(re.findall(r"\b208/208\b", matrix)) == len(names)
    for exercise in exercises:
        assert len(re.findall(rf"\b{exercise[:4]}\b", matrix)) == 1
    if width >= 80:
        assert "4711" in matrix and "4712" in matrix


def test_a_large_class_is_summed_up_unless_all_is_asked_for(tmp_path):
    write_result(tmp_path, ungraded("s0", "error", "x"))
    for i in range(1, 61):
        write_result(tmp_path, graded(f"s{i}", a_test("shape", "passed" if i % 2 else "failed")))
    for i in range(20):
        write_result(tmp_path, ungraded(f"t{i}", "missing", "no file"))
    text = show(tmp_path)
    words = " ".join(text.split())
    assert words.startswith("81 students, 1 exercise. Points over what is graded: lowest 0 %,")
    assert "quarter 0 %, median 50 %, three quarters 100 %, highest 100 %." in words
    assert "s33 " not in text and "--all" in text
    listed = " ".join(section(text, "Not graded or in error (21)").split())
    assert "error x s0" in listed and "t7 and 12 more" in listed
    everything = show(tmp_path, everyone=True)
    assert line_of(everything, "s33") == "s33 5/5 10/10"
    assert "t19" in section(everything, "Not graded or in error (21)") and "more" not in everything


# Lists and summaries


def test_whoever_is_not_graded_is_listed_with_the_reason(results):
    listed = section(show(results, width=120), "Not graded or in error (5)")
    assert line_of(listed, "ex06") == "ex06 error the zygote did not start cyd"
    assert line_of(listed, "ex07 missing no file") == "ex07 missing no file ex07_attention.py bob"
    assert line_of(listed, "ex07 missing no reason") == "ex07 missing no reason recorded eve"
    assert line_of(listed, "ex07 not graded") == "ex07 not graded there is no result yet dan, fay"


def test_students_with_the_same_reason_share_a_row(tmp_path):
    names = ["s10", "s2", "s1"]
    results = tree(tmp_path, *(ungraded(name, "error", "no jail") for name in names))
    listed = section(show(results), "Not graded or in error (3)")
    assert line_of(listed, "ex06 error no jail") == "ex06 error no jail s1, s2, s10"


def test_a_student_whose_folder_is_empty_is_in_the_class(results):
    (results / "gus").mkdir()
    text = show(results)
    assert line_of(text, "gus") == "gus - - -"
    assert "dan, fay, gus" in " ".join(text.split())


def test_what_is_not_official_is_listed_with_what_the_probe_could_do(results):
    listed = section(show(results, width=140), "Not official (1)")
    assert line_of(listed, "ex06") == "ex06 graded* isolation C, the hostile probe could: open a socket eve"


def test_what_was_too_fast_to_be_believed_is_listed(tmp_path):
    def timed(ratio: float) -> TestResult:
        review = ratio < 0.2
        verdict = {"verdict": "pass", "share": 1.0, "ratio": ratio, "gap": 6.0, "rounds": 7, "review": review, "device": "cpu"}
        outcome = "not_assessed" if review else "passed"
        return a_test("step", outcome, category="speed", timing=TimingFigures(**verdict))

    results = tree(
        tmp_path / "fast", *(graded(name, timed(ratio)) for name, ratio in (("ada", 0.04), ("bob", 1.2), ("cyd", 0.04)))
    )
    listed = section(show(results, width=160), "Too fast to be taken on trust: read the code (2)")
    assert line_of(listed, "ex06") == "ex06 graded The step is right 0.04 times the reference's time ada, cyd"
    shown = html_module.unescape(page(results, tmp_path))
    assert "Too fast to be taken on trust" in shown and "0.04 times the reference" in shown
    calm = tree(tmp_path / "calm", graded("bob", timed(1.2)))
    assert "Too fast" not in show(calm) and "Too fast" not in page(calm, tmp_path)


def test_a_reason_of_a_graded_result_is_listed(tmp_path):
    results = tree(tmp_path, graded("ada", a_test("shape", "failed"), reason="SyntaxError in line 3"))
    assert "SyntaxError in line 3" in section(show(results), "Graded, with a reason why everything failed (1)")


def test_an_exercise_is_summed_up_over_graded_results_only(results):
    text = section(show(results), "Exercises")
    # ada 10/10, bob 5/10, dan 0/10, eve 5/10, fay 5/5: different maxima, so a mean of shares; cyd's error is no 0
    assert line_of(text, EX06) == f"{EX06} 5/6 60 % 2/5 tiled 2"
    # ada 10, cyd 0; four others are not graded
    assert line_of(text, EX07) == f"{EX07} 2/6 5/10 1/2 -"


def test_a_diagnosis_counts_once_for_a_student_and_the_most_frequent_comes_first(tmp_path):
    def wrong(name: str, diagnosis: str) -> TestResult:
        return a_test(name, "failed", diagnosis=diagnosis)

    results = tree(
        tmp_path,
        graded("ada", wrong("shape", "rare"), wrong("value", "rare"), wrong("mask", "rare")),
        graded("bob", wrong("shape", "common"), wrong("value", "also")),
        graded("cyd", wrong("shape", "common"), wrong("value", "also")),
    )
    [summary] = Report(read_gradebook(results)).summaries
    assert [(one.name, one.students) for one in summary.mistakes] == [("also", 2), ("common", 2), ("rare", 1)]
    assert "also 2, common 2, rare 1" in " ".join(show(results, width=100).split())


def test_a_test_is_judged_over_those_it_was_assessed_for(results):
    text = section(show(results, width=120), "Tests")
    # shape: ada, bob, eve pass, dan fails, fay was not assessed. value: ada, fay pass, dan blocked, bob and eve fail
    assert line_of(text, "The shape is right") == "The shape is right numerics 3/4 0.75 -"
    assert line_of(text, "The value is right") == "The value is right numerics 2/5 0.40 -"


def test_tests_that_nobody_or_everybody_passes_are_flagged_and_so_are_the_graders_errors(tmp_path):
    tests = [a_test("easy"), a_test("hard", "failed"), a_test("broken", "error"), a_test("absent", "not_assessed")]
    mixed = a_test("mixed"), a_test("mixed", "failed")
    public = a_test("example", most=0, visible=True)
    text = show(
        tree(tmp_path, *(graded(name, *tests, m, public) for name, m in zip("ab", mixed, strict=True))), 120, everyone=True
    )
    ends = {"easy": "2/2 1.00 - everybody passes", "hard": "0/2 0.00 - nobody passes", "broken": "- - - 2 x grader error"}
    ends |= {"absent": "- - - never assessed here", "mixed": "1/2 0.50 -", "example": "2/2 1.00 - public, everybody passes"}
    for name, end in ends.items():
        assert line_of(text, f"The {name} is right") == f"The {name} is right numerics {end}"


def test_by_default_the_hardest_tests_are_shown_one_case_of_each_and_the_rest_counted(tmp_path):
    names = ["one", "two", "three", "four", "five", "six"]
    failing = [a_test(name, "failed", id=f"hidden::test_{name}[{case}]") for name in names for case in "ab"]
    passing = [a_test(name, id=f"hidden::test_{name}[{case}]") for name in names for case in "ab"]
    half = [one if name in ("two", "five") else other for name, one, other in zip(
        [name for name in names for _ in "ab"], failing, passing, strict=True
    )]  # fmt: skip
    results = tree(tmp_path, graded("ada", *half), graded("bob", *passing))
    text = show(results, 120)
    assert text.count("The two is right") == text.count("The five is right") == 1
    assert "The one is right" not in text and "10 more tests: --all" in text
    assert "The one is right" in show(results, 120, everyone=True)


def test_the_cases_of_a_parametrized_test_are_told_apart(tmp_path):
    cases = [a_test("value", id=f"hidden::test_value[{case}]") for case in ("float16", "float32")]
    text = show(tree(tmp_path, graded("ada", *cases)), 120, everyone=True)
    assert "The value is right [float16]" in text and "The value is right [float32]" in text


# The table


def test_the_table_has_a_row_for_each_test_and_adds_up_to_the_results(results, tmp_path):
    table = rows(results, tmp_path)
    assert ",".join(table[0]) == (
        "student,exercise,status,reason,official,prerequisites,test,title,category,"
        "points,max_points,outcome,diagnosis,message,seed"
    )
    for result in read_gradebook(results).graded:
        mine = [row for row in table if (row["student"], row["exercise"]) == (result.student, result.exercise)]
        assert len(mine) == len(result.tests)
        assert sum(float(row["points"] or 0) for row in mine) == result.points
        assert sum(float(row["max_points"] or 0) for row in mine) == result.max_points
    row = next(row for row in table if row["student"] == "eve" and row["title"] == "The value is right")
    assert row == {
        "student": "eve", "exercise": EX06, "status": "graded", "reason": "", "official": "false",
        "prerequisites": "reference", "test": "hidden::test_value", "title": "The value is right",
        "category": "numerics", "points": "0", "max_points": "5", "outcome": "failed", "diagnosis": "tiled",
        "message": "48 of 96 differ", "seed": "7",
    }  # fmt: skip


def test_what_is_not_graded_or_not_assessed_has_a_row_without_points(results, tmp_path):
    table = rows(results, tmp_path)
    found = {(row["student"], row["exercise"]): row for row in table}
    for student, exercise, status in [
        ("cyd", EX06, "error"), ("bob", EX07, "missing"), ("dan", EX07, "not graded"), ("fay", EX07, "not graded"),
    ]:  # fmt: skip
        row = found[student, exercise]
        assert (row["status"], row["points"], row["max_points"]) == (status, "", "") and row["reason"]
    [skipped] = [row for row in table if row["outcome"] == "not_assessed"]
    assert (skipped["points"], skipped["max_points"]) == ("", "")


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\n", "\x1b[1m=", "\u202e=", "＝"])
def test_no_cell_is_a_formula(tmp_path, start):
    text = start + "cmd|' /C calc'!A0"
    wrong = a_test("shape", "failed", title=text, message=text, diagnosis=text)
    [row] = rows(tree(tmp_path / "r", graded(text.replace("/", ""), wrong, reason=text)), tmp_path)
    for column in ("student", "reason", "title", "message", "diagnosis"):
        assert "cmd|" in row[column]
        assert row[column][0] == "'" or row[column].startswith("cmd|")
        assert "\x1b" not in row[column] and "\u202e" not in row[column]
    if start == "=":
        assert row["message"] == "'" + text


def test_commas_quotes_and_lines_survive_the_table(tmp_path):
    message = 'a, "b"; c\nsecond line\r\nthird'
    [row] = rows(tree(tmp_path / "r", graded('Émile, "q" 🙂', a_test("shape", "failed", message=message))), tmp_path)
    assert row["student"] == 'Émile, "q" 🙂'
    assert row["message"] == 'a, "b"; c\nsecond line\nthird'


# The page (what its script draws is tested in test_page.py)


class Reader(HTMLParser):
    """Collects tags, their attributes and the visible text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._hidden = 0

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._hidden += tag in ("style", "head", "script")

    def handle_endtag(self, tag):
        self._hidden -= tag in ("style", "head", "script")

    def handle_data(self, data):
        if self._hidden == 0:
            self.text += data


def reader(html: str) -> Reader:
    parsed = Reader()
    parsed.feed(html)
    return parsed


def test_the_page_carries_every_test_of_every_student(results, tmp_path):
    data = data_of(page(results, tmp_path))
    book = read_gradebook(results)
    assert [student["name"] for student in data["students"]] == book.students
    for student, shown in zip(book.students, data["students"], strict=True):
        for exercise, cell in zip(book.exercises, shown["cells"], strict=True):
            result = book.results.get((student, exercise))
            names = {test[0] for test in data["exercises"][book.exercises.index(exercise)]["tests"]}
            outcomes = [letter for letter in cell.get("outcomes", "") if letter != "."]
            assert len(outcomes) == (len(result.tests) if result else 0)
            assert not result or {test.title for test in result.tests} <= names
    bob = data["students"][1]["cells"]
    assert (bob[0]["shown"], bob[0]["outcomes"], bob[1]["shown"]) == ("5/10", "pf", "MISSING")
    message, diagnosis, hint, *_ = data["feedback"][bob[0]["said"][0]]
    assert [data["texts"][one] for one in (message, diagnosis, hint)] == ["48 of 96 differ", "tiled", "Are the heads tiled?"]
    assert data["texts"][data["students"][4]["cells"][0]["unofficial"]] == "isolation C, the hostile probe could: open a socket"


def test_the_page_stands_alone_and_can_be_walked_by_keyboard(results, tmp_path):
    html = page(results, tmp_path)
    tags = reader(html).tags
    names = {tag for tag, _ in tags}
    assert not names & {"link", "img", "iframe", "object", "form", "base"}
    assert not re.search(r"https?://(?!www\.w3\.org/)|@import", html)
    assert {found for found in re.findall(r"url\(([^)]*)\)", html) if not found.startswith("#chart")} == set()
    ids = [attributes["id"] for _, attributes in tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = [attributes["href"] for tag, attributes in tags if tag == "a"]
    assert len(links) > 10 and all(link.startswith("#student=") or link[1:] in ids for link in links)
    regions = [attributes for _, attributes in tags if attributes.get("tabindex") == "0"]
    assert regions and all("aria-label" in one or one.get("aria-labelledby") in ids for one in regions)
    assert all("scope" in attributes for tag, attributes in tags if tag == "th")
    assert "prefers-color-scheme: dark" in html and "@media print" in html
    assert ("html", {"lang": "en"}) in tags


def test_the_page_allows_its_own_script_and_style_and_nothing_else(results, tmp_path):
    html = page(results, tmp_path)
    policy = html_module.unescape(re.search(r'Security-Policy" content="([^"]*)"', html)[1])
    assert policy.startswith("default-src 'none'; ") and "unsafe" not in policy
    for tag in ("script", "style"):
        [content] = re.findall(rf"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert not any(name == "style" or name.startswith("on") for _, attributes in reader(html).tags for name in attributes)


def test_every_chart_says_in_words_what_it_shows(results, tmp_path):
    html = page(results, tmp_path)
    charts = html.count('<svg class="chart"')
    assert charts == 3  # the class and two exercises; without times there is no progress
    assert html.count("<figcaption>") == html.count("<desc ") == html.count("<summary>The numbers") == charts
    assert "5 students: most (2) at 50–60 %, 1 below half of the points." in html  # of ex06: 10/10, 5/10, 0/10, 5/10 and 5/5


def test_the_page_shows_the_graders_traceback_and_the_prints(tmp_path):
    error = a_test("shape", "error", detail="Traceback <most recent>")
    html = page(tree(tmp_path / "r", ungraded("ada", "error", "x", tests=[error], output="printed & kept")), tmp_path)
    assert "<most" not in html
    assert {"Traceback <most recent>", "printed & kept"} <= set(data_of(html)["texts"])


# Foreign text


NASTY = [
    "[red]bold[/red]",
    "[link=http://x]y[/link] :smile:",
    "<script>alert(1)</script>",
    "\" onmouseover='alert(1)' x=\"",
    "{{ 7 * 7 }}{% raw %}",
    "red\x1b[31m\x1b]0;title\x07\x9b2J",
    "\x00\x07\x08\x7f\r\n\u2028",
    "\u202egnp.exe\u2066\u200f",
    "🙂👩‍🔬 مرحبا 名前",
    "a,b;'c'\"d\"\n\ne\tf",
    "%s {0} \\ `x`",
]


@pytest.mark.parametrize("nasty", NASTY, ids=ascii)
def test_foreign_text_is_harmless_everywhere(tmp_path, nasty):
    name = "x" + nasty.replace("/", "").replace("\x00", "")
    wrong = a_test("shape", "failed", title=nasty, message=nasty, diagnosis=nasty, hint=nasty, detail=nasty)
    where = Environment(isolation=nasty, layers=[], probe=[nasty], device=nasty, versions={})
    results = tree(
        tmp_path / "r",
        graded(name, wrong, output=nasty, official=False, environment=where, started=nasty),
        graded(name, wrong, reason=nasty, exercise="ex08_mask"),
        ungraded(name, "error", nasty, exercise=EX07),
    )
    (results / name / f"{nasty.replace('/', '').replace(chr(0), '')}.json").write_text("{")
    text = show(results, width=200)
    html = page(results, tmp_path)
    table = rows(results, tmp_path)
    forbidden = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\u2028]")
    assert not forbidden.search(text)
    assert not forbidden.search(html)
    assert not any(forbidden.search(cell) for row in table for cell in row.values())
    assert shorten(one_line(name), 24) in text
    assert one_line(nasty) in " ".join(section(text, "Tests").split())
    shown, data = reader(html), data_of(html)
    assert one_line(nasty) in " ".join(shown.text.split())
    assert data["students"][0]["name"] == one_line(name)
    assert one_line(nasty) in {" ".join(text.split()) for text in data["texts"]} or not one_line(nasty)
    assert {tag for tag, _ in shown.tags} == {tag for tag, _ in reader(page(plain_twin(tmp_path), tmp_path)).tags}
    assert not any(attribute.startswith("on") for _, attributes in shown.tags for attribute in attributes)


def plain_twin(folder: Path) -> Path:
    """The tree of the test above with nothing nasty in it."""
    where = Environment(isolation="C", layers=[], probe=["x"], device="x", versions={})
    wrong = a_test("shape", "failed", message="x", diagnosis="x", hint="x", detail="x")
    results = tree(
        folder / "plain",
        graded("x", wrong, output="x", official=False, environment=where, started="x"),
        graded("x", wrong, reason="x", exercise="ex08_mask"),
        ungraded("x", "error", "x", exercise=EX07),
    )
    (results / "x" / "y.json").write_text("{")
    return results


def test_markup_and_emoji_codes_are_printed_as_they_are(tmp_path):
    text = "a[red]b[bold]c :bomb:"
    wrong = a_test("shape", "failed", title=text, diagnosis=text)
    results = tree(tmp_path, graded(text, wrong), ungraded(text, "error", text, exercise=EX07))
    shown = show(results, width=200)
    assert line_of(shown, text) == f"{text} 0/5 ERROR 0/10 (1 of 2)"
    assert line_of(shown, "ex07 error") == f"ex07 error {text} {text}"
    assert line_of(section(shown, "Exercises"), EX06) == f"{EX06} 1/1 0/5 0/1 {text} 1"
    assert line_of(section(shown, "Tests"), text) == f"{text} numerics 0/1 0.00 -"


def test_clean_takes_out_sequences_whole_and_keeps_what_is_text():
    assert clean("a\x1b[1;31mb\x1b[0mc\x1b]8;;http://x\x1b\\d\x9bK") == "abcd"
    assert clean("a\x1b]unfinished") == "aunfinished"
    assert clean("a\r\nb\rc\td") == "a\nb\nc\td"
    assert clean("\udcff") == "\ufffd"
    assert clean("👩\u200d🔬 é 名") == "👩\u200d🔬 é 名"
    assert one_line("  a \n\n b\t") == "a b"


def test_shorten_counts_cells_and_keeps_both_ends():
    assert shorten("short", 5) == "short"
    assert shorten("identity-provider-4711", 12) == "identi…-4711"
    for text in ("名前" * 10, "🙂" * 10, "a" * 30, "a\u0301" * 30):
        for width in range(1, 20):
            assert cell_len(shorten(text, width)) <= width


def test_numbers_are_short_and_shares_do_not_round_to_all_or_nothing():
    assert [number(value) for value in (0, 10, 7.5, 10 / 3, 0.25)] == ["0", "10", "7.5", "3.33", "0.25"]
    assert [percent(share) for share in (0, 0.001, 0.5, 0.999, 1, None)] == ["0 %", "1 %", "50 %", "99 %", "100 %", "-"]
    assert sorted(["s10", "s2", "S1", "b", "9" * 5000], key=in_order)[-3:] == ["S1", "s2", "s10"]


# Files that cannot be used


def spoiled(results: Path) -> dict[str, str]:
    """Adds every kind of file that cannot be used; gives what must be said of each."""
    later = json.loads(result_path(results, "ada", EX06).read_bytes()) | {"schema": 9, "student": "later"}
    other = json.loads(result_path(results, "ada", EX06).read_bytes())
    files = {
        "cut/ex06.json": (result_path(results, "ada", EX06).read_bytes()[:200], "truncated"),
        "empty/ex06.json": (b"", "truncated"),
        "foreign/notes.json": (b'{"cells": []}', "schema None"),
        "later/ex06.json": (json.dumps(later).encode(), "schema 9"),
        "copied/ex06.json": (json.dumps(other).encode(), "is about the student 'ada'"),
        "ada/ex09.json": (json.dumps(other).encode(), "is about the exercise 'ex06_repeat_kv'"),
        "bytes/ex06.json": (b"\xff\xfe\x00", "malformed"),
        "deep/ex06.json": (b'{"a":' * 100_000, "recursion"),
        "half/ex06.json": (json.dumps(other | {"student": "half", "points": None}).encode(), "has no points"),
        "loose.json": (b"{}", "outside a student's folder"),
    }
    for name, (content, _) in files.items():
        (results / name).parent.mkdir(exist_ok=True)
        (results / name).write_bytes(content)
    (results / "odd").mkdir()
    os.mkfifo(results / "odd" / "ex06.json")
    (results / "ada" / "ex08.json").mkdir()
    return {name: words for name, (_, words) in files.items()} | {
        "odd/ex06.json": "not a plain file",
        "ada/ex08.json": "not a plain file",
    }


def test_files_that_cannot_be_used_are_named_counted_and_left_out(results, tmp_path):
    before = show(results)
    expected = spoiled(results)
    (results / ".hidden").mkdir()
    (results / "ada" / ".ex06.json.tmp").write_text("{")
    (results / "ada" / "notes.txt").write_text("x")
    text = show(results, width=200, out=tmp_path / "p.html", csv=tmp_path / "t.csv")
    listed = section(text, f"Skipped: {len(expected)} files that cannot be used").splitlines()[1:]
    listed = [line for line in listed if not line.startswith("wrote ")]
    assert len(listed) == len(expected)
    for name, words in expected.items():
        assert re.search(rf"^{re.escape(name)}: .*{re.escape(words)}", line_of(text, f"{name}: "))
    assert line_of(text, "ada") == line_of(before, "ada") == "ada 10/10 10/10 20/20"
    assert line_of(text, "cut") == "cut - - -"
    assert ".hidden" not in text
    assert "its result file cannot be used" in text
    assert "later/ex06.json" in (tmp_path / "p.html").read_text()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: None, "there is no such folder"),
        (lambda path: path.write_text("x"), "is not a folder"),
        (lambda path: path.mkdir(), "no usable result"),
        (lambda path: (path / "ada").mkdir(parents=True), "no usable result"),
    ],
    ids=["missing", "file", "empty", "empty student"],
)
def test_a_folder_that_holds_nothing_is_refused(tmp_path, make, words):
    make(tmp_path / "r")
    text = " ".join(show(tmp_path / "r", width=200, expect=2).split())
    assert text.startswith("report: ") and words in text


def test_only_unusable_files_are_named_and_refused(tmp_path):
    (tmp_path / "ada").mkdir()
    (tmp_path / "ada" / "ex06.json").write_text("{")
    text = show(tmp_path, width=200, expect=2)
    assert "Skipped: 1 file that" in text and "ada/ex06.json" in text and "no usable result" in text


# Files that are written


@pytest.mark.parametrize("option", ["csv", "out"])
def test_a_path_that_cannot_be_written_is_refused_after_the_report(results, tmp_path, option):
    for path, words in [(tmp_path / "none" / "file", "there is no folder"), (tmp_path, "not a plain file")]:
        text = show(results, width=200, expect=2, **{option: path})
        assert line_of(text, "ada") and words in line_of(text, "report:")
    assert not (tmp_path / "none").exists()


def test_a_device_is_never_replaced_and_a_link_is_followed(results, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert "not a plain file" in show(results, width=200, expect=2, csv=tmp_path / "pipe")
    assert (tmp_path / "pipe").is_fifo()
    (tmp_path / "link").symlink_to(tmp_path / "target")
    (tmp_path / "target").write_text("old")
    show(results, csv=tmp_path / "link")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "target").read_text().startswith("student,")


def test_two_files_need_two_names(results, tmp_path):
    path = tmp_path / "same"
    text = show(results, width=200, expect=2, csv=path, out=tmp_path / "." / "same")
    assert "is named for both --out and --csv" in text and not path.exists()


def test_an_old_file_is_replaced_whole_and_nothing_else_is_left(results, tmp_path):
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "t.csv").write_text("old " * 100_000)
    text = show(results, width=200, csv=folder / "t.csv", out=folder / "p.html")
    assert line_of(text, f"wrote {folder}/t.csv") and line_of(text, f"wrote {folder}/p.html")
    assert sorted(os.listdir(folder)) == ["p.html", "t.csv"]
    assert "old" not in (folder / "t.csv").read_text()


# As a command


def run_script(*arguments: object, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), *map(str, arguments)],
        cwd=cwd,
        env=os.environ | {"COLUMNS": "100"} | environment,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=60,
    )


def test_the_script_runs_from_anywhere_even_where_names_cannot_be_printed(results, tmp_path):
    write_result(results, graded("名前 🙂", a_test("shape"), a_test("value")))
    poor = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    done = run_script(results, "--csv", "t.csv", "--out", "p.html", cwd=tmp_path, **poor)
    assert (done.returncode, done.stderr) == (0, "")
    assert line_of(done.stdout, "ada") == "ada | 10/10 | 10/10 | 20/20"
    assert line_of(done.stdout, "?? ?").replace(" ", "") == "???|10/10|-|10/10(1of2)"
    for name in ("t.csv", "p.html"):
        assert "名前 🙂" in (tmp_path / name).read_text("utf-8")


def test_the_command_and_the_script_are_the_same(results, tmp_path):
    arguments = [str(results), "--all", "--csv"]
    script = run_script(*arguments, "one.csv", cwd=tmp_path)
    command = [sys.executable, "-m", "grader", "report", *arguments, str(tmp_path / "two.csv")]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | {"COLUMNS": "100"}, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (script.returncode, script.stderr) == (0, "")
    assert done.stdout.rsplit("wrote", 1)[0] == script.stdout.rsplit("wrote", 1)[0]
    assert (tmp_path / "one.csv").read_bytes() == (tmp_path / "two.csv").read_bytes()


def test_the_script_says_what_is_wrong_and_never_how_it_died(tmp_path):
    done = run_script("nowhere", cwd=tmp_path)
    assert done.returncode == 2 and "nowhere: there is no such folder" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def test_arguments_that_make_no_sense_exit_2_and_help_exits_0(capsys):
    assert report.main([]) == 2
    assert report.main(["--colour", "x"]) == 2
    assert "RESULTS" in capsys.readouterr().err
    assert report.main(["--help"]) == 0


def test_the_command_line_reaches_the_report(results, tmp_path, capsys):
    assert report.main([str(results), "--all", "--csv", str(tmp_path / "t.csv")]) == 0
    assert "ada" in capsys.readouterr().out and (tmp_path / "t.csv").exists()


def test_the_report_needs_nothing_of_the_grader_but_the_schema():
    code = (
        "import sys, grader.report\n"
        "print(*sorted(n for n in sys.modules if n.startswith(('grader', 'torch', 'numpy', 'jinja2', 'typer'))))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    allowed = {
        "grader",
        "grader.course",
        "grader.grading",
        "grader.grading.result",
        "grader.report",
        "grader.reporting",
        "grader.text",
    }
    loaded = set(done.stdout.split())
    assert "grader.report" in loaded
    assert {name for name in loaded if not name.startswith("grader.reporting.")} == allowed
