"""nbgrader's submitted/: files, notebooks under other names, and earlier exercises."""

from __future__ import annotations

import json
from pathlib import Path

from grader.classroom.submitted import ClassroomSubmission, digest_of, find_notebook, students_who_submitted
from grader.submission import Problem, SourceFile

NORM_STUB = 'def norm(x):\n    raise NotImplementedError("EX03: norm")\n'
QKV_STUB = 'from .ex03_norm import norm\n\n\ndef qkv(x):\n    raise NotImplementedError("EX05: qkv")\n'
STUBS = {"ex03_norm": NORM_STUB, "ex05_qkv": QKV_STUB}
NORM, QKV = NORM_STUB.replace("raise", "return x  #"), QKV_STUB.replace("raise", "return norm(x)  #")
MODULES = ["ex03_norm", "ex05_qkv"]


def put(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / "submitted/ada" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def notebook(source: str) -> str:
    return json.dumps({"cells": [{"cell_type": "code", "source": source, "metadata": {"nbgrader": {"grade_id": "solution"}}}]})


def ada(folder: Path, label: str = "ex05") -> ClassroomSubmission:
    path = folder / "submitted/ada" / label
    return ClassroomSubmission(student="ada", key="ada", path=path, kind="folder", assignment=label, stubs=STUBS)


def test_earlier_exercises_come_from_the_submission_itself_first(tmp_path):
    put(tmp_path, {"ex05/ex05_qkv.py": QKV, "ex05/ex03_norm.py": NORM, "ex03/ex03_norm.py": "def norm(x):\n    return 0\n"})
    found = ada(tmp_path).file("ex03_norm")
    assert found.content == NORM.encode() and found.place == "ex03_norm.py" and found.notes == ()


def test_else_from_the_students_own_earlier_submission(tmp_path):
    put(tmp_path, {"ex05/ex05_qkv.py": QKV, "ex03/ex03_norm.py": NORM})
    found = ada(tmp_path).file("ex03_norm")
    assert found.content == NORM.encode() and found.place == "../ex03/ex03_norm.py" and "submission of ex03" in found.notes[0]


def test_also_from_its_notebook_and_over_a_stub_that_lies_beside(tmp_path):
    put(tmp_path, {"ex05/ex05_qkv.py": QKV, "ex05/ex03_norm.py": NORM_STUB, "ex03/ex03.ipynb": notebook(NORM)})
    assert ada(tmp_path).file("ex03_norm").content.strip() == NORM.encode().strip()


def test_without_any_it_is_missing_and_the_stub_stays_a_stub(tmp_path):
    put(tmp_path, {"ex05/ex05_qkv.py": QKV})
    assert isinstance(ada(tmp_path).file("ex03_norm"), Problem)
    put(tmp_path, {"ex03/ex03_norm.py": NORM_STUB})
    assert isinstance(ada(tmp_path).file("ex03_norm"), Problem)
    put(tmp_path, {"ex05/ex03_norm.py": NORM_STUB})
    assert ada(tmp_path).file("ex03_norm").content == NORM_STUB.encode()


def test_the_exercise_itself_never_comes_from_elsewhere(tmp_path):
    put(tmp_path, {"ex05/ex05_qkv.py": QKV_STUB, "ex06/ex05_qkv.py": QKV})
    assert ada(tmp_path).file("ex05_qkv").content == QKV_STUB.encode()
    put(tmp_path, {"ex03/ex05_qkv.py": QKV, "ex03/x": ""})
    assert isinstance(ada(tmp_path, "ex03").file("ex03_norm"), Problem)


def test_a_notebook_under_another_name_is_found_if_it_is_the_only_one(tmp_path):
    put(tmp_path, {"ex05/my work (1).ipynb": notebook(QKV)})
    folder = tmp_path / "submitted/ada/ex05"
    assert find_notebook(folder, "ex05") == "my work (1).ipynb"
    assert isinstance(ada(tmp_path).file("ex05_qkv"), SourceFile)
    put(tmp_path, {"ex05/other.ipynb": notebook("1")})
    assert find_notebook(folder, "ex05") is None
    put(tmp_path, {"ex05/ex05.ipynb": notebook(QKV)})
    assert find_notebook(folder, "ex05") == "ex05.ipynb" and find_notebook(tmp_path / "none", "ex05") is None


def test_the_notebook_of_another_exercise_is_not_taken_for_this_one(tmp_path):
    put(tmp_path, {"ex05/ex03.ipynb": notebook(NORM), "ex05/ex05_qkv.py": QKV})
    assert find_notebook(tmp_path / "submitted/ada/ex05", "ex05") is None
    assert ada(tmp_path).file("ex03_norm").content.strip() == NORM.encode().strip()


def test_links_are_not_followed(tmp_path):
    put(tmp_path, {"ex05/x": ""})
    (tmp_path / "secret.py").write_text(QKV)
    (tmp_path / "submitted/ada/ex05/ex05_qkv.py").symlink_to(tmp_path / "secret.py")
    assert "symbolic link" in ada(tmp_path).file("ex05_qkv").message
    (tmp_path / "secret.ipynb").write_text(notebook(QKV))
    (tmp_path / "submitted/ada/ex05/ex05_qkv.py").unlink()
    (tmp_path / "submitted/ada/ex05/ex05.ipynb").symlink_to(tmp_path / "secret.ipynb")
    assert isinstance(ada(tmp_path).file("ex05_qkv"), Problem)


def test_a_digest_changes_with_all_that_is_graded_and_with_nothing_else(tmp_path):
    put(tmp_path, {"ex05/ex05_qkv.py": QKV_STUB, "ex05/ex05.ipynb": notebook(QKV), "ex03/ex03_norm.py": NORM})
    seen = [digest_of(ada(tmp_path), MODULES)]
    put(tmp_path, {"ex05/other.txt": "x", "ex05/timestamp.txt": "now"})
    assert digest_of(ada(tmp_path), MODULES) == seen[0]
    for name, text in (
        ("ex03/ex03_norm.py", NORM + "#"),
        ("ex05/ex05.ipynb", notebook(QKV + "#")),
        ("ex05/ex05_qkv.py", QKV),
        ("ex05/ex03_norm.py", NORM),
    ):
        put(tmp_path, {name: text})
        seen.append(digest_of(ada(tmp_path), MODULES))
    assert len(set(seen)) == len(seen)


def test_who_submitted(tmp_path):
    put(tmp_path, {"ex05/x": ""})
    for name in ("submitted/.hidden/ex05", "submitted/bob/ex03", "submitted/Ødegård, J/ex05"):
        (tmp_path / name).mkdir(parents=True)
    assert students_who_submitted(tmp_path / "submitted", "ex05") == ["ada", "Ødegård, J"]
    assert students_who_submitted(tmp_path / "none", "ex05") == []
