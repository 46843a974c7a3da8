"""Hostile submissions, graded for real in tiers A and B: they earn nothing, break nothing, and leave nothing behind.

Each file in `submissions` says in its docstring what it tries; the exercise is 06 unless its name begins with another number.
"""

from __future__ import annotations

import platform
import re
import sys
from pathlib import Path

import msgspec
import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="tiers A and B need Linux")

FOLDER = Path(__file__).parent / "submissions"
NAMES = sorted(path.stem for path in FOLDER.glob("*.py"))
TELLS = re.compile(
    r"^(found|read|could|opened|sent|raised|became|owned|set|may outlive)\b", re.MULTILINE
)  # printed after a success
MACHINE_CODE = {  # they make system calls by number
    *("10_leader_leaves", "changed_metadata", "fork_bomb", "orphan", "signals_by_owner", "signals_to_the_grader", "subprocesses"),
    *("traces_the_grader", "undone_limits"),
}
NASTY = {
    "fork_bomb",
    "full_disk",
    "ignored_signals",
    "memory_bomb",
    "orphan",
    "signals_to_the_grader",
    "stops_itself",
    "thread_bomb",
}
MEMORY = 1800 << 20  # that the trusted side may grow by at most, whatever it is sent

LATE = "no answer (within|before)"
NO_ANSWER = "something other than an answer"
SAYS = {  # what the learner reads, where it is not just that the answers are wrong; large answers may also be late
    "09_endless_generator": LATE,
    "09_endless_large_items": f"{NO_ANSWER}: far too much|{LATE}",
    "09_wrong_structures": "could not go on with an answer of `Scale",
    "10_dies_when_measured": "ended its own process",
    "10_late_work": "only when the result is looked at|more is made than the result",
    "10_leader_leaves": "ended its own process while its memory was measured",
    "10_reserve": "more is made than the result",
    "abort": r"ended by SIG(ABRT|SEGV)",
    "answers_for_ever": NO_ANSWER,
    "base_exception_in_call": "raised Skipped",
    "class_lies": "a Pretender, not a tensor",
    "closed_wire": "closed its connection",
    "colliding_keys": f"{NO_ANSWER}: dictionary keys chosen to be slow|{LATE}",
    "early_answer": f"{NO_ANSWER}: an answer before the question",
    "endless_frames": f"{NO_ANSWER}: a stream that does not exist",
    "endless_output": f"printed without end|{LATE}",
    "escapes_in_message": "raised",
    "exit_at_import": "cannot be loaded: the code ended its own process",
    "exit_in_call": "ended its own process",
    "exit_later_in_thread": "ended its own process",
    "forged_bad_json": f"{NO_ANSWER}: a malformed header",
    "forged_deep_header": f"{NO_ANSWER}|{LATE}",
    "forged_half_frame": LATE,
    "forged_huge_blob": f"{NO_ANSWER}: a frame that is malformed or too large",
    "forged_huge_header": f"{NO_ANSWER}: a frame that is malformed or too large",
    "forged_magic": f"{NO_ANSWER}: a frame that is malformed or too large",
    "forged_not_written": "has no `not assessed on this machine",
    "forged_raised": f"raised|{LATE}",
    "forged_shapes": f"{NO_ANSWER}: a (malformed tensor|tensor larger than its bytes|shape that overflows)",
    "forged_wide_header": f"{NO_ANSWER}|{LATE}",
    "giant_integers": f"{NO_ANSWER}: a (number too long|malformed number)",
    "hooks_everywhere": "cannot be loaded",
    "huge_answers": LATE + "|has shape",
    "huge_message": f"raised|{LATE}",
    "ignored_signals": LATE,
    "infinite_iterator": "Does it `yield` where it should `return`",
    "infinite_loop": LATE,
    "infinite_loop_at_import": f"cannot be loaded: {LATE}",
    "keyboard_interrupt_in_call": "raised KeyboardInterrupt",
    "list_in_itself": "returned a value nested more than",
    "memory_bomb": f"raised MemoryError|SIGKILL|raised RuntimeError|{LATE}",
    "message_that_loops": LATE,
    "message_that_raises": "its message cannot be printed",
    "multiplied_bytes": f"{NO_ANSWER}: a tensor larger than its bytes|{LATE}",
    "nan_wildcard": "are NaN",
    "passed_descriptors": NO_ANSWER,
    "patched_time": LATE,
    "pickle_on_wire": NO_ANSWER,
    "pull_without_stream": f"{NO_ANSWER}: (a stream that does not exist|a malformed header)",
    "recursion_bomb": f"RecursionError|SIGSEGV|MemoryError|{LATE}",
    "second_answer": f"{NO_ANSWER}: an answer before the question",
    "second_hello": f"{NO_ANSWER}: a second greeting",
    "segfault": "SIGSEGV",
    "slow_drip": LATE,
    "stops_itself": LATE,
    "sys_exit_in_call": "raised SystemExit",
    "system_exit_at_import": "cannot be loaded: SystemExit",
    "type_that_lies": "neither its type nor its message can be printed",
    "unknown_handles": NO_ANSWER,
}


def test_every_expectation_has_its_file():
    assert SAYS.keys() | MACHINE_CODE | NASTY <= set(NAMES)


def assert_worthless(result, arena) -> None:
    """No points, no fault of the grader's, nothing left out of the score, nothing too long to be kept."""
    assert result.status == "graded", result.reason
    assert not [test for test in result.tests if test.outcome in ("error", "not_assessed")]
    assert (result.points, result.max_points) == (0, 10)
    assert result.official is False  # this sandbox was not probed
    limits = arena.grader.course.limits_for(arena.grader.course.exercise(result.exercise))
    assert result.seconds < limits.exercise_seconds + limits.call_seconds + 5
    assert len(msgspec.json.encode(result)) < 200_000 + 6 * (limits.output_kb << 10)
    assert not TELLS.search(result.output or ""), result.output


def memory(field: str) -> int:
    """Bytes of physical memory of this process."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) << 10


@pytest.mark.parametrize("name", NAMES)
def test_attack(arena, name):
    if name in MACHINE_CODE and platform.machine() != "x86_64":
        pytest.skip("its system calls have other numbers here")
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = memory("VmRSS")
    result = arena.grade((FOLDER / f"{name}.py").read_text(encoding="utf-8"), name[:2] if name[:2].isdigit() else "06", seed=1)
    assert memory("VmHWM") - before < MEMORY
    assert_worthless(result, arena)
    told = "\n".join(test.message or "" for test in result.tests)
    assert re.search(SAYS.get(name, ""), told), told
    if name == "environment_in_memory":
        assert re.match("[1-9][0-9]* strings", result.output)  # it did find something, but not the caller's token
    if name in NASTY:
        assert arena.honest().points == 10


@pytest.mark.parametrize("exercise", ["06", "09", "10"])
def test_honest_work_still_gets_all_points(arena, exercise):
    result = arena.honest(exercise)
    assert (result.status, result.points, result.max_points) == ("graded", 10, 10), result.tests


SOURCES = {
    "empty": b"",
    "not Python": b"\x89PNG\r\n\x1a\n" * 100,
    "null bytes": b"def repeat_kv(x, n_rep):\0\n    return x\n",
    "not UTF-8": b"def repeat_kv(x, n_rep):\n    return '\xff\xfe'\n",
    "an encoding of its own": b"# coding: utf-7\ndef repeat_kv(x, n_rep):\n    return +AHg-\n",
    "an encoding that is none": b"# coding: rot13\nqrs ercrng_xi(k, a_erc): erghea k\n",
    "a hundred thousand brackets": b"x = " + b"(" * 100_000 + b")" * 100_000 + b"\n",
    "a sum of ten thousand": b"x = " + b"+".join([b"1"] * 10_000) + b"\n",
    "a long chain": b"def repeat_kv(x, n_rep):\n    return x" + b".T" * 900 + b"\n",
    "a megabyte on one line": b"repeat_kv = lambda x, n_rep: x #" + b"x" * 1_000_000,
    "fifty thousand lines": b"x = [0]\n" * 50_000,
    "a string of a megabyte": b"def repeat_kv(x, n_rep):\n    return '" + b"a" * 1_000_000 + b"'\n",
    "a large number": b"x = " + b"9" * 100_000 + b"\n",
    "a power that takes years": b"x = 9 ** 9 ** 9 ** 9\n",
    "the grader's own names": b"import grader.sandbox.worker\nrepeat_kv = grader.sandbox.worker.serve\n",
    "itself": b"from exercises import ex06_repeat_kv\nfrom exercises.ex06_repeat_kv import *\n\n\ndef repeat_kv(x, n_rep):\n    return x\n",
}


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_strange_file(arena, source):
    assert_worthless(arena.grade(source, seed=1), arena)


def test_files_beside_the_submission_are_never_run(arena, small_course, tmp_path, monkeypatch):
    """A folder may hold anything: only the exercise's own file and its prerequisites are taken from it."""
    from grader.submission import own_submission

    touch = f"open({str(arena.canary.with_name('ran'))!r}, 'w').close()\nimport os; os._exit(0)\n"
    for name in ("conftest.py", "sitecustomize.py", "usercustomize.py", "torch.py", "pytest.py", "grader/__init__.py", "config.py",
                 "exercises/__init__.py", "exercises/conftest.py", "exercises/config.py", "exercises/torch.py", "tests/conftest.py",
                 "tests/hidden/test_ex06_repeat_kv.py", "solutions/ex06_repeat_kv.py", "_pytest/__init__.py"):  # fmt: skip
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(touch)
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -p conftest --co\npython_files = *.py\n")
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\naddopts = '--collect-only'\n")
    (tmp_path / "evil.pth").write_text("import os; os._exit(0)\n")
    right = (small_course / "solutions" / "ex06_repeat_kv.py").read_text(encoding="utf-8")
    exercise = arena.grader.course.exercise("06")
    monkeypatch.chdir(tmp_path)
    for source, points in ((right, 10), ("def repeat_kv(x, n_rep):\n    return x\n", 0)):
        (tmp_path / "exercises" / "ex06_repeat_kv.py").write_text(source, encoding="utf-8")
        result = arena.grader.grade(exercise, own_submission(tmp_path).file)
        assert (result.status, result.points, result.max_points) == ("graded", points, 10)


@pytest.mark.parametrize("name", ["patched_torch", "reference_from_disk"])
def test_attack_on_the_real_exercise(real_arena, name):
    """The same against the course of this repository, which lies where a learner's does."""
    result = real_arena.grade((FOLDER / f"{name}.py").read_text(encoding="utf-8"), "06", seed=1)
    assert_worthless(result, real_arena)


def test_honest_work_on_the_real_exercise(real_arena):
    result = real_arena.honest("06")
    assert (result.status, result.points, result.max_points) == ("graded", 10, 10)
