"""Notices calls of forbidden torch functions, under any alias, while learner code runs.

It sits in the learner's process, so code that attacks it can silence it: it explains and refuses, and a source scan on the
trusted side stands beside it (`grader.suite.by_hand`).
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Iterable
from types import CodeType, FunctionType, ModuleType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode


class ForbiddenCallSpy:
    """While entered, adds the dotted name of every forbidden function or class that is used to `used`."""

    def __init__(self, forbidden: Iterable[str], own: Iterable[str] = ()) -> None:
        """`own`: file names of the code that is watched."""
        self._own = frozenset(own)
        self.used: set[str] = set()
        self._functions: dict[Any, str] = {}
        self._operators: dict[str, str] = {}  # "scaled_dot_product_attention" -> dotted name
        self._classes: list[tuple[type, str]] = []
        self._silent: dict[CodeType, str] = {}  # functions that torch does not announce: they are looked for among the callers
        for dotted in forbidden:
            module, _, name = dotted.rpartition(".")
            if not module:  # a whole module: `RefusedImports` sees to it
                continue
            target = getattr(importlib.import_module(module), name)
            if isinstance(target, type):
                self._classes.append((target, dotted))
            elif isinstance(target, ModuleType):  # a part of torch: what it makes are objects of its classes
                self._classes += [(value, dotted) for value in vars(target).values() if isinstance(value, type)]
            else:
                code = getattr(inspect.unwrap(target), "__code__", None)
                if isinstance(target, FunctionType) and code is not None and "handle_torch_function" not in code.co_names:
                    self._silent[code] = dotted
                self._functions[target] = dotted
                self._operators[name] = dotted
        self.watches_functions = True  # to be told of every function makes a small model half as slow again
        self._mode: _FunctionMode | None = None
        self._originals: list[tuple[type, Any]] = []

    def __enter__(self) -> None:
        for cls, dotted in self._classes:
            self._originals.append((cls, vars(cls).get("__init__")))
            cls.__init__ = self._recording(cls.__init__, dotted)
        if self._functions and self.watches_functions:
            self._mode = _FunctionMode(self)
            self._mode.__enter__()

    def __exit__(self, *error: Any) -> None:
        if self._mode:
            self._mode.__exit__(*error)
        for cls, original in self._originals:
            if original is None:  # it was the base class's
                del cls.__init__
            else:
                cls.__init__ = original
        self._mode, self._originals = None, []

    def _recording(self, original: Any, dotted: str) -> Any:
        def __init__(module: Any, *arguments: Any, **keywords: Any) -> None:
            self.used.add(dotted)
            original(module, *arguments, **keywords)

        return __init__

    def saw(self, function: Any) -> None:
        """A torch function, or an operator under it (`_scaled_dot_product_flash_attention_for_cpu`), is being called."""
        try:
            dotted = self._functions.get(function)
        except TypeError:  # not hashable
            return
        if dotted is None and isinstance(function, torch._ops.OpOverloadPacket | torch._ops.OpOverload):
            words = _words(function.__name__.split(".")[0])
            dotted = next((dotted for operator, dotted in self._operators.items() if _words(operator) <= words), None)
        if dotted:
            self.used.add(dotted)
        if self._silent:  # such a function computes with torch's, and calls none of the watched code
            frame = sys._getframe(1)
            while frame is not None and frame.f_code.co_filename not in self._own:
                if frame.f_code in self._silent:
                    self.used.add(self._silent[frame.f_code])
                frame = frame.f_back


def _words(name: str) -> set[str]:
    return set(name.split("_")) - {""}


class _FunctionMode(TorchFunctionMode):
    def __init__(self, spy: ForbiddenCallSpy) -> None:
        super().__init__()
        self.spy = spy

    def __torch_function__(self, function: Any, types: Any, arguments: Any = (), keywords: Any = None) -> Any:
        self.spy.saw(function)
        return function(*arguments, **(keywords or {}))
