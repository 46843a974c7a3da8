"""The wire: what is sent comes back as it was, and nothing that a worker can send does more than raise `WireError`."""

from __future__ import annotations

import json
import math
import socket
import struct
import threading
import time
import tracemalloc

import msgspec
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from grader.sandbox import wire
from grader.sandbox.wire import (
    Blob,
    DeadlineError,
    Decoder,
    Handle,
    Hello,
    Ok,
    Pull,
    Raised,
    Request,
    StreamItem,
    StreamRef,
    WireError,
)

quick = settings(max_examples=150, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])


def round_trip(value, **options):
    """Through encode, JSON and decode, as over a socket."""
    blob = Blob()
    encoded = msgspec.json.decode(
        msgspec.json.encode(wire.encode(value, blob, options.pop("other", None), strides=options.get("strides", False)))
    )
    return Decoder(bytearray(b"".join(blob.parts)), **options).decode(encoded)


def bits(tensor: torch.Tensor) -> bytes:
    """A tensor's bytes, in order."""
    fresh = torch.empty(tensor.shape, dtype=tensor.dtype).copy_(tensor).reshape(-1)
    return fresh.view(torch.uint8).numpy().tobytes() if fresh.numel() else b""


def same(one, other) -> bool:
    """Equal in type and value, NaN equal to NaN, tensors bit for bit."""
    if isinstance(one, torch.Tensor):
        return type(other) is torch.Tensor and (one.dtype, one.shape, bits(one)) == (other.dtype, other.shape, bits(other))
    if type(one) is not type(other):
        return False
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return len(one) == len(other) and all(same(a, b) and same(one[a], other[b]) for a, b in zip(one, other, strict=True))
    return one == other or (one != one and other != other)


# ---- values ----------------------------------------------------------------------------------------------------------

DTYPES = sorted(wire.DTYPES, key=str)


@st.composite
def tensors(draw):
    """Tensors of every dtype, of up to four axes, also empty; contiguous, transposed, sliced or expanded."""
    dtype = wire.DTYPES[draw(st.sampled_from(DTYPES))]
    shape = draw(st.lists(st.integers(0, 4), max_size=4))
    size = math.prod(shape) * dtype.itemsize
    data = draw(st.binary(min_size=size, max_size=size))
    if dtype is torch.bool:
        data = bytes(byte & 1 for byte in data)
    value = torch.frombuffer(bytearray(data), dtype=dtype).reshape(shape) if size else torch.empty(shape, dtype=dtype)
    layout = draw(st.sampled_from(["as it is", "transposed", "sliced", "expanded"]))
    if layout == "transposed" and value.dim() >= 2:
        value = value.transpose(0, -1)
    elif layout == "sliced" and value.dim():
        value = value[..., ::2]
    elif layout == "expanded":
        value = value.expand(3, *value.shape)
    return value


keys = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.text(),
    st.binary(),
    st.tuples(st.integers(), st.binary()),
    st.floats(allow_nan=False),
)
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**200), 2**200), st.floats(), st.text(), st.text(st.characters(categories=["Cs", "Lu"])),
    st.binary(), st.sampled_from(list(wire.DTYPES.values())), st.just(torch.device("cpu")), st.just(torch.device("cuda", 1)),
)  # fmt: skip
values = st.recursive(
    st.one_of(scalars, tensors()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.lists(inner, max_size=4).map(tuple), st.dictionaries(keys, inner, max_size=4)
    ),
    max_leaves=12,
)


@quick
@given(values)
def test_values_come_back_as_they_were(value):
    assert same(value, round_trip(value))


@quick
@given(tensors())
def test_tensors_keep_their_strides_on_the_way_to_the_worker(value):
    back = round_trip(value, strides=True)
    assert same(value, back)
    assert value.is_contiguous() == back.is_contiguous()
    if value.numel() and not value.is_contiguous():
        assert value.stride() == back.stride()


def test_an_expanded_tensor_travels_once():
    blob = Blob()
    wire.encode(torch.ones(3, 1).expand(3, 10**8), blob, strides=True)
    assert blob.size <= wire.ALIGN


@pytest.mark.parametrize(
    "value",
    [
        *(0, -1, 2**63 - 1, -(2**63), 2**63, -(2**63) - 1, 2**8000, -(2**8000)),
        *(0.0, -0.0, math.inf, -math.inf, 5e-324, 1.7976931348623157e308),
        *("", "\0", "é🙂\u202e", "\ud800", "a\udfffb", "\N{BOM}"),
        *(b"", bytes(range(256)), [], (), {}, [[]], ((),), [{}], {(): ()}, {(1, (2, b"x")): [None]}),
        *([1, True], [1.0, 1], [None, False], [1, 2**63], [1.0, math.nan], ["a", "\ud800"], list(range(1000))),
        *(torch.tensor(3.5), torch.tensor(True), torch.tensor([]), torch.empty(0, 3), torch.empty(3, 0, 2)),
        *(
            torch.tensor([math.nan, math.inf, -math.inf, -0.0], dtype=dtype)
            for dtype in (torch.float16, torch.bfloat16, torch.float64)
        ),
        torch.ones(2, 3).T,
        torch.ones(1).expand(4),
    ],
    ids=lambda value: repr(value)[:30].encode("ascii", "backslashreplace").decode(),
)
def test_edges_come_back_as_they_were(value):
    assert same(value, round_trip(value))


def test_negative_zero_and_nan_payloads_survive():
    bits = torch.tensor([0x8000000000000000 - 2**64, 0x7FF8000000000123, 0x7FF0000000000001], dtype=torch.int64)
    assert round_trip(bits.view(torch.float64)).view(torch.int64).tolist() == bits.tolist()


def test_a_lazily_conjugated_or_negated_tensor_is_resolved():
    value = torch.tensor([1 + 2j, 3 - 4j])
    assert same(round_trip(value.conj()), value.conj().resolve_conj())
    assert same(round_trip(value.conj().imag), torch.tensor([-2.0, 4.0]))


def test_gradients_and_subclasses_stay_behind():
    class Named(torch.Tensor):
        pass

    for value in (torch.ones(2, requires_grad=True), torch.nn.Parameter(torch.ones(2)), torch.ones(2).as_subclass(Named)):
        back = round_trip(value)
        assert type(back) is torch.Tensor and not back.requires_grad and back.tolist() == [1, 1]


def test_a_tuple_subclass_becomes_a_tuple():
    from collections import OrderedDict, namedtuple

    assert same(round_trip(namedtuple("Pair", "a b")(1, [2])), (1, [2]))
    assert same(round_trip(OrderedDict(b=1, a=2)), {"b": 1, "a": 2})


def test_the_copy_is_a_copy():
    """References run in this process: what they do to an argument must not be seen in the test."""
    value = [1, 2, 3]
    encoded = wire.encode(value, Blob())
    assert encoded == value and encoded is not value


@pytest.mark.parametrize(
    "value", [object(), 1j, {1, 2}, lambda: None, torch.eye(2).to_sparse(), torch.empty(2, device="meta"), 2**9000]
)
def test_what_is_no_plain_data_needs_somebody_who_keeps_it(value):
    with pytest.raises(TypeError, match="cannot cross the wire"):
        wire.encode(value, Blob())
    assert wire.encode(value, Blob(), lambda one: Handle(7, "object", "x")) == {"h": [7, "object", "x"]}


def test_references_are_allowed_only_where_somebody_knows_them():
    handle, stream = Handle(3, "module", "RMSNorm"), StreamRef(1)
    assert round_trip([handle], handle=lambda one: one) == [handle]
    assert round_trip([stream], stream=lambda number: number) == [1]
    for value in (handle, stream):
        with pytest.raises(WireError):
            round_trip(value)


def test_nesting_is_limited():
    value = []
    for _ in range(wire.MAX_DEPTH + 1):
        value = [value]
    with pytest.raises(WireError, match="nested"):
        wire.encode(value, Blob())
    loop = []
    loop.append(loop)
    with pytest.raises(WireError, match="nested"):
        wire.encode(loop, Blob())


# ---- what a worker may send ------------------------------------------------------------------------------------------

MALFORMED = {
    "an untagged object": [{}, {"t": 1, "u": 2}, {"x": 1}, {"__class__": 1}, {"": 1}, {"decode": 1}],
    "a tag's wrong content": [{"u": 1}, {"u": {}}, {"d": [[1]]}, {"d": [[1, 2, 3]]}, {"d": {"a": 1}}, {"y": 1}, {"y": "%%%"}, {"b": "*"}, {"b": 1}],
    "a bad number": [{"i": 5}, {"i": "x"}, {"i": ""}, {"i": "0x" + "f" * 2100}, {"f": "1"}, {"f": 1}, {"f": []}, 2**63, [1, 2**64], {"u": [2**63]}],
    "a key that cannot be hashed": [{"d": [[[], 1]]}, {"d": [[{"d": []}, 1]]}, {"d": [[{"u": [[]]}, 1]]}],
    "a bad string": [{"y": "gA=="}, {"y": "é"}],
    "a bad dtype": [{"dtype": "int"}, {"dtype": 1}, {"dtype": []}],
    "a bad device": [{"device": name} for name in ("gpu", 1, "", "cpu\0", "cuda:-1", "cuda:99999999999999999999")],
    "a bad tensor": [
        {"t": tag}
        for tag in (
            *(1, [], {}, ["float32"], ["float32", [1]], ["float32", [1], 0, [1]], ["double", [1], 0], [None, [1], 0], [["float32"], [1], 0]),
            *(["float32", 1, 0], ["float32", [-1], 0], ["float32", [1.0], 0], ["float32", ["1"], 0], ["float32", [True], 0], ["float32", [None], 0]),
            *(["float32", [1], -64], ["float32", [1], 1], ["float32", [1], 0.0], ["float32", [1], True]),
            *(["float32", [1], 64], ["float32", [1], 2**62]),
            *(["float32", [17], 0], ["float64", [9], 0], ["uint8", [65], 0], ["float32", [2**39, 2**39], 0], ["float32", [0, 2**39, 2**39], 0]),
            *(["float32", [1] * 17, 0], ["float32", [2**40, 0], 0], ["float32", [2**70], 0]),
        )
    ],
    "bytes used twice": [[{"t": ["uint8", [40], 0]}, {"t": ["uint8", [40], 0]}]],
    "a reference": [{"h": [1, "module", "x"]}, {"s": 0}],
}  # fmt: skip


@pytest.mark.parametrize(
    "data", [pytest.param(data, id=f"{kind}: {data!r}"[:70]) for kind, some in MALFORMED.items() for data in some]
)
def test_malformed_values_are_refused(data):
    with pytest.raises(WireError):
        Decoder(bytearray(64)).decode(data)


@pytest.mark.parametrize(
    "content", [1, [], [1], [1, "module"], [1, "thing", "x"], ["1", "module", "x"], [1.0, "module", "x"], [True, "module", "x"],
                [-1, "module", "x"], [2**53, "module", "x"], [1, "module", 1], [1, "module", "x" * 201], [1, ["module"], "x"]],
)  # fmt: skip
def test_malformed_references_are_refused(content):
    with pytest.raises(WireError):
        Decoder(bytearray(), handle=lambda handle: handle).decode({"h": content})


def test_chosen_hashes_do_not_slow_a_dictionary_down():
    prime = 2**61 - 1
    start = time.process_time()
    for pairs in (
        [[{"i": hex(prime * i)}, 0] for i in range(4, 50_000)],
        [[{"u": [{"i": hex(prime * i)}]}, 0] for i in range(4, 50_000)],
    ):
        with pytest.raises(WireError, match="chosen to be slow"):
            Decoder(bytearray()).decode({"d": pairs})
    assert time.process_time() - start < 2
    many = {(i, str(i).encode()): i for i in range(20_000)}
    assert round_trip(many) == many  # an honest table of merges is no attack


def test_a_bool_is_true_or_false():
    """Any other byte would be a bool that equals neither."""
    back = Decoder(bytearray([0, 1, 2, 255] + [0] * 60)).decode({"t": ["bool", [4], 0]})
    assert back.tolist() == [False, True, True, True] and back.view(torch.uint8).tolist() == [0, 1, 1, 1]


def pair() -> tuple[socket.socket, socket.socket]:
    return socket.socketpair()


def received(data: bytes, seconds: float = 5.0, trusted: bool = True):
    """What one side makes of these bytes, after which the sender hangs up."""
    ours, theirs = pair()
    with ours:

        def feed():
            with theirs:
                try:
                    theirs.sendall(data)
                except OSError:
                    pass

        thread = threading.Thread(target=feed)
        thread.start()
        try:
            message, blob = wire.receive(ours, trusted=trusted, deadline=time.monotonic() + seconds)
            if isinstance(message, Ok):
                return Decoder(blob, handle=lambda handle: handle).decode(message.value)
            return message
        finally:
            ours.close()
            thread.join()


def frame(message, blob: Blob | None = None) -> bytes:
    """The bytes of a frame."""
    header = message if isinstance(message, bytes) else msgspec.json.encode(message)
    parts = blob.parts if blob else []
    return wire.PREFIX.pack(wire.MAGIC, len(header), blob.size if blob else 0) + header + b"".join(parts)


def valid(value) -> bytes:
    blob = Blob()
    return frame(Ok(value=wire.encode(value, blob)), blob)


OUTCOMES = (WireError, EOFError, DeadlineError)


@quick
@given(st.binary(max_size=400))
def test_random_bytes_do_no_harm(data):
    try:
        received(data)
    except OUTCOMES:
        pass


@quick
@given(st.binary(max_size=300), st.integers(0, 400), st.integers(0, 200))
def test_random_headers_do_no_harm(header, size, blob):
    try:
        received(wire.PREFIX.pack(wire.MAGIC, size, blob) + header + bytes(blob))
    except OUTCOMES:
        pass


@quick
@given(values, st.data())
def test_changed_frames_do_no_harm(value, data):
    """Bytes of a right frame are changed, cut out, doubled or swapped."""
    content = bytearray(valid(value))
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, max(0, len(content) - 1)))
        other = data.draw(st.integers(0, len(content)))
        change = data.draw(st.sampled_from(["change", "cut", "double", "end"]))
        if change == "change" and content:
            content[place] = data.draw(st.sampled_from([*b'{}[]",:0129-.eEtfn\\u\x00\xff\x80', content[place] ^ 1]))
        elif change == "cut":
            del content[min(place, other) : min(place, other) + 8]
        elif change == "double":
            content[place:place] = content[min(place, other) : max(place, other)][:64]
        else:
            del content[place:]
    try:
        received(bytes(content))
    except OUTCOMES:
        pass


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=8),
              st.sampled_from(["float32", "bool", "nan", "0x1", "cpu", "module", "QUJD"])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.sampled_from(["t", "u", "d", "i", "f", "b", "y", "h", "s", "dtype", "device", "x", ""]), inner, min_size=1, max_size=1),
        st.tuples(st.sampled_from(DTYPES), st.lists(st.integers(-1, 2**41), max_size=5), st.integers(-64, 256)).map(lambda tag: {"t": list(tag)}),
    ),
    max_leaves=10,
)  # fmt: skip


@settings(quick, max_examples=400)
@given(json_values)
def test_any_tree_of_tags_decodes_or_is_refused(tree):
    try:
        value = received(frame(json.dumps({"kind": "ok", "value": tree}).encode(), _zeros(256)))
    except OUTCOMES:
        return
    repr(value)


def _zeros(size: int) -> Blob:
    blob = Blob()
    blob.parts, blob.size = [bytes(size)], size
    return blob


@pytest.mark.parametrize(
    "header",
    [
        *(
            b"",
            b"null",
            b"[]",
            b"1",
            b'"ok"',
            b"{}",
            b'{"kind":"ok"',
            b'{"kind":"ok"}x',
            b"\xff",
            b'{"kind":"ok","value":"\xff"}',
        ),
        *(
            b'{"kind":"ok","value":NaN}',
            b'{"kind":"ok","value":1e999}',
            b'{"kind":"ok","value":"\\ud800"}',
            b'{"kind":"ok","other":1}',
        ),
        *(
            b'{"kind":"grade"}',
            b'{"kind":"request","operation":"call"}',
            b'{"kind":"item"}',
            b'{"kind":"load","package":"x","main":"y"}',
        ),
        *(
            b'{"kind":"raised"}',
            b'{"kind":"raised","type":1,"message":""}',
            b'{"kind":"pull","stream":"0"}',
            b'{"kind":"hello","layers":"x"}',
        ),
        *(
            b'{"kind":"ok","used":"x"}',
            b'{"kind":"ok","value":' + b"9" * 6000 + b"}",
            b'{"kind":"ok","value":' + b"[" * 10**6 + b"]" * 10**6 + b"}",
        ),
    ],
    ids=lambda header: repr(header)[:50],
)
def test_headers_that_no_worker_of_ours_sends_are_refused(header):
    with pytest.raises(WireError):
        received(frame(header))


@pytest.mark.parametrize(
    "message",
    [Hello(["a"]), Ok(value=1), Raised("T", "m", ["B"], [("f", 1, "g")], ["u"]), Pull(3)],
    ids=lambda one: type(one).__name__,
)
def test_a_worker_is_heard(message):
    assert received(frame(message)) == (1 if isinstance(message, Ok) else message)


@pytest.mark.parametrize(
    "message", [Request("call"), StreamItem(exhausted=True), wire.Load("p", "m")], ids=lambda one: type(one).__name__
)
def test_a_worker_cannot_speak_as_the_trusted_side(message):
    with pytest.raises(WireError):
        received(frame(message))
    assert received(frame(message), trusted=False) == message


@pytest.mark.parametrize(
    "prefix",
    [
        (b"XXXX", 2, 0),
        (wire.MAGIC, wire.MAX_HEADER + 1, 0),
        (wire.MAGIC, 2**32 - 1, 0),
        (wire.MAGIC, 2, wire.MAX_BLOB + 1),
        (wire.MAGIC, 2, 2**64 - 1),
    ],
)
def test_sizes_are_checked_before_anything_is_allocated(prefix):
    tracemalloc.start()
    try:
        with pytest.raises(WireError):
            received(struct.pack("<4sIQ", *prefix) + b"{}")
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("item", [b"[],", b"{},", b'{"u":[]},', b"0,", b'{"t":["bool",[1000000],0]},'], ids=repr)
def test_one_frame_takes_little_memory(item):
    """However a header is filled, the values behind it stay within a small multiple of its size."""
    data = frame(b'{"kind":"ok","value":[' + item * (wire.MAX_HEADER // len(item) - 10) + b"0]}", _zeros(1 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(WireError):
            received(data, seconds=60)
        assert tracemalloc.get_traced_memory()[1] < 32 * wire.MAX_HEADER
    finally:
        tracemalloc.stop()


def test_the_weigher_is_asked_first():
    def refuse(header, blob):
        raise WireError(f"{header} {blob}")

    ours, theirs = pair()
    with ours, theirs:
        theirs.sendall(wire.PREFIX.pack(wire.MAGIC, 100, 200))
        with pytest.raises(WireError, match="100 200"):
            wire.receive(ours, trusted=True, weigh=refuse)


# ---- deadlines -------------------------------------------------------------------------------------------------------


def test_the_deadline_covers_the_whole_message():
    """Bytes that keep dripping in do not put it off."""
    ours, theirs = pair()
    done = threading.Event()

    def drip():
        for byte in frame(Ok(value="x" * 1000)):
            if done.wait(0.02):
                return
            theirs.sendall(bytes([byte]))

    thread = threading.Thread(target=drip)
    thread.start()
    start = time.monotonic()
    with pytest.raises(DeadlineError):
        wire.receive(ours, trusted=True, deadline=start + 0.3)
    assert 0.25 < time.monotonic() - start < 3
    done.set()
    thread.join()
    ours.close()
    theirs.close()


@pytest.mark.parametrize(
    "sent", [b"", wire.PREFIX.pack(wire.MAGIC, 50, 0), wire.PREFIX.pack(wire.MAGIC, 2, 100) + b"{}" + bytes(99)]
)
def test_a_message_that_stops_halfway_is_late_or_over(sent):
    ours, theirs = pair()
    with ours:
        theirs.sendall(sent)
        with pytest.raises(DeadlineError):
            wire.receive(ours, trusted=True, deadline=time.monotonic() + 0.1)
    ours, theirs = pair()
    with ours:
        theirs.sendall(sent)
        theirs.close()
        with pytest.raises(EOFError):
            wire.receive(ours, trusted=True, deadline=time.monotonic() + 5)


def test_nobody_who_does_not_read_holds_a_sender_up():
    ours, theirs = pair()
    blob = _zeros(64 << 20)
    with ours, theirs, pytest.raises(DeadlineError):
        wire.send(ours, Ok(), blob, deadline=time.monotonic() + 0.2)


def test_what_is_too_large_is_not_begun():
    ours, theirs = pair()
    with ours, theirs:
        with pytest.raises(WireError, match="can be sent"):
            wire.send(ours, Ok(value="x" * (wire.MAX_HEADER + 1)))
        theirs.setblocking(False)
        with pytest.raises(BlockingIOError):
            theirs.recv(1)


def test_clip_keeps_an_exception_short():
    long = wire.clip(Raised("T" * 10**6, "m" * 10**6, ["B" * 10**6] * 1000, [("f" * 10**6, -(2**70), "g" * 10**6)] * 1000))
    assert len(msgspec.json.encode(long)) < 20_000
    assert wire.clip(Raised("T", "m", ["B"], [("f", 3, "g")], ["u"])) == Raised("T", "m", ["B"], [("f", 3, "g")], ["u"])
