"""The sandbox: what remote functions, modules, streams and iterators do, how a worker ends, and how tiers are chosen."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec
import pytest
import torch

from grader.sandbox import client, jail
from grader.sandbox.client import Limits, Package, Sandbox, SandboxError, Stream, Worker, WorkerGone, WorkerHung
from grader.sandbox.environment import clean_environment
from grader.sandbox.remote import (
    ForbiddenCall,
    LearnerError,
    Local,
    ParameterInfo,
    Remote,
    RemoteIterator,
    RemoteModule,
    RemoteObject,
    Session,
)
from tests.grader.processes import runs

linux = pytest.mark.skipif(sys.platform != "linux", reason="tiers A to C need Linux")

CODE = b"""
import os
import sys
import threading
import time

import numpy
import torch
from torch import nn

from .helper import twice


def add(a, b=1, *, c=0):
    return a + b + c


def same(*values, **keywords):
    return values, keywords


def facts(x):
    return list(x.shape), list(x.stride()), x.is_contiguous(), x.requires_grad, type(x) is torch.Tensor


def pair(x, y):
    return x * y, x + 2 * y


def with_integer(x, index):
    return x[index]


def cut(x):
    return x.detach() * 2


def spoil(x, items):
    x.add_(1)
    items.append(1)
    return x.sum()


def many(stop):
    for number in range(stop):
        yield torch.tensor(number)
    if stop == 3:
        raise KeyError("after three")


def first(numbers, count):
    return [number for number, _ in zip(numbers, range(count))]


def lazily(numbers):
    return (twice(number) for number in numbers)


def import_library(way):
    import importlib
    import sys

    if way == "statement":
        import wave
    elif way == "part":
        import email.mime.text
    elif way == "from":
        from email.mime import text
    elif way == "function":
        importlib.import_module("wave")
    elif way == "dunder":
        __import__("email.mime.text")
    elif way == "fallback":
        try:
            import wave
        except ImportError:
            wave = None
        return wave
    elif way == "allowed":
        import colorsys
        return colorsys.__name__
    return sorted({"wave", "email", "email.mime.text"} & set(sys.modules))


def lazy_import(numbers):
    for number in numbers:
        import wave

        yield number


def array():
    return numpy.arange(3)


class Norm(nn.Module):
    def __init__(self, size, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.frozen = nn.Parameter(torch.zeros(2, dtype=torch.float64), requires_grad=False)
        self.register_buffer("seen", torch.zeros(1, dtype=torch.int64))
        self.eps = eps

    def forward(self, x, scale=1.0):
        self.seen += 1
        return x * self.weight * scale if self.training else x

    def inner(self):
        return nn.Linear(2, 3, bias=False)


class Reshaping(Norm):
    def load_state_dict(self, state, strict=True):
        self.weight = nn.Parameter(torch.ones(1))


class Counter:
    limit = 5

    def __init__(self):
        self.value = 0

    def up(self, by=1):
        self.value += by
        return self.value

    @property
    def double(self):
        return 2 * self.value


def apply(module, x):
    return module(x)


def count(counter):
    return counter.value


def fail(message):
    raise ValueError(message)


class Deeper(KeyError):
    pass


def fail_deeper():
    twice(None)


def fail_specially():
    raise Deeper("x")


def speak(text, times=1):
    for _ in range(times):
        print(text)
        print(text, file=sys.stderr)


def environment():
    return dict(os.environ), sys.argv, [path for path in sys.path if not path.endswith(("site-packages", "dist-packages"))]


def sleep(seconds):
    time.sleep(seconds)


def leave(code):
    os._exit(code)


def kill(number):
    os.kill(os.getpid(), number)


def take(megabytes):
    return torch.zeros(megabytes << 18).sum() * 0


def burn():
    while True:
        pass


def attention(q):
    return torch.nn.functional.scaled_dot_product_attention(q, q, q)


def indirect(q):
    return attention(q)


def free(q):
    return torch.softmax(q, -1)
"""
HELPER = b"""
def twice(value):
    return value * 2 if value is not None else 1 / 0
"""
SDPA = "torch.nn.functional.scaled_dot_product_attention"
PACKAGE = Package(
    main="ex99_code",
    files={"ex99_code.py": CODE, "helper.py": HELPER},
    forbidden={"attention": [SDPA], "indirect": [SDPA]},
)
LIMITS = Limits(call_seconds=20, memory_mb=512, cpu_seconds=30, output_kb=2)


@pytest.fixture(scope="session")
def sandboxes():
    """One sandbox per tier, started when it is first needed."""
    made: dict[str, Sandbox] = {}
    os.environ["SOME_TOKEN"] = "secret"  # of the caller's: no worker may see it

    def sandbox(tier: str) -> Sandbox:
        if tier not in made:
            made[tier] = Sandbox(tier, start="spawn")
        return made[tier]

    yield sandbox
    del os.environ["SOME_TOKEN"]
    for one in made.values():
        one.close()


def available(sandboxes, tier: str) -> Sandbox:
    """A tier's sandbox; the test is skipped where the tier cannot be had."""
    if sys.platform != "linux":
        pytest.skip("tiers A to C need Linux")
    try:
        sandboxes(tier).worker(PACKAGE, LIMITS).kill()
    except SandboxError as error:
        pytest.skip(str(error))
    return sandboxes(tier)


@pytest.fixture(scope="module", params=["A", "B"])
def boxed(request, sandboxes) -> Sandbox:
    """A sandbox of each tier that counts."""
    return available(sandboxes, request.param)


class Desk:
    """One worker (or none, for code of one's own) and its remote."""

    def __init__(self, transport: Worker | Local) -> None:
        self.transport = transport
        self.session = Session(lambda: transport)
        self.code = Remote(self.session)


@pytest.fixture
def fresh(boxed):
    """Makes workers of a test's own."""
    made: list[Worker] = []

    def make(limits: Limits = LIMITS, package: Package = PACKAGE) -> Desk:
        made.append(boxed.worker(package, limits))
        return Desk(made[-1])

    yield make
    for worker in made:
        worker.kill()


def test_the_same_file_in_two_packages_is_named_by_each():
    source = b"def outer(x):\n    return [inner(one) for one in x]\n\n\ndef inner(x):\n    return (lambda: x / 0)()\n"
    for name in ("one_of_two", "other_of_two"):
        local = Local(Package(name=name, main="main", files={"main.py": source}))
        try:
            with pytest.raises(LearnerError) as caught:
                Remote(Session(lambda: local)).outer([3])  # noqa: B023
        finally:
            local.close()
        assert {frame[0] for frame in caught.value.frames} == {f"{name}/main.py"}
        assert [frame[2] for frame in caught.value.frames][-2:] == ["inner", "<lambda>"]


@pytest.fixture(scope="module", params=["A", "B", "own process"])
def desk(request, sandboxes):
    """Both sides of the one interface: a worker that several tests use, and this process, in which references are run."""
    if request.param == "own process":
        local = Local(PACKAGE)
        yield Desk(local)
        local.close()
        return
    with available(sandboxes, request.param).worker(PACKAGE, LIMITS) as worker:
        yield Desk(worker)


# ---- functions -------------------------------------------------------------------------------------------------------


def test_a_call_returns_plain_data(desk):
    assert desk.code.add(2) == 3
    assert desk.code.add(2, b=torch.tensor([1.5]), c=1).tolist() == [4.5]
    assert desk.code.same(1, "é", None, [True], k={"a": (b"x",)}) == ((1, "é", None, [True]), {"k": {"a": (b"x",)}})
    assert desk.code.same(torch.bfloat16, torch.device("cpu")) == ((torch.bfloat16, torch.device("cpu")), {})


def test_non_contiguous_arguments_keep_their_strides(desk):
    base = torch.arange(24.0).reshape(2, 3, 4)
    for x in (
        base,
        base.transpose(0, 2),
        base[:, ::2],
        base[0:1].expand(5, 3, 4),
        base[..., None],
        torch.empty(0, 3).T,
        base[1, 2, 3],
    ):
        assert desk.code.facts(x) == (
            list(x.shape),
            list(x.stride()) if x.numel() > 1 else desk.code.facts(x)[1],
            x.is_contiguous(),
            False,
            True,
        )


def test_arguments_are_copies(desk):
    x, items = torch.zeros(3), [0]
    result, after, keywords = desk.code.spoil.arguments_after(x, items=items)
    assert (x.tolist(), items) == ([0, 0, 0], [0])
    assert (result.item(), after[0].tolist(), keywords) == (3, [1, 1, 1], {"items": [0, 1]})


def test_what_is_no_plain_data_stays_as_an_object(desk):
    array = desk.code.array()
    assert type(array) is RemoteObject and array.type_name == "numpy.ndarray" and array.get("ndim") == 1
    assert array.tolist() == [0, 1, 2]
    assert desk.code.array.keep().fetch().type_name == "numpy.ndarray"


def test_a_kept_result_can_be_fetched_passed_on_and_dropped(desk):
    kept = desk.code.add.keep(torch.ones(2), 1)
    assert type(kept) is RemoteObject
    assert desk.code.add(kept, kept).tolist() == [4, 4]
    assert kept.fetch().tolist() == [2, 2]
    kept.drop()
    with pytest.raises(LearnerError):
        kept.fetch()
    held = desk.code.add.hold(torch.ones(2), 3)
    assert desk.code.add(*held).tolist() == [4, 4]


def test_an_argument_of_another_kind_is_the_authors_mistake(desk):
    with pytest.raises(TypeError, match="cannot be an argument"):
        desk.code.add(object())


# ---- gradients -------------------------------------------------------------------------------------------------------


def test_vjp_of_a_function(desk):
    x, y = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])
    answer = desk.code.pair.vjp(x, y, cotangent=(torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])))
    assert [one.tolist() for one in answer.output] == [[3, 8], [7, 10]]
    assert [one.tolist() for one in answer.inputs] == [[3, 1], [1, 2]]
    assert answer.parameters == {}


def test_vjp_leaves_out_what_has_no_gradient(desk):
    answer = desk.code.with_integer.vjp(torch.eye(3), torch.tensor([1, 1]), cotangent=torch.ones(2, 3))
    assert answer.inputs[0].tolist() == [[0, 0, 0], [2, 2, 2], [0, 0, 0]] and answer.inputs[1] is None
    assert desk.code.cut.vjp(torch.ones(2), cotangent=torch.ones(2)).inputs == (None,)
    assert desk.code.add.vjp(1, 2, cotangent=torch.ones(2)) == (3, (None, None), {})
    assert desk.code.pair.vjp(torch.ones(2), torch.ones(2), cotangent=torch.ones(2)).inputs == (
        None,
        None,
    )  # two outputs, one cotangent


def test_vjp_of_a_module_reaches_its_parameters(desk):
    module = desk.code.Norm(2)
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    answer = module.vjp(x, scale=2.0, cotangent=torch.ones(2, 2))
    assert answer.output.tolist() == [[2, 4], [6, 8]]
    assert answer.inputs[0].tolist() == [[2, 2], [2, 2]]
    assert answer.parameters["weight"].tolist() == [8, 12] and answer.parameters["frozen"] is None


# ---- modules ---------------------------------------------------------------------------------------------------------


def test_a_module_tells_its_parameters_and_buffers(desk):
    module = desk.code.Norm(3, eps=1e-2)
    assert type(module) is RemoteModule and module.type_name == "Norm" and module.get("eps") == 1e-2
    assert module.parameters() == {
        "weight": ParameterInfo((3,), torch.float32, True),
        "frozen": ParameterInfo((2,), torch.float64, False),
    }
    assert module.buffers() == {"seen": ParameterInfo((1,), torch.int64, False)}


def test_a_module_is_called_trained_and_kept(desk):
    module = desk.code.Norm(2)
    x = torch.tensor([1.0, 2.0])
    assert module.training is True
    assert module(x, scale=3.0).tolist() == [3, 6]
    assert module.eval() is module and module.training is False
    assert module(x, scale=3.0).tolist() == [1, 2]
    assert module.train().training is True
    assert module.keep(x, scale=2.0).fetch().tolist() == [2, 4]
    assert module.get("seen").tolist() == [3]
    inner = module.inner()
    assert type(inner) is RemoteModule and inner.type_name == "torch.Linear" and inner.parameters()["weight"].shape == (3, 2)
    assert desk.code.apply(module, x).tolist() == [1, 2]  # a module as an argument


def test_load_state_dict_is_strict(desk):
    module = desk.code.Norm(2)
    state = module.state_dict()
    assert list(state) == ["weight", "frozen", "seen"]
    module.load_state_dict({**state, "weight": torch.tensor([5.0, 7.0])})
    assert module(torch.ones(2)).tolist() == [5, 7]
    for wrong in ({}, {**state, "more": torch.ones(1)}, {**state, "weight": torch.ones(3)}):
        with pytest.raises(LearnerError, match="RuntimeError"):
            module.load_state_dict(wrong)


def test_a_module_that_reshapes_what_it_loads_is_found_out(desk):
    with pytest.raises(LearnerError, match=r"weight has shape \[1\] after a \[2\] was loaded"):
        desk.code.Reshaping(2).load_state_dict({"weight": torch.ones(2)})


def test_an_object_has_methods_and_values(desk):
    counter = desk.code.Counter()
    assert (counter.up(), counter.up(by=2), counter.get("double"), counter.get("limit"), counter.get("up")) == (1, 3, 6, 5, 4)
    assert desk.code.count(counter) == 4
    with pytest.raises(LearnerError, match="AttributeError"):
        counter.down()


# ---- streams and iterators -------------------------------------------------------------------------------------------


def test_a_stream_counts_what_is_pulled(desk):
    stream = Stream(torch.tensor(number) for number in range(100))
    assert stream.pulled == 0
    assert [one.item() for one in desk.code.first(stream, 3)] == [0, 1, 2]
    assert stream.pulled == 4  # zip takes one more before it sees that the range is over
    empty = Stream([])
    assert desk.code.first(empty, 3) == [] and empty.pulled == 0


def test_two_streams_are_two(desk):
    one, other = Stream([1, 2]), Stream([10, 20, 30])
    assert desk.code.same(1)[0] == (1,)
    assert desk.code.first(other, 2) == [10, 20] and (one.pulled, other.pulled) == (0, 3)


def test_a_stream_outlives_the_call_that_it_was_given_to(desk):
    other, stream = Stream([7, 8]), Stream(range(1, 5))
    assert desk.code.first(other, 1) == [7]
    items = iter(desk.code.lazily(stream))
    assert stream.pulled == 0
    assert next(items) == 2 and stream.pulled == 1
    assert desk.code.first(Stream([9]), 1) == [9]
    assert list(items) == [4, 6, 8] and stream.pulled == 4
    (held,) = desk.code.first.hold(Stream("abc"))
    assert desk.code.first(held, 2) == ["a", "b"]


def test_an_iterator_is_asked_item_by_item(desk):
    iterator = desk.code.many(2)
    assert type(iterator) is RemoteIterator and [item.item() for item in iterator] == [0, 1]
    assert list(iterator) == []
    items = iter(desk.code.many(3))
    assert [next(items).item() for _ in range(3)] == [0, 1, 2]
    with pytest.raises(LearnerError, match="KeyError"):
        next(items)


# ---- exceptions ------------------------------------------------------------------------------------------------------


def test_an_exception_tells_type_message_and_line(desk):
    with pytest.raises(LearnerError) as caught:
        desk.code.fail("n_rep is wrong")
    error = caught.value
    assert (error.type, error.message, error.what) == ("ValueError", "n_rep is wrong", "fail")
    assert str(error) == "fail raised ValueError: n_rep is wrong"
    file, line, function = error.frames[-1]
    assert (
        file.endswith("ex99_code.py")
        and function == "fail"
        and CODE.decode().splitlines()[line - 1].strip() == "raise ValueError(message)"
    )
    assert error.session is desk.session and error.is_a("ValueError") and error.is_a("Exception") and not error.is_a("KeyError")


def test_the_lines_of_all_own_files_are_told(desk):
    with pytest.raises(LearnerError) as caught:
        desk.code.fail_deeper()
    places = [(os.path.basename(file), function) for file, _, function in caught.value.frames]
    assert places == [("ex99_code.py", "fail_deeper"), ("helper.py", "twice")]


def test_a_subclass_is_known_by_its_builtin_bases(desk):
    with pytest.raises(LearnerError) as caught:
        desk.code.fail_specially()
    assert caught.value.type == "Deeper" and caught.value.is_a("KeyError") and caught.value.is_a("LookupError")


def test_a_missing_name_is_told(desk):
    with pytest.raises(LearnerError) as caught:
        desk.code.no_such_function(1)
    assert (caught.value.type, caught.value.message) == ("MissingName", "no_such_function")


def test_a_syntax_error_names_its_line(fresh):
    desk = fresh(package=Package(main="m", files={"m.py": b"x = 1\ny = = 2\n"}))
    with pytest.raises(LearnerError) as caught:
        desk.code.f()
    assert caught.value.type == "SyntaxError" and caught.value.frames[-1][:2] == ("exercises/m.py", 2)


# ---- forbidden calls -------------------------------------------------------------------------------------------------


def test_a_forbidden_call_is_seen_in_whatever_way_it_is_made(desk):
    q = torch.ones(1, 1, 2, 4)
    for function in (desk.code.attention, desk.code.indirect, desk.code.attention.keep):
        with pytest.raises(ForbiddenCall) as caught:
            function(q)
        assert caught.value.names == [SDPA]
    assert desk.code.free(q).shape == q.shape


LIBRARIES = ["email", "wave"]


@pytest.fixture(params=["in a worker", "in this process"])
def without_libraries(request, fresh):
    """The code in a package that may not import two libraries, which this process has loaded."""
    import email.mime.text
    import wave

    package = msgspec.structs.replace(
        PACKAGE, name="without_libraries", forbidden={"free": [*LIBRARIES, SDPA], "import_library": LIBRARIES}
    )
    loaded = {name: sys.modules[name] for name in ("email", "email.mime", "email.mime.text", "wave")}
    if request.param == "in a worker":
        yield fresh(package=package).code
    else:
        local = Local(package)
        yield Remote(Session(lambda: local))
        local.close()
    assert loaded == {name: sys.modules[name] for name in loaded}  # for everyone else it is as if nothing had been
    assert (email.mime.text, wave) == (loaded["email.mime.text"], loaded["wave"])
    assert not any(type(finder).__name__ == "RefusedImports" for finder in sys.meta_path)


@pytest.mark.parametrize("way", ["statement", "part", "from", "function", "dunder"])
def test_a_forbidden_library_cannot_be_imported(without_libraries, way):
    with pytest.raises(LearnerError, match=r"ImportError: `(wave|email)` cannot be imported here: .* by hand") as caught:
        without_libraries.import_library(way)
    assert caught.value.type == "ImportError"
    assert without_libraries.free(torch.ones(1, 1, 2, 4)).shape == (1, 1, 2, 4)


def test_code_may_do_without_a_forbidden_library(without_libraries):
    assert without_libraries.import_library("fallback") is None
    assert without_libraries.import_library("allowed") == "colorsys"
    assert without_libraries.import_library("which are loaded?") == []


def test_a_generator_cannot_import_a_forbidden_library_late(without_libraries):
    items = iter(without_libraries.lazy_import([1, 2]))
    with pytest.raises(LearnerError, match="`wave` cannot be imported here"):
        next(items)


def test_a_file_that_imports_a_forbidden_library_cannot_be_loaded(fresh):
    package = Package(main="m", files={"m.py": b"import wave\ndef f(): return 1\n"}, forbidden={"f": ["wave"]})
    with pytest.raises(LearnerError, match="`wave` cannot be imported here"):
        fresh(package=package).code.f()
    assert fresh(package=Package(main="m", files=package.files)).code.f() == 1


def test_names_that_are_not_forbidden_cannot_be_reported(fresh):
    desk = fresh(package=Package(main="m", files={"m.py": b"import os, struct\ndef f():\n    h = b'{\"kind\":\"ok\",\"used\":[\"torch.add\"]}'\n"
                                 b"    os.write(3, struct.pack('<4sIQ', b'ALW1', len(h), 0) + h)\n    os._exit(0)\n"}))  # fmt: skip
    assert desk.code.f() is None


# ---- how workers end -------------------------------------------------------------------------------------------------


def test_a_hang_is_ended_in_time(fresh):
    desk = fresh(Limits(call_seconds=0.5))
    desk.code.add(1)
    start = time.monotonic()
    with pytest.raises(WorkerHung, match=r"no answer within 0\.5 s"):
        desk.code.sleep(60)
    assert time.monotonic() - start < 5
    assert not desk.transport.alive
    with pytest.raises(WorkerHung, match=r"no answer within 0\.5 s"):
        desk.code.add(1)  # a dead worker keeps saying why


def test_the_deadline_covers_pulls_as_well(fresh):
    """A call that keeps pulling is one call."""
    desk = fresh(Limits(call_seconds=0.5))
    desk.code.add(1)

    def endless():
        while True:
            yield 1

    start = time.monotonic()
    with pytest.raises(WorkerHung):
        desk.code.first(Stream(endless()), 10**9)
    assert time.monotonic() - start < 5


def test_no_request_lasts_beyond_the_end_of_the_exercise(fresh):
    desk = fresh(Limits(call_seconds=60))
    desk.code.add(1)
    desk.transport.until = time.monotonic() + 0.3
    start = time.monotonic()
    with pytest.raises(WorkerHung, match="the whole exercise"):
        desk.code.sleep(60)
    assert time.monotonic() - start < 5


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda code: code.leave(0), r"ended its own process \(exit code 0\)"),
        (lambda code: code.leave(3), r"ended its own process \(exit code 3\)"),
        (lambda code: code.kill(int(signal.SIGKILL)), r"ended by SIGKILL"),
        (lambda code: code.kill(int(signal.SIGSEGV)), r"ended by SIGSEGV"),
    ],
    ids=["exit 0", "exit 3", "SIGKILL", "SIGSEGV"],
)
def test_a_death_is_explained(fresh, boxed, call, sentence):
    desk = fresh()
    if boxed.tier == "A" and sentence.startswith("ended by"):
        pytest.skip("process 1 of a namespace cannot signal itself")
    with pytest.raises(WorkerGone, match=sentence) as caught:
        call(desk.code)
    assert not caught.value.hung


def test_the_cpu_limit_ends_a_worker(fresh):
    desk = fresh(Limits(call_seconds=20, cpu_seconds=1))
    with pytest.raises(WorkerGone, match=r"SIGKILL \(out of CPU time\)"):
        desk.code.burn()


def test_the_memory_limit_is_an_exception_first(fresh):
    desk = fresh(Limits(call_seconds=20, memory_mb=200))
    desk.code.take(10)
    with pytest.raises(LearnerError, match=r"RuntimeError|MemoryError"):
        desk.code.take(300)
    assert desk.code.add(1) == 2  # the worker lives on


def test_answers_of_one_test_are_limited(fresh, monkeypatch):
    monkeypatch.setattr(client, "ANSWER_BYTES", 10 << 20)
    desk = fresh()
    for _ in range(3):
        desk.transport.refill()
        for _ in range(2):
            assert desk.code.same(torch.zeros(1 << 20))[0][0].shape == (1 << 20,)
    with pytest.raises(WorkerGone, match="far too much in one test"):
        desk.code.same(torch.zeros(1 << 20))


def test_two_workers_know_nothing_of_each_other(fresh):
    one, other = fresh(), fresh()
    counter = one.code.Counter()
    counter.up(by=5)
    with pytest.raises(LearnerError):
        other.session.ask("get", "x", handle=counter._handle.number, path="value")


def test_killing_twice_is_safe(fresh):
    desk = fresh()
    desk.transport.kill()
    desk.transport.kill()
    with pytest.raises(WorkerGone, match="already ended"):
        desk.code.add(1)


def test_a_worker_in_a_with_block_is_ended(boxed):
    with boxed.worker(PACKAGE, LIMITS) as worker:
        assert worker.alive
    assert not worker.alive
    with pytest.raises(ProcessLookupError):
        for _ in range(200):
            os.kill(worker.pid, 0)
            time.sleep(0.01)


def test_a_package_may_be_larger_than_a_header(fresh):
    files = {f"m{number}.py": b"#" * 1_000_000 + b"\nVALUE = %d\n" % number for number in range(12)}
    desk = fresh(package=Package(main="m11", files={**files, "m11.py": b"from .m3 import VALUE\ndef f():\n    return VALUE\n"}))
    assert desk.code.f() == 3


# ---- output ----------------------------------------------------------------------------------------------------------


def test_what_is_printed_is_kept_and_capped(fresh):
    desk = fresh()
    desk.code.speak("é")
    desk.code.speak("x" * 100, times=100)
    desk.transport.kill()
    said = desk.transport.output()
    assert said.startswith("é\né\nxxx")
    assert said.endswith(f"\n[... {6 + 2 * 100 * 101 - 2048} more bytes]")


def test_printing_without_end_is_stopped(fresh, monkeypatch):
    monkeypatch.setattr(client, "FLOOD_BYTES", 1 << 20)
    desk = fresh()
    with pytest.raises(WorkerGone, match="printed without end"):
        desk.code.speak("x" * 1000, times=10**9)
    assert len(desk.transport.output()) < 3000


# ---- what a worker sees ----------------------------------------------------------------------------------------------


def test_the_callers_environment_stays_outside(fresh):
    variables, arguments, paths = fresh().code.environment()
    assert variables == {} and arguments == [""]
    assert str(client.ROOT) not in paths and all(path.startswith((sys.prefix, sys.base_prefix)) for path in paths)


def test_peak_memory_is_read_from_outside(fresh):
    desk = fresh(Limits(call_seconds=20, memory_mb=1024))
    desk.code.take(1)
    before = desk.transport.explained_memory()
    assert before == desk.transport.memory("VmSize")
    desk.code.take(100)
    grown = desk.transport.memory("VmPeak") - before
    assert 100 << 20 <= grown < 110 << 20
    assert desk.transport.memory("VmSize") - before < 5 << 20


def test_memory_that_nobody_asked_for_is_no_baseline(fresh):
    desk = fresh()
    kept = desk.code.add.keep(torch.zeros(1), torch.zeros(1).expand(25 << 20))  # 100 MiB that were not sent
    assert desk.transport.memory("VmSize") - desk.transport.explained_memory() > 90 << 20
    kept.drop()
    held = desk.code.add.hold(torch.zeros(25 << 20))  # 100 MiB that were
    assert desk.transport.memory("VmSize") == desk.transport.explained_memory()
    assert len(held) == 1


def test_the_memory_of_a_dead_worker_is_its_death(fresh):
    desk = fresh()
    os.kill(desk.transport.pid, signal.SIGKILL)
    with pytest.raises(WorkerGone, match="while its memory was measured"):
        for _ in range(500):
            desk.transport.memory("VmSize")
            time.sleep(0.01)


# ---- tiers -----------------------------------------------------------------------------------------------------------


def test_the_layers_of_a_tier_are_told(boxed):
    words = " ".join(boxed.layers)
    assert ("namespaces" in words and "private root" in words) == (boxed.tier == "A")
    assert all(layer in words for layer in ("landlock", "seccomp", "rlimits", "no privileges"))


@linux
def test_tier_c_is_a_process_with_limits(sandboxes):
    sandbox = sandboxes("C")
    with sandbox.worker(PACKAGE, LIMITS) as worker:
        assert Desk(worker).code.add(1) == 2
    assert sandbox.tier == "C" and "rlimits" in sandbox.layers and not any("landlock" in layer for layer in sandbox.layers)


def test_tier_d_is_a_process(sandboxes):
    sandbox = sandboxes("D")
    with sandbox.worker(PACKAGE, LIMITS) as worker:
        desk = Desk(worker)
        assert desk.code.add(1) == 2
        assert desk.code.environment()[0] == {}
        with pytest.raises(WorkerGone, match="exit code 5"):
            desk.code.leave(5)
    assert sandbox.layers[0] == "separate process"


def test_an_unknown_tier_is_refused():
    with pytest.raises(SandboxError, match="allowed are auto, A, B, C, D"):
        Sandbox("E")


def test_on_another_system_there_is_only_tier_d(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    with Sandbox("auto") as sandbox:
        assert sandbox.tier == "D"
    with pytest.raises(SandboxError, match="needs Linux; this is darwin"):
        Sandbox("B")


@linux
def test_a_refused_layer_drops_to_the_next_tier(monkeypatch):
    """What the kernel refuses is kept as a sentence, and the tier that was found stays."""
    asked: list[str] = []

    class Refusing(Worker):
        def __init__(self, connection, limits):
            super().__init__(connection, limits)
            if asked[-1] in "AB":
                self.kill()
                raise jail.Refused(f"no {asked[-1]} here")

    opened = Sandbox._open
    monkeypatch.setattr(Sandbox, "_open", lambda self, tier, limits: (asked.append(tier), opened(self, tier, limits))[1])
    monkeypatch.setattr(client, "Worker", Refusing)
    with Sandbox("auto", start="spawn") as sandbox:
        sandbox.worker(PACKAGE, LIMITS).kill()
        assert (sandbox.tier, sandbox.refusals) == ("C", ["A: no A here", "B: no B here"])
        sandbox.worker(PACKAGE, LIMITS).kill()
    assert asked == ["A", "B", "C", "C"]


@linux
def test_a_tier_that_was_asked_for_is_never_replaced(sandboxes, monkeypatch):
    class Refusing(Worker):
        def __init__(self, connection, limits):
            super().__init__(connection, limits)
            self.kill()
            raise jail.Refused("namespaces: Operation not permitted")

    monkeypatch.setattr(client, "Worker", Refusing)
    with pytest.raises(SandboxError, match=r"isolation cannot be had here: .*B: namespaces: Operation not permitted"):
        sandboxes("B").worker(PACKAGE, LIMITS)


# ---- the zygote ------------------------------------------------------------------------------------------------------


@linux
def test_a_killed_zygote_is_replaced(sandboxes):
    sandbox = sandboxes("C")
    worker = sandbox.worker(PACKAGE, LIMITS)
    os.kill(sandbox._zygote, signal.SIGKILL)
    with pytest.raises(WorkerGone):  # its workers end with it
        for _ in range(200):
            Desk(worker).code.add(1)
            time.sleep(0.01)
    with sandbox.worker(PACKAGE, LIMITS) as other:
        assert Desk(other).code.add(1) == 2


FORKING = """
import torch
from grader.sandbox.client import Package, Sandbox
from grader.sandbox.remote import Remote, Session

LOOK = b'''
import gc

def look():
    return any(type(one) is dict and "made after " + "the fork" in one for one in gc.get_objects())
'''
sandbox = Sandbox("B", start="fork")
secret = {"made after the fork": 1}
with sandbox, sandbox.worker(Package(main="m", files={"m.py": LOOK})) as worker:
    print(Remote(Session(lambda: worker)).look())
"""


@linux
def test_a_forked_zygote_knows_nothing_that_came_later():
    command = [sys.executable, "-c", FORKING]
    run = subprocess.run(command, cwd=client.ROOT, env=clean_environment(), capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stdout) == (0, "False\n"), run.stderr


@linux
def test_nothing_outlives_a_sandbox():
    sandbox = Sandbox("B", start="spawn")
    workers = [sandbox.worker(PACKAGE, LIMITS) for _ in range(2)]
    root, pids = sandbox._root, [sandbox._zygote, *(worker.pid for worker in workers)]
    sandbox.close()
    for _ in range(500):
        if not any(runs(pid) for pid in pids):
            break
        time.sleep(0.01)
    assert not [pid for pid in pids if runs(pid)]
    assert not os.path.exists(root)
    for worker in workers:
        worker.kill()


@linux
def test_no_descriptor_is_lost(sandboxes):
    sandbox = sandboxes("B")
    sandbox.worker(PACKAGE, LIMITS).kill()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        worker = sandbox.worker(PACKAGE, LIMITS)
        Desk(worker).code.add(1)
        worker.kill()
    assert len(os.listdir("/proc/self/fd")) <= before


# ---- the trusted side's own rules --------------------------------------------------------------------------------------


def test_an_answer_before_the_question_is_none(fresh):
    package = Package(main="m", files={"m.py": b"import os, struct, threading\ndef f():\n    h = b'{\"kind\":\"ok\"}'\n"
                      b"    threading.Timer(0.05, os.write, [3, struct.pack('<4sIQ', b'ALW1', len(h), 0) + h]).start()\n"})  # fmt: skip
    desk = fresh(package=package)
    desk.code.f()
    time.sleep(0.3)
    with pytest.raises(WorkerGone, match="an answer before the question"):
        desk.code.f()


def test_the_trace_holds_every_answer(desk):
    session = Session(lambda: desk.transport)
    code = Remote(session)
    code.add(1)
    with pytest.raises(LearnerError):
        code.fail("x")
    assert [(one.what, one.value, one.raised) for one in session.trace] == [("add", 2, None), ("fail", None, "ValueError")]


def test_a_broken_answer_ends_the_worker(fresh):
    desk = fresh()
    assert isinstance(desk.transport.broken("nonsense"), WorkerGone)
    assert not desk.transport.alive
    with pytest.raises(WorkerGone, match="something other than an answer: nonsense"):
        desk.code.add(1)


LATE_IMPORT = """
import sys
sys.path.append(sys.argv[1])
import torch
from grader.sandbox.client import Package, Sandbox
from grader.sandbox.remote import Remote, Session

source = b"def where():\\n    import late_module\\n    return late_module.__file__\\n"
with Sandbox("A", start="fork") as sandbox, sandbox.worker(Package(main="m", files={"m.py": source})) as worker:
    print(Remote(Session(lambda: worker)).where())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="tier A needs Linux")
@pytest.mark.parametrize("reached", ["as it is", "through a link", "through a link above it"])
def test_packages_that_lie_in_tmp_can_still_be_imported_late(reached):
    """A course, and the Python it uses, may be anywhere: the worker's own small /tmp must not hide them."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        packages = Path(folder, "real/site-packages")
        packages.mkdir(parents=True)
        os.chmod(folder, 0o755)
        (packages / "late_module.py").touch()
        if reached != "as it is":
            link, target = ("link", packages.parent) if reached == "through a link above it" else ("site-packages", packages)
            Path(folder, link).symlink_to(target)
            packages = Path(folder, link, "site-packages") if link == "link" else Path(folder, link)
        command = [sys.executable, "-c", LATE_IMPORT, str(packages)]
        done = subprocess.run(
            command, cwd=Path(__file__).parents[2], env=clean_environment(), capture_output=True, text=True, timeout=60
        )
        assert done.stdout.strip() == str(packages / "late_module.py"), done.stderr


def test_empty_folders_of_killed_commands_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    gone = subprocess.Popen(["true"])
    gone.wait()
    for name in (f"attention-ladder-{gone.pid}-x", f"attention-ladder-{os.getpid()}-y", "attention-ladder-probe-z"):
        (tmp_path / name).mkdir()
    Sandbox("D").close()
    assert {path.name for path in tmp_path.iterdir()} == {f"attention-ladder-{os.getpid()}-y", "attention-ladder-probe-z"}


def test_a_worker_that_was_prepared_is_taken_once_and_only_if_it_fits_and_lives():
    package = Package(main="one", files={"one.py": b"import os\ndef pid():\n    return os.getpid()\n"})
    limits = Limits(call_seconds=5.0)
    with Sandbox("auto") as sandbox:
        sandbox.prepare(limits)
        ready = sandbox._spare[1].pid
        sandbox.prepare(limits)
        with sandbox.worker(package, limits) as worker, sandbox.worker(package, limits) as other:
            assert worker.pid == ready != other.pid
            assert Remote(Session(lambda: worker)).pid() == Remote(Session(lambda: other)).pid() or sandbox.tier != "A"
        sandbox.prepare(limits)
        unfit = sandbox._spare[1]
        with sandbox.worker(package, Limits(call_seconds=6.0)) as worker:
            assert worker.pid != unfit.pid and not unfit.alive and worker.limits.call_seconds == 6.0
        sandbox.prepare(limits)
        dead = sandbox._spare[1]
        os.kill(dead.pid, signal.SIGKILL)
        time.sleep(0.2)
        with sandbox.worker(package, limits) as worker:
            assert worker.pid != dead.pid and worker.alive
        sandbox.prepare(limits)
        left = sandbox._spare[1]
    assert not left.alive


@pytest.mark.parametrize("start", ["spawn", "fork"])
def test_a_zygote_that_was_killed_is_told_once_and_replaced(start):
    """Forked from a process of its own: this one holds other threads."""
    code = f"""
import os, signal, time, torch
from grader.sandbox.client import Package, Sandbox
package = Package(main="one", files={{"one.py": b"def one(): return 1"}})
with Sandbox("auto", start="{start}") as sandbox:
    worker = sandbox.worker(package)
    told = [sandbox.intact(), sandbox.intact()]
    os.kill(sandbox._zygote, signal.SIGKILL)
    time.sleep(0.2)
    told += [sandbox.intact(), sandbox.intact()]
    os.kill(sandbox._zygote, signal.SIGKILL)
    time.sleep(0.2)
    sandbox.worker(package)  # finds out by itself
    told += [sandbox.intact(), sandbox.intact()]
    print(told)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=client.ROOT, env=clean_environment(), capture_output=True, text=True, timeout=150
    )
    assert done.stdout.strip() == "[True, True, False, True, False, True]", done.stderr
