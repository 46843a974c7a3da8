"""Reads a learner's source, without running it, for calls that the exercise wants written by hand."""

from __future__ import annotations

import ast

import msgspec

DYNAMIC_NAMES = {"exec", "eval", "compile", "__import__", "globals", "vars"}
DYNAMIC_MODULES = {"importlib", "ctypes", "gc", "builtins", "torch.overrides", "torch.utils._python_dispatch"}
HIDDEN_ATTRIBUTES = {"_C", "ops", "__dict__", "__getattribute__", "_VF", "jit", "overrides", "modules"}


class ByHandRule(msgspec.Struct, frozen=True):
    """Dotted names that must not be used, and the graded names it applies to (none: everywhere)."""

    calls: list[str]
    names: list[str] = []


class Finding(msgspec.Struct, frozen=True):
    """One line that breaks the rule."""

    line: int
    sentence: str


def scan(source: bytes, rule: ByHandRule) -> list[Finding]:
    """Every use of a forbidden name in `source`, and every construct that would hide one. A file that does not parse has none."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    scanner = _Scanner(rule)
    scanner.visit(tree)
    return sorted(set(scanner.findings), key=lambda finding: finding.line)


class _Scanner(ast.NodeVisitor):
    def __init__(self, rule: ByHandRule) -> None:
        self.calls = {call.rpartition(".")[2]: call for call in rule.calls}
        self.names = set(rule.names)
        self.findings: list[Finding] = []
        self.from_torch: set[str] = set()  # local names that stand for torch or a part of it
        self.own: set[str] = set()  # local names of the course's own modules
        self.inside = 0

    def _find(self, node: ast.AST, sentence: str) -> None:
        if not self.names or self.inside:
            self.findings.append(Finding(node.lineno, sentence))

    def _forbidden(self, node: ast.AST, name: str) -> None:
        self._find(node, f"uses `{self.calls[name]}`, which this exercise asks you to write by hand")

    def _hidden(self, node: ast.AST, what: str) -> None:
        self._find(node, f"uses `{what}`, which hides what is called; write the call plainly")

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            if alias.name in DYNAMIC_MODULES:
                self._hidden(node, alias.name)
            if alias.name.split(".")[0] == "torch":
                self.from_torch.add(alias.asname or "torch")
                if set(alias.name.split(".")) & HIDDEN_ATTRIBUTES:
                    self._hidden(node, alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.level:
            self.own.update(alias.asname or alias.name for alias in node.names)
            return
        module = node.module or ""
        if module in DYNAMIC_MODULES or (module.startswith("torch") and set(module.split(".")) & HIDDEN_ATTRIBUTES):
            self._hidden(node, module)
        for alias in node.names:
            if module.split(".")[0] == "torch":
                self.from_torch.add(alias.asname or alias.name)
                if alias.name == "*":
                    self._hidden(node, f"from {module} import *")
                if alias.name in self.calls:
                    self._forbidden(node, alias.name)
                if alias.name in HIDDEN_ATTRIBUTES or f"{module}.{alias.name}" in DYNAMIC_MODULES:
                    self._hidden(node, f"{module}.{alias.name}")
            if module == "sys" and alias.name == "modules":
                self._hidden(node, "sys.modules")

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        graded = node.name in self.names
        self.inside += graded
        self.generic_visit(node)
        self.inside -= graded

    visit_AsyncFunctionDef = visit_ClassDef = visit_FunctionDef

    def visit_Assign(self, node: ast.Assign) -> None:
        names = [target.id for target in node.targets if isinstance(target, ast.Name)]
        if "__all__" in names:
            return
        if self._root(node.value) in self.from_torch and isinstance(node.value, ast.Name | ast.Attribute):
            self.from_torch.update(names)
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        root = self._root(node)
        if node.attr in self.calls and root not in self.own and root != "self":
            self._forbidden(node, node.attr)
        elif node.attr in HIDDEN_ATTRIBUTES and (root in self.from_torch or root in ("sys", None) or node.attr.startswith("__")):
            self._hidden(node, ast.unparse(node)[:60])
        self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        if node.id in DYNAMIC_NAMES:
            self._hidden(node, node.id)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id in ("getattr", "hasattr", "attrgetter") and node.args:
            name = node.args[-1] if node.func.id == "attrgetter" else node.args[1] if len(node.args) > 1 else None
            if not (isinstance(name, ast.Constant) and isinstance(name.value, str)):
                self._hidden(node, "getattr with a computed name")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str) and node.value.split(".")[-1] in self.calls and " " not in node.value:
            self._forbidden(node, node.value.split(".")[-1])

    @staticmethod
    def _root(node: ast.AST) -> str | None:
        while isinstance(node, ast.Attribute):
            node = node.value
        return node.id if isinstance(node, ast.Name) else None
