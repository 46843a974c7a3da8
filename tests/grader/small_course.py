"""A course of two small exercises, the second of which builds on the first; written into a folder for tests."""

from __future__ import annotations

import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BASE, TOP = "ex01_base", "ex02_top"
COURSE = """
[course]
name = "Small"
schema = 1

[limits]
call_seconds = 2.0
exercise_seconds = 30.0

[[exercise]]
number = 1
file = "ex01_base"
title = "Base"
points = 4
names = ["double"]

[[exercise]]
number = 2
file = "ex02_top"
title = "Top"
points = 6
names = ["quadruple"]
prerequisites = [1]
"""
DOUBLE = '"""Base."""\n\n\ndef double(x):\n    return 2 * x\n'
QUADRUPLE = '"""Top."""\n\nfrom .ex01_base import double\n\n\ndef quadruple(x):\n    return double(double(x))\n'
HIDDEN = '''"""Grades {name}."""

from grader.suite import assert_close, assert_value_error, points, randn


@points({first}, "numerics")
def test_values(learner, reference):
    """{name} of anything."""
    x = randn(2, 3)
    assert_close(learner.{name}(x), reference.{name}(x))


@points({second}, "shape")
def test_scalar(learner):
    """{name} of a scalar."""
    assert_close(learner.{name}(randn()), randn() * 0, tolerance=1000.0)
'''
PUBLIC = '''"""An example of double."""

import torch

from grader.suite import assert_equal, points


@points(0, "numerics")
def test_example(learner):
    """Twice 3 is 6."""
    assert_equal(learner.double(torch.tensor(3)), torch.tensor(6))
'''
TRIPLE = '"""Is that twice?"""\n\nCATEGORY = "numerics"\n\n\ndef double(x):\n    return 3 * x\n'


def write_course(root: Path) -> Path:
    """The whole course: exercises, references, suites and a chaff."""
    files = {
        "course.toml": COURSE,
        "exercises/ex01_base.py": DOUBLE.replace("return 2 * x", 'raise NotImplementedError("EX01: double")'),
        "solutions/ex01_base.py": DOUBLE,
        "solutions/ex02_top.py": QUADRUPLE,
        "solutions/chaffs/ex01_base/triple.py": TRIPLE,
        "tests/public/test_ex01_base.py": PUBLIC,
        "tests/hidden/test_ex01_base.py": HIDDEN.format(name="double", first=3, second=1),
        "tests/hidden/test_ex02_top.py": HIDDEN.format(name="quadruple", first=5, second=1),
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    shutil.copy(ROOT / "exercises/config.py", root / "exercises/config.py")
    return root


def write_submission(folder: Path, student: str, **sources: str) -> None:
    """`base=` and `top=` of one student."""
    (folder / student).mkdir(parents=True, exist_ok=True)
    for name, source in sources.items():
        (folder / student / f"{ {'base': BASE, 'top': TOP}[name] }.py").write_text(source)
