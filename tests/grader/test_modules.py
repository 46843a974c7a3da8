"""Other files of a package, calls that are watched, submodules that are compared, and a folder to write to."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
import torch

from grader.sandbox.client import Limits, Package, Sandbox, WorkerGone
from grader.sandbox.remote import LearnerError, Local, Remote, Session
from grader.suite import assert_chunks_close, assert_module_close
from grader.suite.checks import Mistake
from grader.suite.modules import first_difference
from grader.suite.sentences import learner_error

ROOT = Path(__file__).resolve().parents[2]

MAIN = b"""
import os, tempfile
import torch
from torch import nn
from torch.nn.functional import softmax as probabilities
from .ex01_first import double

def apply(x):
    return probabilities(x, dim=-1)

def broken(cache):
    return cache.update(1, 2, 0)

class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)
    def forward(self, x):
        return self.b(self.a(x))

class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.inner = nn.LayerNorm(4), Inner()
    def forward(self, x, cache=None):
        if cache is not None:
            cache.update(x[:, :, None], x[:, :, None], 0)
        return x + self.inner(self.norm(x))

def write(count):
    folder = tempfile.mkdtemp()
    for number in range(count):
        with open(f"{folder}/{number}", "wb") as file:
            file.write(bytes(1 << 20))
    os.replace(f"{folder}/0", f"{folder}/renamed")
    return folder, len(os.listdir(folder))
"""
FIRST = b"def double(x):\n    return 2 * x\n\ndef stub(x):\n    raise NotImplementedError('EX01: stub')\n"


def package(main: bytes = MAIN, name: str = "exercises") -> Package:
    props = (ROOT / "tests/props.py").read_bytes()
    return Package(main="ex02_second", files={"ex02_second.py": main, "ex01_first.py": FIRST, "props.py": props}, name=name)


def side(main: bytes = MAIN) -> Remote:
    local = Local(package(main, f"_modules_{abs(hash(main))}"))
    return Remote(Session(lambda: local))


@pytest.fixture
def remote(sandbox):
    with sandbox.worker(package(), Limits(call_seconds=20.0)) as worker:
        yield Remote(Session(lambda: worker))


def test_other_files_of_the_package(remote):
    assert remote.file("ex01_first").double(3) == 6
    cache = remote.file("props").RecordingCache()
    k = torch.randn(2, 3, 4, 5)
    cache.update(k, k, 1)
    joined, _ = cache.update(k, k, 1)
    assert joined.shape == (2, 6, 4, 5) and cache.get("length") == 6
    assert [(index, tuple(one.shape)) for index, one, _ in cache.get("updates")] == [(1, (2, 3, 4, 5))] * 2


def test_a_name_that_a_file_lacks_is_told_with_its_file(remote):
    with pytest.raises(LearnerError) as caught:
        remote.file("ex01_first").triple(3)
    assert learner_error(caught.value, package()) == "ex01_first.py has no `triple`; the name is part of the contract"


def test_an_earlier_stub_is_no_stub_of_this_exercise(remote):
    with pytest.raises(LearnerError) as caught:
        remote.file("ex01_first").stub(3)
    assert learner_error(caught.value, package()) == "exercise 01 comes first: its `stub` is still as the stub has it"


def test_the_suites_own_file_is_not_shown_as_the_learners(remote):
    with pytest.raises(LearnerError) as caught:
        remote.broken(remote.file("props").RecordingCache())
    assert "ex02_second.py, line 12:  return cache.update(1, 2, 0)" in learner_error(caught.value, package())


def test_which_calls_are_used(remote):
    calls = ["torch.nn.functional.softmax", "torch.nn.functional.scaled_dot_product_attention"]
    x = torch.randn(2, 3)
    result, used = remote.apply.using(calls, x)
    assert torch.equal(result, x.softmax(-1)) and used == calls[:1]
    module = remote.Outer()
    assert module.using(calls, torch.randn(2, 3, 4))[1] == []
    assert module.using(["torch.nn.functional.layer_norm"], torch.randn(2, 3, 4))[1] == ["torch.nn.functional.layer_norm"]


def weights() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    shapes = {"norm.weight": (4,), "norm.bias": (4,), "inner.a.weight": (4, 4), "inner.b.weight": (4, 4)}
    return {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}


def outer(one: Remote):
    module = one.Outer()
    module.load_state_dict(weights())
    return module


X = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(1))


def test_submodules_in_the_order_in_which_they_finish(remote):
    parts = outer(remote).submodules(X)
    assert [part.name for part in parts] == ["norm", "inner.a", "inner.b", "inner"]
    assert torch.equal(parts[1].inputs[0], parts[0].outputs[0]) and torch.equal(parts[3].outputs[0], parts[2].outputs[0])


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (b"self.b(self.a(x))", b"self.b(self.a(x)).relu()", "`inner` is the first part whose output differs"),
        (
            b"self.b(self.a(x))",
            b"self.a(self.b(x))",
            "`inner.a` is the first part that is given another input than it should get",
        ),
        (b"nn.LayerNorm(4)", b"nn.LayerNorm(4, eps=0.5)", "`norm` is the first part whose output differs"),
        (b"return x + self", b"return self", "every part gives the right output: look at what happens between them"),
    ],
)
def test_the_first_part_that_differs_is_named(old, new, sentence):
    with pytest.raises(Mistake) as caught:
        assert_module_close(outer(side(MAIN.replace(old, new))), outer(side()), X)
    assert str(caught.value).endswith(f"; {sentence}")


def test_equal_modules_are_equal_and_each_has_its_own_cache():
    caches = []

    def mine(one: Remote) -> dict:
        caches.append(one.file("props").RecordingCache())
        return {"cache": caches[-1]}

    output = assert_module_close(outer(side()), outer(side()), X, per_side=mine)
    assert output.shape == X.shape and [cache.get("length") for cache in caches] == [3, 3]


def test_modules_without_common_parts_are_compared_all_the_same():
    assert first_difference([], outer(side()).submodules(X), 1e-4) is None


def test_a_mistake_that_begins_with_the_cache():
    right = [X, X + 1, X + 2]
    with pytest.raises(Mistake, match=r"chunk 2 .*; right until the cache is used"):
        assert_chunks_close([X, X * 3, X], right)
    with pytest.raises(Mistake) as caught:
        assert_chunks_close([X * 3, X, X], right)
    assert "cache" not in str(caught.value)
    assert_chunks_close(right, right)


@pytest.mark.parametrize("tier", ["A", "B", "C", "D"])
def test_a_folder_to_write_to_where_one_is_given(tier):
    limits = Limits(call_seconds=20.0, files=True)
    with Sandbox(tier) as own:
        try:
            worker = own.worker(package(), limits)
        except Exception as error:
            pytest.skip(f"tier {tier} cannot be had here: {error}")
        with worker:
            folder, count = Remote(Session(lambda: worker)).write(3)
            assert count == 3
        assert not os.path.exists(folder)
    assert not list(Path(tempfile.gettempdir()).glob(f"attention-ladder-{os.getpid()}-files-*"))


def test_without_files_nothing_can_be_written_on_the_host():
    with Sandbox("B") as own:
        try:
            worker = own.worker(package(), Limits(call_seconds=20.0))
        except Exception as error:
            pytest.skip(f"tier B cannot be had here: {error}")
        with worker, pytest.raises(LearnerError):
            Remote(Session(lambda: worker)).write(1)


def test_code_that_fills_its_folder_is_ended():
    with Sandbox("B") as own:
        try:
            worker = own.worker(package(), Limits(call_seconds=20.0, files=True))
        except Exception as error:
            pytest.skip(f"tier B cannot be had here: {error}")
        with worker, pytest.raises(WorkerGone):
            for _ in range(50):
                Remote(Session(lambda: worker)).write(20)
