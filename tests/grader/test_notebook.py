"""Solution cells of notebooks: found, read as a module, and weighed against the .py file."""

from __future__ import annotations

import json

import pytest

from grader.notebook import (
    SolutionCell,
    as_module,
    choose,
    is_untouched,
    read_solution_cell,
    solution_mark,
)
from grader.submission import MAX_FILE_BYTES, Problem, SourceFile

NAME = "ex08_mask"
STUB = '''"""08 · masks."""

import torch


def causal_mask(q_len, k_len):
    """Let every query see the past."""
    raise NotImplementedError("EX08: causal_mask")


class Mask:
    def __init__(self, size):
        super().__init__()
        raise NotImplementedError("EX08: Mask.__init__")
'''
HALF = STUB.replace('raise NotImplementedError("EX08: causal_mask")', "return torch.ones(q_len, k_len).bool()")
MISSING = Problem(kind="missing", message="there is no ex08_mask.py")


def file(text: str) -> SourceFile:
    return SourceFile(name=NAME, content=text.encode(), place="ex08_mask.py")


def cell(source, cell_type: str = "code", grade_id: str | None = "solution") -> dict:
    return {"cell_type": cell_type, "source": source, "metadata": {"nbgrader": {"grade_id": grade_id}} if grade_id else {}}


def notebook(*cells: object) -> bytes:
    return json.dumps({"cells": cells, "nbformat": 4}).encode()


# ---- untouched ----


@pytest.mark.parametrize(
    "source",
    [
        "",
        "  \n# only a comment\n",
        '"""Only a docstring."""\n',
        STUB,
        f"# solution of ex08_mask\n\n{STUB}",
        STUB.replace("Let every query see the past.", "Other words, of a later release."),
        STUB + "\n\nimport math\nprint('hello')\n",
    ],
    ids=["blank", "comment", "docstring", "stub", "stub in a cell", "stub of another release", "stub and a try"],
)
def test_nothing_was_written(source):
    assert is_untouched(source, STUB)


@pytest.mark.parametrize(
    "source",
    [
        HALF,
        STUB.replace(
            '    raise NotImplementedError("EX08: causal_mask")',
            '    return 1\n    raise NotImplementedError("EX08: causal_mask")',
        ),
        STUB.replace("super().__init__()\n", "super().__init__()\n        self.size = size\n"),
        "def causal_mask(q_len, k_len)\n    return 1\n",
        "x = 1\n",
        "def causal_mask(q_len, k_len):\n    return 1\n",
    ],
    ids=["one of two", "raise left behind", "within given code", "syntax error", "something else", "no markers"],
)
def test_something_was_written(source):
    assert not is_untouched(source, STUB)


# ---- the cell ----


@pytest.mark.parametrize("source", ["x = 1\ny = 2", ["x = 1\n", "y = 2"]], ids=["text", "lines"])
def test_a_cell_is_found_by_its_id(source):
    found = read_solution_cell(notebook(cell("# prose", "markdown"), cell("0", grade_id="check"), cell(source)), NAME, STUB)
    assert found == SolutionCell(source="x = 1\ny = 2")


def test_a_cell_without_its_metadata_is_found_by_its_first_line():
    text = f"\n{solution_mark(NAME)}: mine\nx = 1"
    assert read_solution_cell(notebook(cell("y = 1", grade_id=None), cell(text, grade_id=None)), NAME, STUB).source == text


def test_of_copies_the_last_written_one_counts():
    found = read_solution_cell(notebook(cell("x = 1"), cell("x = 2"), cell(STUB)), NAME, STUB)
    assert (found.source, found.copies) == ("x = 2", 3)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no json",
        b"[1]",
        b'{"cells": 3}',
        b'{"cells": [3]}',
        b'{"cells": [{"cell_type": "code", "source": [1], "metadata": {}}]}',
        b'{"cells": [{"cell_type": "code", "source": 1, "metadata": 1}]}',
        b"[" * 100_000,
        b"\xff\xfe",
        b"1" * 5000,
    ],
)
def test_what_is_no_notebook_is_a_problem_and_never_raises(content):
    found = read_solution_cell(content, NAME, STUB)
    assert isinstance(found, Problem) and found.kind == "unreadable"


def test_a_notebook_without_the_cell():
    assert read_solution_cell(notebook(cell("x", "raw"), cell("y", grade_id=None)), NAME, STUB) is None


def test_lines_for_ipython_become_comments_and_keep_their_numbers():
    source = "%matplotlib inline\nimport torch\nif True:\n    !ls\n\ndef f():\n    return 1 %2\n?f"
    module = as_module(source).decode()
    compile(module, "m", "exec")
    assert module.count("\n") == source.count("\n") + 1 and "return 1 %2" in module
    assert as_module('x = """\n%not magic\n"""') == b'x = """\n%not magic\n"""\n'
    assert as_module("def f(:\n%magic") == b"def f(:\n%magic\n"  # not mended by guessing


# ---- which counts ----


def test_the_cell_counts_while_the_file_is_the_stub():
    chosen = choose(file(STUB), "ex08.ipynb", SolutionCell(source=HALF), STUB)
    assert chosen.content == HALF.encode() and chosen.place == "ex08.ipynb, solution cell" and "still the stub" in chosen.notes[0]


def test_the_cell_counts_where_there_is_no_file():
    chosen = choose(MISSING, "ex08.ipynb", SolutionCell(source=HALF, copies=2), STUB)
    assert chosen.content == HALF.encode() and "not handed in" in chosen.notes[0] and "2 solution cells" in chosen.notes[1]


def test_the_file_counts_once_it_is_written_and_says_that_the_cell_does_not():
    chosen = choose(file(HALF), "ex08.ipynb", SolutionCell(source="def causal_mask(q, k):\n    return 1"), STUB)
    assert chosen.content == HALF.encode() and "holds something else" in chosen.notes[0]


@pytest.mark.parametrize("source", [STUB, "", f"# a comment\n{HALF}\n\n"], ids=["stub", "blank", "the same"])
def test_no_note_where_the_cell_holds_nothing_of_its_own(source):
    assert choose(file(HALF), "ex08.ipynb", SolutionCell(source=source), STUB) == file(HALF)


def test_both_untouched_is_the_file():
    assert choose(file(STUB), "ex08.ipynb", SolutionCell(source=STUB), STUB) == file(STUB)
    assert choose(MISSING, "ex08.ipynb", None, STUB) == MISSING


def test_an_unreadable_file_is_not_replaced_by_the_cell():
    problem = Problem(kind="unreadable", message="ex08_mask.py is too large")
    assert choose(problem, "ex08.ipynb", SolutionCell(source=HALF), STUB) == problem


def test_a_broken_notebook_beside_a_good_file_is_a_note():
    broken = Problem(kind="unreadable", message="is not a notebook")
    assert choose(file(HALF), "ex08.ipynb", broken, STUB).notes == ("ex08.ipynb is not a notebook",)
    assert "ex08.ipynb is not a notebook" in choose(MISSING, "ex08.ipynb", broken, STUB).message


def test_a_cell_of_megabytes_is_refused():
    chosen = choose(MISSING, "ex08.ipynb", SolutionCell(source="x = 1\n" + "#" * MAX_FILE_BYTES), STUB)
    assert isinstance(chosen, Problem) and "too large" in chosen.message
