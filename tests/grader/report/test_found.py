"""Faults planted in a made-up class are found: the unfair test, the leaked pair, the students at risk. And few others are accused."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from bench.classes import Planted, write_class
from grader import report
from grader.reporting.attempts import are_known
from grader.reporting.charts import Artist
from grader.reporting.statistics import survival
from grader.reporting.summary import Report

from .made import show


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> tuple[Path, Planted]:
    folder = tmp_path_factory.mktemp("class")
    return folder, write_class(folder, students=60, exercises=6, seed=1)


def read(folder: Path, **more) -> Report:
    return report._read(report.Wanted(folder / "results", {}, **more), Console())


@pytest.fixture(scope="module")
def found(made) -> Report:
    folder, _ = made
    return read(folder, history=[folder / "history"], submissions=folder / "submissions")


def test_the_unfair_test_is_the_first_to_look_at(made, found):
    _, planted = made
    first = found.to_look_at[0]
    assert (first.exercise, first.test.id) == (planted.unfair_exercise, planted.unfair_test)
    assert first.flags[0].name == "negative" and first.item_rest < 0
    assert sum(item.flags[0].name == "negative" for item in found.to_look_at) == 1


@pytest.mark.parametrize("seed", [2, 3])
def test_the_unfair_test_is_found_in_other_classes_too(tmp_path, seed):
    planted = write_class(tmp_path, students=120, exercises=3, seed=seed, attempts=False)
    first = read(tmp_path).to_look_at[0]
    assert (first.exercise, first.test.id) == (planted.unfair_exercise, planted.unfair_test)


def test_exactly_the_students_at_risk_are_listed_with_all_their_reasons(made, found):
    _, planted = made
    listed = {one.student: {reason.name for reason in one.reasons} for one in found.at_risk}
    assert set(planted.at_risk) <= set(listed)
    assert all(listed[student] == {"low", "behind", "late", "stalled"} for student in planted.at_risk)
    assert {one.student for one in found.at_risk[:10]} == set(planted.at_risk)
    assert len(listed) <= 12  # the others may have a bad start, but not many


def test_without_history_the_students_at_risk_are_still_found(made):
    folder, planted = made
    plain = read(folder)
    assert not are_known(plain.attempts)
    assert set(planted.at_risk) <= {one.student for one in plain.at_risk}


def test_the_leaked_pair_is_found_and_nobody_else_is_accused(made, found):
    _, planted = made
    [pair] = found.alike.pairs
    assert (pair.exercise, [pair.first, pair.second]) == (planted.leaked_exercise, planted.leaked_students)
    assert pair.share > 0.9
    for source in pair.sources:
        code = [same for line, same in zip(source.lines, source.same, strict=True) if line.strip() and line[0] not in "#i"]
        assert sum(code) > 0.9 * len(code)


def test_mistakes_are_counted_once_for_a_student_and_carry_their_hints(found):
    for summary in found.summaries:
        assert summary.mistakes and all(
            mistake.hint and mistake.students <= summary.counts["graded"] for mistake in summary.mistakes
        )
        seen = [mistake.students for mistake in summary.mistakes]
        assert seen == sorted(seen, reverse=True)


def test_the_busy_host_is_named_first(found):
    busy, quiet = found.hosts
    assert "isolation B" in busy.name and "isolation A" in quiet.name
    assert busy.share > 2 * quiet.share
    assert busy.reasons[0][0] == "the machine was too busy for a verdict"


def test_time_to_pass_is_told_where_attempts_are_known(made, found):
    for summary in found.summaries:
        runs = [found.attempts.get((student, summary.exercise), []) for student in found.book.students]
        assert len(summary.tries) == sum(any(run.when for run in mine) for mine in runs)
        assert sum(step.passed for step in summary.survival) == sum(passed for _, passed in summary.tries)
    assert all(not summary.tries for summary in read(made[0]).summaries)


def test_the_chart_of_the_time_to_pass_says_in_words_what_the_estimate_says():
    early = Artist().survival("ex01", survival([0.5, 3.0, 4.0], [True, False, False]), [0.5, 3.0, 4.0])
    assert early.text == "1 of 3 who tried have passed; when half will have cannot be estimated yet."
    everybody = Artist().survival("ex01", survival([0.0, 1.5, 4.0], [True] * 3), [0.0, 1.5, 4.0])
    assert everybody.text == "3 of 3 who tried have passed; half are estimated to pass within 36 h."
    assert everybody.rows == [("at once", "67 %"), ("36 h", "33 %"), ("4 days", "0 %")]
    assert "<desc" in everybody.svg and "var(--mark)" in everybody.svg and "#0" not in everybody.svg


def test_the_terminal_says_the_same(made):
    folder, planted = made
    text = show(folder / "results", width=120, history=[folder / "history"], submissions=folder / "submissions")
    listed = text.split("Help first: ")[1].split("Look at these tests")[0]
    assert all(student[:4] in listed for student in planted.at_risk)
    assert "the better fail it" in text.split("Look at these tests")[1].split("\n\n")[0]
    assert "Resemble each other: 1 pair; for you to read, not a verdict" in " ".join(text.split())
    assert all(student in text.split("Resemble each other")[1] for student in planted.leaked_students)


def test_the_same_seed_makes_the_same_class(tmp_path):
    for folder in ("one", "two"):
        write_class(tmp_path / folder, students=4, exercises=2, seed=7)
    files = [path.relative_to(tmp_path / "one") for path in (tmp_path / "one").rglob("*") if path.is_file()]
    assert len(files) > 8
    assert all((tmp_path / "one" / path).read_bytes() == (tmp_path / "two" / path).read_bytes() for path in files)
