"""`submit`: what it packs, what it says of the rest, and that a grader takes exactly that."""

from __future__ import annotations

import io
import json
import os
import shutil
import time
import zipfile
from pathlib import Path

import pytest
from rich.console import Console

from grader import submitting
from grader.authoring.stubs import stub_of
from grader.course import Course, CourseError, load_course
from grader.notebook import MAX_NOTEBOOK_BYTES
from grader.submission import MAX_FILE_BYTES, SourceFile, SubmissionError, looks_like, own_submission
from grader.submitting import HAND_IN, archive, pack, show, write
from tests.grader.kits import run_in, write_kit

ROOT = Path(__file__).resolve().parents[2]
EX06 = "def repeat_kv(x, n_rep):\n    return x\n"


@pytest.fixture
def learner(course: Course, tmp_path: Path) -> Course:
    """A learner's folder: all stubs, of which 06 is written."""
    root = tmp_path / "kit"
    shutil.copytree(ROOT / "exercises", root / "exercises", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "course.toml", root)
    (root / "exercises/ex06_repeat_kv.py").write_text(EX06)
    return load_course(root)


def packed(learner: Course, *exercises: str):
    return pack(learner, [learner.exercise(name) for name in exercises] or learner.exercises)


def said(learner: Course, *exercises: str) -> str:
    return "\n".join(packed(learner, *exercises).look_at)


def test_all_exercises_are_packed_and_the_untouched_are_told_from_the_others(learner: Course):
    found = packed(learner)
    assert [item.place for item in found.items] == [f"exercises/{one.file}.py" for one in learner.exercises]
    assert [item.exercise.label for item in found.items if item.is_started] == ["06"]
    assert found.look_at == [] and found.left_out == []


def test_one_exercise_brings_those_that_it_builds_on(learner: Course):
    assert [item.exercise.label for item in packed(learner, "06", "12").items] == [
        *("03", "04", "05", "06", "07", "08", "09", "10", "11", "12"),
    ]


def test_half_written_is_started_and_says_what_is_left(learner: Course):
    path = learner.exercises_dir / "ex03_norm.py"
    head, tail = path.read_text().split("class LayerNorm")
    lines = [line.replace('raise NotImplementedError("EX03', 'print("EX03') for line in head.splitlines()]
    path.write_text("\n".join(lines) + "\n\n\nclass LayerNorm" + tail)
    (item,) = [item for item in packed(learner).items if item.exercise.label == "03"]
    assert item.is_started and item.unwritten == ("LayerNorm",)


@pytest.mark.parametrize(
    "name",
    [
        *("ex6_repeat_kv.py", "ex06_repeat_kv (1).py", "ex06_repeat_kv.py.txt", "Ex06-Repeat-KV.py", "repeat_kv.py", "ex06.py"),
        *("ex06_repeat_kv copy.py", "EX06_REPEAT_KV.PY", "ex06_repeatkv.py", "ex006_repeat_kv.py", "ex 6 repeat kv.py"),
    ],
)
def test_a_misspelt_file_is_pointed_out(learner: Course, name: str):
    assert looks_like(name, "ex06_repeat_kv.py")
    for folder in (learner.exercises_dir, learner.root):
        (folder / name).write_text(EX06)
        assert f"{name} is not in it: it is not named ex06_repeat_kv.py" in said(learner)
        (folder / name).unlink()
    (learner.exercises_dir / "ex06_repeat_kv.py").rename(learner.exercises_dir / name)
    with pytest.raises(SubmissionError, match="nothing to hand in") as error:
        packed(learner)
    assert f"found exercises/{name}" in str(error.value)


def test_names_of_something_else_are_no_misspellings():
    for name in (
        "ex16_train.py",
        "ex60_x.py",
        "config.py",
        "notes.md",
        "test_ex06_repeat_kv.py",
        "ex061_x.py",
        "ex06_repeat_kv.md",
    ):
        assert not looks_like(name, "ex06_repeat_kv.py"), name


def test_checkpoints_data_and_helpers_are_left_out_with_a_sentence(learner: Course):
    folder = learner.exercises_dir
    for name in ("model.pt", "weights.safetensors", "pytorch_model.bin", "last.ckpt"):
        with open(folder / name, "wb") as stream:
            stream.truncate(120_000_000)  # takes no room on the disk
    (folder / "helper.py").write_text("x = 1\n")
    (folder / "old.zip").write_bytes(b"")
    (folder / "runs").mkdir()
    (learner.root / "model.pt").write_bytes(b"x")
    left_out = packed(learner).left_out
    assert [sentence.split(":")[0] for sentence in left_out] == [
        "exercises/helper.py",
        "exercises/last.ckpt (120.0 MB)",
        "exercises/model.pt (120.0 MB)",
        "exercises/old.zip",
        "exercises/pytorch_model.bin (120.0 MB)",
        "exercises/runs/",
        "exercises/weights.safetensors (120.0 MB)",
        "model.pt (1 B)",
    ]
    assert len(archive(packed(learner).items)) < 100_000


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"x" * (MAX_FILE_BYTES + 1), "06 is not in it: exercises/ex06_repeat_kv.py is too large"),
        (b"def repeat_kv(x, n_rep)\n    return x\n", "exercises/ex06_repeat_kv.py, line 1: not valid Python (expected ':')"),
        (b"x = 1\n\n  y = 2\n", "exercises/ex06_repeat_kv.py, line 3: not valid Python (unexpected indent)"),
        (b"\0\1\2", "not valid Python (source code string cannot contain null bytes)"),
        (b"x = '\xff'\n", "exercises/ex06_repeat_kv.py, line 1: not valid Python"),
        (b"-" * 100_000 + b"1", "not valid Python"),
        (b"from .helper import f\n", "line 1: imports helper, which is not handed in: move it into this file"),
        (b"def f():\n    from . import tools\n", "line 2: imports tools, which is not handed in"),
        (b"", "exercises/ex06_repeat_kv.py: repeat_kv is not defined in it"),
        (b"def repeat(x, n_rep):\n    return x\n", "exercises/ex06_repeat_kv.py: repeat_kv is not defined in it"),
        (b"import exercises.mine\n", "line 1: imports mine, which is not handed in"),
    ],
)
def test_what_will_cost_points_is_said_with_its_line(learner: Course, content: bytes, sentence: str):
    (learner.exercises_dir / "ex07_attention.py").write_text("def attention_weights(): ...\n")  # so that something is started
    (learner.exercises_dir / "ex06_repeat_kv.py").write_bytes(content)
    assert sentence in said(learner)


def test_imports_that_are_fine_are_not_complained_about(learner: Course):
    source = (
        "import torch\nfrom .config import ModelConfig\nfrom .ex03_norm import RMSNorm\nfrom . import text\nimport exercises\n"
    )
    for definition in (
        "repeat_kv = torch.tile\n",
        "from torch import tile as repeat_kv\n",
        "if torch:\n    def repeat_kv(): ...\n",
    ):
        (learner.exercises_dir / "ex06_repeat_kv.py").write_text(source + definition)
        assert said(learner) == ""


def test_right_code_of_many_hands_gives_no_false_alarm(course: Course):
    for exercise in course.exercises:
        for wheat in course.wheats_dir(exercise).glob("*.py"):
            file = SourceFile(name=exercise.file, content=wheat.read_bytes(), place=f"{exercise.file}.py")
            assert submitting._mistakes(course, exercise, file) == [], wheat
            assert submitting._item(file, exercise).unwritten == (), wheat


def test_links_are_not_followed(learner: Course, tmp_path: Path):
    secret = tmp_path / "secret.py"
    secret.write_text("password = 1\n")
    for name in ("ex08_mask.py", "ex08_mask.ipynb", "model.pt", "exercise"):
        path = learner.exercises_dir / name
        path.unlink(missing_ok=True)
        path.symlink_to(secret)
    found = packed(learner)
    assert b"password" not in b"".join(item.content for item in found.items)
    assert "exercises/ex08_mask.py is a symbolic link" in said(learner) and "exercises/ex08_mask.ipynb is not in it" in said(
        learner
    )


def test_notebooks_come_along_unless_they_are_too_large(learner: Course):
    (learner.exercises_dir / "ex06_repeat_kv.ipynb").write_text("{}")
    (learner.root / "notes.ipynb").write_text("{}")
    (learner.exercises_dir / "big.ipynb").write_bytes(b"x" * (MAX_NOTEBOOK_BYTES + 1))
    found = packed(learner, "06")
    assert [item.place for item in found.items] == [
        "exercises/ex06_repeat_kv.py",
        "exercises/ex06_repeat_kv.ipynb",
        "notes.ipynb",
    ]
    assert found.look_at == ["exercises/big.ipynb is not in it: 20.0 MB, at most 20.0 MB: clear its outputs"]


def notebook(*sources: str) -> str:
    return json.dumps({"cells": [{"cell_type": "code", "source": source, "metadata": {}} for source in sources]})


def test_a_solution_that_was_written_in_the_notebook_is_packed_as_the_file(learner: Course, course: Course):
    path = learner.exercises_dir / "ex06_repeat_kv.py"
    path.write_text(stub_of(course, course.exercise("06")))
    mine = f"# solution of ex06_repeat_kv\n{EX06}"
    (learner.exercises_dir / "ex06.ipynb").write_text(notebook("1 + 1", mine))
    (item, book) = packed(learner, "06").items
    assert (
        (item.place, item.content.decode()) == ("exercises/ex06_repeat_kv.py", mine) and item.is_started and book.exercise is None
    )
    assert said(learner, "06") == "the solution cell of exercises/ex06.ipynb counts; the .py file is still the stub"
    path.write_text("def repeat_kv(x, n_rep):\n    return x + 0\n")  # a file that was written counts
    assert packed(learner, "06").items[0].content == path.read_bytes()
    path.unlink()
    assert packed(learner, "06").items[0].content.decode() == mine
    with pytest.raises(SubmissionError, match=r"started; exercises/ex06.ipynb holds no solution cell"):
        packed(learner, "07")  # the cell says for which exercise it is


def test_the_same_files_give_the_same_bytes(learner: Course, tmp_path: Path):
    first = archive(packed(learner).items)
    for path in learner.exercises_dir.iterdir():
        os.utime(path, (time.time() - 1e6, time.time() - 1e6))
        os.chmod(path, 0o600)
    found = packed(learner)
    assert archive(found.items) == archive(found.items[::-1]) == first
    assert write(tmp_path / "a.zip", found.items) == write(tmp_path / "b.zip", found.items)


def test_it_replaces_its_own_archive_and_nothing_else(learner: Course, tmp_path: Path):
    items = packed(learner).items
    out = tmp_path / "submission.zip"
    write(out, items)
    write(out, items[:3])
    assert len(zipfile.ZipFile(out).namelist()) == 3
    with zipfile.ZipFile(tmp_path / "holiday.zip", "w") as other:
        other.writestr("beach.jpg", b"sand")
    (tmp_path / "text.zip").write_text("no zip at all")
    (tmp_path / "folder.zip").mkdir()
    for name, message in (
        ("holiday.zip", "is no submission of this course"),
        ("text.zip", "is no submission of this course"),
        ("folder.zip", "is a folder"),
        ("exercises/ex06_repeat_kv.py", "ends in .zip"),
        ("missing/submission.zip", "cannot be written"),
    ):
        with pytest.raises(SubmissionError, match=message):
            write(tmp_path / name, items)
    assert (
        zipfile.ZipFile(tmp_path / "holiday.zip").namelist() == ["beach.jpg"]
        and (tmp_path / "text.zip").read_text() == "no zip at all"
    )


def test_a_killed_write_leaves_the_old_archive(learner: Course, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    items = packed(learner).items
    out = tmp_path / "submission.zip"
    write(out, items)
    before = out.read_bytes()

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(SubmissionError, match="No space left"):
        write(out, items[:1])
    assert out.read_bytes() == before and sorted(os.listdir(tmp_path)) == ["kit", "submission.zip"]


def test_what_is_packed_is_what_a_grader_reads(learner: Course, tmp_path: Path):
    (learner.root / "ex07_attention.py").write_text("# the wrong place\n")
    found = packed(learner)
    write(tmp_path / "s.zip", found.items)
    for one in learner.exercises:
        mine, theirs = own_submission(learner.root).file(one.file), own_submission(tmp_path / "s.zip").file(one.file)
        assert isinstance(mine, SourceFile) and isinstance(theirs, SourceFile) and mine.content == theirs.content
    assert any("ex07_attention.py is there too, with other content" in sentence for sentence in found.look_at)


def test_where_to_hand_in_is_said_as_the_course_has_it(learner: Course, tmp_path: Path):
    file = learner.root / "course.toml"
    text = file.read_text()
    found = packed(learner)
    checksum = write(tmp_path / "s.zip", found.items)
    for line, expected in (("", HAND_IN), ('hand_in = "Upload it to week 3."\n', "Upload it to week 3.")):
        file.write_text(text.replace("[limits]", f"{line}\n[limits]", 1))
        console = Console(file=io.StringIO(), width=80)
        show(console, load_course(learner.root), found, tmp_path / "s.zip", checksum)
        printed = console.file.getvalue()
        assert expected in printed and f"This is the file: {tmp_path}/s.zip\n" in printed and checksum in printed
    for wrong in ("hand_in = 3", 'hand_in = ""', 'hand_in = "two\\nlines"', "handin = 'x'"):
        file.write_text(text.replace("[limits]", f"{wrong}\n[limits]", 1))
        with pytest.raises(CourseError, match=r"course\.hand_?in"):
            load_course(learner.root)


def test_nothing_is_run(learner: Course, tmp_path: Path):
    trace = tmp_path / "was_run"
    (learner.exercises_dir / "ex06_repeat_kv.py").write_text(f"open({str(trace)!r}, 'w')\n{EX06}")
    write(tmp_path / "s.zip", packed(learner).items)
    assert not trace.exists()


@pytest.mark.slow
def test_from_make_submit_to_grade(course: Course, tmp_path: Path):
    """Three students' kits, packed with `make submit`, and graded as a class."""
    kit = write_kit(course, tmp_path / "kit")
    (tmp_path / "class").mkdir()
    untouched = run_in(kit, "make", "submit")
    assert untouched.returncode == 2 and "no exercise is started" in untouched.stderr and not (kit / "submission.zip").exists()

    solution = (ROOT / "solutions/ex06_repeat_kv.py").read_text()
    for student, source, code in (("ada", solution, 0), ("bob", EX06, 0), ("cyd", "def repeat_kv(:\n", 2)):
        (kit / "exercises/ex06_repeat_kv.py").write_text(source)
        done = run_in(kit, "make", "submit", "EX=06", f"OUT={tmp_path}/class/{student}.zip")
        assert done.returncode == code, done.stdout
        assert "sha256 " in done.stdout and f"This is the file: {tmp_path}/class/{student}.zip" in done.stdout
        assert ("line 1: not valid Python" in done.stdout) == (student == "cyd")
    command = [str(kit / ".venv/bin/python"), "-m", "grader", "grade", f"{tmp_path}/class", "--out", f"{tmp_path}/results"]
    graded = run_in(ROOT, *command, "--exercises", "06", "--jobs", "1")
    assert graded.returncode == 0, graded.stderr

    from grader.grading.result import read_result

    points = {student: read_result(tmp_path / "results" / student / "ex06.json").points for student in ("ada", "bob", "cyd")}
    assert points["ada"] == 10 and 0 < points["bob"] < 10 and points["cyd"] == 0
