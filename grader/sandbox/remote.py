"""What trusted code holds in its hands: functions, modules, iterators and objects that live elsewhere.

`Remote(transport).repeat_kv(x, 3)` sends the arguments, waits for the answer and returns plain data. The transport is a worker
for learner code and an in-process executor (`Local`) for references and chaffs, so that one test runs against all of them.
Every answer is also written to `trace`: the diagnosis compares traces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec
import torch

from . import wire
from .client import Package, Stream, Transport, WorkerGone
from .executor import Executor

MAX_TRACE = 200  # answers kept for one test


class LearnerError(Exception):
    """The learner's code raised. `type` and `bases` are names, `frames` its own lines, outermost first."""

    def __init__(self, raised: wire.Raised, what: str, session: Session | None = None) -> None:
        returned = raised.type == wire.WireError.__name__  # it did not raise: what it returned cannot be sent
        super().__init__(f"{what} returned {raised.message}" if returned else f"{what} raised {raised.type}: {raised.message}")
        self.what, self.type, self.message = what, raised.type, raised.message
        self.bases, self.frames = raised.bases, raised.frames
        self.session = session  # whose code it was

    def is_a(self, name: str) -> bool:
        """Whether the exception is a `name` or a subclass of it."""
        return name == self.type or name in self.bases


class ForbiddenCall(Exception):
    """The learner's code used a function that the exercise wants written by hand."""

    def __init__(self, names: list[str]) -> None:
        super().__init__(", ".join(names))
        self.names = names


class Observation(msgspec.Struct):
    """One answer of a traced transport: a value, or the type of what was raised."""

    what: str
    value: Any = None
    raised: str | None = None
    used: list[str] = []


class ParameterInfo(NamedTuple):
    """What is known of a parameter or buffer."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    requires_grad: bool


class Vjp(NamedTuple):
    """A vector-Jacobian product: the output, and gradients (None where there is none)."""

    output: Any
    inputs: tuple[torch.Tensor | None, ...]
    parameters: dict[str, torch.Tensor | None]


class Submodule(NamedTuple):
    """One run of one submodule."""

    name: str  # as in `named_modules`
    inputs: list[torch.Tensor]
    outputs: list[torch.Tensor]


class Session:
    """The traffic with one executor: encodes, decodes, wraps handles, keeps the trace."""

    def __init__(self, transport: Callable[[], Transport]) -> None:
        """`transport` is asked at every request, so that a dead worker can be replaced between tests."""
        self._transport = transport
        self.trace: list[Observation] = []
        self._streams: dict[int, Stream] = {}  # all that were arguments: a generator may pull long after the call that made it
        self.watch: Callable[[Observation], None] | None = None  # called with every answer; may raise to stop a replay

    def ask(self, operation: str, what: str, **fields: Any) -> Any:
        """One request. Raises `LearnerError`, `ForbiddenCall` or `WorkerGone`."""
        blob, streams = wire.Blob(), self._streams

        def other(value: Any) -> Any:
            if isinstance(value, RemoteObject):
                return value._handle
            if isinstance(value, Stream):
                streams[len(streams)] = value
                return wire.StreamRef(len(streams) - 1)
            raise TypeError(f"a {type(value).__name__} cannot be an argument of a remote call")

        encoded = {
            name: wire.encode(fields[name], blob, other, strides=True)
            for name in ("arguments", "keywords", "extra")
            if name in fields
        }
        request = wire.Request(operation=operation, handle=fields.get("handle"), path=fields.get("path", ""), **encoded)
        transport = self._transport()
        answer, data = transport.request(request, blob, streams)
        if isinstance(answer, wire.Raised):
            self.observe(Observation(what, raised=answer.type, used=answer.used))
            if answer.used:
                raise ForbiddenCall(answer.used)
            raise LearnerError(answer, what, self)
        try:
            value = wire.Decoder(data, handle=lambda handle: self._wrap(handle, what)).decode(answer.value)
        except wire.WireError as error:
            raise transport.broken(str(error)) from None
        self.observe(Observation(what, value=value, used=answer.used))
        if answer.used:
            raise ForbiddenCall(answer.used)
        return value

    def observe(self, observation: Observation) -> None:
        if self.watch:
            self.watch(observation)
        if len(self.trace) < MAX_TRACE:
            self.trace.append(observation)

    def _wrap(self, handle: wire.Handle, what: str) -> RemoteObject:
        kind = {"module": RemoteModule, "iterator": RemoteIterator}.get(handle.kind, RemoteObject)
        return kind(self, handle, what)


class Remote:
    """The learner's module: every attribute is a `RemoteFunction`."""

    def __init__(self, session: Session, file: str = "") -> None:
        self._session, self._file = session, file

    def file(self, name: str) -> Remote:
        """Another file of the same package: a prerequisite ("ex13_kv_cache"), a given one ("config") or the suite's "props"."""
        return Remote(self._session, f"{name}:")

    def __getattr__(self, name: str) -> RemoteFunction:
        if name.startswith("__"):
            raise AttributeError(name)
        return RemoteFunction(self._session, None, f"{self._file}{name}", name)


class RemoteFunction:
    """A function, class or method on the other side."""

    def __init__(self, session: Session, handle: int | None, path: str, what: str) -> None:
        self._session, self._target, self.what = session, {"handle": handle, "path": path}, what

    @property
    def is_held(self) -> bool:
        """Whether it belongs to an object on the other side, and so to one process; others are found by name."""
        return self._target["handle"] is not None

    def in_session(self, session: Session) -> RemoteFunction:
        """The function of the same name on another side."""
        return RemoteFunction(session, self._target["handle"], self._target["path"], self.what)

    def _ask(self, operation: str, arguments: tuple, keywords: dict, **more: Any) -> Any:
        return self._session.ask(operation, self.what, arguments=arguments, keywords=keywords, **self._target, **more)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Call it; plain data comes back as itself, everything else as a `RemoteObject`."""
        return self._ask("call", arguments, keywords)

    def keep(self, *arguments: Any, **keywords: Any) -> RemoteObject:
        """Call it and leave the result on the other side, whatever it is."""
        return _kept(self._ask("keep", arguments, keywords))

    def hold(self, *arguments: Any) -> list[RemoteObject]:
        """Send the arguments ahead; they stay on the other side and can be passed to a later call."""
        held = self._session.ask("hold", self.what, arguments=arguments)
        if type(held) is not list or len(held) != len(arguments):
            raise _broken()
        return [_kept(value) for value in held]

    def arguments_after(self, *arguments: Any, **keywords: Any) -> tuple[Any, tuple, dict]:
        """Call it: (result, arguments after the call, keywords after the call)."""
        answer = self._ask("arguments_after", arguments, keywords)
        if type(answer) is not tuple or len(answer) != 3 or type(answer[1]) is not tuple or type(answer[2]) is not dict:
            raise _broken()
        return answer

    def using(self, calls: list[str], *arguments: Any, **keywords: Any) -> tuple[Any, list[str]]:
        """Call it: (result, which of the dotted torch names in `calls` it used)."""
        return _using(self._ask("using", arguments, keywords, extra=calls), calls)

    def vjp(self, *arguments: Any, cotangent: Any, **keywords: Any) -> Vjp:
        """Call it on the arguments and pull `cotangent` (a tensor, or a tuple for a tuple output) back through it."""
        return _vjp(self._ask("vjp", arguments, keywords, extra=cotangent), len(arguments))


class RemoteObject:
    """An object on the other side; attributes are methods, `get` reads a value. May be passed as an argument."""

    def __init__(self, session: Session, handle: wire.Handle, what: str) -> None:
        self._session, self._handle, self._what = session, handle, what

    @property
    def type_name(self) -> str:
        """The name of its type, as the other side gives it."""
        return self._handle.type_name

    def __getattr__(self, name: str) -> RemoteFunction:
        if name.startswith("__"):
            raise AttributeError(name)
        return RemoteFunction(self._session, self._handle.number, name, f"{self.type_name}.{name}")

    def _ask(self, operation: str, what: str, **fields: Any) -> Any:
        return self._session.ask(operation, what, handle=self._handle.number, **fields)

    def get(self, name: str) -> Any:
        """The value of an attribute or property, or of a method that takes no arguments."""
        return self._ask("get", f"{self.type_name}.{name}", path=name)

    def fetch(self) -> Any:
        """The object as plain data."""
        return self._ask("fetch", self.type_name)

    def drop(self) -> None:
        """Let the other side forget it."""
        self._ask("drop", self.type_name)

    def __repr__(self) -> str:
        return f"<remote {self.type_name}>"


class RemoteModule(RemoteObject):
    """An `nn.Module` on the other side."""

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Its forward pass."""
        return self._ask("call", self.type_name, arguments=arguments, keywords=keywords)

    def keep(self, *arguments: Any, **keywords: Any) -> RemoteObject:
        """Its forward pass; the result stays on the other side."""
        return _kept(self._ask("keep", self.type_name, arguments=arguments, keywords=keywords))

    def using(self, calls: list[str], *arguments: Any, **keywords: Any) -> tuple[Any, list[str]]:
        """Its forward pass: (output, which of the dotted torch names in `calls` it used)."""
        answer = self._ask("using", self.type_name, arguments=arguments, keywords=keywords, extra=calls)
        return _using(answer, calls)

    def submodules(self, *arguments: Any, **keywords: Any) -> list[Submodule]:
        """Its forward pass: what went into each submodule and what came out, in the order in which they finish."""
        answer = self._ask("submodules", f"{self.type_name}.submodules", arguments=arguments, keywords=keywords)
        if type(answer) is not list or not all(type(one) is tuple and len(one) == 3 for one in answer):
            raise _broken()
        parts = [Submodule(*one) for one in answer]
        if not all(
            type(part.name) is str
            and all(type(side) is list and all(isinstance(x, torch.Tensor) for x in side) for side in part[1:])
            for part in parts
        ):
            raise _broken()
        return parts

    def vjp(self, *arguments: Any, cotangent: Any, **keywords: Any) -> Vjp:
        """Forward pass, and gradients of `cotangent` with respect to inputs and parameters."""
        answer = self._ask("vjp", self.type_name, arguments=arguments, keywords=keywords, extra=cotangent)
        return _vjp(answer, len(arguments))

    def load_state_dict(self, state: dict[str, torch.Tensor], **keywords: Any) -> None:
        """Strict: no key missing, none unexpected; then every parameter must have the shape that was loaded."""
        facts = self._ask("load_state_dict", f"{self.type_name}.load_state_dict", arguments=(state,), keywords=keywords)
        for name, info in _facts(facts).items():
            if name in state and info.shape != tuple(state[name].shape):
                raised = wire.Raised(
                    type="RuntimeError",
                    message=f"{name} has shape {list(info.shape)} after a {list(state[name].shape)} was loaded into it",
                )
                raise LearnerError(raised, f"{self.type_name}.load_state_dict", self._session)

    def state_dict(self) -> dict[str, torch.Tensor]:
        """A copy of its state dict."""
        state = self._ask("state_dict", f"{self.type_name}.state_dict")
        if type(state) is not dict:
            raise _broken()
        return state

    def parameters(self) -> dict[str, ParameterInfo]:
        """Names, shapes and dtypes of its parameters."""
        return _facts(self._ask("parameters", f"{self.type_name}.named_parameters"))

    def buffers(self) -> dict[str, ParameterInfo]:
        """Names, shapes and dtypes of its buffers."""
        return _facts(self._ask("buffers", f"{self.type_name}.named_buffers"))

    def train(self, mode: bool = True) -> RemoteModule:
        """Training mode on (or off)."""
        self._ask("train", f"{self.type_name}.train", extra=mode)
        return self

    def eval(self) -> RemoteModule:
        """Training mode off."""
        return self.train(False)

    @property
    def training(self) -> bool:
        """Its mode."""
        return self.get("training")


class RemoteIterator(RemoteObject):
    """A generator or iterator on the other side; each item is asked for when it is wanted."""

    def __iter__(self) -> Iterator[Any]:
        while True:
            answer = self._ask("next", self.type_name)
            if type(answer) is not tuple or len(answer) != 2 or type(answer[0]) is not bool:
                raise _broken()
            if answer[0]:
                return
            yield answer[1]


def _broken() -> WorkerGone:
    return WorkerGone("the code's process sent something other than an answer")


def _kept(answer: Any) -> RemoteObject:
    if not isinstance(answer, RemoteObject):
        raise _broken()
    return answer


def _using(answer: Any, calls: list[str]) -> tuple[Any, list[str]]:
    if type(answer) is not tuple or len(answer) != 2 or type(answer[1]) is not list:
        raise _broken()
    return answer[0], [call for call in calls if call in answer[1]]


def _vjp(answer: Any, count: int) -> Vjp:
    if type(answer) is not tuple or len(answer) != 3:
        raise _broken()
    output, inputs, parameters = answer
    if type(inputs) is not list or len(inputs) != count or type(parameters) is not dict:
        raise _broken()
    return Vjp(output, tuple(inputs), parameters)


def _facts(answer: Any) -> dict[str, ParameterInfo]:
    if type(answer) is not dict or not all(type(info) is tuple and len(info) == 3 for info in answer.values()):
        raise _broken()
    facts = {name: ParameterInfo(*info) for name, info in answer.items()}
    if not all(
        type(name) is str and type(info.shape) is tuple and isinstance(info.dtype, torch.dtype) for name, info in facts.items()
    ):
        raise _broken()
    return facts


class Local:
    """Runs trusted code (a reference, a chaff) in this process behind the same interface. Never for learner code, but to debug."""

    def __init__(self, package: Package, paths: dict[str, str] | None = None) -> None:
        self._executor = Executor(package.load_message()[0], package.files, paths)
        self._executor.program.install()

    def request(
        self, request: wire.Request, blob: wire.Blob, streams: dict[int, Stream]
    ) -> tuple[wire.Ok | wire.Raised, bytearray]:
        """The same encoding as over the wire, so that arguments and results are copies here too."""

        def pull(number: int) -> Iterator[Any]:
            while True:
                try:
                    yield next(streams[number])
                except StopIteration:
                    return

        answer, parts = self._executor.handle(request, bytearray(b"".join(blob.parts)), pull)
        return answer, bytearray(b"".join(parts.parts))

    def forget(self) -> None:
        """Let go of the objects that were kept for a caller, and number new ones from 1 on."""
        self._executor.forget()

    def broken(self, reason: str) -> WorkerGone:
        """Never true of trusted code."""
        raise AssertionError(reason)

    def close(self) -> None:
        """Forget the package's modules."""
        self._executor.program.uninstall()
