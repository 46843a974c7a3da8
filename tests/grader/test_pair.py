"""Two processes that share a run's tests: who runs what, what the whole is, and what becomes of it when something goes wrong."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from grader.sandbox.client import Package
from grader.suite.diagnosis import Chaff
from grader.suite.records import SuiteRun, TestRecord, merged
from grader.suite.sharing import LEADER, PARTNER, Board, Share
from tests.grader.small_course import BASE, DOUBLE, ROOT, TRIPLE, write_course

# --- who takes what ---


def taken(board: Board, run: int, side: int, tests: list[int], *, until: int | None = None) -> list[int]:
    """The tests that one side gets, up to a number of them."""
    mine = []
    for test, is_mine in Share(board, run, side).mine(tests):
        mine += [test] * is_mine
        if len(mine) == until:
            break
    return mine


def test_a_test_is_taken_once_and_by_whoever_is_first():
    board = Board()
    run = board.begin("these inputs")
    assert taken(board, run, LEADER, [3, 0, 2, 1], until=2) == [3, 0]
    assert taken(board, run, PARTNER, [3, 0, 2, 1]) == [2, 1]
    assert taken(board, run, LEADER, [3, 0, 2, 1]) == []


def test_with_the_same_inputs_a_test_goes_to_whoever_had_it_and_what_is_left_to_anybody():
    board = Board()
    run = board.begin("these inputs")
    assert taken(board, run, LEADER, [0, 1, 2, 3], until=2) == [0, 1]
    assert taken(board, run, PARTNER, [0, 1, 2, 3]) == [2, 3]
    run = board.begin("these inputs")
    assert taken(board, run, PARTNER, [0, 1, 2, 3], until=2) == [2, 3]  # not the first ones
    assert taken(board, run, LEADER, [0, 1, 2, 3]) == [0, 1]
    run = board.begin("these inputs")
    assert taken(board, run, PARTNER, [0, 1, 2, 3]) == [2, 3, 0, 1]  # nobody else is there
    run = board.begin("other inputs")
    assert taken(board, run, LEADER, [0, 1, 2, 3], until=3) == [0, 1, 2]


def test_nothing_is_taken_of_a_run_that_is_over():
    board = Board()
    run = board.begin("these inputs")
    assert board.take(run, LEADER, 0, leftover=False)
    board.end()
    assert not board.take(run, PARTNER, 1, leftover=True)
    assert taken(board, board.begin("these inputs"), LEADER, [0, 1]) == [0, 1]


@pytest.mark.skipif(sys.platform != "linux", reason="the file is found in /proc")
def test_an_interruption_leaves_nothing_locked(monkeypatch):
    board = Board()
    lockf = fcntl.lockf

    def interrupted(file: Any, how: int) -> None:
        lockf(file, how)
        if how == fcntl.LOCK_EX:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "lockf", interrupted)
        with pytest.raises(KeyboardInterrupt):
            board.take(0, LEADER, 0, leftover=False)
        with pytest.raises(KeyboardInterrupt):
            board.begin("these inputs")
    path = f"/proc/{os.getpid()}/fd/{board._file.fileno()}"
    other = f"import fcntl; fcntl.lockf(open({path!r}, 'r+b'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    subprocess.run([sys.executable, "-c", other], check=True, timeout=60)


# --- one run of two parts ---


def record(name: str, outcome: str = "blocked", **more: Any) -> TestRecord:
    return TestRecord(id=name, title=name, category="shape", max_points=1.0, visible=False, outcome=outcome, **more)


def chaff(name: str) -> Chaff:
    return Chaff(name=name, hint=f"Is it {name}?", category="shape", package=Package(main="x", files={}))


def test_the_whole_has_each_test_from_whoever_ran_it_and_settles_on_names_for_all():
    one = SuiteRun(
        tests=[record("a", "failed", diagnosis="x"), record("b"), record("c", "blocked", message="not run: too slow")],
        matches={"a": ["x", "y"]},
        output="hello\nhere I am\n",
    )
    other = SuiteRun(
        tests=[record("a"), record("b", "failed", diagnosis="y"), record("c")],
        matches={"b": ["y"]},
        output="hello\nhere you are\n",
    )
    whole = merged(one, other, [chaff("x"), chaff("y")])
    assert [test.outcome for test in whole.tests] == ["failed", "failed", "blocked"]
    assert [test.diagnosis for test in whole.tests] == ["y", "y", None]  # what explains most
    assert [test.hint for test in whole.tests] == ["Is it y?", "Is it y?", None]
    assert whole.tests[2].message == "not run: too slow"
    assert whole.output == "hello\nhere I am\nhere you are\n"


def test_problems_of_both_parts_are_told_once_and_other_tests_are_no_part():
    one = SuiteRun(tests=[record("a")], problems=["same", "mine"], blocked_by=None)
    other = SuiteRun(tests=[record("a")], problems=["same", "theirs"], blocked_by="it cannot be loaded")
    whole = merged(one, other, [])
    assert (whole.problems, whole.blocked_by) == (["same", "mine", "theirs"], "it cannot be loaded")
    assert merged(one, SuiteRun(tests=[record("b")]), []) is None


# --- two processes ---

TWICE = "def double(x):\n    return sum([x, x])\n"

NOTE = '''

def note(name):
    """Who ran it."""
    with open({log!r}, "a") as file:
        file.write(f"{{os.getpid()}} {{name}}\\n")


def meet(name, other):
    """Passed only if the other test runs at the same time."""
    pathlib.Path({folder!r}, name).touch()
    for _ in range(6000):
        if pathlib.Path({folder!r}, other).exists():
            return
        time.sleep(0.005)
    fail("alone")


def is_second():
    return os.getpid() != int(os.environ["FIRST"])

'''
TEST = '''
@points({points}, "numerics")
def test_{number}(learner, reference):
    """Test {number}."""
    note("test_{number}")
    {more}
    x = randn(2, 3)
    assert_close(learner.double(x), reference.double(x))

'''


@pytest.fixture
def place(tmp_path) -> Path:
    """A small course whose first exercise has six hidden tests; the first two have to run at the same time."""
    write_course(tmp_path)
    write_tests(tmp_path, {0: 'meet("left", "right")', 1: 'meet("right", "left")'})
    (tmp_path / "exercises" / f"{BASE}.py").write_text(DOUBLE)
    return tmp_path


def write_tests(place: Path, more: dict[int, str]) -> None:
    """The hidden suite, with a line more in some of its tests."""
    head = "import os\nimport pathlib\nimport time\n\nfrom grader.suite import assert_close, fail, points, randn\n"
    note = NOTE.format(log=str(place / "log"), folder=str(place))
    tests = "".join(TEST.format(points=4 / 6, number=number, more=more.get(number, "pass")) for number in range(6))
    (place / f"tests/hidden/test_{BASE}.py").write_text(head + note + tests)


def play(place: Path, scenario: str, *more: str) -> list[Any]:
    """What comes of a scenario; no process is left."""
    command = [sys.executable, "-m", "tests.grader.playing_pairs", str(place), scenario, *more]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["left"] == []
    return found["found"]


two_cores = pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2, reason="there is one core only"
)


@two_cores
@pytest.mark.timeout(200)
def test_both_run_a_part_and_the_result_is_that_of_one(place):
    results = play(place, "twice")
    for result in results:
        assert (result["status"], result["points"], result["outcomes"]) == ("graded", 4, ["passed"] * 7)
        assert len(result["who"]) == 6
    assert results[0]["who"]["test_0"] != results[0]["who"]["test_1"]


@two_cores
@pytest.mark.timeout(200)
def test_a_mistake_is_named_in_both_parts(place):
    (place / "exercises" / f"{BASE}.py").write_text("print('loaded')\n" + TRIPLE)
    (result,) = play(place, "twice")[:1]
    assert (result["points"], result["outcomes"]) == (0, ["failed"] * 7)
    assert result["diagnoses"] == ["triple"] * 7 and result["hints"] == ["Is that twice?"] * 7
    assert result["output"] == "loaded\n" and set(result["who"].values()) == {"first", "second"}


@two_cores
@pytest.mark.timeout(200)
def test_what_failed_last_time_is_told_wherever_it_runs(place):
    (place / "exercises" / f"{BASE}.py").write_text(TRIPLE)
    result, heard = play(place, "told")
    assert set(result["who"].values()) == {"first", "second"}
    assert {name for name, outcome, _ in heard if outcome == "failed"} >= {f"hidden::test_{number}" for number in range(4)}
    assert len(heard) == len({name for name, _, _ in heard})
    assert {diagnosis for _, _, diagnosis in heard} == {"triple"}


@two_cores
@pytest.mark.timeout(200)
def test_an_interruption_ends_both_and_the_next_run_is_whole(place):
    wait = f"while is_second() and not pathlib.Path({str(place)!r}, 'go').exists(): time.sleep(0.01)"
    write_tests(place, {number: wait for number in range(6)})
    what, result = play(place, "interrupted")
    assert what == "interrupted"
    assert (result["points"], result["outcomes"], len(result["who"])) == (4, ["passed"] * 7, 6)


@two_cores
@pytest.mark.timeout(200)
def test_a_run_that_was_never_sent_is_not_waited_for(place):
    what, result = play(place, "never sent")
    assert (what, result["points"]) == ("interrupted", 4)
    assert set(result["who"].values()) == {"first", "second"}  # it was not given up


@two_cores
@pytest.mark.timeout(200)
def test_a_second_process_that_dies_costs_nothing(place):
    meets = {0: 'meet("left", "right")', 1: 'meet("right", "left")'}
    write_tests(place, {number: f"{line}; is_second() and os.kill(os.getpid(), 9)" for number, line in meets.items()})
    for result in play(place, "twice"):
        assert (result["points"], result["outcomes"]) == (4, ["passed"] * 7)
        assert len(result["who"]) == 6
    assert set(result["who"].values()) == {"first"}


@two_cores
@pytest.mark.timeout(200)
def test_both_rehearse_and_the_next_run_is_whole(place):
    who, result = play(place, "rehearsed")
    assert who["test_0"] != who["test_1"]
    assert (result["points"], len(result["who"])) == (4, 6)


@two_cores
@pytest.mark.timeout(200)
def test_nothing_runs_beside_what_is_timed(place):
    write_tests(place, {})
    suite, course = place / f"tests/hidden/test_{BASE}.py", place / "course.toml"
    head, mark, last = suite.read_text().rpartition("@points")
    last = last.replace('"numerics"', '"speed"').replace("reference)", "reference, judge)", 1)
    suite.write_text(head + mark + last)
    timed = f'test = "test_5"\ntitle = "Fast"\nnames = ["double"]\npoints = {4 / 6}\ncpu = {{ slow = "slow", size = 10 }}\n'
    names = 'names = ["double"]\n'
    course.write_text(course.read_text().replace(names, f"{names}\n[[exercise.timed]]\n{timed}"))
    (place / f"solutions/chaffs/{BASE}/slow.py").write_text('"""Slow?"""\n\nCATEGORY = "speed"\n\n\n' + TWICE)
    alone, shared = play(place, "timed")
    assert set(alone["who"].values()) == {"first"} and alone["points"] == shared["points"] == 4


@pytest.mark.timeout(200)
def test_on_one_core_there_is_no_second_process(place):
    write_tests(place, {})
    for result in play(place, "twice", "--one-core"):
        assert (result["points"], set(result["who"].values())) == (4, {"first"})
