"""What a lesson's table of points must say: the points of the grading suite beside it, category by category."""

from __future__ import annotations

import ast
from collections import Counter

from .conftest import ROOT


def graded(number: str) -> dict[str, float]:
    """Points of one exercise's hidden suite ("03"), by category; read from the file, which is not run."""
    (path,) = (ROOT / "tests" / "hidden").glob(f"test_ex{number}_*.py")
    found: Counter[str] = Counter()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef):
            for call in node.decorator_list:
                if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "points":
                    value, category = (ast.literal_eval(argument) for argument in call.args)
                    found[category] += value
    return found
