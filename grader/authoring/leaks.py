"""Owns the last look at what is handed out: no solution, hidden test, or hint of a wrong solution is in it. Runs no learner code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from grader.course import Course

from .stubs import BEGIN, GIVEN, AuthoringError, stub_of

RUN = 3  # so many lines of a solution, one after the other, are no accident
MIN_LINE = 12  # characters of a line that tells something


def check_nothing_leaks(course: Course, files: Mapping[str, bytes]) -> None:
    """Raises `AuthoringError` that names the file and what it would give away."""
    texts = {name: content.decode("utf-8", "replace") for name, content in files.items()}
    for name, text in texts.items():
        if name.startswith(("exercises/", "tests/")) and BEGIN in text:
            raise AuthoringError(f"{name} holds a line {BEGIN!r}, so it would give a solution away")
    contents = {text.strip(): name for name, text in texts.items()}
    for path in _secret_files(course, texts):
        text = path.read_text(encoding="utf-8", errors="replace").strip()
        if text and text in contents:
            raise AuthoringError(f"{contents[text]} would give away {_relative(course, path)}")
    everything = "\0".join(map(_words, texts.values()))
    for path, secret in (*_hidden_tests(course), *_hints(course)):
        if secret in everything:  # nearly always not, and this is far faster than a pattern
            for name, text in texts.items():
                if re.search(rf"(?<!\w){re.escape(secret)}(?!\w)", _words(text)):
                    raise AuthoringError(f"{name} holds {secret!r}, so it would give away {_relative(course, path)}")
    _check_runs(course, texts)


def _secret_files(course: Course, texts: Mapping[str, str]) -> Iterator[Path]:
    for folder in (course.solutions_dir, course.root / "tests" / "hidden"):
        for path in sorted(folder.rglob("*.py")):
            if path.parent == course.solutions_dir and path.name in GIVEN and f"exercises/{path.name}" in texts:
                continue  # given to learners as it is
            yield path


def _hidden_tests(course: Course) -> Iterator[tuple[Path, str]]:
    """Names and titles of hidden tests, as far as no public test has the same."""
    for exercise in course.exercises:
        path = course.hidden_test_path(exercise)
        public = set(_tests(course.public_test_path(exercise)))
        for secret in _tests(path):
            if secret not in public:
                yield path, secret


def _tests(path: Path) -> Iterator[str]:
    tree = _parsed(path)
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield node.name
            if title := _words(ast.get_docstring(node) or ""):
                yield title


def _hints(course: Course) -> Iterator[tuple[Path, str]]:
    for path in sorted((course.solutions_dir / "chaffs").rglob("*.py")):
        tree = _parsed(path)
        if tree and (hint := _words(ast.get_docstring(tree) or "")):
            yield path, hint


def _check_runs(course: Course, texts: Mapping[str, str]) -> None:
    """No lines of a solution or wheat stand together anywhere that are not in the stub."""
    handed_out: dict[tuple[str, ...], str] = {}
    for name, text in texts.items():
        for run in _runs(text, set()):
            handed_out.setdefault(run, name)
    for exercise in course.exercises:
        known = {_words(line) for line in stub_of(course, exercise).splitlines()}
        for path in (course.solution_path(exercise), *sorted(course.wheats_dir(exercise).glob("*.py"))):
            for run in _runs(path.read_text(encoding="utf-8", errors="replace"), known):
                if run in handed_out:
                    raise AuthoringError(
                        f"{handed_out[run]} holds {run[0]!r} and more, so it would give away {_relative(course, path)}"
                    )


def _runs(text: str, known: set[str]) -> Iterator[tuple[str, ...]]:
    """Every `RUN` telling lines that follow each other; a known line, an import or a comment tells nothing and is passed over."""
    lines = [_words(line) for line in text.splitlines()]
    telling = [
        line for line in lines if len(line) >= MIN_LINE and line not in known and not re.match(r"(from|import) |#|@|\"\"\"", line)
    ]
    yield from zip(*(telling[start:] for start in range(RUN)), strict=False)


def _parsed(path: Path) -> ast.Module | None:
    try:
        return ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None


def _words(text: str) -> str:
    return " ".join(text.split())


def _relative(course: Course, path: Path) -> str:
    return path.relative_to(course.root).as_posix()
