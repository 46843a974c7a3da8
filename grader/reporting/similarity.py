"""Owns which submissions resemble each other beyond what the exercise asks for. Ranks pairs for a person to read; gives no verdict.

Files are parsed, never run. What differs between two copies without differing in substance is taken out first: names, comments,
docstrings, annotations, texts and layout. What the stub, the reference or many students share counts for nothing.
"""

from __future__ import annotations

import ast
import io
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

from grader.reporting.gradebook import ReportError

GRAM = 30  # characters of normalized code in a row that have to be equal
WINDOW = 8  # of winnowing: a match of GRAM + WINDOW - 1 characters is always seen
LEAST_SHARE = 0.5  # of the smaller file that has to be found in the other
LEAST_CHARACTERS = 120  # of normalized code that have to match: three equal lines are chance
COMMON_PART, COMMON_LEAST = 0.1, 5  # what more students share is how the exercise is solved
IN_A_ROW = 3  # statements that have to follow each other in both files to be marked
PAIRS = 10  # of one exercise that are shown
MAX_CHARACTERS = 100_000  # of a file that is compared


@dataclass(frozen=True)
class Source:
    """One file side by side with another: its lines, and which of them say the same as the other's."""

    lines: list[str]
    same: list[bool]


@dataclass(frozen=True)
class Pair:
    """Two files that resemble each other."""

    exercise: str
    first: str  # students
    second: str
    share: float  # of the smaller file's own code that is found in the other
    characters: int  # of normalized code that match
    sources: tuple[Source, Source]


@dataclass
class Found:
    """The pairs of all exercises, and what could not be compared."""

    pairs: list[Pair] = field(default_factory=list)
    compared: Counter[str] = field(default_factory=Counter)  # files by exercise
    unparsed: list[tuple[str, str, str]] = field(default_factory=list)  # (student, exercise, why)


def find_alike(submissions: Path, exercises: Iterable[str], root: Path) -> Found:
    """Compare all files of each exercise; `root` holds the stubs and references. A `ReportError` if there is nothing to compare."""
    from grader.submission import SubmissionError, find_submissions

    try:
        students = find_submissions(submissions)
    except SubmissionError as error:
        raise ReportError(str(error)) from None
    if not students:
        raise ReportError(f"{submissions}: holds no submission; expected a folder or a .zip per student")
    found = Found()
    for exercise in exercises:
        texts = {}
        for one in students:
            content = getattr(one.file(exercise), "content", None)  # a Problem has none: there is nothing to compare
            if content is not None:
                texts[one.key] = content.decode("utf-8", errors="replace")
        found.pairs += _pairs(exercise, texts, _boilerplate(root, exercise), found)
    return found


def _boilerplate(root: Path, exercise: str) -> list[str]:
    paths = (root / folder / f"{exercise}.py" for folder in ("exercises", "solutions"))
    return [normalized(path.read_text(encoding="utf-8")) for path in paths if path.is_file()]


def _pairs(exercise: str, texts: dict[str, str], boilerplate: list[str], found: Found) -> list[Pair]:
    codes: dict[str, str] = {}
    for student, text in texts.items():
        try:
            if len(text) > MAX_CHARACTERS:
                raise ValueError(f"longer than {MAX_CHARACTERS} characters")
            codes[student] = normalized(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            why = error.msg if isinstance(error, SyntaxError) else str(error) or "nested too deeply"
            found.unparsed.append((student, exercise, why))
    found.compared[exercise] += len(codes)
    if len(codes) < 2:
        return []
    given = {one for text in boilerplate for one in _fingerprint(text, window=1).hashes}
    counts = Counter(one for code in codes.values() for one in _fingerprint(code).hashes)
    most = max(COMMON_LEAST, COMMON_PART * len(codes))
    ignored = given | {one for one, students in counts.items() if students > most}
    prints = {student: _fingerprint(code, ignored) for student, code in codes.items()}
    alike = []
    for first, second in _candidates(prints):
        share, characters = _compared(prints[first], prints[second])
        if share >= LEAST_SHARE and characters >= LEAST_CHARACTERS:
            alike.append((share, characters, first, second))
    alike.sort(key=lambda one: (-one[0], -one[1], one[2:]))
    return [
        Pair(exercise, first, second, share, characters, side_by_side(texts[first], texts[second]))
        for share, characters, first, second in alike[:PAIRS]
    ]


def _fingerprint(code: str, ignored: Iterable[int] = (), window: int = WINDOW) -> Any:
    import numpy as np

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a file without code of its own is nothing to warn of
        from copydetect import CodeFingerprint

        boilerplate = np.array(list(ignored), dtype=np.int64)
        return CodeFingerprint("code.py", GRAM, window, boilerplate, filter=False, fp=io.StringIO(code))


def _compared(first: Any, second: Any) -> tuple[float, int]:
    """(share of the smaller file, matching characters)."""
    from copydetect import compare_files

    characters, shares, _ = compare_files(first, second)
    return min(1.0, float(max(shares))), int(characters)


def _candidates(prints: dict[str, Any]) -> list[tuple[str, str]]:
    """Pairs that share enough fingerprints to be worth a closer look: of a large class, very few."""
    owners: dict[int, list[str]] = defaultdict(list)
    for student, one in prints.items():
        for fingerprint in one.hashes:
            owners[int(fingerprint)].append(student)
    shared: Counter[tuple[str, str]] = Counter()
    for students in owners.values():
        shared.update(combinations(students, 2))
    return [
        pair for pair, count in shared.items() if count >= 0.5 * LEAST_SHARE * min(len(prints[one].hashes) for one in pair)
    ]  # fmt: skip


# What a file says, whatever its names and its layout


def normalized(text: str) -> str:
    """The code with every name of its own as `v`, without texts, docstrings, annotations and comments, functions in a fixed order.

    What comes from elsewhere keeps its name: attributes such as `softmax`, and imported modules. Raises what `ast.parse` raises.
    """
    tree = _parsed(text)
    parts = []
    for node in tree.body:
        if not isinstance(node, ast.Import | ast.ImportFrom):
            parts.append(ast.unparse(_Plain().visit(node)))
    return "\n".join(sorted(parts))


def _parsed(text: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a learner's escape sequences
        return ast.parse(text)


class _Plain(ast.NodeTransformer):
    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name("v", node.ctx)

    def visit_arg(self, node: ast.arg) -> ast.arg:
        return ast.arg("v")

    def visit_keyword(self, node: ast.keyword) -> ast.keyword:
        return ast.keyword(node.arg, self.visit(node.value))

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        return ast.Constant("s") if isinstance(node.value, str | bytes) else node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.Constant:
        return ast.Constant("s")

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        if node.value is None:
            return None
        return ast.copy_location(ast.Assign([self.visit(node.target)], self.visit(node.value)), node)

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        """A text that stands alone is a docstring or a comment."""
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            return ast.copy_location(ast.Pass(), node)
        return self.generic_visit(node)

    def _definition(self, node: Any) -> ast.AST:
        node.name, node.returns = "v", None
        node.decorator_list = []
        return self.generic_visit(node)

    visit_FunctionDef = visit_AsyncFunctionDef = _definition

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.name = "v"
        return self.generic_visit(node)


def side_by_side(first: str, second: str) -> tuple[Source, Source]:
    """Both files, with the lines marked whose statements stand in the other file too, some in a row, wherever that is."""
    ours, theirs = _statements(first), _statements(second)
    return _marked(first, ours, theirs), _marked(second, theirs, ours)


def _marked(text: str, mine: list[tuple[str, range]], others: list[tuple[str, range]]) -> Source:
    lines = text.splitlines()
    same = [False] * len(lines)
    length = min(IN_A_ROW, len(mine), len(others))
    runs = {tuple(said for said, _ in others[start : start + length]) for start in range(len(others) - length + 1)}
    for start in range(len(mine) - length + 1):
        run = mine[start : start + length]
        if run and tuple(said for said, _ in run) in runs:
            for line in (line for _, span in run for line in span if line <= len(lines)):
                same[line - 1] = True
    return Source(lines, same)


def _statements(text: str) -> list[tuple[str, range]]:
    """(what it says, its lines from 1) of every statement, in order; of a compound one, its head alone."""
    found = []
    for node in ast.walk(_parsed(text)):
        if not isinstance(node, ast.stmt) or isinstance(node, ast.Import | ast.ImportFrom):
            continue
        body = getattr(node, "body", None)
        last = body[0].lineno - 1 if body and body[0].lineno > node.lineno else node.end_lineno or node.lineno
        found.append((node.lineno, _head(node), range(node.lineno, max(node.lineno, last) + 1)))
    return [(said, span) for _, said, span in sorted(found, key=lambda one: one[0])]


def _head(node: ast.stmt) -> str:
    said = ast.unparse(_Plain().visit(_parsed(ast.unparse(node)).body[0]))
    return said.splitlines()[0] if getattr(node, "body", None) else said
