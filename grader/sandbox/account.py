"""Counts what a call does: torch functions, the bytes of new tensors, calls of Python functions, and where the largest tensor was made.

Runs beside the code that it counts, so its figures explain, and never decide.
"""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode


class Account(TorchFunctionMode):
    """Entered around a call; `summary` afterwards."""

    def __init__(self, paths: dict[str, str], main: str) -> None:
        """`paths`: files of the package as they stand in stack frames, by name; `main`: the one whose lines are told first."""
        super().__init__()
        self._names = {path: name for name, path in paths.items()}
        self._main = f"{main}.py"
        self._operations = self._bytes = self._calls = 0
        self._largest: tuple[int, str, list[int], str] = (0, "", [], "")
        self._profile: Any = None

    def __enter__(self) -> Account:
        self._profile = sys.getprofile()
        sys.setprofile(self._count)
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        sys.setprofile(self._profile)
        super().__exit__(*error)

    def _count(self, frame: FrameType, event: str, argument: Any) -> None:
        self._calls += event in ("call", "c_call")

    def __torch_function__(self, function: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        result = function(*args, **(kwargs or {}))
        name = getattr(function, "__name__", "?")
        if name == "__get__":  # an attribute such as `shape`
            return result
        self._operations += 1
        known = {one.untyped_storage().data_ptr() for one in _tensors((args, kwargs))}
        for tensor in _tensors(result):
            storage = tensor.untyped_storage()
            if storage.data_ptr() in known:  # a view, or written in place
                continue
            self._bytes += storage.nbytes()
            if storage.nbytes() > self._largest[0]:
                self._largest = (storage.nbytes(), name.strip("_"), list(tensor.shape), self._line())
        return result

    def _line(self) -> str:
        """`line 12 of ex09_flash.py`: the innermost line of the main file on the way here, or else of another of the package."""
        frame: FrameType | None = sys._getframe(1)
        other = ""
        while frame is not None:
            name = self._names.get(frame.f_code.co_filename)
            if name == self._main:
                return f"line {frame.f_lineno} of {name}"
            other = other or (f"line {frame.f_lineno} of {name}" if name else "")
            frame = frame.f_back
        return other

    def summary(self) -> dict[str, Any]:
        """In plain data."""
        size, operation, shape, line = self._largest
        return {
            "operations": self._operations,
            "bytes": self._bytes,
            "calls": self._calls,
            "largest": {"bytes": size, "operation": operation, "shape": shape, "line": line},
        }


def _tensors(tree: Any) -> list[torch.Tensor]:
    """The plain tensors in arguments or results."""
    if isinstance(tree, torch.Tensor):
        return [tree] if tree.layout == torch.strided else []
    if isinstance(tree, tuple | list):
        return [tensor for one in tree for tensor in _tensors(one)]
    return _tensors(list(tree.values())) if isinstance(tree, dict) else []
