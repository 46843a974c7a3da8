"""Carries out requests on one loaded package: calls, modules, gradients, iterators. The same code serves a worker and,
for references and chaffs, the trusted process; it keeps no secret and decides nothing about right or wrong."""

from __future__ import annotations

import builtins
import itertools
import traceback
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from . import wire
from .account import Account
from .environment import trade_memory_for_time
from .program import Program, RefusedImports
from .spy import ForbiddenCallSpy

CACHE_BYTES = 256 << 20  # more than the cache of any GPU


# Operations that compute nothing of what is graded: to watch a state dict being loaded takes longer than to load it.
UNWATCHED = frozenset(("load_state_dict", "state_dict", "parameters", "buffers", "train", "hold", "drop"))


class MissingName(Exception):
    """The package lacks a name that is asked for; `str` names it, with its file if that is not the main one."""


class Executor:
    """One package and the objects that were made with it."""

    def __init__(self, load: wire.Load, files: dict[str, bytes], paths: dict[str, str] | None = None) -> None:
        self.load = load
        self.program = Program(load.package, files, paths)
        self.kept: dict[int, Any] = {}
        self._numbers = itertools.count(1)
        self._own = tuple(self.program.paths.values())
        self._spies = {name: ForbiddenCallSpy(calls, self._own) for name, calls in load.forbidden.items()}
        forbidden = sorted({call for calls in load.forbidden.values() for call in calls})
        self._object_spy = ForbiddenCallSpy(forbidden, self._own)
        self._refused = RefusedImports(name for name in forbidden if "." not in name)

    def forget(self) -> None:
        """Let go of all kept objects, and number new ones from 1 on."""
        self.kept.clear()
        self._numbers = itertools.count(1)

    # --- requests ---

    def handle(
        self, request: wire.Request, blob: bytearray, pull: Callable[[int], Iterator[Any]]
    ) -> tuple[wire.Message, wire.Blob]:
        """Run one request; whatever the learner's code raises becomes a `Raised` message."""
        answer = wire.Blob()
        name = request.path.split(".")[0]
        spy = self._spies.get(name, _NO_SPY) if request.handle is None else self._object_spy
        if request.operation in UNWATCHED:
            spy = _NO_SPY
        spy.used.clear()
        try:
            decoder = wire.Decoder(blob, handle=lambda handle: self.kept[handle.number], stream=pull, strides=True)
            arguments = decoder.decode(request.arguments) or ()
            keywords = decoder.decode(request.keywords) or {}
            extra = decoder.decode(request.extra)
            with spy, self._refused:
                value = getattr(self, f"_do_{request.operation}")(request, arguments, keywords, extra)
                encoded = wire.encode(value, answer, self._keep)
            return wire.Ok(value=encoded, used=sorted(spy.used)), answer
        except BaseException as error:
            return self.describe(error, spy.used), wire.Blob()

    def describe(self, error: BaseException, used: Iterable[str] = ()) -> wire.Raised:
        """An exception as plain data: its type, text, and the lines of the package it passed through."""
        kind = type(error)
        try:
            own = set(self.program.paths.values())
            message = str(error)
            frames = [
                (frame.filename, frame.lineno or 0, frame.name)
                for frame in traceback.extract_tb(error.__traceback__, limit=-200)
                if frame.filename in own
            ]
            if isinstance(error, SyntaxError) and error.filename in own:
                frames.append((error.filename, error.lineno or 0, "<module>"))
                message = str(error.msg)
        except BaseException:  # its own code runs here, and may do anything
            message, frames = "(its message cannot be printed)", []
        try:
            bases = [_text(base.__name__) for base in kind.__mro__[1:] if base.__module__ == builtins.__name__]
            return wire.clip(wire.Raised(_text(kind.__name__), _text(message), bases, frames, sorted(used)))
        except BaseException:
            return wire.Raised("an exception", "(neither its type nor its message can be printed)", used=sorted(used))

    # --- objects ---

    def _keep(self, value: Any) -> wire.Handle:
        if issubclass(type(value), torch.Tensor) and type(value) not in (torch.Tensor, torch.nn.Parameter):
            value = wire.plain_tensor(value)  # what a subclass computes late is computed now
        number = next(self._numbers)
        self.kept[number] = value
        if isinstance(value, torch.nn.Module):
            kind = "module"
        elif isinstance(value, Iterator):
            kind = "iterator"
        else:
            kind = "object"
        name = type(value).__name__
        module = type(value).__module__
        if module not in (builtins.__name__, self.load.package) and not module.startswith(self.load.package + "."):
            name = f"{module.split('.')[0]}.{name}"
        return wire.Handle(number, kind, _text(name)[: 2 * wire.MAX_NAME])

    def _target(self, request: wire.Request) -> Any:
        if request.handle is not None:
            value = self.kept[request.handle]
        else:
            file, _, path = request.path.rpartition(":")
            value = self.program.module(file or self.load.main)
            first = path.split(".")[0]
            if not hasattr(value, first):
                raise MissingName(f"{file}.{first}" if file else first)
        for name in filter(None, request.path.rpartition(":")[2].split(".")):
            value = getattr(value, name)
        return value

    # --- operations ---

    def _do_import(self, request: wire.Request, arguments: tuple, keywords: dict, extra: Any) -> list[str]:
        """Import the main module and say which of the wanted names it has."""
        module = self.program.module(self.load.main)
        return [name for name in extra if hasattr(module, name)]

    def _do_call(self, request: wire.Request, arguments: tuple, keywords: dict, extra: Any) -> Any:
        return self._target(request)(*arguments, **keywords)

    def _do_keep(self, request: wire.Request, arguments: tuple, keywords: dict, extra: Any) -> wire.Handle:
        return self._keep(self._target(request)(*arguments, **keywords))

    def _do_arguments_after(self, request: wire.Request, arguments: tuple, keywords: dict, extra: Any) -> tuple:
        result = self._target(request)(*arguments, **keywords)
        return result, arguments, keywords

    def _do_vjp(self, request: wire.Request, arguments: tuple, keywords: dict, extra: Any) -> tuple:
        """Vector-Jacobian product: output, gradients of the float tensors among the arguments, and of a module's parameters."""
        target = self._target(request)
        inputs = [value.detach().requires_grad_() if _differentiable(value) else value for value in arguments]
        parameters = dict(target.named_parameters()) if isinstance(target, torch.nn.Module) else {}
        with torch.enable_grad():
            output = target(*inputs, **keywords)
            outputs = tuple(output) if isinstance(output, tuple | list) else (output,)
            cotangents = extra if isinstance(extra, tuple) else (extra,)
            if len(outputs) != len(cotangents) or not all(isinstance(value, torch.Tensor) for value in outputs):
                return output, [None] * len(inputs), {}
            # A scalar loss instead of `grad_outputs`: the latter imports some 490 modules at its first use.
            pairs = zip(outputs, cotangents, strict=True)
            loss = sum((value * cotangent).sum() for value, cotangent in pairs if value.shape == cotangent.shape)
            wanted = [value for value in inputs if _differentiable(value)] + [p for p in parameters.values() if p.requires_grad]
            if not isinstance(loss, torch.Tensor) or not loss.requires_grad:
                return output, [None] * len(inputs), {}
            gradients = iter(torch.autograd.grad(loss, wanted, allow_unused=True))
        of_inputs = [next(gradients) if _differentiable(value) else None for value in inputs]
        of_parameters = {name: next(gradients) if p.requires_grad else None for name, p in parameters.items()}
        return output, of_inputs, of_parameters

    def _do_using(self, request: wire.Request, arguments: tuple, keywords: dict, extra: Any) -> tuple[Any, list[str]]:
        """Call it, and say which of the dotted names in `extra` were used on the way."""
        spy = ForbiddenCallSpy(extra, self._own)
        with spy:
            result = self._target(request)(*arguments, **keywords)
        return result, sorted(spy.used)

    def _do_submodules(self, request: wire.Request, arguments: tuple, keywords: dict, extra: Any) -> list[tuple]:
        """Run a module and write down (name, inputs, outputs) of every submodule, in the order in which they finish."""
        target, seen = self._target(request), []

        def hook(name: str) -> Callable:
            return lambda module, inputs, output: seen.append((name, _tensors(inputs), _tensors(output)))

        hooks = [module.register_forward_hook(hook(name)) for name, module in target.named_modules() if name]
        try:
            target(*arguments, **keywords)
        finally:
            for one in hooks:
                one.remove()
        return seen

    def _do_get(self, request: wire.Request, arguments: tuple, keywords: dict, extra: Any) -> Any:
        value = self._target(request)
        return value() if callable(value) and not isinstance(value, torch.nn.Module) else value

    def _do_next(self, request: wire.Request, arguments: tuple, keywords: dict, extra: Any) -> tuple:
        for value in self.kept[request.handle]:
            return False, value
        return True, None

    def _do_hold(self, request: wire.Request, arguments: tuple, keywords: dict, extra: Any) -> list[wire.Handle]:
        """Keep the arguments here for a later call."""
        return [self._keep(value) for value in arguments]

    def _do_fetch(self, request: wire.Request, arguments: tuple, keywords: dict, extra: Any) -> Any:
        return self.kept[request.handle]

    def _do_drop(self, request: wire.Request, arguments: tuple, keywords: dict, extra: Any) -> None:
        self.kept.pop(request.handle, None)

    def _do_account(self, request: wire.Request, arguments: tuple, keywords: dict, extra: Any) -> dict:
        """Call it, and say what it did: to explain a figure, never to award one, since the code could lie here."""
        with Account(self.program.paths, self.load.main) as account:
            self._target(request)(*arguments, **keywords)
        return account.summary()

    def _do_settle(self, request: wire.Request, arguments: tuple, keywords: dict, extra: Any) -> None:
        """Let a GPU finish what it has to do, and fill its cache with something else; nothing on the CPU."""
        if extra == "cuda":
            torch.empty(CACHE_BYTES, dtype=torch.uint8, device=extra).zero_()
            torch.cuda.synchronize()

    def _do_load_state_dict(self, request: wire.Request, arguments: tuple, keywords: dict, extra: Any) -> dict:
        """Load it, and say what parameters and buffers there are then."""
        target = self._target(request)
        target.load_state_dict(arguments[0], strict=True, **keywords)
        return {**_facts(target.named_parameters()), **_facts(target.named_buffers())}

    def _do_watch(self, request: wire.Request, arguments: tuple, keywords: dict, extra: Any) -> None:
        """Watch functions from now on, or do not; forbidden classes and imports are always watched."""
        for spy in (*self._spies.values(), self._object_spy):
            spy.watches_functions = extra

    def _do_hurry(self, request: wire.Request, arguments: tuple, keywords: dict, extra: Any) -> None:
        """Keep memory that was freed, from now on: to have the kernel clear it again takes longer than some models."""
        trade_memory_for_time()

    def _do_state_dict(self, request: wire.Request, arguments: tuple, keywords: dict, extra: Any) -> dict:
        return dict(self._target(request).state_dict())

    def _do_parameters(self, request: wire.Request, arguments: tuple, keywords: dict, extra: Any) -> dict:
        return _facts(self._target(request).named_parameters())

    def _do_buffers(self, request: wire.Request, arguments: tuple, keywords: dict, extra: Any) -> dict:
        return _facts(self._target(request).named_buffers())

    def _do_train(self, request: wire.Request, arguments: tuple, keywords: dict, extra: Any) -> None:
        self._target(request).train(extra)


def _text(value: Any) -> str:
    """A plain string that can be sent, whatever a subclass of `str` or half a character would do."""
    return str.__str__(value)[: wire.MAX_TEXT].encode("utf-8", "backslashreplace").decode()


def _tensors(value: Any) -> list[torch.Tensor]:
    """The plain tensors of a module's input or output, as they are now."""
    values = value if isinstance(value, tuple | list) else (value,)
    return [one.detach().clone() for one in values if isinstance(one, torch.Tensor)]


def _differentiable(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _facts(named: Any) -> dict:
    return {name: (tuple(tensor.shape), tensor.dtype, tensor.requires_grad) for name, tensor in named}


_NO_SPY = ForbiddenCallSpy(())
