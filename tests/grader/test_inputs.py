"""Makers of test inputs: sharp shapes, secret but repeatable values, other strides; and how a value is described."""

from __future__ import annotations

import math

import pytest
import torch

from grader.suite import choice, noncontiguous, rand_bool, randint, randn, uniform
from grader.suite.inputs import AuthoringError, InputSource, describe


@pytest.fixture(autouse=True)
def source(monkeypatch):
    """What the runner provides for every test of a suite."""
    source = InputSource(7, "hidden::test_a")
    monkeypatch.setattr(InputSource, "current", source)
    return source


def draw(seed: int, test: str) -> list[object]:
    InputSource.current = InputSource(seed, test)
    return [
        randn(2, 3).tolist(),
        randint(0, 1000, 2, 3).tolist(),
        rand_bool(5, 7).tolist(),
        uniform(0, 1),
        choice(range(10**6)),
    ]


def test_the_same_seed_and_test_give_the_same_inputs_again():
    assert draw(1, "hidden::test_a") == draw(1, "hidden::test_a")


@pytest.mark.parametrize("other", [(2, "hidden::test_a"), (1, "hidden::test_b"), (11, "hidden::test_a")])
def test_another_seed_or_test_gives_others(other):
    ours, theirs = draw(1, "hidden::test_a"), draw(*other)
    assert all(one != another for one, another in zip(ours, theirs, strict=True))


def test_inputs_leave_torchs_own_random_numbers_alone():
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    draw(1, "hidden::test_a")
    assert torch.equal(torch.rand(4), expected)


def test_what_was_made_is_recorded(source):
    randn(2, 3, scale=2.0, dtype=torch.float16)
    randint(-5, 5, 4)
    rand_bool(2, 3, p=0.25)
    assert source.recorded == ["randn x 2 [2, 3] float16", "randint -5..4 [4] int64", "rand_bool 0.25 [2, 3] bool"]


def test_nothing_can_be_made_outside_a_test():
    InputSource.current = None
    for make in (lambda: randn(2, 3), lambda: uniform(0, 1), lambda: choice([1])):
        with pytest.raises(AuthoringError, match="inside a test"):
            make()


@pytest.mark.parametrize("shape", [(1,), (2, 1), (3, 3), (2, 3, 2)])
def test_blunt_shapes_need_a_reason(shape):
    for make in (lambda **k: randn(*shape, **k), lambda **k: randint(0, 2, *shape, **k), lambda **k: rand_bool(*shape, **k)):
        with pytest.raises(AuthoringError, match="say why with blunt="):
            make()
        assert make(blunt="the point of this test").shape == shape


def test_sharp_shapes_need_none():
    assert randn(2, 3, 5).shape == (2, 3, 5) and randn().shape == () and randint(0, 2, 7).shape == (7,)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_normal_values_of_any_dtype_and_scale(dtype):
    values = randn(40, 50, dtype=dtype, scale=3.0)
    assert values.dtype == dtype and not values.requires_grad
    assert 2.5 < values.double().std().item() < 3.5 and abs(values.double().mean().item()) < 0.4


def test_float64_values_use_all_digits():
    values = randn(20, 30, dtype=torch.float64)
    assert (values != values.float().double()).float().mean() > 0.9


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int8, torch.uint8])
def test_integers_lie_in_the_half_open_range(dtype):
    values = randint(0, 3, 40, 50, dtype=dtype)
    assert values.dtype == dtype and sorted(values.unique().tolist()) == [0, 1, 2]


def test_probabilities_floats_and_choices():
    assert 0.1 < rand_bool(40, 50, p=0.2).float().mean() < 0.3
    numbers = [uniform(-2.0, 3.0) for _ in range(200)]
    assert all(-2 <= number < 3 for number in numbers) and max(numbers) > 2 and min(numbers) < -1
    assert {choice("abc") for _ in range(100)} == set("abc")


@pytest.mark.parametrize("shape", [(2,), (5,), (2, 3), (3, 2, 4), (1, 5), (5, 1), (2, 3, 4, 5), (1, 2, 1), (2, 1, 1)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.int64])
def test_noncontiguous_has_the_values_and_other_strides(shape, dtype):
    values = torch.arange(math.prod(shape)).reshape(shape).to(dtype)
    other = noncontiguous(values)
    assert torch.equal(other, values) and other.dtype == dtype and other.shape == values.shape
    assert not other.is_contiguous() and values.is_contiguous()


def test_noncontiguous_tensors_arrive_noncontiguous(sandbox):
    from grader.sandbox.client import Package
    from grader.sandbox.remote import Remote, Session

    source = b"def look(x):\n    return x.is_contiguous(), x\n"
    with sandbox.worker(Package(main="ex01_look", files={"ex01_look.py": source})) as worker:
        look = Remote(Session(lambda: worker)).look
        for x in (randn(5), randn(2, 3), randn(2, 3, 4).transpose(0, 2)):
            contiguous, back = look(noncontiguous(x))
            assert not contiguous and torch.equal(back, x)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "None"),
        (3, "3"),
        (-(2**70), "-1180591620717411303424"),
        (10**5000, "an integer of 16610 bits"),
        (0.5, "0.5"),
        ("short", "'short'"),
        ("é" * 100, "'" + "é" * 56 + "..."),
        (b"\x00", r"b'\x00'"),
        (torch.ones(2, 3, dtype=torch.int8), "a tensor [2, 3] of int8"),
        ([1, 2], "[1, 2]"),
        ((1,), "(1,)"),
        ((), "()"),
        ([torch.ones(2)], "[a tensor [2] of float32]"),
        ({"a": [1, [2, [3]]]}, "{'a': [1, [...]]}"),
        ({}, "{}"),
    ],
    ids=describe,
)
def test_a_value_in_a_few_words(value, words):
    assert describe(value) == words


def test_a_description_is_short_whatever_the_value():
    nested: object = 1
    for _ in range(500):
        nested = [nested]
    for value in (list(range(10**6)), dict.fromkeys(range(10**5)), "x" * 10**7, nested, [10**5000] * 100):
        assert len(describe(value)) <= 60
