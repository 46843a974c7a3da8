"""Runs one public example on the learner's own files in this very process. For debuggers; never for grading."""

from __future__ import annotations

import ast
from collections.abc import Iterable

import msgspec

from grader.course import Course, Exercise
from grader.submission import SourceFile
from grader.suite.plugin import run_suite
from grader.suite.records import TestRecord

from .grade import Files
from .materials import MaterialError, make_suite, read_materials
from .protocol import drawn


def run_example(course: Course, exercise: Exercise, files: Files, test: str, seed: int | None) -> TestRecord:
    """The public test whose name contains `test`; raises `MaterialError` that lists the names if none or several do."""
    materials = read_materials(course, exercise)
    contents: dict[str, bytes] = {}
    paths: dict[str, str] = {name: str(course.exercises_dir / name) for name in materials.given}
    paths[course.props_path.name] = str(course.props_path)
    for one in (*materials.prerequisites, exercise):
        file = files(one.file)
        if not isinstance(file, SourceFile):
            raise MaterialError(file.message)
        contents[f"{one.file}.py"] = file.content
        paths[f"{one.file}.py"] = str(course.exercise_path(one))
    suite = make_suite(course, materials, contents, drawn(seed), only=test)
    public = [path for path in suite.files if path.parent == suite.public]
    suite = msgspec.structs.replace(suite, files=public, debug_paths=paths, chaffs=[])
    run = run_suite(suite, None)
    exact = [record for record in run.tests if record.id == f"public::{test}"]
    found = exact or run.tests
    if len(found) != 1:
        names = [record.id.removeprefix("public::") for record in found] or _names(materials.suite_files[path] for path in public)
        raise MaterialError(
            f"{len(found)} public examples of exercise {exercise.label} match {test!r}: {', '.join(names) or 'none'}"
        )
    return found[0]


def _names(files: Iterable[bytes]) -> list[str]:
    nodes = [node for file in files for node in ast.parse(file).body]
    return [node.name for node in nodes if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]
