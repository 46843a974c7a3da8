"""A class of thirty, graded as an instructor would: every kind of submission, killed halfway, started again, reported."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from grader.grading.result import Result, read_result

ROOT = Path(__file__).resolve().parents[2]
SOLUTION = (ROOT / "solutions/ex06_repeat_kv.py").read_text()
STUB = (ROOT / "exercises/ex06_repeat_kv.py").read_text()

# What each student handed in for exercise 06, and what must come of it: points as a test, or a status.
ALL, SOME, NONE = "all points", "some points", "no points"

HALF = """
def repeat_kv(x, n_rep):
    if n_rep < 1:
        raise ValueError(f"n_rep must be at least 1, got {n_rep}")
    return x
"""
SOURCES: dict[str, tuple[str, str]] = {
    "unfinished": (STUB, NONE),
    "half finished": (HALF, SOME),
    "syntax-error": ("def repeat_kv(x, n_rep)\n    return x\n", NONE),
    "wrong-type": ("def repeat_kv(x, n_rep):\n    return [x] * n_rep\n", NONE),
    "returns-none": ("def repeat_kv(x, n_rep):\n    x.repeat_interleave(n_rep, 2)\n", NONE),
    "wrong-name": ("def repeat_heads(x, n_rep):\n    return x\n", NONE),
    "not-text": ("\x00\x01 \ud7ff", NONE),
    "empty-file": ("", NONE),
    "exits": ("import os\nos._exit(0)\n", NONE),
    "hangs": ("def repeat_kv(x, n_rep):\n    while True: pass\n", NONE),
    "bomb": ("def repeat_kv(x, n_rep):\n    return x.new_empty(10**12).fill_(1)\n", NONE),
    "segfault": ("import ctypes\ndef repeat_kv(x, n_rep):\n    ctypes.string_at(0)\n", NONE),
    "thief": ("def repeat_kv(x, n_rep):\n    return open('/etc/passwd').read()\n", NONE),
    "forger": ("def repeat_kv(x, n_rep):\n    import os\n    os.write(3, b'ALW1' + bytes(12))\n", NONE),
    "O'Brien, Zoë <b>": (SOLUTION, ALL),
    "=1+1": (SOLUTION, ALL),
    "学生": (SOLUTION, ALL),
}


def class_of(folder: Path) -> dict[str, str]:
    """Lay out the submissions; returns what must come of each."""
    expected = {}

    def hand_in(student: str, source: str | bytes, outcome: str, inner: str = "") -> None:
        path = folder / student / inner
        path.mkdir(parents=True)
        data = source if isinstance(source, bytes) else source.encode("utf-8", "surrogatepass")
        (path / "ex06_repeat_kv.py").write_bytes(data)
        expected[student] = outcome

    for student, (source, outcome) in SOURCES.items():
        hand_in(student, source, outcome)
    for path in sorted((ROOT / "solutions/wheats/ex06_repeat_kv").glob("*.py")):
        hand_in(f"wheat-{path.stem}", path.read_bytes(), ALL, inner="exercises")
    for path in sorted((ROOT / "solutions/chaffs/ex06_repeat_kv").glob("*.py"))[:6]:
        hand_in(f"chaff-{path.stem}", path.read_bytes(), "not all points")
    (folder / "empty").mkdir()
    expected["empty"] = "missing"
    with zipfile.ZipFile(folder / "zipped.zip", "w") as archive:
        archive.writestr("my homework/exercises/ex06_repeat_kv.py", SOLUTION)
    expected["zipped"] = ALL
    (folder / "broken.zip").write_bytes(b"PK no zip at all")
    expected["broken"] = "error"
    return expected


def right(result: Result, outcome: str) -> bool:
    if outcome in ("missing", "error"):
        return result.status == outcome and result.points is None
    if result.status != "graded" or result.points is None:
        return False
    full = result.points == result.max_points == 10
    return {ALL: full, NONE: result.points == 0, SOME: 0 < result.points < 10, "not all points": result.points < 10}[outcome]


def grade(folder: Path, out: Path) -> list[str]:
    return [sys.executable, "-m", "grader", "grade", str(folder), "--out", str(out), "--exercises", "06", "--jobs", "2"]


@pytest.mark.slow
@pytest.mark.timeout(500)
def test_a_class_is_graded_killed_resumed_and_reported(tmp_path: Path):
    folder, out = tmp_path / "submissions", tmp_path / "results"
    expected = class_of(folder)
    assert len(expected) >= 25

    # Killed halfway, with no chance to tidy up.
    process = subprocess.Popen(grade(folder, out), cwd=ROOT, stdout=subprocess.DEVNULL, start_new_session=True)
    end = time.monotonic() + 200
    while len(list(out.glob("*/ex06.json"))) < len(expected) // 3 and process.poll() is None and time.monotonic() < end:
        time.sleep(0.02)
    assert process.poll() is None, "the batch ended before it could be killed"
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    time.sleep(1.0)
    session = subprocess.run(["ps", "-s", str(process.pid), "-o", "stat=,pid="], capture_output=True, text=True).stdout
    left = [line for line in session.splitlines() if not line.startswith("Z")]  # ended, and not yet reaped by the system
    assert not left, "processes outlive the command"
    before = {path: path.stat().st_mtime_ns for path in out.glob("*/ex06.json")}
    assert len(expected) // 3 <= len(before) < len(expected)
    for path in before:
        read_result(path)  # whole, never half a file

    # Started again: only what was missing is done.
    done = subprocess.run(grade(folder, out), cwd=ROOT, capture_output=True, text=True, timeout=400)
    assert done.returncode == 1, done.stdout + done.stderr  # one archive is broken
    kept = sum(read_result(path).status != "error" for path in before)
    assert f"{len(expected) - kept} graded now, {kept} were up to date" in done.stdout
    for path, when in before.items():
        assert path.stat().st_mtime_ns == when or read_result(path).status == "error"

    results = {path.parent.name: read_result(path) for path in out.glob("*/ex06.json")}
    assert set(results) == set(expected)
    wrong = {
        student: (result.status, result.points, result.reason)
        for student, result in results.items()
        if not right(result, expected[student])
    }
    assert not wrong
    assert all(result.official for result in results.values() if result.status == "graded")

    # And the report reads it.
    page, table = tmp_path / "report.html", tmp_path / "items.csv"
    command = [sys.executable, "grader/report.py", str(out), "--out", str(page), "--csv", str(table)]
    report = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert report.returncode == 0, report.stderr
    assert "broken" in report.stdout and "ERROR" in report.stdout and "MISSING" in report.stdout
    html = page.read_text()
    assert "Zoë <b>" not in html and "Zoë" in html
    assert "\n=1+1" not in table.read_text()


def test_a_weak_sandbox_makes_results_not_official(tmp_path: Path):
    folder, out = tmp_path / "submissions", tmp_path / "results"
    (folder / "ada").mkdir(parents=True)
    (folder / "ada" / "ex06_repeat_kv.py").write_text(SOLUTION)
    done = subprocess.run([*grade(folder, out), "--isolation", "C"], cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0 and "NOT OFFICIAL" in done.stdout
    result = json.loads((out / "ada" / "ex06.json").read_text())
    assert result["official"] is False and result["points"] == 10 and result["environment"]["isolation"] == "C"
    assert "read a file of the host" in result["environment"]["probe"]
