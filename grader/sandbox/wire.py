"""The plain-data wire between trusted code and a worker: a typed JSON header, then raw tensor bytes. Never pickle.

A frame is `magic, header length, blob length, header, blob`. The header is one of the message structs below; values inside it
are trees of JSON with one-key objects as tags (see `encode`). Everything that comes from a worker is decoded strictly: wrong
tags, lengths, shapes and depths raise `WireError`, and a whole frame has one deadline, however slowly its bytes drip.
"""

from __future__ import annotations

import base64
import binascii
import ctypes
import math
import socket
import struct
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import msgspec
import torch

MAGIC = b"ALW1"
PREFIX = struct.Struct("<4sIQ")
MAX_HEADER = 8 << 20  # bytes
MAX_BLOB = 256 << 20  # bytes
MAX_DEPTH = 32
MAX_NODES = 1_200_000  # values in one frame
MAX_BRACKETS = 500_000  # lists and objects in one header: they take most of the memory and time
MAX_AXES = 16
SMALL = 64 << 10  # bytes of a frame that is moved in one piece
MAX_INTEGER = 8192  # bits: any int that can be printed, and no more
MAX_COLLISIONS = 100  # keys of one dictionary that share a hash
MAX_TEXT = 2000  # characters of an exception's message
MAX_NAME = 100  # characters of the name of a type, class or function
MAX_FRAMES = 5
ALIGN = 64
PADDING = [bytes(size) for size in range(ALIGN)]

DTYPES: dict[str, torch.dtype] = {
    name: getattr(torch, name)
    for name in (
        "float32 float64 float16 bfloat16 int64 int32 int16 int8 uint8 bool complex64 complex128 "
        "uint16 uint32 uint64 float8_e4m3fn float8_e5m2"
    ).split()
}
DTYPE_NAMES = {dtype: name for name, dtype in DTYPES.items()}
PLAIN = (torch.Tensor, torch.nn.Parameter)  # types that redefine nothing


class WireError(Exception):
    """The other side broke the protocol."""


class DeadlineError(Exception):
    """A whole frame did not arrive, or could not be sent, in time."""


# --- messages ---------------------------------------------------------------------------------------------------------


class Message(msgspec.Struct, tag_field="kind", forbid_unknown_fields=True, omit_defaults=True):
    """Base of everything that crosses the wire."""


class Load(Message, tag="load"):
    """Trusted to worker, once: the files of the package and how to watch it."""

    package: str
    main: str  # module that holds the graded names
    files: Any = None  # encoded; "ex06_repeat_kv.py" -> the file's bytes as a tensor
    # graded name -> dotted names of calls that it must do without; without a dot, a module that nothing here can import
    forbidden: dict[str, list[str]] = {}


class Request(Message, tag="request"):
    """Trusted to worker: one operation on a name of the package or on a kept object."""

    operation: str
    handle: int | None = None  # None: the main module
    path: str = ""  # dotted attributes from there
    arguments: Any = None  # encoded tuple
    keywords: Any = None  # encoded dict
    extra: Any = None  # encoded; meaning depends on the operation


class StreamItem(Message, tag="item"):
    """Trusted to worker: the answer to a `Pull`."""

    value: Any = None
    exhausted: bool = False


class Hello(Message, tag="hello"):
    """Worker to trusted: jailed and ready, or the layer that could not be had."""

    layers: list[str]
    refused: str | None = None


class Ok(Message, tag="ok"):
    """Worker to trusted: the operation's value and the forbidden calls it made."""

    value: Any = None
    used: list[str] = []


class Raised(Message, tag="raised"):
    """Worker to trusted: the learner's code raised."""

    type: str
    message: str
    bases: list[str] = []  # names of the exception's base classes
    frames: list[tuple[str, int, str]] = []  # file, line, function; the learner's own, outermost first
    used: list[str] = []


def clip(raised: Raised) -> Raised:
    """The same within the limits of what is kept and shown of an exception."""
    return Raised(
        type=raised.type[:MAX_NAME],
        message=raised.message[:MAX_TEXT],
        bases=[base[:MAX_NAME] for base in raised.bases[:20]],
        frames=[
            (file[:1000], max(0, min(line, 10**6)), function[:MAX_NAME]) for file, line, function in raised.frames[-MAX_FRAMES:]
        ],
        used=raised.used,
    )


class Pull(Message, tag="pull"):
    """Worker to trusted: the next item of a stream is wanted."""

    stream: int


FromTrusted = Load | Request | StreamItem
FromWorker = Hello | Ok | Raised | Pull

# --- values -----------------------------------------------------------------------------------------------------------


class Handle(msgspec.Struct, frozen=True):
    """An object that stays in the worker; only its number and the name of its type travel."""

    number: int
    kind: str  # "module", "iterator" or "object"
    type_name: str


class StreamRef(msgspec.Struct, frozen=True):
    """An iterator that stays with the trusted side; the worker pulls its items."""

    number: int


HANDLE_KINDS = ("module", "iterator", "object")


class Blob:
    """Collects tensor bytes behind a header."""

    def __init__(self) -> None:
        self.parts: list[memoryview | bytes] = []
        self.size = 0
        self.spread = 0  # bytes that the tensors take besides, where they are rebuilt with gaps between their values

    def add(self, tensor: torch.Tensor) -> int:
        """Append a contiguous CPU tensor's bytes and return their offset."""
        flat = tensor.as_strided((tensor.numel(),), (1,))  # a lone element may have any stride
        return self.append(memoryview(flat.view(torch.uint8).numpy()) if tensor.numel() else b"")

    def append(self, data: memoryview | bytes) -> int:
        """Append bytes and return their offset."""
        offset = self.size
        self.parts.append(data)
        padding = -len(data) % ALIGN
        if padding:
            self.parts.append(PADDING[padding])
        self.size += len(data) + padding
        return offset


def encode(value: Any, blob: Blob, other: Callable[[Any], Any] | None = None, *, strides: bool = False, depth: int = 0) -> Any:
    """Turn a value into JSON-able data. `other` turns what is not plain data into a `Handle` or `StreamRef`.

    With `strides`, non-contiguous tensors arrive with the same strides (trusted to worker only).
    """
    if depth > MAX_DEPTH:
        raise WireError(f"a value nested more than {MAX_DEPTH} deep")
    kind = type(value)
    if value is None or kind is bool:
        return value
    if kind is str:
        try:
            value.encode()
        except UnicodeEncodeError:
            return {"y": base64.b64encode(value.encode("utf-8", "surrogatepass")).decode()}
        return value
    if kind is int and value.bit_length() <= MAX_INTEGER:
        return value if _is_short(value) else {"i": hex(value)}
    if kind is float:
        return value if math.isfinite(value) else {"f": str(value)}
    if issubclass(kind, torch.Tensor):  # not `isinstance`: a `__class__` may lie
        encoded = _encode_tensor(value, blob, strides)
        if encoded is not None:
            return encoded
        return _encode_reference(other(value)) if other else _refuse(value)
    if kind is bytes:
        return {"b": base64.b64encode(value).decode()}
    if kind is list:
        if _is_flat(value):
            return value.copy()
        return [encode(item, blob, other, strides=strides, depth=depth + 1) for item in value]
    if issubclass(kind, tuple):
        return {"u": [encode(item, blob, other, strides=strides, depth=depth + 1) for item in tuple.__iter__(value)]}
    if issubclass(kind, dict):
        return {
            "d": [
                [
                    encode(key, blob, other, strides=strides, depth=depth + 1),
                    encode(item, blob, other, strides=strides, depth=depth + 1),
                ]
                for key, item in dict.items(value)
            ]
        }
    if kind is torch.dtype and value in DTYPE_NAMES:
        return {"dtype": DTYPE_NAMES[value]}
    if kind is torch.device:
        return {"device": str(value)}
    if kind in (Handle, StreamRef):
        return _encode_reference(value)
    return _encode_reference(other(value)) if other else _refuse(value)


def _is_short(number: int) -> bool:
    return -(2**63) <= number < 2**63


def _is_flat(items: list) -> bool:
    """Whether a list holds nothing but short ints, finite floats, or None and booleans: it is its own encoding."""
    kinds = set(map(type, items))
    if kinds == {int}:
        return _is_short(min(items)) and _is_short(max(items))
    return kinds <= {type(None), bool} or (kinds == {float} and all(map(math.isfinite, items)))


def _refuse(value: Any) -> Any:
    raise TypeError(f"a {type(value).__name__} cannot cross the wire")


def _encode_reference(value: Handle | StreamRef) -> Any:
    if isinstance(value, StreamRef):
        return {"s": value.number}
    return {"h": [value.number, value.kind, value.type_name]}


def _encode_tensor(tensor: torch.Tensor, blob: Blob, strides: bool) -> Any:
    """A tensor's tag, or None for one that has no plain bytes (sparse, quantized, meta)."""
    if type(tensor) in PLAIN and (tag := _encode_small(tensor, blob)) is not None:
        return tag
    with _no_overrides(tensor), torch.no_grad():
        try:
            plain = plain_tensor(tensor)
        except RuntimeError:  # sparse and nested ones have no storage to share
            return None
        if plain.layout is not torch.strided or plain.dtype not in DTYPE_NAMES or plain.is_meta:
            return None
        if not plain.is_cpu or plain.is_conj() or plain.is_neg():
            plain = plain.to("cpu").resolve_conj().resolve_neg()
        shape, layout = list(plain.shape), None
        if strides and not plain.is_contiguous():
            layout = list(plain.stride())
            for axis, stride in enumerate(layout):
                if stride == 0:
                    plain = plain.narrow(axis, 0, min(1, plain.shape[axis]))
            blob.spread += (
                max(0, sum((size - 1) * stride for size, stride in zip(plain.shape, layout, strict=True))) * plain.itemsize
            )
        tag = [DTYPE_NAMES[plain.dtype], shape, blob.add(plain.contiguous())]
        return {"t": [*tag, layout] if layout else tag}


def _encode_small(tensor: torch.Tensor, blob: Blob) -> Any:
    """The tag of a small tensor whose bytes lie in memory as they travel, or None for any other. Most tensors are such."""
    with torch._C.DisableTorchFunction():
        if not tensor.is_cpu or tensor.layout is not torch.strided or tensor.is_nested or tensor.dtype not in DTYPE_NAMES:
            return None
        if tensor.nbytes > SMALL or not tensor.is_contiguous() or tensor.is_conj() or tensor.is_neg():
            return None
        try:
            start = tensor.data_ptr()
        except RuntimeError:  # it stands for another one, inside a transformation
            return None
        data = ctypes.string_at(start, tensor.nbytes) if start else b""
        if len(data) != tensor.nbytes:
            return None
        return {"t": [DTYPE_NAMES[tensor.dtype], list(tensor.shape), blob.append(data)]}


def bytes_tensor(data: bytes) -> torch.Tensor:
    """Bytes as a tensor: they travel beside the header, whose size is limited."""
    return torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.empty(0, dtype=torch.uint8)


def plain_tensor(tensor: torch.Tensor) -> torch.Tensor:
    """The same data as a `torch.Tensor` proper, whatever a subclass says of itself."""
    with _no_overrides(tensor), torch.no_grad():
        plain = torch.Tensor.detach(tensor)
        return plain if type(plain) is torch.Tensor else torch.Tensor.as_subclass(plain, torch.Tensor)


def _no_overrides(tensor: torch.Tensor) -> AbstractContextManager[None]:
    """Keeps a subclass from redefining torch. Nothing that a plain tensor does can call the watched code, so nobody need watch it."""
    return torch._C.DisableTorchFunction() if type(tensor) in PLAIN else torch._C.DisableTorchFunctionSubclass()


class Decoder:
    """Turns encoded data back into values; `handle` and `stream` say what references become (absent: not allowed)."""

    def __init__(
        self,
        blob: bytearray,
        *,
        handle: Callable[[Handle], Any] | None = None,
        stream: Callable[[int], Any] | None = None,
        strides: bool = False,
    ) -> None:
        self.blob, self.handle, self.stream, self.strides = blob, handle, stream, strides
        self.nodes = 0
        self.unread = len(blob)  # bytes: what a frame's tensors may take together

    def decode(self, data: Any, depth: int = 0) -> Any:
        """The value of `data`; raises `WireError` for anything that `encode` would not have written."""
        kind = type(data)
        flat = kind is list and _is_flat(data)
        self.nodes += len(data) if flat else 1
        if depth > MAX_DEPTH or self.nodes > MAX_NODES:
            raise WireError("a value too deep or too large")
        if data is None or kind in (bool, float, str) or (kind is int and _is_short(data)):
            return data
        if kind is list:
            return data if flat else [self.decode(item, depth + 1) for item in data]
        if kind is not dict or len(data) != 1:
            raise WireError("an untagged object")
        ((tag, content),) = data.items()
        method = getattr(self, f"_tag_{tag}", None) if type(tag) is str and tag.isalpha() else None
        if method is None:
            raise WireError("an unknown tag")
        return method(content, depth + 1)

    def _tag_u(self, content: Any, depth: int) -> tuple:
        return tuple(self.decode(item, depth) for item in _expect(content, list))

    def _tag_d(self, content: Any, depth: int) -> dict:
        result: dict[Any, Any] = {}
        hashes: dict[int, int] = {}
        for pair in _expect(content, list):
            if type(pair) is not list or len(pair) != 2:
                raise WireError("a dictionary entry that is no pair")
            key = self.decode(pair[0], depth)
            if type(key) is not str:  # the hash of a str is random, that of a number can be chosen
                try:
                    number = hash(key)
                except TypeError:
                    raise WireError("a dictionary key that cannot be hashed") from None
                hashes[number] = hashes.get(number, 0) + 1
                if hashes[number] > MAX_COLLISIONS:
                    raise WireError("dictionary keys chosen to be slow")
            result[key] = self.decode(pair[1], depth)
        return result

    def _tag_i(self, content: Any, depth: int) -> int:
        text = _expect(content, str)
        if len(text) > MAX_INTEGER // 4 + 3:
            raise WireError("a number too long")
        try:
            return int(text, 16)
        except ValueError:
            raise WireError("a malformed number") from None

    def _tag_f(self, content: Any, depth: int) -> float:
        if content not in ("nan", "inf", "-inf"):
            raise WireError("a malformed number")
        return float(content)

    def _tag_b(self, content: Any, depth: int) -> bytes:
        try:
            return binascii.a2b_base64(_expect(content, str), strict_mode=True)
        except ValueError:
            raise WireError("malformed bytes") from None

    def _tag_y(self, content: Any, depth: int) -> str:
        try:
            return self._tag_b(content, depth).decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            raise WireError("a malformed string") from None

    def _tag_dtype(self, content: Any, depth: int) -> torch.dtype:
        if type(content) is not str or content not in DTYPES:
            raise WireError("an unknown dtype")
        return DTYPES[content]

    def _tag_device(self, content: Any, depth: int) -> torch.device:
        try:
            return torch.device(_expect(content, str)[:20])
        except RuntimeError:
            raise WireError("an unknown device") from None

    def _tag_h(self, content: Any, depth: int) -> Any:
        if self.handle is None or type(content) is not list or len(content) != 3:
            raise WireError("a reference where none is allowed")
        number, kind, type_name = content
        if type(number) is not int or not 0 <= number < 2**53 or kind not in HANDLE_KINDS:
            raise WireError("a malformed reference")
        if type(type_name) is not str or len(type_name) > 2 * MAX_NAME:
            raise WireError("a malformed reference")
        return self.handle(Handle(number, kind, type_name))

    def _tag_s(self, content: Any, depth: int) -> Any:
        if self.stream is None:
            raise WireError("a stream where none is allowed")
        return self.stream(_expect(content, int))

    def _tag_t(self, content: Any, depth: int) -> torch.Tensor:
        if type(content) is not list or len(content) not in ((3, 4) if self.strides else (3,)):
            raise WireError("a malformed tensor")
        name, shape, offset = content[:3]
        if type(name) is not str or name not in DTYPES or type(shape) is not list or len(shape) > MAX_AXES:
            raise WireError("a malformed tensor")
        if (
            any(type(size) is not int or not 0 <= size < 2**40 for size in shape)
            or type(offset) is not int
            or offset < 0
            or offset % ALIGN
        ):
            raise WireError("a malformed tensor")
        if len(content) == 4:
            return self._strided(DTYPES[name], shape, offset, content[3])
        return self._contiguous(DTYPES[name], shape, offset)

    def _contiguous(self, dtype: torch.dtype, shape: list[int], offset: int) -> torch.Tensor:
        count = math.prod(shape)
        self.unread -= count * dtype.itemsize
        if offset + count * dtype.itemsize > len(self.blob) or self.unread < 0:
            raise WireError("a tensor larger than its bytes")
        if not count:
            try:
                return torch.empty(shape, dtype=dtype)
            except RuntimeError:
                raise WireError("a shape that overflows") from None
        if dtype is torch.bool:  # any byte but 0 and 1 would be a bool that is equal to nothing
            return torch.frombuffer(self.blob, dtype=torch.uint8, count=count, offset=offset).reshape(shape) != 0
        return torch.frombuffer(self.blob, dtype=dtype, count=count, offset=offset).reshape(shape)

    def _strided(self, dtype: torch.dtype, shape: list[int], offset: int, strides: list[int]) -> torch.Tensor:
        """Rebuild a non-contiguous tensor; axes of stride 0 travelled once and are expanded again."""
        sizes = [min(1, size) if stride == 0 else size for size, stride in zip(shape, strides, strict=True)]
        extent = 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True)) if all(sizes) else 0
        base = torch.zeros(extent, dtype=dtype).as_strided(sizes, strides)  # gaps are zero, and so the same in every run
        base.copy_(self._contiguous(dtype, sizes, offset))
        return base.expand(shape)


def _expect(content: Any, kind: type) -> Any:
    if type(content) is not kind:
        raise WireError("a malformed value")
    return content


# --- frames -----------------------------------------------------------------------------------------------------------

_encoder = msgspec.json.Encoder()
_from_worker = msgspec.json.Decoder(FromWorker)
_from_trusted = msgspec.json.Decoder(FromTrusted)


def send(connection: socket.socket, message: Message, blob: Blob | None = None, deadline: float | None = None) -> None:
    """Write one frame. `deadline` is on `time.monotonic`; past it `DeadlineError`."""
    header = _encoder.encode(message)
    parts = blob.parts if blob else []
    size = blob.size if blob else 0
    if len(header) > MAX_HEADER or size > MAX_BLOB:
        raise WireError(
            f"{(len(header) + size) >> 20} MiB; at most {MAX_HEADER >> 20} MiB of values and {MAX_BLOB >> 20} MiB of tensors can be sent"
        )
    frame = [PREFIX.pack(MAGIC, len(header), size), header, *parts]
    if len(header) + size <= SMALL:
        frame = [b"".join(frame)]  # one call into the kernel costs more than the copy
    try:
        for part in frame:
            if deadline is not None:
                connection.settimeout(_remaining(deadline))
            connection.sendall(part)
    except TimeoutError:
        raise DeadlineError from None


def receive(
    connection: socket.socket,
    *,
    trusted: bool,
    deadline: float | None = None,
    weigh: Callable[[int, int], None] | None = None,
) -> tuple[Any, bytearray]:
    """Read one frame: (message, blob). `trusted` says that this side is the trusted one and the sender a worker.

    `weigh` is told the sizes of header and blob before they are read, and may refuse them with a `WireError`.

    Raises `EOFError` when the other side is gone, `WireError` for a malformed frame, `DeadlineError` past the deadline.
    """
    prefix = _read(connection, PREFIX.size, deadline)
    magic, header_size, blob_size = PREFIX.unpack(prefix)
    if magic != MAGIC or header_size > MAX_HEADER or blob_size > MAX_BLOB:
        raise WireError("a frame that is malformed or too large")
    if weigh:
        weigh(header_size, blob_size)
    if header_size + blob_size <= SMALL:
        body = _read(connection, header_size + blob_size, deadline)
        header, blob = body[:header_size], body[header_size:]
    else:
        header, blob = _read(connection, header_size, deadline), _read(connection, blob_size, deadline)
    if header.count(b"[") + header.count(b"{") > MAX_BRACKETS:
        raise WireError("a value too large")
    try:
        return (_from_worker if trusted else _from_trusted).decode(header), blob
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise WireError(f"a malformed header ({type(error).__name__})") from None


def _remaining(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise DeadlineError
    return left


def _read(connection: socket.socket, size: int, deadline: float | None) -> bytearray:
    data = bytearray(size)
    view, filled = memoryview(data), 0
    while filled < size:
        if deadline is not None:
            connection.settimeout(_remaining(deadline))
        try:
            count = connection.recv_into(view[filled:])
        except TimeoutError:
            raise DeadlineError from None
        except ConnectionError:
            count = 0
        if not count:
            raise EOFError
        filled += count
    return data
