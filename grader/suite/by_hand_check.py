"""The `by_hand` fixture: whether a learner's file keeps to its exercise's by-hand rules."""

from __future__ import annotations

import ast

from grader.sandbox.client import Package
from grader.sandbox.remote import Observation, Session

from .by_hand import ByHandRule, scan
from .checks import Mistake
from .diagnosis import BY_HAND

MAX_NESTING = 100  # of a learner's source, from the module down to a name


class ByHandCheck:
    """The `by_hand` fixture."""

    def __init__(self, package: Package, rules: list[ByHandRule], session: Session) -> None:
        self._package, self._rules, self._session = package, rules, session

    def assert_clean(self) -> None:
        """No forbidden name, and nothing that would hide one, in the learner's file."""
        file = f"{self._package.main}.py"
        if _is_too_deep(self._package.files[file]):
            raise Mistake(f"{file} is nested too deeply to be read; write it plainly")
        for rule in self._rules:
            for finding in scan(self._package.files[file], rule):
                self._session.observe(Observation(BY_HAND, value=finding.sentence))
                raise Mistake(f"line {finding.line} of {file} {finding.sentence}")


def _is_too_deep(source: bytes) -> bool:
    """Whether a file is nested as nobody writes it: to read it takes for ever, or fails where the interpreter does not."""
    try:
        level: list[ast.AST] = [ast.parse(source)]
    except (RecursionError, MemoryError):
        return True
    except (SyntaxError, ValueError):
        return False
    for _ in range(MAX_NESTING):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    return bool(level)
