"""The Gradescope autograder run as Gradescope runs it: unpacked into an empty folder, set up, and given one upload after the other."""

from __future__ import annotations

import json
import re
import shutil
import sys
import zipfile
from pathlib import Path

import pytest

from grader.authoring.stubs import stub_of
from grader.course import Course
from grader.gradescope import speed
from grader.gradescope.build import make_autograder, make_options
from grader.submission import SourceFile, own_submission
from tests.grader.kits import run_in

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("ex06_repeat_kv", "ex08_mask")
RIGHT = {f"{name}.py": (ROOT / "solutions" / f"{name}.py").read_text() for name in NAMES}
TILED = "def repeat_kv(x, n_rep):\n    print('SEEN', x.tolist())\n    return x.repeat(1, 1, n_rep, 1)\n"

# Looks for the hidden tests, the answers and the results, tries to write a verdict of its own, and tells what it found wherever it can.
FORGER = """
import json, os, sys

TOP = {top!r}
LOOT = []
for folder in (TOP, TOP + "/results", TOP + "/source", TOP + "/source/course/tests/hidden", TOP + "/submission"):
    try:
        LOOT.append(f"LISTED {{folder}} {{os.listdir(folder)}}")
    except OSError as error:
        pass
for name in ("source/course/tests/hidden/test_ex06_repeat_kv.py", "source/course/solutions/ex06_repeat_kv.py", "results/results.json"):
    try:
        LOOT.append("READ " + open(f"{{TOP}}/{{name}}").read())
    except OSError as error:
        pass
verdict = json.dumps({{"score": 1000, "tests": [{{"name": "FORGED", "score": 1000, "max_score": 1000}}]}})
for name in ("results/results.json", "source/course/solutions/ex06_repeat_kv.py", "source/options.json", "results.json"):
    for target in (f"{{TOP}}/{{name}}", f"/tmp/{{os.path.basename(name)}}"):
        try:
            with open(target, "w") as stream:
                stream.write(verdict)
            if target.startswith(TOP):
                LOOT.append("WROTE " + target)
        except OSError:
            pass
print(verdict)
print(LOOT, sorted(os.environ))
sys.stdout.flush()


def repeat_kv(x, n_rep):
    raise RuntimeError(f"FORGED {{len(LOOT)}} {{LOOT}}")
"""


@pytest.fixture(scope="module")
def autograder(tmp_path_factory: pytest.TempPathFactory, course: Course) -> Path:
    """What Gradescope's image is after the build: the zip in source/, set up with the packages of this Python."""
    folder = tmp_path_factory.mktemp("gradescope") / "autograder"
    zipped = folder.parent / "autograder.zip"
    options = make_options(
        [course.exercise(name) for name in NAMES], "visible", leaderboard=True, accept_unofficial=False, minutes=5
    )
    make_autograder(course, zipped, options)
    with zipfile.ZipFile(zipped) as archive:
        archive.extractall(folder / "source")
    for name in ("setup.sh", "run_autograder"):
        (folder / "source" / name).chmod(0o755)  # unzip, which Gradescope uses, keeps the modes
    done = run_in(folder, "source/setup.sh", ATTENTION_LADDER_AUTOGRADER=str(folder), ATTENTION_LADDER_VENV=sys.prefix)
    assert done.returncode == 0 and done.stdout.startswith("ready: torch "), done.stderr
    return folder


def hand_in(autograder: Path, files: dict[str, str]) -> tuple[dict, str]:
    """One upload through run_autograder: results.json, and what instructors see."""
    for name in ("submission", "results"):
        shutil.rmtree(autograder / name, ignore_errors=True)
    (autograder / "submission").mkdir()
    for name, content in files.items():
        path = autograder / "submission" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    shutil.copy(autograder / "source/run_autograder", autograder / "run_autograder")  # where Gradescope puts it
    done = run_in(autograder, "./run_autograder", tracebacks=True, ATTENTION_LADDER_AUTOGRADER=str(autograder))
    text = (autograder / "results/results.json").read_text()
    found = json.loads(text)
    assert done.returncode == (0 if "score" in found else 1), done.stdout + done.stderr
    assert_nothing_leaks(autograder, text)
    return found, done.stdout


def assert_nothing_leaks(autograder: Path, text: str) -> None:
    """No path, no name of a hidden test or wrong solution, no expected value of a hidden test."""
    for secret in (
        str(autograder),
        str(ROOT),
        "/autograder",
        "hidden::",
        "tests/",
        "site-packages",
        "solutions/",
        "Traceback",
        "SEEN",
    ):
        assert secret not in text, secret
    for name in NAMES:
        public = (ROOT / f"tests/public/test_{name}.py").read_text()
        for test in re.findall(r"def (test_\w+)", (ROOT / f"tests/hidden/test_{name}.py").read_text()):
            assert test in public or test not in text
        for chaff in (ROOT / "solutions/chaffs" / name).glob("*.py"):
            assert not re.search(rf"\b{chaff.stem}\b", text) or "_" not in chaff.stem
    for entry in json.loads(text)["tests"]:
        if "public examples" not in entry["name"] and "not handed in" not in entry["name"]:
            assert "expected" not in entry["output"], entry


def scores(found: dict) -> dict[str, float]:
    """Points by exercise."""
    sums: dict[str, float] = {}
    for entry in found["tests"]:
        sums[entry["tags"][0]] = round(sums.get(entry["tags"][0], 0.0) + entry.get("score", 0.0), 6)
    return sums


@pytest.mark.slow
def test_right_loose_files_have_all_points(autograder: Path):
    found, told = hand_in(autograder, RIGHT)
    assert found["score"] == 20 and scores(found) == {"06": 10, "08": 10}
    assert {entry["visibility"] for entry in found["tests"]} == {"visible"} and found["stdout_visibility"] == "hidden"
    assert all(entry.get("score") == entry.get("max_score") for entry in found["tests"])
    assert "official" in told and "seed" in told and found["leaderboard"] == []


@pytest.mark.slow
def test_a_nested_kit_with_a_mistake_and_a_broken_file(autograder: Path):
    files = {
        "my-kit/exercises/ex06_repeat_kv.py": TILED,
        "my-kit/exercises/ex08_mask.py": "def causal_mask(:\n",
        "my-kit/README.md": "x",
    }
    found, told = hand_in(autograder, files)
    assert 0 < scores(found)["06"] < 10 and scores(found)["08"] == 0 and found["score"] == scores(found)["06"]
    text = json.dumps(found)
    assert "looks like: The key/value heads are tiled" in text and "SyntaxError" in text
    assert "SEEN" in told  # what code prints may be what a hidden test gave it: for the instructor only


@pytest.mark.slow
def test_a_forger_gets_nothing_out_and_nothing_in(autograder: Path):
    forger = FORGER.format(top=str(autograder))
    found, told = hand_in(
        autograder, {"ex06_repeat_kv.py": forger, "ex08_mask.py": RIGHT["ex08_mask.py"], "results.json": '{"score": 99}'}
    )
    assert scores(found)["08"] == 10 and scores(found)["06"] < 1 and found["score"] == round(sum(scores(found).values()), 6)
    text = json.dumps(found)
    assert "FORGED 0 []" in text  # it ran, and had found nothing
    for loot in ("READ", "WROTE", "LISTED"):
        assert f"{loot} {autograder}" not in text + told
    assert not any(entry["name"] == "FORGED" for entry in found["tests"])
    assert "ATTENTION_LADDER_AUTOGRADER" not in told
    assert (autograder / "source/course/solutions/ex06_repeat_kv.py").read_text() == RIGHT["ex06_repeat_kv.py"]


@pytest.mark.slow
def test_a_notebook_and_a_missing_file(autograder: Path):
    cell = f"# solution of ex06_repeat_kv\n{RIGHT['ex06_repeat_kv.py']}"
    notebook = json.dumps({"cells": [{"cell_type": "code", "source": cell, "metadata": {}}]})
    found, _ = hand_in(autograder, {"ex06.ipynb": notebook, "ex8_mask.py": RIGHT["ex08_mask.py"]})
    assert scores(found) == {"06": 10, "08": 0}
    assert "solution cell of ex06.ipynb counts" in found["output"]
    assert "found ex8_mask.py; expected ex08_mask.py" in found["tests"][-1]["output"]


@pytest.mark.slow
def test_an_empty_upload_and_a_file_that_cannot_be_read(autograder: Path):
    found, _ = hand_in(autograder, {})
    assert found["score"] == 0 and [entry["output"][:12] for entry in found["tests"]] == ["there is no "] * 2
    found, _ = hand_in(autograder, {"stubs/ex06_repeat_kv.py": "\0" * 2_000_000})
    assert found["score"] == 0 and "is too large" in found["tests"][0]["output"]


@pytest.mark.slow
def test_a_grader_that_cannot_start_is_no_zero(autograder: Path):
    hidden = autograder / "source/course/tests/hidden/test_ex06_repeat_kv.py"
    text = hidden.read_text()
    hidden.write_text("import nothing_of_that_name\n")
    try:
        found, told = hand_in(autograder, {"ex06_repeat_kv.py": RIGHT["ex06_repeat_kv.py"]})
    finally:
        hidden.write_text(text)
    assert "score" not in found and found["tests"] == [] and "no fault of yours" in found["output"]
    assert "NOT GRADED" in told and "nothing_of_that_name" in told

    venv = autograder / "source/venv"
    text = venv.read_text()
    venv.write_text("/nowhere\n")
    try:
        shutil.rmtree(autograder / "results")
        done = run_in(autograder, "./run_autograder", ATTENTION_LADDER_AUTOGRADER=str(autograder))
    finally:
        venv.write_text(text)
    found = json.loads((autograder / "results/results.json").read_text())
    assert done.returncode != 0 and "score" not in found and "no fault of yours" in found["output"]


# ---- the leaderboard ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_tokens_per_second_of_right_code_and_of_none_other(course: Course, sandbox, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(speed, "ROUNDS", 3)
    monkeypatch.setattr(speed, "NEW", 24)
    right = own_submission(ROOT / "solutions").file
    fast = speed.tokens_per_second(course, right, sandbox)
    assert fast is not None and fast > 0

    def changed(name: str, old: str, new: str):
        def files(wanted: str):
            file = right(wanted)
            if wanted != name:
                return file
            text = file.content.decode()
            assert old in text
            return SourceFile(name=wanted, content=text.replace(old, new).encode(), place=file.place)

        return files

    def instead(text: str):
        """`generate` is this, and the right one is `old_generate`."""
        return changed("ex15_generate", "def generate(", f"def generate(*arguments, **keywords):\n{text}\n\n\ndef old_generate(")

    assert speed.tokens_per_second(course, changed("ex15_generate", "def generate(", "def gone("), sandbox) is None
    busy = (
        "    sum(range(30_000_000))  # several times what the right code needs\n    return old_generate(*arguments, **keywords)"
    )
    slow = speed.tokens_per_second(course, instead(busy), sandbox)
    assert slow is not None and slow < fast
    stub = stub_of(course, course.exercise(14))
    assert speed.tokens_per_second(course, lambda name: SourceFile(name=name, content=stub.encode(), place=""), sandbox) is None
    assert speed.tokens_per_second(course, instead("    return arguments[1]"), sandbox) is None  # fast and wrong


def test_the_time_of_another_process_is_read_from_the_kernel():
    import subprocess

    with subprocess.Popen([sys.executable, "-c", "x = 0\nwhile True: x += 1"]) as process:
        try:
            before = speed.cpu_seconds(process.pid)
            while speed.cpu_seconds(process.pid) < before + 0.05:
                assert process.poll() is None
        finally:
            process.kill()
