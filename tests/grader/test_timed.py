"""Timed tests run through the real runner and real workers: outcomes, points, what a learner reads, and what is tried to look fast.

The anchors are far apart and the code under test lies at either end, so that no machine is too busy for these.
"""

from __future__ import annotations

import contextlib
import os
import textwrap
from pathlib import Path

import pytest

from grader.sandbox import affinity
from grader.sandbox.client import Limits, Package
from grader.suite.arms import Contest, WorkerArm
from grader.suite.diagnosis import Chaff
from grader.suite.judge import Timed
from grader.suite.plugin import Suite, run_suite
from grader.suite.records import SuiteRun, TestRecord

REFERENCE = """
def add_up(numbers):
    total = 0
    for _ in range(20):
        for number in numbers:
            total += number
    return total
"""
SLOW = REFERENCE.replace("range(20)", "range(240)").replace("return total", "return total // 12")
SLOWER = SLOW.replace("range(240)", "range(2400)").replace("// 12", "// 120")
HIDDEN = '''
from grader.suite import points, randint

@points({points}, "speed")
def test_fast(learner, judge):
    """Adding up goes once through the numbers."""
    judge(learner.add_up, lambda: (randint(1, 1000, judge.size).tolist(),))
'''


@pytest.fixture
def run(tmp_path: Path, sandbox):
    """Runs the timed test on a learner's source."""

    def package(source: str, name: str) -> Package:
        return Package(main="ex01_sum", files={"ex01_sum.py": textwrap.dedent(source).encode()}, name=name)

    def run(
        learner: str, *, hidden: str = HIDDEN.format(points=1), declared: bool = True, reference: str = REFERENCE, **more
    ) -> SuiteRun:
        path = tmp_path / "tests" / "hidden" / "test_ex01_sum.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(hidden)
        off, slow = more.pop("off", None), more.pop("slow", SLOW)
        timed = Timed(
            names=("add_up",),
            slow="loops",
            hint="Is it?",
            package=package(slow, "_chaff_loops"),
            points=1,
            size=1000,
            gap=3.0,
            off=off,
        )
        suite = Suite(
            learner=package(learner, "exercises"),
            names=["add_up"],
            files=[path],
            public=tmp_path / "tests/public",
            reference=package(reference, "_reference_sum"),
            chaffs=[Chaff("loops", "Is it?", "speed", timed.package)],
            timed={"test_fast": timed} if declared else {},
            limits=Limits(call_seconds=5.0),
            seed=7,
            **more,
        )
        return run_suite(suite, sandbox)

    return run


def only(found: SuiteRun) -> TestRecord:
    assert not found.problems, found.problems
    (record,) = found.tests
    return record


def test_fast_code_passes_with_its_figures(run):
    record = only(run(REFERENCE))
    assert record.outcome == "passed", record.message
    assert record.timing.verdict == "pass" and record.timing.device == "cpu" and record.timing.gap > 3
    assert record.message is None and record.picture is None


def test_slow_code_fails_and_reads_why(run):
    record = only(run(SLOW))
    assert (record.outcome, record.share, record.timing.verdict) == ("failed", 0.0, "fail")
    assert "add_up is right, but takes" in record.message
    assert record.picture.startswith("R") and "# yours" in record.picture
    assert (record.diagnosis, record.hint) == ("loops", "Is it?")


@pytest.mark.skipif(len(affinity.cores()) < 2, reason="there is only one core, or no telling which")
def test_anchors_follow_a_run_to_its_core(run, monkeypatch):
    """They are kept from one learner to the next, who may be looked at on another core."""
    first, second = sorted(affinity.cores())[:2]
    measured, real = [], WorkerArm.run

    def noted(arm, arguments):
        measured.append(os.sched_getaffinity(arm._worker.pid))
        return real(arm, arguments)

    monkeypatch.setattr(WorkerArm, "run", noted)
    for core in (first, second):
        monkeypatch.setattr(affinity, "own_core", lambda core=core: contextlib.nullcontext(frozenset({core})))
        measured.clear()
        only(run(REFERENCE))
        assert len(measured) > 6 and all(cores == {core} for cores in measured)


def test_much_slower_code_is_not_taken_for_the_anchors_mistake(run):
    record = only(run(SLOWER))
    assert record.outcome == "failed" and record.timing.verdict == "fail"
    assert record.diagnosis is None


def test_sleep_keeps_no_verdict_away(run):
    lazy = "import time\n" + SLOW.replace("    total = 0\n", "    total = 0\n    time.sleep(1.5)\n", 1)
    record = only(run(lazy))
    assert (record.outcome, record.timing.verdict) == ("failed", "fail"), record.message


def test_what_was_counted_explains(run):
    many = "def one(x):\n    return x\n\n\n" + SLOW.replace("total += number", "total += one(number)")
    record = only(run(many))
    assert record.outcome == "failed" and "counted while it ran:" in record.message and "calls of functions" in record.message


def test_right_comes_first(run):
    wrong = only(run(REFERENCE.replace("return total", "return total + 1")))
    assert wrong.outcome == "failed" and wrong.timing is None and "takes" not in wrong.message
    stub = only(run("def add_up(numbers):\n    raise NotImplementedError('EX01: add_up')\n"))
    assert stub.outcome == "failed" and "is not written yet" in stub.message


@pytest.mark.parametrize(
    ("trick", "said"),
    [
        ("import os; os._exit(3)", "ended its own process"),
        ("raise KeyError('six')", "add_up raised KeyError"),
        ("return numbers[0]", "the output is"),
        ("return (one for one in numbers)", "does not return plain data"),
    ],
    ids=["dies", "raises", "answers wrongly", "answers later"],
)
def test_what_goes_wrong_midway_is_the_learners(run, trick, said):
    """Right in the first calls, something else afterwards."""
    source = f"""
    calls = 0

    def add_up(numbers):
        global calls
        calls += 1
        if calls > 3:
            {trick}
        return sum(numbers) * 20
    """
    record = only(run(source))
    assert record.outcome == "failed" and said in record.message, record.message


def test_far_too_fast_is_left_to_a_person(run):
    record = only(run("def add_up(numbers):\n    return sum(numbers) * 20\n", reference=SLOW, slow=SLOWER))
    assert record.outcome == "not_assessed" and "your instructor has to look" in record.message
    assert record.timing.review and record.timing.ratio < 0.2


def test_nothing_is_measured_where_it_is_not_wanted(run):
    for more, said in (
        ({"untimed": "not timed in this run"}, "not timed in this run"),
        ({"off": "too small here"}, "too small here"),
    ):
        record = only(run(SLOW, **more))
        assert (record.outcome, record.message, record.timing) == ("not_assessed", said, None)
        assert only(run("def add_up(numbers):\n    return 0\n", **more)).outcome == "failed"


def test_faults_of_the_declaration_are_the_suites(run):
    undeclared = run(REFERENCE, declared=False)
    assert [record.outcome for record in undeclared.tests] == ["error"]
    assert "[[exercise.timed]]" in undeclared.tests[0].detail
    other = run(REFERENCE, hidden=HIDDEN.format(points=2), untimed="-")
    assert other.problems == ["test_fast: course.toml gives 1 points for speed, the suite 2"]
    other = run(REFERENCE, hidden=HIDDEN.format(points=1).replace('"speed"', '"numerics"'), untimed="-")
    assert other.problems == ["test_fast: course.toml gives 1 points for speed, the suite 0"]
    assert [record.outcome for record in run(REFERENCE, reference="def add_up(numbers):\n    return [][0]\n").tests] == ["error"]


def test_the_next_test_goes_on_with_its_own_time(run):
    """What measuring takes is not the learner's: the test behind still has the exercise's time."""
    more = (
        '\n@points(1, "shape")\ndef test_last(learner):\n    """An int."""\n    assert isinstance(learner.add_up([1, 2]), int)\n'
    )
    found = run(SLOW, hidden=HIDDEN.format(points=1) + more, exercise_seconds=1.5)
    assert [record.outcome for record in found.tests] == ["failed", "passed"]


# --- what is tried against the clock ---

TRICKS = {
    "in a thread that has ended": """
        from threading import Thread

        def add_up(numbers):
            box = []
            thread = Thread(target=lambda: box.append(slowly(numbers)))
            thread.start()
            thread.join()
            return box[0]
    """,
    "asleep meanwhile": """
        import threading, time

        def add_up(numbers):
            box = []
            threading.Thread(target=lambda: box.append(slowly(numbers))).start()
            while not box:
                time.sleep(0.001)
            return box[0]
    """,
    "after the answer": """
        import threading

        def add_up(numbers):
            threading.Thread(target=slowly, args=(numbers,)).start()
            return sum(numbers) * 20
    """,
    "clocks turned back": """
        import time

        for name in ("time", "perf_counter", "monotonic", "process_time", "thread_time", "clock_gettime"):
            setattr(time, name, lambda *_: 0.0)

        def add_up(numbers):
            return slowly(numbers)
    """,
}


@pytest.mark.parametrize("trick", TRICKS)
def test_work_is_seen_wherever_it_is_done(run, trick):
    source = SLOW.replace("add_up", "slowly") + textwrap.dedent(TRICKS[trick])
    record = only(run(source))
    assert record.timing is not None, (record.outcome, record.message)
    assert record.outcome != "passed" and record.timing.ratio > record.timing.limit, (record.outcome, record.message)


def test_the_clock_is_the_kernels(sandbox):
    """A worker's CPU time grows with its work, not with the time that passes, and cannot be read when it is gone."""
    package = Package(
        main="m", files={"m.py": b"import time\ndef nap(s):\n    time.sleep(s)\n    return 1\n" + REFERENCE.encode()}
    )
    from grader.sandbox.client import WorkerGone
    from grader.sandbox.remote import Remote, Session

    with sandbox.worker(package) as worker:
        remote = Remote(Session(lambda: worker))
        nap, work = WorkerArm(worker, remote.nap, "cpu"), WorkerArm(worker, remote.add_up, "cpu")
        nap.run([0.0])
        slept = nap.run([0.3]).seconds
        work.run([[1]])
        worked = work.run([list(range(20000))]).seconds
        assert slept < 0.1 < 0.3 and worked > slept
    with pytest.raises(WorkerGone):
        worker.cpu_time()


def test_a_contest_on_a_gpu_takes_turns(tmp_path, monkeypatch):
    """The lock of a GPU is exclusive between processes and is let go of at the end; the CPU has none."""
    import fcntl

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    package = Package(main="m", files={})
    contest = Contest(sandbox=None, learner=package, reference=package, slow=package, limits=Limits(), device="cuda")
    path = tmp_path / "attention-ladder-cuda-0.lock"
    with contest.machine(), open(path, "a") as other:
        with pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with open(path, "a") as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
