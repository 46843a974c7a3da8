"""The commands as a person runs them: output, exit codes, and a sentence instead of a traceback for every bad input."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from grader.grading.result import Result, read_result

ROOT = Path(__file__).resolve().parents[2]


def run(*arguments: object, cwd: Path = ROOT, **variables: str) -> subprocess.CompletedProcess[str]:
    """`python -m grader ...` in a folder that holds the course."""
    environment = {**os.environ, "COLUMNS": "120", "NO_COLOR": "1", **variables}
    environment.pop("ATTENTION_LADDER_ENVIRONMENT", None)
    command = [sys.executable, "-m", "grader", *map(str, arguments)]
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=110)
    assert "Traceback" not in done.stdout + done.stderr, done.stderr
    return done


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A learner's copy of the course, with untouched stubs; of its exercises, the three that are checked in no time."""
    folder = tmp_path_factory.mktemp("clone") / "course"
    ignore = shutil.ignore_patterns(".git", ".venv", ".ladder", "__pycache__", "attacks", "*.egg-info", ".hypothesis")
    shutil.copytree(ROOT, folder, ignore=ignore)
    head, *tables = (folder / "course.toml").read_text().split("[[exercise]]\n")
    some = [table for table in tables if table.startswith(("number = 6\n", "number = 7\n", "number = 8\n"))]
    (folder / "course.toml").write_text("[[exercise]]\n".join([head, *some]))
    return folder


@pytest.fixture
def learner(copy: Path, tmp_path: Path) -> Path:
    """The copy, with stubs and memory as on the first day."""
    for name in ("ex06_repeat_kv.py", "ex07_attention.py", "ex08_mask.py"):
        shutil.copy(ROOT / "exercises" / name, copy / "exercises" / name)
    shutil.rmtree(copy / ".ladder", ignore_errors=True)
    return copy


def write(course: Path, body: str, name: str = "ex06_repeat_kv") -> None:
    (course / "exercises" / f"{name}.py").write_text(body)


TILED = "import torch\n\n\ndef repeat_kv(x, n_rep):\n    print('shape', x.shape)\n    return x.repeat(1, 1, n_rep, 1)\n"


def test_the_stub_is_not_started_and_says_what_to_do(learner: Path):
    done = run("check", "06", cwd=learner)
    assert done.returncode == 1
    assert "0 of 10 points" in done.stdout and "Not started" in done.stdout
    assert "exercises/ex06_repeat_kv.md" in done.stdout and "hint" in done.stdout


def test_the_reference_has_all_points(learner: Path):
    shutil.copy(ROOT / "solutions/ex06_repeat_kv.py", learner / "exercises/ex06_repeat_kv.py")
    done = run("check", "EX06".lower(), cwd=learner)
    assert done.returncode == 0, done.stdout
    assert "10 of 10 points" in done.stdout and "Next: exercise 07" in done.stdout


def test_a_mistake_is_named_with_what_was_seen_and_what_was_printed(learner: Path, tmp_path: Path):
    write(learner, TILED)
    file = tmp_path / "result.json"
    done = run("check", "6", "--json", file, cwd=learner)
    assert done.returncode == 1
    result = read_result(file)
    named = {test.diagnosis: test.hint for test in result.tests if test.diagnosis}
    assert 0 < result.points < 10 and set(named) == {"tiles_heads", "accepts_anything"}  # two mistakes, both named
    hint = named["tiles_heads"]
    for expected in ("seen", "yours is", "looks like", hint[:30], "Your code printed", "shape torch.Size"):
        assert expected in done.stdout, expected


def test_a_seed_repeats_a_run(learner: Path, tmp_path: Path):
    write(learner, TILED)
    results = []
    for name, seed in (("a", 5), ("b", 5), ("c", 6)):
        run("check", "6", "--seed", seed, "--json", tmp_path / name, cwd=learner)
        results.append([test.message for test in read_result(tmp_path / name).tests if not test.visible])
    assert results[0] == results[1] != results[2]


def test_an_exception_shows_the_learners_own_line(learner: Path):
    write(learner, "def repeat_kv(x, n_rep):\n    return x.repeat_interleaved(n_rep, 2)\n")
    done = run("check", "06", cwd=learner)
    assert done.returncode == 1 and "ex06_repeat_kv.py, line 2:  return x.repeat_interleaved(n_rep, 2)" in done.stdout


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("def repeat_kv(x, n_rep)\n    return x\n", "line 1"),
        ("import nothing_like_this\n", "nothing_like_this"),
        ("import os\nos._exit(0)\n", "ended its own process"),
        ("x = 1\n", "has no `repeat_kv`"),
    ],
    ids=["syntax", "import", "exit", "name"],
)
def test_a_file_that_cannot_be_loaded_says_why(learner: Path, body: str, said: str):
    write(learner, body)
    done = run("check", "06", cwd=learner)
    assert done.returncode == 1 and said in done.stdout and "0 of 10 points" in done.stdout


def test_all_exercises_come_as_a_table_and_progress_remembers_them(learner: Path):
    assert "not checked yet" in run("progress", cwd=learner).stdout
    shutil.copy(ROOT / "solutions/ex06_repeat_kv.py", learner / "exercises/ex06_repeat_kv.py")
    done = run("check", cwd=learner)
    assert done.returncode == 1 and "10 of 10 points" in done.stdout and done.stdout.count("0 of 10 points") == 3
    assert "check 07" in done.stdout
    progress = run("progress", cwd=learner)
    assert progress.returncode == 0 and "10 of 10 points" in progress.stdout and "check 07" in progress.stdout
    write(learner, TILED)
    assert "changed since" in run("progress", cwd=learner).stdout


def test_make_is_named_where_make_was_used(learner: Path):
    assert "make check EX=06" in run("progress", cwd=learner, LADDER_MAKE="1").stdout


def test_hints_come_one_after_the_other(learner: Path):
    said = [run("hint", "06", cwd=learner).stdout for _ in range(4)]
    assert [f"hint {number} of 3" in text for number, text in zip((1, 2, 3, 3), said, strict=True)] == [True] * 4
    assert "hint 1 of 3" in run("hint", "06", "--again", cwd=learner).stdout
    assert "1 of 3 hints used" in run("progress", cwd=learner).stdout


def test_debugging_runs_one_example_in_the_learners_own_process(learner: Path):
    write(learner, "import os\n\n\ndef repeat_kv(x, n_rep):\n    print('here', os.getppid(), __file__)\n    return x\n")
    names = run("check", "06", "--debug", "no_such_test", cwd=learner)
    assert names.returncode == 2 and "0 public examples" in names.stderr
    name = names.stderr.split(": ")[-1].split(",")[0].strip()
    assert name.startswith("test_")
    done = run("check", "06", "--debug", name, cwd=learner)
    assert done.returncode == 1 and f"here {os.getpid()} {learner}/exercises/ex06_repeat_kv.py" in done.stdout
    shutil.copy(ROOT / "solutions/ex06_repeat_kv.py", learner / "exercises/ex06_repeat_kv.py")
    assert run("check", "06", "--debug", name, cwd=learner).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["check", "99"], 'no exercise "99"'),
        (["check", "06", "--from", "nowhere"], "nowhere: no such folder"),
        (["check", "06", "--isolation", "Z"], "allowed are auto, A, B, C, D"),
        (["check", "--debug", "x"], "--debug needs an exercise"),
        (["check", "06", "--json", "no/such/folder/x.json"], "cannot be written"),
        (["hint"], "EX"),
        (["hint", "33"], 'no exercise "33"'),
        (["grade", "nowhere", "--out", "x"], "nowhere: no such folder"),
        (["grade", "docs"], "--out"),
        (["report", "nowhere"], "nowhere: there is no such folder"),
        (["kit", "--out", "docs"], "not empty"),
        (["nonsense"], "nonsense"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage_ends_in_a_sentence_and_exit_code_2(learner: Path, arguments: list[str], said: str):
    done = run(*arguments, cwd=learner)
    assert done.returncode == 2
    assert said in done.stderr + done.stdout


def test_a_broken_course_file_is_told_with_its_field(learner: Path, tmp_path: Path):
    course = tmp_path / "course"
    shutil.copytree(learner, course)
    (course / "course.toml").write_text((course / "course.toml").read_text().replace("points = 10", "points = -1", 1))
    done = run("check", "06", cwd=course)
    assert done.returncode == 2 and "exercise[0].points" in done.stderr and "-1" in done.stderr


COMMANDS = ("check", "hint", "progress", "doctor", "grade", "report", "verify", "stubs", "kit", "look", "submit", "gradescope")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command: str):
    done = run(command, "--help")
    assert done.returncode == 0 and "Usage" in done.stdout and len(done.stdout.splitlines()) > 5


def test_doctor_is_content_with_a_good_sandbox_and_honest_about_a_weak_one():
    good, weak = run("doctor"), run("doctor", "--isolation", "C")
    assert good.returncode == 0 and "could do nothing" in good.stdout and "seccomp" in good.stdout
    assert weak.returncode == 1 and "read a file of the host" in weak.stdout and "not official" in weak.stdout


def test_stubs_are_up_to_date():
    assert run("stubs", "--check").returncode == 0


def test_a_kit_checks_with_its_public_examples_alone(tmp_path: Path):
    kit = tmp_path / "kit"
    assert run("kit", "--out", kit).returncode == 0
    names = {path.relative_to(kit).as_posix() for path in kit.rglob("*")}
    assert not any("solutions" in name or "hidden" in name or "chaff" in name for name in names)
    stub = run("check", "06", cwd=kit)
    assert stub.returncode == 1 and "Not started" in stub.stdout and "0 of 5 examples" in stub.stdout
    shutil.copy(ROOT / "solutions/ex06_repeat_kv.py", kit / "exercises/ex06_repeat_kv.py")
    done = run("check", "06", cwd=kit)
    assert done.returncode == 0 and "5 of 5 examples" in done.stdout and "a small part of what is graded" in done.stdout
    assert run("progress", cwd=kit).returncode == 0
    authors = run("verify", cwd=kit)
    assert authors.returncode == 2 and "a learner's kit does not hold it" in authors.stderr
    assert run("report", "x", cwd=kit).returncode == 2


def test_secrets_of_the_environment_do_not_reach_learner_code(learner: Path, tmp_path: Path):
    source = "import os, ctypes\n\n\ndef repeat_kv(x, n_rep):\n    print(sorted(os.environ))\n"
    source += "    libc = ctypes.CDLL(None)\n    libc.getenv.restype = ctypes.c_char_p\n    print('found', libc.getenv(b'TOKEN'))\n    return x\n"
    write(learner, source)
    done = run("check", "06", "--json", tmp_path / "r.json", cwd=learner, TOKEN="very-secret")
    assert done.returncode == 1 and "very-secret" not in (tmp_path / "r.json").read_text()
    output = json.loads((tmp_path / "r.json").read_text())["output"]
    assert "found None" in output


def test_output_survives_a_closed_pipe():
    command = f"{sys.executable} -m grader check 06 | head -1"
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert "Traceback" not in done.stderr


def test_an_all_json_is_a_list_of_results(learner: Path, tmp_path: Path):
    import msgspec

    run("check", "--json", tmp_path / "all.json", cwd=learner)
    results = msgspec.json.decode((tmp_path / "all.json").read_bytes(), type=list[Result])
    assert [result.exercise for result in results] == ["ex06_repeat_kv", "ex07_attention", "ex08_mask"]
