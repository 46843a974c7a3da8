"""What the report reads besides results: earlier attempts, an earlier grading, nbgrader's gradebook, submissions."""

from __future__ import annotations

import json
import shutil
import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from grader import report
from grader.grading.result import write_result
from grader.reporting.attempts import Attempt, has_stalled, time_to_pass
from grader.reporting.classroom import Classroom
from grader.reporting.progress import reached_by_day
from grader.reporting.similarity import normalized, side_by_side
from grader.reporting.summary import Report

from .made import EX06, EX07, a_test, data_of, graded, line_of, page, rows, show, tree, ungraded


def read(results: Path, **more) -> Report:
    return report._read(report.Wanted(results, {}, **more), Console())


def attempt(day: int, points: float | None = None, most: float = 10) -> Attempt:
    when = datetime(2026, 3, 1, tzinfo=UTC) + timedelta(days=day)
    return Attempt(when, "error" if points is None else "graded", points, most, str(day))


# Attempts


@pytest.fixture
def history(tmp_path) -> Path:
    """Three days of ada's and bob's; the results hold the third."""
    for day, (ada, bob) in enumerate([(1, 1), (3, 1), (5, 1)]):
        folder = tmp_path / ("results" if day == 2 else f"history/{day}")
        for name, right in (("ada", ada), ("bob", bob)):
            tests = [a_test(f"t{one}", "passed" if one < right else "failed", most=1) for one in range(5)]
            write_result(folder, graded(name, *tests, started=f"2026-03-0{day + 1}T10:00:00Z", key=f"{name}{day}"))
    return tmp_path


def test_attempts_come_from_every_earlier_folder_each_run_once(history):
    found = read(history / "results", history=[history / "history"])
    assert [run.points for run in found.attempts["ada", EX06]] == [1, 3, 5]
    twice = read(history / "results", history=[history / "history", history / "history/0", history / "results"])
    assert twice.attempts == found.attempts
    assert found.has_history and not read(history / "results").has_history
    [summary] = found.summaries
    assert summary.tries == [(2.0, True), (2.0, False)]
    assert reached_by_day(found) == [("2026-03-01", 0.2), ("2026-03-02", 0.4), ("2026-03-03", pytest.approx(0.6))]


def test_files_of_the_history_that_cannot_be_used_are_named(history):
    (history / "history/0/ada/ex06.json").write_text("{")
    later = {"schema": 9, "student": "bob", "exercise": EX06, "status": "graded", "points": 1, "max_points": 1}
    (history / "history/1/bob/ex06.json").write_text(json.dumps(later))
    found = read(history / "results", history=[history / "history"])
    assert [name for name, _ in found.book.skipped] == ["0/ada/ex06.json", "1/bob/ex06.json"]
    assert "schema 9" in found.book.skipped[1][1]
    assert [run.points for run in found.attempts["ada", EX06]] == [3, 5]


@pytest.mark.parametrize("option", ["history", "before"])
def test_a_folder_without_earlier_results_is_refused(history, tmp_path, option):
    (tmp_path / "none").mkdir()
    for folder, words in ((tmp_path / "none", "earlier"), (tmp_path / "nowhere", "there is no such folder")):
        text = show(history / "results", width=200, expect=2, **{option: [folder] if option == "history" else folder})
        assert words in line_of(text, "report:")


def test_stalled_is_three_attempts_without_a_gain():
    assert has_stalled([attempt(0, 2), attempt(1, 2), attempt(2, 1), attempt(3, 2)])
    assert not has_stalled([attempt(0, 2), attempt(1, 2), attempt(2, 1)])
    assert not has_stalled([attempt(0, 2), attempt(1, 2), attempt(2, 1), attempt(3, 3)])
    assert not has_stalled([attempt(0, 10), attempt(1, 2), attempt(2, 2), attempt(3, 2)])  # has passed
    assert not has_stalled([attempt(0, 2), attempt(1), attempt(2), attempt(3)])  # the grader's errors are not the student's


def test_time_to_pass_runs_from_the_first_attempt_to_the_first_with_all_points():
    assert time_to_pass([attempt(1, 2), attempt(3, 10), attempt(9, 10)]) == (2.0, True)
    assert time_to_pass([attempt(1, 2), attempt(4, 3)]) == (3.0, False)
    assert time_to_pass([attempt(1, 10)]) == (0.0, True)
    assert time_to_pass([Attempt(None, "graded", 1.0, 2.0, "")]) is None


def test_who_began_late_is_told_by_the_class_where_attempts_are_known(tmp_path):
    for number in range(9):
        for exercise in (EX06, EX07):
            right = "failed" if number == 8 else "passed"
            result = graded(f"s{number}", a_test("shape", right, most=10), a_test("value", most=4), exercise=exercise)
            day = 20 if number == 8 else 1 + number % 3
            write_result(tmp_path / "old", msgspec.structs.replace(result, started=f"2026-03-{day:02d}T10:00:00Z"))
            write_result(tmp_path / "new", msgspec.structs.replace(result, started="2026-04-01T10:00:00Z"))
    assert read(tmp_path / "old").at_risk == []  # when somebody was graded last says nothing of when they began
    [one] = read(tmp_path / "new", history=[tmp_path / "old"]).at_risk
    assert (one.student, [reason.name for reason in one.reasons]) == ("s8", ["low", "late"])
    assert one.reasons[1].words == "began well after the class: ex06, ex07"


def test_what_was_handed_in_late_is_told_by_its_date_and_not_by_when_it_was_graded(tmp_path):
    for student in ("ada", "bob"):
        for exercise in (EX06, EX07):
            tests = [a_test("shape", "failed", most=10), a_test("value", most=4)]
            write_result(tmp_path, graded(student, *tests, exercise=exercise, started="2027-01-01T00:00:00Z"))
    found = read(tmp_path)
    found.classroom = Classroom(overdue={(student, one): student == "bob" for student in ("ada", "bob") for one in (EX06, EX07)})
    [one] = found.at_risk
    assert (one.student, one.reasons[1].words) == ("bob", "handed in after the due date: ex06, ex07")


# An earlier grading


@pytest.fixture
def regraded(tmp_path) -> Path:
    def result(name: str, value: str, mask: str = "passed", **more):
        return graded(name, a_test("value", value, most=4), a_test("mask", mask, most=6), **more)

    tree(
        tmp_path / "old",
        result("ada", "failed"),
        result("bob", "passed"),
        result("cyd", "passed"),
        ungraded("dan", "error", "died"),
    )
    tree(tmp_path / "new", result("ada", "passed"), result("bob", "failed"), result("cyd", "passed"), result("dan", "passed"))
    tree(tmp_path / "old", result("eve", "failed", "passed"))
    tree(tmp_path / "new", graded("eve", a_test("value", "failed", most=4), a_test("other", most=6)))
    return tmp_path


def test_a_regrade_says_who_gains_and_loses_and_by_which_test(regraded, tmp_path):
    changes = {change.student: change for change in read(regraded / "new", before=regraded / "old").regrade}
    assert {name: change.kind for name, change in changes.items()} == {
        "ada": "gains", "bob": "loses", "dan": "status", "eve": "other tests"
    }  # fmt: skip
    [flip] = changes["ada"].flips
    assert (flip.id, flip.before, flip.after, flip.points, changes["ada"].gain) == (
        "hidden::test_value",
        "failed",
        "passed",
        4,
        4,
    )
    assert [(flip.id, flip.before, flip.after) for flip in changes["eve"].flips] == [
        ("hidden::test_other", "-", "passed"),
        ("hidden::test_mask", "passed", "-"),
    ]
    text = " ".join(show(regraded / "new", width=200, before=regraded / "old").split())
    assert "Regrade: 1 gains, 1 loses, 1 status, 1 other tests" in text
    assert "ex06 bob: 10/10 -> 6/10 The value is right (passed -> failed)" in text and "ex06 dan: error -> 10/10" in text
    show(regraded / "new", before=regraded / "old", out=tmp_path / "p.html")
    html = (tmp_path / "p.html").read_text()
    assert 'id="regrade"' in html and "+4.00" in html and "−4.00" in html


def test_points_are_compared_on_one_scale_when_the_maximum_changes(tmp_path):
    tree(tmp_path / "old", graded("ada", a_test("a", most=5), a_test("b", "failed", most=5)))
    tree(tmp_path / "new", graded("ada", a_test("a", most=5), a_test("b", "not_assessed", most=5)))
    [change] = read(tmp_path / "new", before=tmp_path / "old").regrade
    assert (change.gain, change.kind) == (2.5, "gains")  # 5 of 10 were 2.5 of 5


def test_nothing_changed_is_said(regraded):
    assert "Regrade: nothing changed" in show(regraded / "new", before=regraded / "new")


# nbgrader's gradebook


@pytest.fixture(scope="module")
def made_gradebook(tmp_path_factory) -> Path:
    """Made with nbgrader's own API: manual scores, extra credit, a late penalty, an extension, a cell that waits for a person."""
    api = pytest.importorskip("nbgrader.api", reason="makes a gradebook with nbgrader: install the instructor extra")
    path = tmp_path_factory.mktemp("course") / "gradebook.db"
    sqlalchemy = pytest.importorskip("sqlalchemy")
    engine = sqlalchemy.create_engine(f"sqlite:///{path}")
    api.Base.metadata.create_all(
        engine
    )  # the tables that `Gradebook` makes; it would start another program to note their version
    engine.dispose()
    book = api.Gradebook(f"sqlite:///{path}")
    with book:
        book.add_assignment("ex06", duedate="2026-03-02 12:00:00")
        book.add_notebook("ex06", "ex06")
        for name in ("shape", "numerics"):
            book.add_grade_cell(name, "ex06", "ex06", max_score=5, cell_type="code")
        for student, first in {"ada": "Ada </script><b>", "bob": "Bob, Jr", "cyd": "=cmd", "dan": "Dan", "fay": "Fay"}.items():
            book.add_student(
                student, first_name=first, last_name="Núñez", email=f"{student}@example.org", lms_user_id=f"10{student}"
            )
        for student, day in (("ada", 2), ("bob", 5), ("cyd", 1), ("dan", 1)):
            book.add_submission("ex06", student, timestamp=datetime(2026, 3, day, 11))
        book.find_submission("ex06", "bob").extension = timedelta(days=1)
        for student, scores in {"ada": (5, 5), "bob": (5, 0), "cyd": (None, None), "dan": (5, None)}.items():
            for cell, auto in zip(("shape", "numerics"), scores, strict=True):
                book.find_grade(cell, "ex06", "ex06", student).auto_score = auto
        book.find_grade("numerics", "ex06", "ex06", "ada").manual_score = 2.5
        book.find_grade("shape", "ex06", "ex06", "ada").extra_credit = 1
        book.find_submission_notebook("ex06", "ex06", "bob").late_submission_penalty = 2
        for cell in ("shape", "numerics"):
            book.find_grade(cell, "ex06", "ex06", "cyd").manual_score = 4
        book.find_grade("shape", "ex06", "ex06", "dan").manual_score = 3
        book.db.commit()
    return path


@pytest.fixture
def gradebook(made_gradebook, tmp_path) -> Path:
    return Path(shutil.copy(made_gradebook, tmp_path / "gradebook.db"))


@pytest.fixture
def graded_class(tmp_path) -> Path:
    right, wrong = a_test("value"), a_test("value", "failed")
    shape = a_test("shape", category="shape")
    return tree(
        tmp_path / "results",
        graded("ada", shape, right),
        graded("bob", shape, wrong),
        ungraded("cyd", "error", "died"),
        graded("dan", shape, right),
        graded("eve", shape, right),
    )


def test_manual_scores_and_penalties_are_joined_to_our_results(graded_class, gradebook):
    found = read(graded_class, gradebook=gradebook)
    scores = {student: found.book.scores.get((student, EX06)) for student in found.book.students}
    assert {
        student: score and (score.points, score.max_points, score.by_hand, score.late) for student, score in scores.items()
    } == {
        "ada": (8.5, 10, True, False),  # 5 + 1 extra, and 2.5 by hand instead of 5
        "bob": (3, 10, False, True),  # 5, less 2 for being late
        "cyd": (8, 10, True, False),  # the grader failed, a person graded both cells
        "dan": (10, 10, False, False),  # a cell waits for its score: ours counts
        "eve": (10, 10, False, False),
        "fay": None,  # on the roster, nothing handed in
    }
    assert found.book.adjustments["ada", EX06].lines == ("shape: +1 extra credit", "numerics: 2.5 by hand instead of 5")
    assert found.book.name("bob") == "Bob, Jr Núñez"
    assert found.classroom.due_dates["bob", "ex06"] == datetime(2026, 3, 3, 12, tzinfo=UTC)  # a day of extension
    assert found.classroom.overdue == {("ada", EX06): False, ("bob", EX06): True, ("cyd", EX06): False, ("dan", EX06): False}
    [note] = [note for note in found.notes if "roster" in note]
    assert note.endswith(": eve")
    [note] = [note for note in found.notes if "without a score" in note]
    assert note.endswith(": dan ex06")


def test_the_joined_points_are_shown_and_marked(graded_class, gradebook, tmp_path):
    text = show(graded_class, gradebook=gradebook)
    assert line_of(text, "Bob, Jr") == "Bob, Jr Núñez 3/10l 3/10"
    assert line_of(text, "m with points given by hand") and line_of(text, "l less for being late")
    html = page_of(graded_class, gradebook, tmp_path)
    assert "</script><b>" not in html and data_of(html)["students"][0]["name"] == "Ada </script><b> Núñez"


def page_of(results: Path, gradebook: Path, folder: Path) -> str:
    show(results, gradebook=gradebook, out=folder / "p.html")
    return (folder / "p.html").read_text()


def test_scores_that_are_not_ours_are_reported_as_out_of_date(graded_class, gradebook):
    with sqlite3.connect(gradebook) as database:
        database.execute("update grade set auto_score = 1 where auto_score = 5")
    [note] = [note for note in read(graded_class, gradebook=gradebook).notes if "not those of these results" in note]
    assert "ada ex06, bob ex06" in note and "classroom grade" in note


def test_the_gradebook_is_only_read(graded_class, gradebook):
    before = gradebook.read_bytes()
    gradebook.chmod(0o444)
    read(graded_class, gradebook=gradebook)
    assert gradebook.read_bytes() == before and not list(gradebook.parent.glob("gradebook.db-*"))


def test_a_file_that_is_no_gradebook_is_refused(graded_class, tmp_path):
    with sqlite3.connect(tmp_path / "other.db") as database:
        database.execute("create table student (id)")
    (tmp_path / "text.db").write_text("not a database, but longer than a header of SQLite " * 9)
    (tmp_path / "empty.db").write_bytes(b"")
    for name in ("other.db", "text.db", "empty.db"):
        assert "is not a gradebook of nbgrader" in line_of(show(graded_class, 200, 2, gradebook=tmp_path / name), "report:")
    assert "no such file" in line_of(show(graded_class, 200, 2, gradebook=tmp_path / "none.db"), "report:")
    assert "not a plain file" in line_of(show(graded_class, 200, 2, gradebook=tmp_path), "report:")


# Submissions


def test_normalized_code_is_the_same_whatever_its_names_texts_types_and_order():
    first = """import torch
def f(x: int, y=2) -> int:
    'Doc.'
    # why
    z: int = x.softmax(dim=-1)
    return f'{z}' + 'a'
def g(): return 1"""
    second = """def h(): return 1
def other(a, b=2):
    c = a.softmax(dim = -1)
    return 'b' + 'c'"""
    plain = normalized(first).replace("    pass\n", "")
    assert plain == normalized(second).replace("    pass\n", "")
    assert "softmax(dim=-1)" in plain and "torch" not in plain
    assert normalized(first) != normalized(first.replace("softmax", "exp"))


def test_lines_are_marked_where_some_statements_in_a_row_say_the_same():
    one = "def f(x):\n    a = x + 1\n    b = a * 2\n    return b\n\n\ndef g(x):\n    return x\n"
    other = "def own(x):\n    return x - 3\n\n\ndef k(u):\n    v = u + 1\n    w = v * 2\n    return w\n"
    left, right = side_by_side(one, other)
    assert left.same == [True, True, True, True, False, False, False, False]
    assert right.same == [False, False, False, False, True, True, True, True]


def test_submissions_that_cannot_be_parsed_are_counted_and_others_compared(graded_class, tmp_path):
    handed_in = tmp_path / "submissions"
    body = "\n".join(f"    y = (x + {one}).reshape(-1, {one + 2}).flip({one})" for one in range(9))
    sources = {
        "ada": f"def f(x):\n{body}\n    return y\n",
        "bob": "def (",
        "cyd": "x" + "(" * 5000,
        "dan": "\x00",
        "eve": "e = 1\n",
    }
    sources["fay"] = sources["ada"].replace("y", "result")
    for name, source in sources.items():
        (handed_in / name).mkdir(parents=True)
        (handed_in / name / f"{EX06}.py").write_text(source)
    found = read(graded_class, submissions=handed_in)
    assert [(pair.first, pair.second) for pair in found.alike.pairs] == [("ada", "fay")]
    assert {student for student, _, _ in found.alike.unparsed} == {"bob", "cyd", "dan"}
    assert "3 files could not be compared" in " ".join(show(graded_class, submissions=handed_in).split())


def test_what_the_stub_and_the_reference_hold_counts_for_nothing(graded_class, tmp_path):
    reference = (report.ROOT / "solutions" / f"{EX07}.py").read_text()
    results = tree(tmp_path / "r", *(graded(name, a_test("shape"), exercise=EX07) for name in ("ada", "bob")))
    for name in ("ada", "bob"):
        (tmp_path / "s" / name).mkdir(parents=True)
        (tmp_path / "s" / name / f"{EX07}.py").write_text(reference)
    assert read(results, submissions=tmp_path / "s").alike.pairs == []


def test_a_folder_without_submissions_is_refused(graded_class, tmp_path):
    assert "no such folder" in line_of(show(graded_class, 200, 2, submissions=tmp_path / "nowhere"), "report:")
    (tmp_path / "none").mkdir()
    assert "holds no submission" in line_of(show(graded_class, 200, 2, submissions=tmp_path / "none"), "report:")


# Without names


def test_the_anonymous_variant_holds_nothing_that_a_student_is_called_or_wrote(history, tmp_path):
    wrong = a_test("t0", "failed", message="zoe wrote this", diagnosis="tiled", hint="Tiled?")
    said = {"output": "zoe printed", "seed": 99887766, "reason": "zoe.py is broken", "started": "2026-03-03T21:43:00Z"}
    secret = graded("zoe-4711", wrong, **said)
    write_result(history / "results", secret)
    write_result(history / "history/0", msgspec.structs.replace(secret, started="2026-03-01T21:43:00Z"))
    (history / "results/zoe-4711/ex08.json").write_text("{")
    files = {name: tmp_path / f"x.{name}" for name in ("out", "csv", "json", "items")}
    text = show(history / "results", width=200, history=[history / "history"], anonymous=True, everyone=True, **files)
    packed = page(history / "results", tmp_path)  # the plain page of the same class holds it all
    assert "zoe wrote this" in packed and "21:43" in packed
    for content in (text, *(path.read_text() for path in files.values())):
        assert not any(word in content for word in ("zoe", "ada", "bob", "99887766", "21:43")), content[:200]
    assert "student 001" in text and "Tiled?" in files["out"].read_text()
    assert [row["student"] for row in rows(history / "results", tmp_path)][-1] == "zoe-4711"
    assert "1 file skipped" in files["out"].read_text()


@pytest.mark.parametrize("more", [["--student", "ada"], ["--submissions", "x"], ["--moodle", "x"]])
def test_what_would_give_names_away_does_not_go_with_anonymous(history, more, capsys):
    assert report.main([str(history / "results"), "--anonymous", "--out", "x.html", *more]) == 2
    assert "--anonymous leaves out names" in capsys.readouterr().err


def test_a_student_who_is_not_there_is_refused(history, tmp_path):
    assert "no student of that name" in line_of(
        show(history / "results", 200, 2, student="zed", out=tmp_path / "z.html"), "report:"
    )
    assert report.main([str(history / "results"), "--student", "ada"]) == 2
