"""A package built from bytes in memory: how learner code, references and chaffs are all loaded, and what they may not import.
Reads no files.

Because the package never exists on disk, nothing beside the files that were sent (`conftest.py`, `.pth`, compiled modules)
can be imported from it, and the worker needs no access to any course folder.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import linecache
import sys
from collections.abc import Iterable
from types import CodeType, ModuleType
from typing import Any


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the modules of all installed packages: hundreds of chaffs may be loaded, and every import asks each finder."""

    def __init__(self) -> None:
        self.programs: dict[str, Program] = {}

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        program = self.programs.get(fullname.partition(".")[0])
        return program.spec_of(fullname) if program else None


_FINDER = _Finder()
_codes: dict[bytes, CodeType] = {}
MAX_CODES = 2000
PROPS = "props"  # the suite's own module in a package


class Program(importlib.abc.Loader):
    """The files of one package, importable as `package.module` once `install` was called."""

    def __init__(self, package: str, files: dict[str, bytes], paths: dict[str, str] | None = None) -> None:
        """`files` maps "ex06_repeat_kv.py" to its bytes; `paths` maps it to a real path for debuggers."""
        self.package, self.files = package, files
        self.paths = paths or {name: f"{package}/{name}" for name in files}
        self._apart: ModuleType | None = None

    def install(self) -> None:
        """Make the package importable in this process."""
        _FINDER.programs[self.package] = self
        if _FINDER not in sys.meta_path:
            sys.meta_path.insert(0, _FINDER)

    def uninstall(self) -> None:
        """Forget the package and its modules."""
        if _FINDER.programs.get(self.package) is self:
            del _FINDER.programs[self.package]
        for name in (self.package, *(f"{self.package}.{file.removesuffix('.py')}" for file in self.files)):
            sys.modules.pop(name, None)

    def module(self, name: str) -> ModuleType:
        """Import one module of the package; what its code raises is passed on.

        The suite's own module is held here and not in `sys.modules`, so that other code of the package does not simply find what
        the suite calls in it. Code that walks up the stack does: nothing in one process is out of reach of the rest.
        """
        if name == PROPS:
            if self._apart is None:
                module = ModuleType(f"{self.package}.{name}")
                module.__package__ = self.package
                self.exec_module(module)
                self._apart = module
            return self._apart
        return importlib.import_module(f"{self.package}.{name}")

    def spec_of(self, fullname: str) -> importlib.machinery.ModuleSpec | None:
        """How the import system loads one of its modules; None if it has no such module."""
        if fullname == self.package:
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        if fullname.startswith(self.package + ".") and self._file(fullname) in self.files:
            return importlib.machinery.ModuleSpec(fullname, self, origin=self.paths[self._file(fullname)])
        return None

    def exec_module(self, module: ModuleType) -> None:
        if module.__name__ == self.package:
            return
        file = self._file(module.__name__)
        module.__file__ = path = self.paths[file]
        source = self.files[file]
        linecache.cache[path] = (len(source), None, source.decode("utf-8", "replace").splitlines(keepends=True), path)
        exec(_compiled(source, path), module.__dict__)

    def _file(self, fullname: str) -> str:
        return fullname.removeprefix(self.package + ".") + ".py"


def _compiled(source: bytes, path: str) -> CodeType:
    """The code of a file. The same references stand under every chaff of a later exercise: they are compiled once and named anew."""
    code = _codes.get(source)
    if code is None:
        code = compile(source, path, "exec", dont_inherit=True)
        if len(_codes) < MAX_CODES:
            _codes[source] = code
    return code if code.co_filename == path else _named(code, path)


def _named(code: CodeType, path: str) -> CodeType:
    constants = tuple(_named(one, path) if isinstance(one, CodeType) else one for one in code.co_consts)
    return code.replace(co_filename=path, co_consts=constants)


class RefusedImports(importlib.abc.MetaPathFinder):
    """While entered, importing one of these modules or a part of it raises ImportError, even if something loaded it before."""

    def __init__(self, modules: Iterable[str]) -> None:
        self.modules = frozenset(modules)
        self._loaded: dict[str, ModuleType] = {}

    def __enter__(self) -> None:
        if not self.modules:
            return
        if any(name in sys.modules for name in self.modules):
            names = [name for name in sys.modules if name.partition(".")[0] in self.modules]
            self._loaded = {name: sys.modules.pop(name) for name in names}
        sys.meta_path.insert(0, self)

    def __exit__(self, *error: Any) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        sys.modules.update(self._loaded)
        self._loaded = {}

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> None:
        name = fullname.partition(".")[0]
        if name in self.modules:
            raise ImportError(f"`{name}` cannot be imported here: what it does is to be written by hand", name=fullname)
