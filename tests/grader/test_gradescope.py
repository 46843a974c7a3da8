"""The Gradescope autograder: what is in the zip, how an upload is found, and what becomes of results; nothing of the learner's runs here."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import time
import zipfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.authoring.stubs import AuthoringError, stub_of
from grader.course import Course
from grader.gradescope import locate as locating
from grader.gradescope import run as running
from grader.gradescope.build import make_autograder, make_options
from grader.gradescope.document import Graded, document
from grader.gradescope.locate import MAX_DEPTH, find_upload
from grader.gradescope.options import OPTIONS_FILE, Options, OptionsError, read_options
from grader.gradescope.run import Fault, OutOfTime
from grader.grading.result import CATEGORIES, Environment, Result, TestResult
from grader.submission import Problem, SourceFile
from tests.grader.kits import run_in

ROOT = Path(__file__).resolve().parents[2]
NAME = "ex06_repeat_kv"
FILE = f"{NAME}.py"
VISIBLE = Options(exercises=[NAME])
HERE = Environment(isolation="A", layers=[], probe=[], device="cpu", versions={})


def one_test(name: str, points: float, most: float, category: str = "numerics", outcome: str = "", **more) -> TestResult:
    outcome = outcome or ("passed" if points else "failed")
    common = {"category": category, "points": points, "max_points": most, "outcome": outcome, "visible": most == 0}
    return TestResult(id=f"hidden::test_{name}", title=f"Title of {name}.", **common, **more)


def result_of(tests: list[TestResult], **more) -> Result:
    assessed = sum(test.max_points for test in tests if test.outcome != "not_assessed")
    fields = {
        "student": "submission",
        "exercise": NAME,
        "status": "graded",
        "points": round(sum(test.points for test in tests), 6),
        "max_points": round(assessed, 6),
        "official": True,
        "environment": HERE,
        "tests": tests,
    }
    return Result(**(fields | more))


def graded_of(course: Course, tests: list[TestResult], **more) -> Graded:
    found = SourceFile(name=NAME, content=b"", place=FILE)
    return Graded(exercise=course.exercise(NAME), found=found, result=result_of(tests, **more))


# ---- results.json ------------------------------------------------------------------------------------------------------


def test_one_entry_per_category_with_the_words_of_check(course: Course):
    tests = [
        one_test("example", 0, 0, outcome="failed", message="yours is 2; expected 1"),
        one_test("a", 3, 3, "shape"),
        one_test(
            "b",
            0,
            4,
            message="2 of 4 values are wrong",
            hint="The heads are tiled.",
            picture="yours\nright",
            diagnosis="tiles_heads",
        ),
        one_test("c", 0, 3, message="3 of 4 values are wrong", hint="The heads are tiled."),
    ]
    found = document([graded_of(course, tests)], VISIBLE, seconds=1.24)
    assert {"score", "execution_time", "output", "visibility", "stdout_visibility", "tests", "leaderboard"} == set(found)
    assert (found["score"], found["execution_time"], found["leaderboard"]) == (3.0, 1.2, [])
    examples, shape, numerics = found["tests"]
    assert examples["status"] == "failed" and "score" not in examples and "expected 1" in examples["output"]
    assert (shape["number"], shape["score"], shape["max_score"]) == ("06.1", 3.0, 3.0)
    assert (numerics["score"], numerics["max_score"], numerics["tags"]) == (0.0, 7.0, ["06", "numerics"])
    assert numerics["output"].splitlines() == [
        "0 of 2 tests passed",
        "",
        "✗ Title of b.",
        "    seen: 2 of 4 values are wrong",
        "    yours",
        "    right",
        "    looks like: The heads are tiled.",
        "    also: 1 more test failed for the same reason",
    ]
    assert found["output"] == "06 Repeat key and value heads: 3 of 10 points"
    text = json.dumps(found)
    for secret in ("hidden::", "test_b", "tiles_heads"):
        assert secret not in text


@pytest.mark.parametrize(
    ("policy", "shown", "not_shown"), [("verdict", "0 of 1 tests", "Title"), ("sentence", "Title of a.", "seen")]
)
def test_the_courses_feedback_policy_decides_what_is_said(course: Course, policy: str, shown: str, not_shown: str):
    exercise = msgspec.structs.replace(course.exercise(NAME), feedback=policy)
    one = Graded(
        exercise=exercise,
        found=SourceFile(name=NAME, content=b"", place=FILE),
        result=result_of([one_test("a", 0, 10, message="seen this", hint="a hint")]),
    )
    (entry,) = document([one], VISIBLE, seconds=0)["tests"]
    assert shown in entry["output"] and not_shown not in entry["output"] and "hint" not in entry["output"]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(CATEGORIES), st.sampled_from(["passed", "failed", "blocked", "not_assessed"]), st.integers(1, 400)
        ),
        min_size=1,
        max_size=40,
    )
)
def test_points_add_up_exactly(course: Course, drawn: list[tuple]):
    """Entries sum to the score; without gaps it is the result's; maxima always sum to the exercise's points."""
    total = sum(weight for _, _, weight in drawn)
    tests = [
        one_test(f"t{i}", 10 * weight / total if outcome == "passed" else 0.0, 10 * weight / total, category, outcome)
        for i, (category, outcome, weight) in enumerate(drawn)
    ]
    one = graded_of(course, tests)
    if one.result.max_points <= 0:
        return
    found = document([one], VISIBLE, seconds=0)
    scores, maxima = (
        [entry.get("score", 0.0) for entry in found["tests"]],
        [entry.get("max_score", 0.0) for entry in found["tests"]],
    )
    assert sum(scores) == pytest.approx(found["score"], abs=1e-5) and sum(maxima) == pytest.approx(10.0, abs=1e-4)
    assert found["score"] == pytest.approx(10 * one.result.points / one.result.max_points, abs=1e-4)
    assert all(0 <= score <= most + 1e-9 for score, most in zip(scores, maxima, strict=True))
    for entry in found["tests"]:
        own = [test for test in tests if test.category in entry["tags"]]
        if own:
            assert entry["score"] == pytest.approx(sum(test.points for test in own), abs=1e-6)


def test_what_cannot_be_assessed_costs_nothing_and_is_said(course: Course):
    found = document(
        [graded_of(course, [one_test("a", 6, 8), one_test("b", 0, 2, "memory", "not_assessed")])], VISIBLE, seconds=0
    )
    extra = found["tests"][-1]
    assert (extra["score"], extra["max_score"], found["score"]) == (1.5, 2.0, 7.5) and "2 of 10 points" in extra["output"]


@pytest.mark.parametrize("visibility", ["after_due_date", "after_published", "hidden"])
def test_points_that_students_may_not_see_yet_are_nowhere(course: Course, visibility: str):
    tests = [one_test("example", 0, 0, outcome="passed"), one_test("a", 6, 10)]
    found = document([graded_of(course, tests)], msgspec.structs.replace(VISIBLE, visibility=visibility), seconds=0)
    assert [entry["visibility"] for entry in found["tests"]] == ["visible", visibility]
    assert "6" not in found["output"].replace("06", "") and "graded" in found["output"]


def test_what_was_not_handed_in_is_0_and_says_what_to_do(course: Course):
    problem = Problem(
        kind="missing", message=f"there is no {FILE}, neither at the top nor in exercises/; found ex6.py; expected {FILE}"
    )
    found = document([Graded(exercise=course.exercise(NAME), found=problem)], VISIBLE, seconds=0)
    (entry,) = found["tests"]
    assert (found["score"], entry["score"], entry["max_score"]) == (0.0, 0.0, 10)
    assert "found ex6.py" in entry["output"] and "make submit" in entry["output"]


def test_a_long_or_hostile_message_does_no_harm(course: Course):
    message = "\x1b[2J<script>\u202e" + "x" * 100_000
    found = document([graded_of(course, [one_test("a", 0, 10, message=message)])], VISIBLE, seconds=0)
    output = found["tests"][0]["output"]
    assert len(output) < 9000 and "\x1b" not in output and "\u202e" not in output


# ---- what is no result is no zero --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "sentence", "detail"),
    [
        ({"status": "error", "points": None, "reason": "the sandbox failed"}, "tell your instructor", "the sandbox failed"),
        (
            {"official": False, "environment": msgspec.structs.replace(HERE, probe=["open a socket"])},
            "Isolation",
            "open a socket",
        ),
        ({"max_points": 0.0, "points": 0.0}, "tell your instructor", "nothing could be assessed"),
    ],
)
def test_a_fault_of_the_graders_gives_no_points(course: Course, change: dict, sentence: str, detail: str):
    result = result_of([one_test("a", 10, 10)], **change)
    with pytest.raises(Fault, match=sentence) as fault:
        running._check(course.exercise(NAME), result, VISIBLE)
    assert detail in fault.value.detail and detail not in str(fault.value)


def test_an_instructor_may_accept_a_weak_sandbox(course: Course):
    result = result_of([one_test("a", 10, 10)], official=False)
    running._check(course.exercise(NAME), result, msgspec.structs.replace(VISIBLE, accept_unofficial=True))


@pytest.fixture
def autograder(tmp_path: Path) -> Path:
    """/autograder as Gradescope has it, without the course: `run` is given that."""
    for name in ("source", "submission", "results"):
        (tmp_path / name).mkdir()
    write_options(tmp_path, VISIBLE)
    return tmp_path


def write_options(autograder: Path, options: Options) -> None:
    (autograder / "source" / OPTIONS_FILE).write_bytes(msgspec.json.encode(options))


def results_of(autograder: Path) -> dict:
    return json.loads((autograder / "results/results.json").read_text())


def is_no_result(found: dict) -> bool:
    return "score" not in found and found["tests"] == [] and "no fault of yours" in found["output"]


@pytest.mark.parametrize(
    "broken", ["options", "no options", "unknown exercise", "unknown option", "no submission", "crash", "endless"]
)
def test_whatever_is_broken_ends_in_a_document_without_a_score(autograder: Path, broken: str, monkeypatch, capsys):
    (autograder / "submission" / FILE).write_text("x = 1\n")
    options = autograder / "source" / OPTIONS_FILE
    if broken == "options":
        options.write_text("{")
    elif broken == "no options":
        options.unlink()
    elif broken == "unknown exercise":
        write_options(autograder, Options(exercises=["ex99_nothing"]))
    elif broken == "unknown option":
        options.write_text('{"exercises": ["ex06_repeat_kv"], "visible": true}')
    elif broken == "no submission":
        (autograder / "submission" / FILE).unlink()
        (autograder / "submission").rmdir()
    else:

        def fail(*_):
            if broken == "crash":
                raise ZeroDivisionError("a secret path")
            time.sleep(30)

        monkeypatch.setattr(running, "_results", fail)
        monkeypatch.setattr(running, "SPARE_SECONDS", 599)  # so that one second is left
    handler = signal.getsignal(signal.SIGALRM)
    assert running.run(autograder, ROOT) == 1
    assert is_no_result(results_of(autograder)) and "secret" not in json.dumps(results_of(autograder))
    assert "NOT GRADED" in capsys.readouterr().out
    assert signal.getsignal(signal.SIGALRM) is handler


def test_the_deadline_ends_what_is_in_work():
    started = time.monotonic()
    with pytest.raises(OutOfTime), running._deadline(1):
        time.sleep(20)
    assert time.monotonic() - started < 10


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ([], "there is no ex06_repeat_kv.py"),
        (["ex6_repeat_kv.py"], "found ex6_repeat_kv.py; expected ex06_repeat_kv.py"),
        (["deep/er/ex06-repeat-kv (2).py"], "there is no ex06_repeat_kv.py"),
    ],
)
def test_nothing_handed_in_is_a_0_with_a_reason(autograder: Path, names: list[str], said: str):
    for name in names:
        (autograder / "submission" / name).parent.mkdir(parents=True, exist_ok=True)
        (autograder / "submission" / name).write_text("x = 1\n")
    assert running.run(autograder, ROOT) == 0  # and no process was started for it
    found = results_of(autograder)
    assert found["score"] == 0.0 and said in found["tests"][0]["output"]


def test_unreadable_options_say_why(tmp_path: Path):
    (tmp_path / OPTIONS_FILE).write_text('{"exercises": ["a"], "visibility": "sometimes"}')
    with pytest.raises(OptionsError, match=r"sometimes.*visibility"):
        read_options(tmp_path / OPTIONS_FILE)


# ---- how an upload is found --------------------------------------------------------------------------------------------


def upload(tmp_path: Path, files: dict[str, str]) -> Path:
    folder = tmp_path / "upload"
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    return folder


@pytest.mark.parametrize(
    "place",
    [
        FILE,
        f"exercises/{FILE}",
        f"my kit/exercises/{FILE}",
        f"a/b/{FILE}",
        f"__MACOSX/{FILE};a/{FILE}",
        f".git/{FILE};x/y/z/{FILE}",
    ],
)
def test_exercises_are_found_wherever_they_lie(course: Course, tmp_path: Path, place: str):
    *decoys, real = place.split(";")
    folder = upload(tmp_path, {**dict.fromkeys(decoys, "decoy"), real: "mine", "README.md": "", "src/notes.py": ""})
    found = find_upload(folder, course).file(NAME)
    assert isinstance(found, SourceFile) and found.content == b"mine"


def test_the_nearest_folder_counts_and_the_others_are_told(course: Course, tmp_path: Path):
    folder = upload(tmp_path, {f"b/{FILE}": "b", f"a/{FILE}": "a", f"c/d/{FILE}": "c", "b/exercises/ex07_attention.py": "b"})
    found = find_upload(folder, course)
    assert found.file(NAME).content == b"b" and found.file("ex07_attention").content == b"b"  # it holds most
    assert found.file(NAME).notes == ("exercises were found in b/ and in a/, c/d/; the first counts",)


def test_a_zip_within_the_upload_is_read_in_place(course: Course, tmp_path: Path):
    folder = upload(tmp_path, {"note.txt": ""})
    with zipfile.ZipFile(folder / "submission.zip", "w") as archive:
        archive.writestr(f"exercises/{FILE}", "zipped")
        archive.writestr("../../evil.py", "x")
    assert find_upload(folder, course).file(NAME).content == b"zipped"
    assert sorted(os.listdir(folder)) == ["note.txt", "submission.zip"] and not (tmp_path / "evil.py").exists()


def test_a_notebooks_solution_cell_counts_where_the_file_is_untouched(course: Course, tmp_path: Path):
    mine = f"# solution of {NAME}\ndef repeat_kv(x, n_rep):\n    return x\n"
    cells = {"cells": [{"cell_type": "code", "source": mine.splitlines(True), "metadata": {}}]}
    exercise = course.exercise(NAME)
    for files in ({}, {FILE: stub_of(course, exercise)}):
        folder = upload(tmp_path, {**files, "Week 3.ipynb": json.dumps(cells)})
        found = find_upload(folder, course).file(NAME)
        assert isinstance(found, SourceFile) and found.content.decode() == mine
        assert any("solution cell of Week 3.ipynb counts" in note for note in found.notes)
    folder = upload(tmp_path, {FILE: "def repeat_kv(x, n_rep):\n    return 2 * x\n"})
    assert b"2 * x" in find_upload(folder, course).file(NAME).content


def test_links_are_not_followed_and_depth_has_an_end(course: Course, tmp_path: Path):
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / FILE).write_text("secret")
    folder = upload(tmp_path, {"/".join("d" * (MAX_DEPTH + 1)) + f"/{FILE}": "deep"})
    (folder / "link").symlink_to(tmp_path / "secret")
    (folder / "exercises").symlink_to(tmp_path / "secret")
    assert find_upload(folder, course).file(NAME).kind == "missing"
    (folder / FILE).symlink_to(tmp_path / "secret" / FILE)
    found = find_upload(folder, course).file(NAME)
    assert found.kind == "unreadable" and "symbolic link" in found.message


def bad_name(folder: Path) -> None:
    odd = os.fsencode(folder) + b"/b\xff\x1b[2J\n"
    os.mkdir(odd)
    shutil.copy(ROOT / "exercises" / FILE, odd + b"/ex6_repeat_kv.py")


def pipe(folder: Path) -> None:
    os.mkfifo(folder / FILE)
    os.mkfifo(folder / "ex06.ipynb")


def bomb(folder: Path) -> None:
    with zipfile.ZipFile(folder / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(FILE, b"\0" * 40_000_000)
        archive.writestr("../../../etc/cron.d/x", b"x")


def crowd(folder: Path) -> None:
    for number in range(6):
        (folder / f"d{number}").mkdir()
        for other in range(100):
            (folder / f"d{number}" / f"f{other}").touch()
    (folder / "z").mkdir()
    (folder / "z" / FILE).write_text("x")  # beyond what is looked at


def circle(folder: Path) -> None:
    (folder / "again").symlink_to(folder)
    (folder / FILE).symlink_to(FILE)


def folder_for_a_file(folder: Path) -> None:
    (folder / FILE).mkdir()
    (folder / "ex06.ipynb").write_text("[" * 100_000)


def no_rights(folder: Path) -> None:
    (folder / "results.json").write_text('{"score": 100}')
    (folder / "exercises").mkdir()
    (folder / "exercises").chmod(0)


@pytest.mark.parametrize("hostile", [bad_name, pipe, bomb, crowd, circle, folder_for_a_file, no_rights])
def test_a_hostile_upload_is_a_0_with_a_reason(autograder: Path, hostile, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(locating, "MAX_ENTRIES", 500)
    hostile(autograder / "submission")
    started = time.monotonic()
    assert running.run(autograder, ROOT) == 0
    found = results_of(autograder)
    assert found["score"] == 0.0 and FILE in found["tests"][0]["output"] and "Hand in again" in found["tests"][0]["output"]
    assert "\x1b" not in json.dumps(found) and time.monotonic() - started < 20
    assert sorted(os.listdir(autograder)) == ["results", "source", "submission"]


def test_an_uploads_odd_names_do_no_harm(course: Course, tmp_path: Path):
    folder = upload(tmp_path, {f"a/{FILE}": "1"})
    odd = os.fsencode(folder) + b"/b\xff\x1b[2J"
    os.mkdir(odd)
    shutil.copy(folder / "a" / FILE, os.fsdecode(odd))
    one = Graded(
        exercise=course.exercise(NAME), found=find_upload(folder, course).file(NAME), result=result_of([one_test("a", 10, 10)])
    )
    text = msgspec.json.encode(document([one], VISIBLE, seconds=0)).decode()
    assert "exercises were found in a/ and in b" in text and "\x1b" not in text


# ---- the zip -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory, course: Course) -> Path:
    out = tmp_path_factory.mktemp("gradescope") / "autograder.zip"
    options = make_options([course.exercise("06")], "visible", leaderboard=True, accept_unofficial=False, minutes=10)
    make_autograder(course, out, options, torch="torch==2.13.0 --index-url address")
    return out


def test_the_zip_holds_what_gradescope_and_the_grader_need(packed: Path, course: Course):
    with zipfile.ZipFile(packed) as archive:
        names = set(archive.namelist())
        modes = {name: archive.getinfo(name).external_attr >> 16 & 0o777 for name in names}
        assert "TORCH ?= torch==2.13.0 --index-url address\n" in archive.read("course/Makefile").decode()
        assert json.loads(archive.read(OPTIONS_FILE))["exercises"] == [NAME]
        assert archive.read(f"course/exercises/{FILE}").decode() == stub_of(course, course.exercise("06"))
    assert {name for name in names if "/" not in name} == {"setup.sh", "run_autograder", OPTIONS_FILE}
    assert {name: mode for name, mode in modes.items() if mode != 0o644} == {"setup.sh": 0o755, "run_autograder": 0o755}
    assert f"course/tests/hidden/test_{FILE}" in names and f"course/solutions/chaffs/{NAME}/tiles_heads.py" in names
    assert not [name for name in names if re.search(r"wheats|authoring|classroom|\.git|__pycache__|\.ladder", name)]
    assert not [name for name in names if name.startswith("/") or ".." in name]


def test_the_same_course_gives_the_same_zip(packed: Path, course: Course, tmp_path: Path):
    options = make_options([course.exercise("06")], "visible", leaderboard=True, accept_unofficial=False, minutes=10)
    make_autograder(course, tmp_path / "again.zip", options, torch="torch==2.13.0 --index-url address")
    assert (tmp_path / "again.zip").read_bytes() == packed.read_bytes()


@pytest.mark.parametrize(
    ("out", "visibility", "torch", "message"),
    [
        ("autograder", "visible", "", "ends in .zip"),
        ("folder.zip", "visible", "", "is a folder"),
        ("nowhere/x.zip", "visible", "", "cannot be written"),
        ("x.zip", "sometimes", "", "allowed are visible, after_due_date, after_published, hidden"),
        ("x.zip", "visible", "torch; rm -rf /", "expected what follows `pip install`"),
    ],
)
def test_wrong_usage_is_a_sentence(course: Course, tmp_path: Path, out: str, visibility: str, torch: str, message: str):
    (tmp_path / "folder.zip").mkdir()
    with pytest.raises(AuthoringError, match=message):
        options = make_options(course.exercises, visibility, leaderboard=True, accept_unofficial=False, minutes=10)
        make_autograder(course, tmp_path / out, options, torch)
    assert os.listdir(tmp_path) == ["folder.zip"]


# ---- setup.sh ----------------------------------------------------------------------------------------------------------

FAKES = {
    "apt-get": 'echo "apt-get $*" >> "$LOG"',
    "make": 'echo "make $*" >> "$LOG"; for word in "$@"; do case "$word" in VENV=*) venv="${word#VENV=}";; esac; done\n'
    'mkdir -p "$venv/bin"; printf \'#!/bin/sh\\necho "python $1" >> "$LOG"\\n\' > "$venv/bin/python"; chmod +x "$venv/bin/python"',
    "cat": '/bin/cat "$@"',
}


def set_up(packed: Path, tmp_path: Path, **fakes: str):
    """Run setup.sh with commands that only write down how they were called."""
    source = tmp_path / "autograder/source"
    with zipfile.ZipFile(packed) as archive:
        archive.extractall(source)
    (tmp_path / "bin").mkdir()
    for name, script in {**FAKES, **fakes}.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/bash\n{script}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    for name in ("bash", "mkdir", "chmod"):
        (tmp_path / "bin" / name).symlink_to(f"/bin/{name}")
    script = (source / "setup.sh").read_text().replace("/opt/attention-ladder", f"{tmp_path}/venv")
    done = run_in(
        tmp_path,
        "/bin/bash",
        "-c",
        script,
        PATH=f"{tmp_path}/bin",
        LOG=f"{tmp_path}/log",
        ATTENTION_LADDER_AUTOGRADER=f"{tmp_path}/autograder",
    )
    log = tmp_path / "log"
    return done, log.read_text().splitlines() if log.exists() else []


def python(version: str) -> str:
    """A Python that answers what setup.sh asks of it."""
    major, minor = version.split(".")
    return f'case "$2" in *exit*) [ {minor} -ge 11 ] && [ {minor} -lt 14 ];; *) echo {major}.{minor};; esac'


def test_setup_installs_with_the_courses_own_makefile(packed: Path, tmp_path: Path):
    done, log = set_up(packed, tmp_path, python3=python("3.12"))
    assert done.returncode == 0, done.stderr
    course = f"{tmp_path}/autograder/source/course"
    assert log[:2] == ["apt-get update -qq", "apt-get install -y -qq make libseccomp2"]
    assert f"make -C {course} setup VENV={tmp_path}/venv PYTHON=python3" in log and log[-1] == "python -c"
    assert (tmp_path / "autograder/source/venv").read_text() == f"{tmp_path}/venv\n"


def test_setup_looks_for_a_python_that_fits(packed: Path, tmp_path: Path):
    newer = {"python3.11": python("3.11")}
    done, log = set_up(packed, tmp_path, python3=python("3.10"), **newer)
    assert done.returncode == 0 and "apt-get install -y -qq python3.11-venv" in log and log[-2].endswith("PYTHON=python3.11")


def test_setup_says_which_image_to_choose_when_none_fits(packed: Path, tmp_path: Path):
    done, log = set_up(packed, tmp_path, python3=python("3.10"))
    assert (
        done.returncode == 1
        and "choose the base image with Ubuntu 24.04" in done.stderr
        and not any("make -C" in line for line in log)
    )
