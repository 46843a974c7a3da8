"""What is known of a machine's ability to tell times apart: measured by `calibrate`, kept in a file, obeyed by grading."""

from __future__ import annotations

import io
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from grader.authoring.calibrate import calibrate, show
from grader.authoring.verify import cases_of
from grader.course import Course, load_course
from grader.grading import calibration
from grader.grading.calibration import (
    Calibrated,
    Calibration,
    calibration_path,
    entry,
    read_calibration,
    switched_off,
    write_calibration,
)
from grader.grading.grade import Grader
from grader.grading.materials import MaterialError
from grader.submission import Problem, SourceFile

COURSE = """
[course]
name = "Small"
schema = 1

[[exercise]]
number = 1
file = "ex01_sum"
title = "Sum"
points = 3
names = ["add_up"]

[[exercise.timed]]
test = "test_apart"
title = "Apart"
names = ["add_up"]
points = 1
cpu = { slow = "loops", size = 1000, gap = 2.0 }

[[exercise.timed]]
test = "test_alike"
title = "Alike"
names = ["add_up"]
points = 1
cpu = { slow = "no_slower", size = 1000, gap = 2.0 }

[[exercise.timed]]
test = "test_elsewhere"
title = "Elsewhere"
names = ["add_up"]
points = 1
cuda = { slow = "loops", size = 1000 }
"""
SUM = '''"""Sum."""


def add_up(numbers):
    # BEGIN SOLUTION
    for _ in range(20):
        total = 0
        for number in numbers:
            total += number
    return total
    # END SOLUTION
'''
TEST = '''
@points(1, "speed")
def test_{name}(learner, judge):
    """It is fast ({name})."""
    judge(learner.add_up, lambda: (randint(1, 1000, judge.size).tolist(),))
'''


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Course:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    hint = '"""Does it loop?"""\n\nCATEGORY = "speed"\n'
    files = {
        "course.toml": COURSE,
        "solutions/ex01_sum.py": SUM,
        "exercises/ex01_sum.py": SUM,
        "solutions/wheats/ex01_sum/other.py": SUM,
        "solutions/chaffs/ex01_sum/loops.py": hint + SUM.split('"""\n')[1].replace("range(20)", "range(200)"),
        "solutions/chaffs/ex01_sum/no_slower.py": hint + SUM.split('"""\n')[1],
        "solutions/chaffs/ex01_sum/wrong.py": '"""Is that a sum?"""\n\nCATEGORY = "numerics"\n\n\ndef add_up(numbers):\n    return 0\n',
        "tests/hidden/test_ex01_sum.py": "from grader.suite import points, randint\n"
        + "".join(TEST.format(name=name) for name in ("apart", "alike", "elsewhere")),
    }
    for name, text in files.items():
        path = tmp_path / "course" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return load_course(tmp_path / "course")


def files_of(name: str) -> SourceFile | Problem:
    return SourceFile(name=name, content=SUM.encode(), place=f"{name}.py")


def test_calibrate_switches_off_what_cannot_be_told_and_grading_obeys(small: Course, sandbox):
    exercise = small.exercise(1)
    key = Grader(small, sandbox).key(exercise, files_of)
    findings = calibrate(small, [exercise], sandbox, tries=1)
    assert [(one.test.test, one.calibrated.off is None) for one in findings] == [("test_apart", True), ("test_alike", False)]
    assert findings[0].calibrated.gap > 2
    assert "cannot tell the fast way from the slow one" in findings[1].calibrated.off
    assert list(switched_off("ex01_sum", "cpu")) == ["test_alike"]
    assert Grader(small, sandbox).key(exercise, files_of) != key  # what was graded before is graded again

    result = Grader(small, sandbox).grade(exercise, files_of, untimed=None)
    outcomes = {test.id.removeprefix("hidden::test_"): (test.outcome, test.message) for test in result.tests}
    assert outcomes["apart"] == ("passed", None)
    assert outcomes["alike"] == ("not_assessed", findings[1].calibrated.off)
    assert outcomes["elsewhere"] == ("not_assessed", "needs a GPU")
    assert (result.points, result.max_points) == (1, 1)
    assert {test.timing is None for test in result.tests[1:]} == {True}
    assert result.tests[0].timing.verdict == "pass"

    text = io.StringIO()
    show(Console(file=text, width=100), findings)
    assert (
        "apart" in text.getvalue() and "judged" in text.getvalue() and "test_alike: calibrated on this machine" in text.getvalue()
    )


def test_without_timing_answers_are_still_checked(small: Course, sandbox):
    grader, exercise = Grader(small, sandbox), small.exercise(1)
    right = grader.grade(exercise, files_of, untimed="-")
    assert {test.outcome for test in right.tests} == {"not_assessed"} and right.max_points == 0
    wrong = grader.grade(
        exercise, lambda name: SourceFile(name=name, content=b"def add_up(n):\n    return 0\n", place="x"), untimed="-"
    )
    assert {test.outcome for test in wrong.tests} == {"failed"}


def test_verify_times_right_code_and_slow_code_only(small: Course):
    timed = {case.name: case.is_timed for case in cases_of(small, small.exercise(1)) if case.kind != "careless"}
    assert timed == {"stub": False, "reference": True, "other": True, "loops": True, "no_slower": True, "wrong": False}
    assert not any(case.is_timed for case in cases_of(small, small.exercise(1)) if case.kind == "careless")


def test_an_anchor_that_is_none_is_a_fault_of_the_course(small: Course, sandbox):
    path = small.root / "solutions/chaffs/ex01_sum/loops.py"
    path.write_text(path.read_text().replace('"speed"', '"numerics"'))
    with pytest.raises(MaterialError, match='test_apart needs a chaff loops with CATEGORY = "speed"'):
        Grader(small, sandbox).grade(small.exercise(1), files_of)


def test_the_file_belongs_to_one_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert switched_off("ex01_sum", "cpu") == {}
    known = Calibration(host=calibration.host())
    known.tests[entry("ex01_sum", "cpu", "test_a")] = Calibrated(gap=1.1, off="too close", when="now")
    known.tests[entry("ex01_sum", "cuda", "test_b")] = Calibrated(gap=1.1, off="too close", when="now")
    known.tests[entry("ex01_sum", "cpu", "test_c")] = Calibrated(gap=9.0, off=None, when="now")
    assert write_calibration(known) == calibration_path()
    assert switched_off("ex01_sum", "cpu") == {"test_a": "too close"}
    assert switched_off("ex01", "cpu") == {}
    calibration_path().write_bytes(msgspec.json.encode(msgspec.structs.replace(known, host="another machine")))
    assert read_calibration().tests == {}
    calibration_path().write_text("{ not json")
    assert switched_off("ex01_sum", "cpu") == {}
