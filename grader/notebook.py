"""Owns the notebook as a way to hand in: reads the solution cell, and decides whether it or the .py file counts.

Runs no learner code and needs no notebook software: a notebook is JSON. Whatever a learner's notebook holds, reading it never raises.

The rule, which learners are told wherever it matters: **the .py file counts as soon as something is written in it; while it is
missing, blank or still the stub, the notebook's solution cell counts.**
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from typing import Any

import msgspec

from grader.submission import MAX_FILE_BYTES, Problem, SourceFile

SOLUTION_CELL = "solution"  # nbgrader's grade_id of the cell that a learner may write in
MAX_NOTEBOOK_BYTES = 20_000_000
STUB_LABEL = re.compile(r"EX[0-9]{2}: \S+")


class SolutionCell(msgspec.Struct, frozen=True, kw_only=True):
    """What stands in a notebook's solution cell."""

    source: str
    copies: int = 1  # such cells in the notebook


def solution_mark(name: str) -> str:
    """The first line of a solution cell; it finds the cell again when a learner copied its text into another one."""
    return f"# solution of {name}"


def read_solution_cell(content: bytes, name: str, stub: str) -> SolutionCell | Problem | None:
    """The solution cell for the module `name`; None where there is none. Of copies the last written one counts."""
    try:
        cells = json.loads(content)["cells"]
        found = [source for cell in cells if (source := _solution(cell, name)) is not None]
    except RecursionError:
        return Problem(kind="unreadable", message="is not a notebook: nested beyond recursion")
    except (ValueError, LookupError, TypeError, AttributeError):
        return Problem(kind="unreadable", message="is not a notebook that can be read; save it again in Jupyter")
    if not found:
        return None
    written = [source for source in found if not is_untouched(source, stub)]
    return SolutionCell(source=(written or found)[-1], copies=len(found))


def _solution(cell: dict[str, Any], name: str) -> str | None:
    """The source of a solution cell, or None for any other cell."""
    if cell.get("cell_type") != "code":
        return None
    source = cell.get("source", "")
    text = source if isinstance(source, str) else "".join(source)
    if text.lstrip().startswith(solution_mark(name)):
        return text
    marks = cell.get("metadata", {}).get("nbgrader")
    return text if isinstance(marks, dict) and marks.get("grade_id") == SOLUTION_CELL else None


def as_module(source: str) -> bytes:
    """A cell's text as a module: lines that only IPython understands become comments, so line numbers stay."""
    if _parse(source) is None:
        lines = [re.sub(r"^(\s*)([%!?]|get_ipython\(\))", r"\1pass  # \2", line) for line in source.split("\n")]
        if _parse("\n".join(lines)) is not None:
            source = "\n".join(lines)
    return source.rstrip().encode("utf-8", "replace") + b"\n"


def is_untouched(source: str, stub: str) -> bool:
    """Whether nothing was written: blank, or all that the stub leaves to the learner is still left.

    Comments, docstrings and other additions do not count, so a stub whose words changed since it was handed out is still one.
    """
    tree = _parse(source)
    if tree is None:
        return False
    if all(isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) for node in tree.body):
        return True
    left, wanted = _left(tree), _left(_parse(stub) or ast.Module(body=[], type_ignores=[]))
    return bool(wanted) and wanted.items() <= left.items()


def choose(file: SourceFile | Problem, notebook: str, cell: SolutionCell | Problem | None, stub: str) -> SourceFile | Problem:
    """What is graded, with notes that say so: `file`, or the solution `cell` of the notebook called `notebook`."""
    if isinstance(file, SourceFile):
        untouched = is_untouched(file.content.decode("utf-8", "replace"), stub)
    else:
        untouched = file.kind == "missing"
    if isinstance(cell, Problem):
        note = f"{notebook} {cell.message}"
        if isinstance(file, SourceFile):
            return msgspec.structs.replace(file, notes=(*file.notes, note))
        return msgspec.structs.replace(file, message=f"{file.message}; {note}")
    if cell is None or is_untouched(cell.source, stub):
        return file
    content = as_module(cell.source)
    if not untouched:
        if isinstance(file, Problem) or _same(file.content, content):
            return file
        note = f"{file.place} counts; the solution cell of {notebook} holds something else, which does not"
        return msgspec.structs.replace(file, notes=(*file.notes, note))
    name = file.name if isinstance(file, SourceFile) else ""
    if len(content) > MAX_FILE_BYTES:
        return Problem(kind="unreadable", message=f"the solution cell of {notebook} is too large: {len(content) / 1e6:.1f} MB")
    why = "is still the stub" if isinstance(file, SourceFile) else "was not handed in"
    place = f"{notebook}, solution cell"
    notes = [f"the solution cell of {notebook} counts; the .py file {why}"]
    if cell.copies > 1:
        notes.append(f"{notebook} holds {cell.copies} solution cells; the last one that is written counts")
    return SourceFile(name=name, content=content, place=place, notes=tuple(notes))


def _same(one: bytes, other: bytes) -> bool:
    """Equal but for comments, blank lines and layout; or to the byte where one of them is no Python."""
    trees = [_parse(content.decode("utf-8", "replace")) for content in (one, other)]
    if None in trees:
        return one.strip() == other.strip()
    return ast.dump(trees[0]) == ast.dump(trees[1])


def _parse(source: str) -> ast.Module | None:
    if len(source) > MAX_FILE_BYTES:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _left(tree: ast.Module) -> dict[str, str]:
    """What a stub leaves to the learner: label ("EX06: repeat_kv") and the body that holds it, without docstring."""
    left: dict[str, str] = {}
    try:
        for node in ast.walk(tree):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            for statement in node.body:
                label = _label(statement)
                if label:
                    body = node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body
                    left[label] = "\n".join(map(ast.dump, body))
    except RecursionError:
        pass
    return left


def _label(statement: ast.stmt) -> str | None:
    """`raise NotImplementedError("EX06: repeat_kv")` -> "EX06: repeat_kv"."""
    if isinstance(statement, ast.Raise) and isinstance(statement.exc, ast.Call) and len(statement.exc.args) == 1:
        argument = statement.exc.args[0]
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str) and STUB_LABEL.fullmatch(argument.value):
            return argument.value
    return None
