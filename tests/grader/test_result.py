"""The result's schema: what is written is read back, and nothing else is taken for a result."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from grader.grading import result as schema
from grader.grading.result import (
    CATEGORIES,
    SCHEMA,
    Environment,
    Result,
    ResultError,
    TestResult,
    read_result,
    result_path,
    write_atomically,
    write_result,
)

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")

FULL = Result(
    student="Émile 🙂 \u202e",
    exercise="ex06_repeat_kv",
    status="graded",
    reason="a reason",
    points=1 / 3,
    max_points=2.0,
    official=True,
    prerequisites="reference",
    tests=[
        TestResult(
            id="hidden::test_shape[float16]",
            title="The shape is right.",
            category="shape",
            points=1 / 3,
            max_points=1 / 3,
            outcome="passed",
            visible=False,
            message="line\nline\x1b[31m",
            diagnosis="tiled",
            hint="Is it?",
            detail="Traceback",
        )
    ],
    output="printed\x00",
    environment=Environment(isolation="A", layers=["seccomp"], probe=[], device="cpu", versions={"torch": "2"}),
    seed=2**63 - 1,
    key="abc",
    started="2026-01-01T00:00:00Z",
    seconds=0.5,
)
SMALL = {
    "schema": SCHEMA,
    "student": "anna",
    "exercise": "ex06_repeat_kv",
    "status": "missing",
    "points": None,
    "max_points": 0,
    "official": False,
}


def written(folder: Path, content: object) -> Path:
    path = folder / "ex06.json"
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return path


def test_what_is_written_is_read_back_whole(tmp_path):
    path = write_result(tmp_path, FULL)
    assert path == tmp_path / FULL.student / "ex06.json" == result_path(tmp_path, FULL.student, FULL.exercise)
    assert read_result(path) == FULL


def test_a_file_carries_its_schema_and_can_be_read_by_others(tmp_path):
    path = write_result(tmp_path, FULL)
    assert json.loads(path.read_bytes())["schema"] == SCHEMA
    assert path.stat().st_mode & 0o777 == 0o644
    assert path.read_bytes().endswith(b"}\n")


def test_what_has_a_default_may_be_absent_and_what_is_unknown_is_ignored(tmp_path):
    result = read_result(written(tmp_path, SMALL | {"mood": "good"}))
    assert (result.points, result.prerequisites, result.tests, result.environment) == (None, "own", [], None)


@pytest.mark.parametrize("schema_found", [SCHEMA + 1, 0, None, "1", "later"])
def test_another_schema_is_refused_by_number_even_if_the_rest_fits(tmp_path, schema_found):
    with pytest.raises(ResultError, match=re.escape(f"schema {schema_found!r}, this grader reads {SCHEMA}")):
        read_result(written(tmp_path, SMALL | {"schema": schema_found}))


def test_a_later_schema_is_named_as_such_and_not_as_a_broken_file(tmp_path):
    with pytest.raises(ResultError, match="schema 2, this grader"):
        read_result(written(tmp_path, {"schema": 2, "learner": "all is different"}))


@pytest.mark.parametrize(
    "change",
    [
        {"status": "done"},
        {"points": "10"},
        {"official": 1},
        {"student": None},
        {"prerequisites": "none"},
        {"tests": [{"id": "a"}]},
        {"environment": {"isolation": "A"}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_wrong_type_or_value_is_refused_and_the_field_named(tmp_path, change):
    with pytest.raises(ResultError, match=rf"ex06\.json: not a result file.*{next(iter(change))}"):
        read_result(written(tmp_path, SMALL | change))


@pytest.mark.parametrize("field", sorted(SMALL.keys() - {"schema"}))
def test_every_required_field_is_required(tmp_path, field):
    with pytest.raises(ResultError, match=f"missing required field `{field}`"):
        read_result(written(tmp_path, {name: value for name, value in SMALL.items() if name != field}))


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b'"text"', b"\xff\xfe", b"\x00" * 64])
def test_what_is_no_object_is_refused(tmp_path, content):
    with pytest.raises(ResultError, match=r"ex06\.json: not a result file"):
        read_result(written(tmp_path, content))


@pytest.mark.parametrize("inner", [b'"x":', b'"tests":', b'"environment":'])
def test_what_is_nested_without_end_is_refused(tmp_path, inner):
    for content in (b"{" + inner + b"[" * 100_000, (b"{" + inner) * 100_000, b"{" + inner + b"1" * 10_000 + b"}"):
        with pytest.raises(ResultError, match=r"ex06\.json: not a result file|schema None"):
            read_result(written(tmp_path, content))


def test_a_graded_result_without_points_is_refused(tmp_path):
    with pytest.raises(ResultError, match="it is graded, but has no points"):
        read_result(written(tmp_path, SMALL | {"status": "graded"}))
    assert read_result(written(tmp_path, SMALL | {"status": "graded", "points": 0})).points == 0
    assert read_result(written(tmp_path, SMALL)).points is None


@pytest.mark.parametrize(
    ("student", "why"),
    [
        ("", "no name of its own"),
        (".", "no name of its own"),
        ("..", "no name of its own"),
        ("../anna", "a character that no name can hold"),
        ("anna/..", "a character that no name can hold"),
        ("/etc", "a character that no name can hold"),
        ("an\0na", "a character that no name can hold"),
        ("an\udcffna", "no valid Unicode"),
        ("é" * 128, "longer than 255 bytes"),
    ],
)
def test_a_student_who_cannot_name_a_folder_is_refused_and_nothing_written(tmp_path, student, why):
    results = tmp_path / "results"
    for attempt in (
        lambda: result_path(results, student, "ex06_repeat_kv"),
        lambda: write_result(results, msgspec.structs.replace(FULL, student=student)),
    ):
        with pytest.raises(ResultError, match=re.escape(f"{student!r} cannot name a folder of results: it ") + f".*{why}"):
            attempt()
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("student", ["...", "~", "-rf", "a b", "Émile 🙂", "a\nb", "é" * 127, "..anna"])
def test_any_other_student_gets_a_folder(tmp_path, student):
    path = write_result(tmp_path, msgspec.structs.replace(FULL, student=student))
    assert path.parent.parent == tmp_path and read_result(path).student == student


@pytest.mark.parametrize("exercise", ["", "ex6", "ex06/..", "../ex06_x", "config", "ex06_x\n"])
def test_an_exercise_that_is_none_is_refused(tmp_path, exercise):
    with pytest.raises(ResultError, match="cannot name a result: expected an exercise's name"):
        result_path(tmp_path, "anna", exercise)


def test_no_beginning_of_a_file_is_taken_for_the_file(tmp_path):
    whole = write_result(tmp_path, FULL).read_bytes().rstrip()
    for length in range(0, len(whole), 7):
        with pytest.raises(ResultError):
            read_result(written(tmp_path, whole[:length]))


def test_what_cannot_be_opened_is_refused_with_its_name(tmp_path):
    with pytest.raises(ResultError, match=r"none\.json: cannot be read: No such file"):
        read_result(tmp_path / "none.json")
    with pytest.raises(ResultError, match="cannot be read"):
        read_result(tmp_path)


def test_writing_again_replaces_and_leaves_nothing_else(tmp_path):
    write_result(tmp_path, FULL)
    path = write_result(tmp_path, msgspec.structs.replace(FULL, points=0.0))
    assert read_result(path).points == 0
    assert os.listdir(path.parent) == ["ex06.json"]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_write_that_fails_leaves_the_old_file_and_no_other(tmp_path, monkeypatch, step):
    path = write_result(tmp_path, FULL)

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(schema.os, step, fail)
    with pytest.raises(OSError):
        write_atomically(path, b"half")
    monkeypatch.undo()
    assert read_result(path) == FULL
    assert os.listdir(path.parent) == ["ex06.json"]


def test_the_schema_needs_nothing_of_the_grader_and_no_torch():
    code = (
        "import sys, grader.grading.result\n"
        "print(sorted(name for name in sys.modules if name.startswith(('grader', 'torch', 'numpy'))))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "['grader', 'grader.grading', 'grader.grading.result']"


def example() -> bytes:
    blocks = re.findall(r"```json\n(.*?)```", DOCUMENT, flags=re.DOTALL)
    assert len(blocks) == 1
    return blocks[0].encode()


def test_the_documented_example_is_valid_and_its_points_add_up(tmp_path):
    result = read_result(written(tmp_path, example()))
    assessed = [test for test in result.tests if test.outcome in ("passed", "failed", "blocked")]
    assert result.points == sum(test.points for test in assessed) == 7
    assert result.max_points == sum(test.max_points for test in assessed) == 9
    assert result.official and result.environment.probe == []


def test_the_documented_example_shows_every_field():
    shown = json.loads(example())
    assert list(shown) == list(Result.__struct_fields__)
    assert list(shown["environment"]) == list(Environment.__struct_fields__)
    assert list(shown["tests"][-1]) == list(TestResult.__struct_fields__)


@pytest.mark.parametrize(
    ("heading", "struct"), [("The result", Result), ("A test", TestResult), ("The environment", Environment)]
)
def test_every_field_is_documented_in_the_schemas_order(heading, struct):
    section = DOCUMENT.split(f"\n## {heading}\n")[1].split("\n\n")[0]
    assert re.findall(r"^\| `(\w+)`", section, flags=re.MULTILINE) == list(struct.__struct_fields__)


def test_every_outcome_category_and_status_is_documented():
    outcomes = DOCUMENT.split("| `outcome` | what happened")[1].split("\n\n")[0]
    assert set(re.findall(r"^\| `(\w+)`", outcomes, flags=re.MULTILINE)) == set(schema.Outcome.__args__)
    for name in (*CATEGORIES, *schema.Status.__args__, "own", "reference"):
        assert f"`{name}`" in DOCUMENT
    assert f"This is **schema {SCHEMA}**" in DOCUMENT
