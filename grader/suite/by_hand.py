"""Reads a learner's source, without running it, for calls that the exercise wants written by hand.

A call is found under any plain alias: `import ... as`, an assignment, a string for `getattr`. What would hide a call (`exec`,
`importlib`, `torch.ops`) is a finding of its own. Names that the learner defines are never one, whatever they are called.
"""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Iterable, Iterator, Sequence

import msgspec

# What does the work of a forbidden call, or is it under another name. The spy of the sandbox watches these too.
TWINS: dict[str, tuple[str, ...]] = {
    "torch.nn.functional.scaled_dot_product_attention": (
        "torch.nn.functional.multi_head_attention_forward",
        "torch.nn.MultiheadAttention",
        "torch.nn.TransformerEncoderLayer",
        "torch.nn.TransformerDecoderLayer",
        "torch._native_multi_head_attention",
        "torch._scaled_dot_product_attention_math",
        "torch._transformer_encoder_layer_fwd",
    ),
    "torch.nn.MultiheadAttention": (
        "torch.nn.functional.multi_head_attention_forward",
        "torch.nn.TransformerEncoderLayer",
        "torch.nn.TransformerDecoderLayer",
        "torch._native_multi_head_attention",
        "torch._transformer_encoder_layer_fwd",
    ),
    "torch.nn.TransformerEncoderLayer": ("torch.nn.Transformer", "torch._transformer_encoder_layer_fwd"),
    "torch.nn.TransformerDecoderLayer": ("torch.nn.Transformer",),
    "torch.nn.Embedding": ("torch.nn.functional.embedding", "torch.nn.EmbeddingBag"),
    "torch.nn.functional.embedding": (
        *("torch.nn.Embedding", "torch.nn.EmbeddingBag", "torch.nn.functional.embedding_bag"),
        *("torch.embedding", "torch.embedding_bag"),
    ),
    "torch.nn.RMSNorm": ("torch.nn.functional.rms_norm",),
    "torch.nn.functional.rms_norm": ("torch.nn.RMSNorm", "torch.rms_norm"),
    "torch.nn.LayerNorm": ("torch.nn.functional.layer_norm", "torch.nn.GroupNorm"),
    "torch.nn.functional.layer_norm": (
        *("torch.nn.LayerNorm", "torch.nn.GroupNorm", "torch.nn.functional.group_norm", "torch.native_layer_norm"),
        *("torch.layer_norm", "torch.group_norm"),
    ),
    "torch.nn.GELU": ("torch.nn.functional.gelu",),
    "torch.nn.functional.gelu": ("torch.nn.GELU",),
    "torch.nn.SiLU": ("torch.nn.functional.silu",),
    "torch.nn.functional.silu": ("torch.nn.SiLU",),
    "torch.nn.CrossEntropyLoss": ("torch.nn.functional.cross_entropy",),
    "torch.nn.functional.cross_entropy": ("torch.nn.CrossEntropyLoss",),
    "torch.optim": ("torch._fused_adam_", "torch._fused_adamw_", "torch._fused_sgd_", "torch._fused_adagrad_"),
    "torch.nn.utils.clip_grad_norm_": ("torch.nn.utils.clip_grad_norm", "torch.nn.utils.clip_grads_with_norm_"),
}
READ_ONLY_TWINS: dict[str, tuple[str, ...]] = {  # found in the source, but too slow to import for the spy
    "torch.nn.functional.scaled_dot_product_attention": ("torch.nn.attention.flex_attention.flex_attention",),
}

DYNAMIC_NAMES = {"exec", "eval", "compile", "__import__", "globals", "vars", "__builtins__"}
DYNAMIC_MODULES = {"importlib", "imp", "runpy", "pkgutil", "pydoc", "ctypes", "gc", "builtins"}
HIDDEN_PARTS = {"_C", "_VF", "ops", "overrides", "_python_dispatch", "CompilationUnit"}  # of torch
HIDDEN_ATTRIBUTES = {"__globals__", "__subclasses__", "__builtins__"}  # of anything
FOREIGN_ATTRIBUTES = {"__dict__", "__getattribute__"}  # of anything but the learner's own objects
MAIN_TESTS = {"__name__ == '__main__'", "'__main__' == __name__"}
STRING_LOOKUPS = {"getattr", "attrgetter", "methodcaller"}


class ByHandRule(msgspec.Struct, frozen=True):
    """Dotted names that must not be used, and the graded names it applies to (none: everywhere).

    A name without a dot is a module, and any import of it or of a part of it counts; so does any use of a part of torch
    such as "torch.optim".
    """

    calls: list[str]
    names: list[str] = []


class Finding(msgspec.Struct, frozen=True):
    """One line that breaks the rule."""

    line: int
    sentence: str


def with_twins(calls: Iterable[str]) -> list[str]:
    """The calls and everything that stands for one of them in the installed torch; each once."""
    found = dict.fromkeys(calls)
    for call in list(found):
        found.update(dict.fromkeys(twin for twin in TWINS.get(call, ()) if _exists(twin)))
    return list(found)


def _exists(dotted: str) -> bool:
    module, _, name = dotted.rpartition(".")
    return hasattr(importlib.import_module(module), name)


def scan(source: bytes, rule: ByHandRule) -> list[Finding]:
    """Every use of a forbidden name in `source`, and every construct that would hide one. A file that does not parse has none."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    _leave_out_main(tree)
    try:
        findings = _Scanner(tree, rule).findings()
    except RecursionError:
        findings = [Finding(1, "is the first of a file that is nested too deeply to be read; write it plainly")]
    return sorted(set(findings), key=lambda finding: (finding.line, finding.sentence))


def _leave_out_main(tree: ast.Module) -> None:
    """Drop `if __name__ == "__main__":` blocks, which the grader never runs, and the imports that only they use: there a learner
    may compare with torch's own."""
    blocks = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) in MAIN_TESTS and not node.orelse]
    tree.body = [node for node in tree.body if node not in blocks]
    inside = {node.id for block in blocks for node in ast.walk(block) if isinstance(node, ast.Name)}
    outside = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            node.names = [alias for alias in node.names if (alias.asname or alias.name) not in inside - outside]


class _Names:
    """What the names of a file stand for. Scopes and the order of lines are not looked at: a name that may stand for a part of
    torch anywhere stands for it everywhere."""

    def __init__(self, tree: ast.Module) -> None:
        self.torch: dict[str, str] = {}  # local name -> "torch.nn.functional"
        self.attributes: dict[str, str] = {}  # x of `self.x = torch...` -> the same
        self.own: set[str] = {"self", "cls"}  # the course's and the learner's own: functions, classes, parameters, variables
        self.dynamic: dict[str, str] = {}  # local name -> module that hides calls
        self.system: set[str] = set()  # local names of `sys`
        self.functions: dict[str, ast.arguments] = {}
        nodes = list(ast.walk(tree))
        for node in nodes:
            self._define(node)
        pairs = [pair for node in nodes for pair in self._assignments(node)]
        mentioned = {id(value): self._dynamic_names(value) for value in {id(value): value for _, value in pairs}.values()}
        for _ in range(3):  # an alias of an alias of an alias
            before = len(self.torch) + len(self.attributes)
            read: dict[int, str | None] = {}  # one value may have thousands of targets
            for target, value in pairs:
                if id(value) not in read:
                    read[id(value)] = self.dotted(value)
                self._assign(target, read[id(value)], mentioned[id(value)])
            if len(self.torch) + len(self.attributes) == before:
                break

    def _define(self, node: ast.AST) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.split(".")[0]
                self._module(alias.asname or top, alias.name if alias.asname else top)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                self._module(alias.asname or alias.name, "." if node.level else f"{node.module}.{alias.name}")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            self.own.add(node.name)
            if not isinstance(node, ast.ClassDef):
                self.functions[node.name] = node.args
        elif isinstance(node, ast.arg):
            self.own.add(node.arg)

    def _module(self, local: str, dotted: str) -> None:
        top = dotted.split(".")[0]
        if top == "torch":
            self.torch[local] = dotted
        elif top in DYNAMIC_MODULES or dotted == "sys.modules":
            self.dynamic[local] = dotted
        elif top == "sys":
            self.system.add(local)
        else:
            self.own.add(local)

    def _assignments(self, node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
        """Pairs of a target and the value that it gets."""
        pairs: list[tuple[ast.expr, ast.expr]] = []
        if isinstance(node, ast.Assign):
            pairs = [(target, node.value) for target in node.targets]
        elif isinstance(node, ast.AnnAssign | ast.AugAssign | ast.NamedExpr) and node.value is not None:
            pairs = [(node.target, node.value)]
        elif isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
            pairs = [(node.target, node.iter)]
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            pairs = [(node.optional_vars, node.context_expr)]
        elif isinstance(node, ast.arguments):
            named = [*node.posonlyargs, *node.args]
            pairs = [(ast.Name(arg.arg), value) for arg, value in zip(named[::-1], node.defaults[::-1], strict=False)]
            pairs += [(ast.Name(arg.arg), value) for arg, value in zip(node.kwonlyargs, node.kw_defaults, strict=True) if value]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in self.functions:
            named = [*self.functions[node.func.id].posonlyargs, *self.functions[node.func.id].args]
            pairs = [(ast.Name(arg.arg), value) for arg, value in zip(named, node.args, strict=False)]
            pairs += [(ast.Name(keyword.arg), keyword.value) for keyword in node.keywords if keyword.arg]
        for target, value in pairs:
            if isinstance(target, ast.Tuple | ast.List):
                several = value.elts if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts) else None
                for index, one in enumerate(target.elts):
                    yield one, several[index] if several else value
            else:
                yield target, value

    @staticmethod
    def _dynamic_names(value: ast.expr) -> set[str]:
        return {node.id for node in ast.walk(value) if isinstance(node, ast.Name) and node.id in DYNAMIC_NAMES}

    def _assign(self, target: ast.expr, dotted: str | None, mentioned: set[str]) -> None:
        if isinstance(target, ast.Name):
            if dotted is not None:
                self.torch.setdefault(target.id, dotted)
            elif target.id not in mentioned:
                self.own.add(target.id)  # but not in `exec = exec`
        elif isinstance(target, ast.Attribute) and dotted is not None and self.is_own(target.value):
            self.attributes.setdefault(target.attr, dotted)

    def dotted(self, node: ast.expr) -> str | None:
        """The torch name that an expression stands for, as far as that can be read: `F.gelu` is "torch.nn.functional.gelu"."""
        if isinstance(node, ast.Name):
            return self.torch.get(node.id)
        if isinstance(node, ast.Attribute):
            base = self.dotted(node.value)
            if base is not None:
                return f"{base}.{node.attr}"
            return self.attributes.get(node.attr) if self.is_own(node.value) else None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr" and len(node.args) > 1:
            base, name = self.dotted(node.args[0]), constant(node.args[1])
            return f"{base}.{name}" if base is not None and name is not None else None
        if isinstance(node, ast.NamedExpr | ast.Starred | ast.Subscript):
            return self.dotted(node.value)
        parts: list[ast.expr] = []
        if isinstance(node, ast.IfExp):
            parts = [node.body, node.orelse]
        elif isinstance(node, ast.Tuple | ast.List | ast.Set):
            parts = node.elts
        elif isinstance(node, ast.BoolOp | ast.Dict):
            parts = [value for value in node.values if value is not None]
        return next((dotted for part in parts if (dotted := self.dotted(part)) is not None), None)

    def is_own(self, node: ast.expr) -> bool:
        """Whether an expression begins with a name of the learner's or the course's own."""
        while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super":
                return True
            node = node.func if isinstance(node, ast.Call) else node.value
        return isinstance(node, ast.Name) and node.id in self.own and node.id not in self.torch and node.id not in self.dynamic


def constant(node: ast.expr) -> str | None:
    """The text of a string, also of one put together from plain parts."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        parts = [constant(node.left), constant(node.right)]
    elif isinstance(node, ast.JoinedStr):
        parts = [constant(value) for value in node.values]
    else:
        return None
    return None if None in parts else "".join(part for part in parts if part)


class _Scanner:
    def __init__(self, tree: ast.Module, rule: ByHandRule) -> None:
        self.tree, self.rule, self.names = tree, rule, _Names(tree)
        self.modules = {call for call in rule.calls if "." not in call}
        self.direct = {call.rpartition(".")[2]: call for call in rule.calls if call not in self.modules}
        self.parts = {name: call for name, call in self.direct.items() if call in sys.modules}  # of torch
        self.twins = {
            twin.rpartition(".")[2]: twin
            for call in rule.calls
            for twin in (*TWINS.get(call, ()), *READ_ONLY_TWINS.get(call, ()))
            if twin not in rule.calls
        }
        self.words = [_words(name) for name in self.direct]

    def findings(self) -> list[Finding]:
        """Of the whole file, or of what the rule's graded names are made of."""
        everywhere = not self.rule.names
        return [finding for node in ([self.tree] if everywhere else self._concerned()) for finding in self._scan(node)]

    def _concerned(self) -> list[ast.AST]:
        """The definitions of the rule's names and of everything in the file that these mention."""
        definitions: dict[str, list[ast.AST]] = {}
        for statement in _top_level(self.tree.body):
            for name in _bound_names(statement):
                definitions.setdefault(name, []).append(statement)
        reached: dict[ast.AST, None] = {}
        waiting = ["*", *self.rule.names]
        seen: set[str] = set()
        while waiting:
            name = waiting.pop()
            if name in seen:
                continue
            seen.add(name)
            for node in definitions.get(name, ()):
                if node not in reached:
                    reached[node] = None
                    waiting += [one.id for one in ast.walk(node) if isinstance(one, ast.Name)]
        imports = ast.Import | ast.ImportFrom
        used = [_only_names(node, seen) if isinstance(node, imports) else node for node in reached]
        return sorted(used, key=lambda node: node.lineno)

    def _scan(self, root: ast.AST) -> Iterator[Finding]:
        waiting = [root]
        while waiting:
            node = waiting.pop()
            yield from self._at(node)
            waiting += _children(node)

    def _at(self, node: ast.AST) -> Iterator[Finding]:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from self._imported(node, alias.name)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            for alias in node.names:
                if alias.name == "*" and (node.module or "").split(".")[0] == "torch":
                    yield self._hidden(node, f"from {node.module} import *")
                else:
                    yield from self._imported(node, f"{node.module}.{alias.name}")
        elif isinstance(node, ast.Attribute):
            yield from self._attribute(node)
        elif isinstance(node, ast.Name):
            yield from self._name(node)
        elif isinstance(node, ast.Call):
            yield from self._call(node)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("torch."):
            name = node.value.replace(":", ".").rpartition(".")[2]
            if not any(character.isspace() for character in node.value):
                yield from self._forbidden(node, name, node.value)

    def _imported(self, node: ast.AST, dotted: str) -> Iterator[Finding]:
        parts = dotted.split(".")
        if parts[0] in self.modules:
            yield Finding(node.lineno, f"imports `{parts[0]}`, which does what this exercise asks you to write by hand")
        elif parts[0] in DYNAMIC_MODULES or dotted == "sys.modules":
            yield self._hidden(node, dotted)
        elif parts[0] == "torch":
            if HIDDEN_PARTS & set(parts):
                yield self._hidden(node, dotted)
            yield from self._forbidden(node, parts[-1], dotted)

    def _attribute(self, node: ast.Attribute) -> Iterator[Finding]:
        dotted = self.names.dotted(node)
        if dotted is not None:
            if HIDDEN_PARTS & set(dotted.split(".")):
                yield self._hidden(node, ast.unparse(node)[:60])
            yield from self._forbidden(node, dotted.rpartition(".")[2], dotted)
        elif not self.names.is_own(node):
            yield from self._forbidden(node, node.attr, node.attr)
        if node.attr in HIDDEN_ATTRIBUTES or (node.attr in FOREIGN_ATTRIBUTES and not self.names.is_own(node.value)):
            yield self._hidden(node, ast.unparse(node)[:60])
        if isinstance(node.value, ast.Name) and node.value.id in self.names.system and node.attr in ("modules", "_getframe"):
            yield self._hidden(node, f"sys.{node.attr}")

    def _name(self, node: ast.Name) -> Iterator[Finding]:
        if not isinstance(node.ctx, ast.Load):
            return
        if node.id in DYNAMIC_NAMES and node.id not in self.names.own:
            yield self._hidden(node, node.id)
        elif node.id in self.names.dynamic:
            yield self._hidden(node, self.names.dynamic[node.id])
        elif (dotted := self.names.torch.get(node.id)) is not None:
            yield from self._forbidden(node, dotted.rpartition(".")[2], dotted)

    def _call(self, node: ast.Call) -> Iterator[Finding]:
        called = getattr(node.func, "id", getattr(node.func, "attr", ""))
        passes_a_module = any(self.names.dotted(argument) in sys.modules for argument in node.args)
        for argument in node.args:
            text = constant(argument)
            if text is not None and (called in STRING_LOOKUPS or passes_a_module) and called != "hasattr":
                yield from self._forbidden(argument, text.rpartition(".")[2], text)
        if called in STRING_LOOKUPS:
            place = 1 if called == "getattr" else 0
            plain = len(node.args) > place and constant(node.args[place]) is not None
            if not plain and not (called == "getattr" and node.args and self.names.is_own(node.args[0])):
                yield self._hidden(node, f"{called} with a computed name")

    def _forbidden(self, node: ast.AST, name: str, dotted: str) -> Iterator[Finding]:
        part = next((part for part in dotted.replace(":", ".").split(".") if part in self.parts), None)
        if name in self.direct or part:
            yield Finding(node.lineno, f"uses `{self.direct[part or name]}`, which this exercise asks you to write by hand")
        elif name in self.twins:
            yield Finding(node.lineno, f"uses `{self.twins[name]}`, which does what this exercise asks you to write by hand")
        elif name.startswith("_") and dotted.startswith("torch.") and any(words <= _words(name) for words in self.words):
            yield Finding(node.lineno, f"uses `{dotted}`, which does what this exercise asks you to write by hand")

    @staticmethod
    def _hidden(node: ast.AST, what: str) -> Finding:
        return Finding(node.lineno, f"uses `{what}`, which hides what is called; write the call plainly")


def _words(name: str) -> set[str]:
    return set(name.split("_")) - {""}


def _top_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module, those inside `if`, `try`, `with` and loops too."""
    for statement in body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield statement
            continue
        inner = [getattr(statement, field, []) for field in ("body", "orelse", "finalbody")]
        inner += [handler.body for handler in getattr(statement, "handlers", [])]
        if any(inner):
            for block in inner:
                yield from _top_level(block)
        else:
            yield statement


def _bound_names(statement: ast.stmt) -> set[str]:
    """The names that a statement gives a meaning."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {statement.name}
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return {alias.asname or alias.name.split(".")[0] for alias in statement.names}
    stored = [node for node in ast.walk(statement) if isinstance(getattr(node, "ctx", None), ast.Store)]
    return {root.id for node in stored if isinstance(root := _root(node), ast.Name)}  # `f.x = ...` changes what f is


def _root(node: ast.AST) -> ast.AST:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node


def _only_names(node: ast.Import | ast.ImportFrom, used: set[str]) -> ast.AST:
    """An import statement with only those names that are used."""
    names = [alias for alias in node.names if (alias.asname or alias.name.split(".")[0]) in used or alias.name == "*"]
    if isinstance(node, ast.Import):
        return ast.copy_location(ast.Import(names), node)
    return ast.copy_location(ast.ImportFrom(node.module, names, node.level), node)


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of a node that can call something: no docstrings, annotations, `__all__`, or types to compare with."""
    skipped: Sequence[ast.AST | None] = ()
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        skipped = [node.value]
    elif isinstance(node, ast.arg | ast.AnnAssign):
        skipped = [node.annotation]
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        skipped = [node.returns]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("isinstance", "issubclass"):
        skipped = node.args[1:]
    if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
            skipped = [*skipped, node.value]
    left_out = set(map(id, skipped))
    return (child for child in ast.iter_child_nodes(node) if id(child) not in left_out)
