"""Owns making `exercises/` from `solutions/`: what stands between the markers is left to the learner.

A region is marked by two comment lines of its own:

    def repeat_kv(x, n_rep):
        \"\"\"What it has to do.\"\"\"
        # BEGIN SOLUTION
        ...
        # END SOLUTION

Within a function it becomes `raise NotImplementedError("EX06: repeat_kv")`; outside of functions it is removed. Imports
that only removed code used go too. Works on the text and its syntax tree, and never runs it.
"""

from __future__ import annotations

import ast
import io
import os
import re
import tempfile
import tokenize
from pathlib import Path

import msgspec

from grader.course import Course, Exercise

BEGIN = "# BEGIN SOLUTION"
END = "# END SOLUTION"
GIVEN = ("config.py", "text.py")  # copied as they are
NEEDED = GIVEN[:1]  # of them, what every course has
LINE_LENGTH = 120

ScopeNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


class AuthoringError(Exception):
    """A mistake in the course's own files: says in which file and on which line."""


class Region(msgspec.Struct, frozen=True):
    """The lines of one pair of markers, both included, counted from 1."""

    begin: int
    end: int
    indent: str

    def holds(self, node: ast.stmt) -> bool:
        return self.begin < _first_line(node) and _last_line(node) < self.end


def write_stubs(course: Course, exercises: Sequence[Exercise] | None = None) -> list[str]:
    """Write every stub (or those of these exercises) that is missing or out of date; returns names, "exercises/ex06_repeat_kv.py".

    Nothing is written if any of the solutions has a mistake.
    """
    stale = []
    for path, content in _expected(course, exercises).items():
        if _current(path) != content:
            stale.append((path, content))
    for path, content in stale:
        _write(path, content)
    return [_relative(course, path) for path, _ in stale]


def stale_stubs(course: Course, exercises: Sequence[Exercise] | None = None) -> list[str]:
    """The names of the stubs that `write_stubs` would write."""
    return [_relative(course, path) for path, content in _expected(course, exercises).items() if _current(path) != content]


def stub_of(course: Course, exercise: Exercise) -> str:
    """The stub's text, made from the exercise's solution."""
    path = course.solution_path(exercise)
    return make_stub(_read(path), exercise, name=_relative(course, path))


def given_files(course: Course) -> dict[str, str]:
    """The files that learners get as they are: name and text."""
    return {
        name: _read(course.solutions_dir / name) for name in GIVEN if name in NEEDED or (course.solutions_dir / name).exists()
    }


def make_stub(source: str, exercise: Exercise, *, name: str) -> str:
    """The stub of one solution's text; `name` is what mistakes are reported under."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None) or 1
        raise AuthoringError(f"{name}, line {line}: not valid Python: {getattr(error, 'msg', None) or error}") from None
    regions = _regions(source, name)
    if not regions:
        raise AuthoringError(f"{name}: no line {BEGIN!r}, so the stub would be the solution")
    scopes = [_scope(tree, region, name) for region in regions]
    _check_graded_names(tree, regions, exercise, name)
    _check_removed_names(tree, regions, scopes, name)

    lines = source.split("\n")
    replaced: list[tuple[int, int, list[str]]] = []  # first line, last line, what stands there instead
    for region, scope in zip(regions, scopes, strict=True):
        raises = [f'{region.indent}raise NotImplementedError("EX{exercise.label}: {scope}")'] if scope else []
        replaced.append((region.begin, region.end, raises))
    replaced.extend(_imports(tree, regions, lines))
    stub = _apply(lines, replaced)
    try:
        compile(stub, name, "exec", dont_inherit=True)
    except SyntaxError as error:
        emptied = regions[0].begin if len(regions) == 1 else ", ".join(str(region.begin) for region in regions)
        raise AuthoringError(
            f"{name}, line {emptied}: without the marked lines this is no valid Python: {error.msg}; "
            f"the stub's line {error.lineno} is {(error.text or '').strip()!r}"
        ) from None
    return stub


# ---- markers and what they enclose -----------------------------------------------------------------------------------


def _regions(source: str, name: str) -> list[Region]:
    """The pairs of markers, found among the comments only: a marker within a string is text."""
    regions: list[Region] = []
    begun: tuple[int, str] | None = None
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT or not re.search(r"\b(BEGIN|END)[ _-]*SOLUTION\b", token.string, re.IGNORECASE):
            continue
        line, column = token.start
        if token.string.strip() not in (BEGIN, END):
            raise AuthoringError(f"{name}, line {line}: {token.string.strip()!r} must read {BEGIN!r} or {END!r}")
        indent = token.line[:column]
        if indent.strip():
            raise AuthoringError(f"{name}, line {line}: {token.string.strip()!r} must stand on a line of its own")
        if token.string.strip() == BEGIN:
            if begun:
                raise AuthoringError(f"{name}, line {line}: {BEGIN!r} again, but line {begun[0]} is still open")
            begun = line, indent
        else:
            if not begun:
                raise AuthoringError(f"{name}, line {line}: {END!r} without a {BEGIN!r} before it")
            if indent != begun[1]:
                raise AuthoringError(f"{name}, line {line}: {END!r} is not indented like line {begun[0]}")
            regions.append(Region(begun[0], line, indent))
            begun = None
    if begun:
        raise AuthoringError(f"{name}, line {begun[0]}: {BEGIN!r} is never closed by {END!r}")
    return regions


def _scope(tree: ast.Module, region: Region, name: str) -> str | None:
    """The function that a region belongs to ("RMSNorm.forward"), or None outside of functions; checks its edges."""
    blocks: dict[tuple[int, str], tuple[ScopeNode, ...]] = {}  # the blocks whose statements are marked

    def visit(node: ast.AST, scopes: tuple[ScopeNode, ...]) -> None:
        for field, value in ast.iter_fields(node):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.excepthandler | ast.match_case):
                    visit(child, scopes)
                elif isinstance(child, ast.stmt) and region.holds(child):
                    blocks[id(node), field] = scopes
                elif isinstance(child, ast.stmt):
                    first, last = _first_line(child), _last_line(child)
                    is_simple = not hasattr(child, "body") and not hasattr(child, "cases")
                    if region.begin < first < region.end or (is_simple and first < region.begin < last < region.end):
                        cut = f"the marked lines cut through the statement on line {first}"
                        raise AuthoringError(f"{name}, line {region.begin}: {cut}")
                    visit(child, (*scopes, child) if isinstance(child, ScopeNode) else scopes)

    visit(tree, ())
    if not blocks:
        raise AuthoringError(f"{name}, line {region.begin}: no whole statement between the markers")
    if len(blocks) > 1:
        raise AuthoringError(f"{name}, line {region.begin}: the marked lines reach over more than one block")
    (scopes,) = blocks.values()
    at = next((index for index, scope in enumerate(scopes) if isinstance(scope, FunctionNode)), None)
    return None if at is None else ".".join(scope.name for scope in scopes[: at + 1])


def _first_line(node: ast.stmt) -> int:
    decorators = getattr(node, "decorator_list", [])
    return min([node.lineno, *(one.lineno for one in decorators)])


def _last_line(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno


def _removed(tree: ast.Module, regions: list[Region]) -> tuple[list[ast.AST], list[ast.AST]]:
    """All nodes of the file: those that stay in the stub, and those that go."""
    kept: list[ast.AST] = []
    gone: list[ast.AST] = []
    waiting: list[tuple[ast.AST, bool]] = [(tree, False)]
    while waiting:
        node, is_gone = waiting.pop()
        is_gone = is_gone or (isinstance(node, ast.stmt) and any(region.holds(node) for region in regions))
        (gone if is_gone else kept).append(node)
        waiting.extend((child, is_gone) for child in ast.iter_child_nodes(node))
    return kept, gone


# ---- checks ----------------------------------------------------------------------------------------------------------


def _check_graded_names(tree: ast.Module, regions: list[Region], exercise: Exercise, name: str) -> None:
    """Every graded name is defined in the stub, and something in it is left to the learner."""
    defined = {node.name: node for node in tree.body if isinstance(node, ScopeNode)}
    for graded in exercise.names:
        node = defined.get(graded)
        if node is None:
            raise AuthoringError(f"{name}: the graded name {graded} is not defined by a def or class at the top level")
        if any(region.holds(node) for region in regions):
            raise AuthoringError(f"{name}, line {node.lineno}: {graded} is graded, so its definition must not be marked")
        inside = [region for region in regions if node.lineno < region.begin <= _last_line(node)]
        if not inside:
            raise AuthoringError(f"{name}, line {node.lineno}: nothing in {graded} is marked, so the stub would give it away")


def _check_removed_names(tree: ast.Module, regions: list[Region], scopes: list[str | None], name: str) -> None:
    """What the stub still uses at module level is still defined there."""
    outside = [region for region, scope in zip(regions, scopes, strict=True) if scope is None]
    removed = [node for node in tree.body if any(region.holds(node) for region in outside)]
    bound = {one: node.lineno for node in removed for one in _bound_names(node)}
    for node in tree.body:
        if node not in removed:
            for one in _bound_names(node):
                bound.pop(one, None)
    kept, _ = _removed(tree, regions)
    for node in kept:  # a name that some kept function binds for itself may well be that one
        if isinstance(node, ast.arg):
            bound.pop(node.arg, None)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.pop(node.id, None)
    for node in kept:
        if isinstance(node, ast.Name) and node.id in bound:
            used = f"{node.id} is used here, but line {bound[node.id]}, which defines it, is marked"
            raise AuthoringError(f"{name}, line {node.lineno}: {used}")


def _bound_names(node: ast.stmt) -> set[str]:
    """The names that a top-level statement defines."""
    if isinstance(node, ScopeNode):
        return {node.name}
    names: set[str] = set()
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
            names.add(part.id)
        elif isinstance(part, ast.alias):
            names.add(_bound_by(part))
    return names


# ---- imports ---------------------------------------------------------------------------------------------------------


def _imports(tree: ast.Module, regions: list[Region], lines: list[str]) -> list[tuple[int, int, list[str]]]:
    """Replacements for the import statements that hold names which only removed code uses."""
    kept, gone = _removed(tree, regions)
    still_used = _used_names(kept)
    was_used = _used_names(gone)
    replaced = []
    for node in tree.body:
        if not isinstance(node, ast.Import | ast.ImportFrom) or any(region.holds(node) for region in regions):
            continue
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            continue
        stay = [one for one in node.names if _bound_by(one) in still_used or _bound_by(one) not in was_used]
        if len(stay) == len(node.names) or ";" in "".join(lines[node.lineno - 1 : _last_line(node)]):
            continue
        replaced.append((node.lineno, _last_line(node), _import_lines(node, stay) if stay else []))
    return replaced


def _bound_by(alias: ast.alias) -> str:
    return alias.asname or alias.name.split(".")[0]


def _used_names(nodes: list[ast.AST]) -> set[str]:
    """Names that are read, also within annotations that are strings and in `__all__`."""
    used: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load | ast.Del):
            used.add(node.id)
        strings: list[ast.AST] = []
        if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation:
            strings.append(node.annotation)
        elif isinstance(node, FunctionNode) and node.returns:
            strings.append(node.returns)
        elif isinstance(node, ast.Assign) and any(isinstance(one, ast.Name) and one.id == "__all__" for one in node.targets):
            strings.append(node.value)
        for part in (part for root in strings for part in ast.walk(root)):
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                used.update(re.findall(r"[^\W\d]\w*", part.value))
    return used


def _import_lines(node: ast.Import | ast.ImportFrom, names: list[ast.alias]) -> list[str]:
    if isinstance(node, ast.Import):
        return [ast.unparse(ast.Import(names=names))]
    line = ast.unparse(ast.ImportFrom(module=node.module, names=names, level=node.level))
    if len(line) <= LINE_LENGTH:
        return [line]
    head, _, _ = line.partition(" import ")
    return [f"{head} import (", *(f"    {ast.unparse(one)}," for one in names), ")"]


# ---- text ------------------------------------------------------------------------------------------------------------


def _apply(lines: list[str], replaced: list[tuple[int, int, list[str]]]) -> str:
    """The text with some lines replaced; where lines vanish, their blank lines before and after become one group."""
    result: list[str] = []
    at = 0
    for first, last, new in sorted(replaced):
        result.extend(lines[at : first - 1])
        result.extend(new)
        at = last
        if new:
            continue
        before = _blank_tail(result)
        while at < len(lines) and not lines[at].strip():
            at += 1
        after = at - last
        del result[len(result) - before :]
        if result:
            result.extend([""] * max(before, after))
    result.extend(lines[at:])
    del result[len(result) - _blank_tail(result) :]
    return "\n".join(result) + "\n"


def _blank_tail(lines: list[str]) -> int:
    count = 0
    while count < len(lines) and not lines[-1 - count].strip():
        count += 1
    return count


def _expected(course: Course, exercises: Sequence[Exercise] | None) -> dict[Path, str]:
    """Every file that is made from the solutions, and its text."""
    expected = {course.exercises_dir / name: text for name, text in given_files(course).items()}
    for exercise in course.exercises if exercises is None else exercises:
        expected[course.exercise_path(exercise)] = stub_of(course, exercise)
    return expected


def _relative(course: Course, path: Path) -> str:
    return path.relative_to(course.root).as_posix()


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise AuthoringError(f"{path}: no such file") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise AuthoringError(f"{path}, line {line}: not UTF-8 text") from None
    except OSError as error:
        raise AuthoringError(f"{path}: cannot be read: {error.strerror or error}") from None


def _current(path: Path) -> str | None:
    """What stands on disk, byte for byte; None if it is missing or no text."""
    try:
        return path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def _write(path: Path, content: str) -> None:
    """Replace a file by atomic rename."""
    temporary = ""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with open(descriptor, "w", encoding="utf-8", newline="\n") as stream:
            stream.write(content)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
        temporary = ""
    except OSError as error:
        raise AuthoringError(f"{path}: cannot be written: {error.strerror or error}") from None
    finally:
        if temporary:
            Path(temporary).unlink(missing_ok=True)
