"""Every sentence that a learner can read from a check, and what counts as equal."""

from __future__ import annotations

import math

import pytest
import torch

from grader.sandbox.client import Package, Stream
from grader.sandbox.remote import LearnerError, Local, Remote, Session
from grader.suite import (
    TOLERANCE,
    assert_arguments_unchanged,
    assert_close,
    assert_equal,
    assert_shape,
    assert_value_error,
    checks,
    fail,
    not_assessed,
)
from grader.suite.checks import Mistake, NotAssessed, close_places
from grader.suite.inputs import AuthoringError, describe

LEARNER = b"""
import numpy, torch

def returns(kind):
    if kind == "numpy": return numpy.zeros((2, 3))
    if kind == "module": return torch.nn.Linear(2, 3)
    if kind == "object": return Thing()
    if kind == "sparse": return torch.eye(3).to_sparse()
    if kind == "meta": return torch.ones(2, device="meta")

class Thing: pass

def yields(x):
    yield x

def halve(x, n):
    if n == 0: raise ValueError(f"n must not be 0, got {n}")
    if n == 1: raise ValueError("that will not do")
    if n == 2: raise KeyError("n")
    if n == 3: raise UnicodeDecodeError("utf-8", b"n", 0, 1, "n is bad: 3")
    if n == 6: raise ValueError("n must be even, got 16 and -6")
    if n == 4: raise NotImplementedError("EX01: halve")
    return x / n

def spoil(how, x):
    if how == "value": x[1, 2] = 99.0
    if how == "shape": x.t_()
    if how == "scalar": x.fill_(3)
    if how == "list": x.append(1)
    return how
"""


@pytest.fixture(scope="module")
def learner():
    """A learner's module behind the same interface as in the jail."""
    executor = Local(Package(main="ex01_any", files={"ex01_any.py": LEARNER}, name="_checks"))
    yield Remote(Session(lambda: executor))
    executor.close()


def said(check, *arguments, **keywords) -> str:
    with pytest.raises(Mistake) as caught:
        check(*arguments, **keywords)
    return str(caught.value)


X = torch.arange(6.0).reshape(2, 3)

# --- what is no tensor at all ---


@pytest.mark.parametrize(
    ("actual", "sentence"),
    [
        (None, "the output is None, not a tensor. Is a `return` missing?"),
        ((X, X), "the output is a tuple of 2, not a tensor"),
        ([1.0], "the output is a list of 1, not a tensor"),
        (1.5, "the output is a float, not a tensor"),
        (3, "the output is an int, not a tensor"),
        (True, "the output is a bool, not a tensor"),
        ("no", "the output is a str, not a tensor"),
        ({}, "the output is a dict, not a tensor"),
        (torch.float32, "the output is a dtype, not a tensor"),
    ],
)
def test_plain_data_in_place_of_a_tensor(actual, sentence):
    assert said(assert_close, actual, X) == said(assert_equal, actual, X) == said(assert_shape, actual, (2, 3)) == sentence


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("numpy", "the output is a numpy.ndarray, not a tensor"),
        ("module", "the output is a torch.Linear, not a tensor. Was the module called?"),
        ("object", "the output is a Thing, not a tensor"),
        ("sparse", "the output is a tensor without plain values (sparse, quantized or meta)"),
        ("meta", "the output is a tensor without plain values (sparse, quantized or meta)"),
    ],
)
def test_an_object_in_place_of_a_tensor(learner, kind, sentence):
    actual = learner.returns(kind)
    assert said(assert_close, actual, X) == said(assert_equal, actual, X) == sentence


def test_a_generator_in_place_of_a_tensor(learner):
    assert said(assert_close, learner.yields(X), X) == (
        "the output is a generator, not a tensor. Does it `yield` where it should `return`?"
    )


# --- shape and dtype ---


@pytest.mark.parametrize(
    ("actual", "sentence"),
    [
        (torch.zeros(2, 4), "the output has shape [2, 4], not [2, 3]"),
        (torch.zeros(3, 2), "the output has shape [3, 2], not [2, 3]: the same axes in another order"),
        (torch.zeros(2, 3, 1), "the output has shape [2, 3, 1], not [2, 3]"),
        (torch.zeros(6), "the output has shape [6], not [2, 3]"),
        (torch.tensor(1.0), "the output has shape [], not [2, 3]"),
    ],
)
def test_a_wrong_shape(actual, sentence):
    assert said(assert_close, actual, X) == said(assert_equal, actual, X) == said(assert_shape, actual, [2, 3]) == sentence


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.int64, torch.bool])
def test_a_wrong_dtype(dtype):
    name = str(dtype).removeprefix("torch.")
    right = "" if dtype == torch.bool else "; the values are right"
    sentence = f"the output has dtype {name}, not float32{right}"
    assert said(assert_close, X.to(dtype), X) == said(assert_equal, X.to(dtype), X) == sentence
    assert_shape(X.to(dtype), (2, 3))


def test_what_was_checked_is_named():
    assert said(assert_close, None, X, what="the weight").startswith("the weight is None")
    assert said(assert_close, None, X, what="the gradient of x").startswith("the gradient of x is missing: no gradient flows")
    assert said(assert_shape, X, (1,), what="the mask").startswith("the mask has shape [2, 3]")


# --- values ---


def test_right_values_pass():
    for expected in (X, X.double(), X.half(), X.bfloat16(), X.long(), X.bool(), X.to(torch.complex64), torch.empty(0, 3)):
        assert_close(expected.clone(), expected)
        assert_equal(expected.clone(), expected)


def test_wrong_values_are_counted_and_the_first_one_shown():
    wrong = X.clone()
    wrong[0, 1], wrong[1, 2] = 7.0, -1.23456789
    sentence = "2 of 6 values of the output are wrong, the first at [0, 1]: yours is 7"
    assert said(assert_close, wrong, X) == said(assert_equal, wrong, X) == sentence
    wrong[0, 1] = 1.0
    assert said(assert_close, wrong, X) == "1 of 6 values of the output is wrong, at [1, 2]: yours is -1.2346"
    assert said(assert_close, torch.tensor(2.0), torch.tensor(1.0)) == "the output is wrong: yours is 2"


@pytest.mark.parametrize("value", [math.inf, -math.inf])
def test_an_infinity_is_wrong_where_none_is_expected(value):
    wrong = X.clone()
    wrong[1, 0] = value
    sentence = f"1 of 6 values of the output is wrong, at [1, 0]: yours is {value:g}"
    assert said(assert_close, wrong, X) == said(assert_equal, wrong, X) == sentence
    assert_close(wrong, wrong.clone())
    assert "yours is 3" in said(assert_close, X, wrong)
    assert said(assert_close, -wrong, wrong)


def test_nan_is_told_as_such():
    wrong = X.clone()
    wrong[0, 2] = math.nan
    assert said(assert_close, wrong, X) == "1 of 6 values of the output is NaN, at [0, 2]"
    wrong[1] = math.nan
    assert said(assert_close, wrong, X) == "4 of 6 values of the output are NaN, the first at [0, 2]"
    assert said(assert_close, torch.tensor(math.nan), torch.tensor(1.0)) == "the output is NaN"
    assert said(assert_close, math.nan, 1.0) == "the output is NaN"


@pytest.mark.parametrize("check", [assert_close, assert_equal])
def test_nan_is_never_a_wildcard(check):
    expected = X.clone()
    expected[0, 2] = math.nan
    check(expected.clone(), expected)
    assert "at [0, 2]: yours is 2" in said(check, X, expected)  # where NaN is expected, a number is wrong
    everywhere = torch.full_like(X, math.nan)
    assert said(check, everywhere, expected) and said(check, everywhere, X) and said(check, X, everywhere)


# --- tolerance ---


def test_every_float_has_a_tolerance():
    assert TOLERANCE.keys() == {
        *(torch.float64, torch.float32, torch.float16, torch.bfloat16),
        *(torch.complex64, torch.complex128),
    }


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_errors_up_to_the_tolerance_pass_and_larger_ones_do_not(dtype):
    expected = torch.tensor([0.5, -0.25], dtype=torch.float64).to(dtype)
    close = (expected.double() + 0.8 * TOLERANCE[dtype]).to(dtype)
    far = (expected.double() + 1.6 * TOLERANCE[dtype]).to(dtype)
    assert_close(close, expected)
    assert said(assert_close, far, expected)
    assert said(assert_equal, far, expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_tolerance_grows_with_the_largest_expected_value_and_never_shrinks(dtype):
    large = torch.tensor([1024.0, 0.0], dtype=dtype)
    off = torch.tensor([0.0, 500 * TOLERANCE[dtype]], dtype=dtype)
    assert_close(large + off, large)
    assert said(assert_close, large + 4 * off, large)
    small = torch.tensor([2.0**-20, 0.0], dtype=dtype)
    assert_close(small + TOLERANCE[dtype] / 2, small)  # relative to 1, not to 2**-20


def test_infinities_do_not_stretch_the_tolerance():
    expected = torch.tensor([math.inf, 1.0])
    assert said(assert_close, torch.tensor([math.inf, 2.0]), expected)
    only = torch.tensor([math.inf])
    assert_close(only.clone(), only)
    assert said(assert_close, torch.tensor([1.0]), only)


def test_a_test_can_set_its_own_tolerance():
    assert_close(X + 0.04, X, tolerance=1e-2)  # of 5, the largest value
    assert said(assert_close, X + 0.06, X, tolerance=1e-2)
    assert said(assert_close, X + 1e-6, X, tolerance=0.0)


def test_complex_values_are_compared_in_both_parts():
    expected = torch.tensor([1 + 2j, 3 - 1j])
    assert_close(expected + 1e-7, expected)
    assert "at [0]" in said(assert_close, expected + torch.tensor([0.1j, 0]), expected)
    assert said(assert_close, expected.conj().resolve_conj(), expected)


def test_integers_and_booleans_have_none():
    expected = torch.tensor([1, 10**15])
    assert said(assert_close, expected + torch.tensor([0, 1]), expected, tolerance=1.0).endswith(
        "at [1]: yours is 1000000000000001"
    )
    assert said(assert_close, torch.tensor([True, False]), torch.tensor([True, True])).endswith("at [1]: yours is False")


def test_where_two_tensors_are_close():
    one, other = torch.tensor([1.0, math.nan, math.inf, 2.0]), torch.tensor([1.0, math.nan, -math.inf, 2.1])
    assert close_places(one, other, 1e-5).tolist() == [True, True, False, False]


# --- other data ---


def test_floats_are_compared_like_tensors():
    assert_close(1.0 + 1e-7, 1.0)
    assert_close(2, 2.0)
    assert said(assert_close, 1.1, 1.0) == "the output is wrong: yours is 1.1"
    assert said(assert_close, 10**400, 1.0) == "the output is wrong: yours is inf"
    assert said(assert_close, -(10**400), 1.0) == "the output is wrong: yours is -inf"
    assert said(assert_close, None, 1.0) == "the output is None, not a float"
    assert said(assert_close, True, 1.0) == "the output is a bool, not a float"
    assert said(assert_close, torch.tensor(1.0), 1.0) == "the output is a tensor, not a float"


def test_tuples_and_lists_of_tensors_are_compared_one_by_one():
    assert_close((X, [X, 1.0]), (X, [X, 1.0]))
    assert_close([X], (X,))
    assert said(assert_close, (X,), (X, X)) == "the output is a tuple of 1, not a tuple of 2"
    assert said(assert_close, X, (X, X)) == "the output is a tensor, not a tuple of 2"
    assert said(assert_close, None, (X, X)) == "the output is None, not a tuple of 2"
    assert said(assert_close, (X, None), (X, X), what="cos and sin") == (
        "cos and sin[1] is None, not a tensor. Is a `return` missing?"
    )


@pytest.mark.parametrize(
    ("actual", "expected", "sentence"),
    [
        (None, "a", "the output is None, not a str"),
        ("b", "a", "the output is 'b'"),
        (1, True, "the output is an int, not a bool"),
        (1.0, 1, "the output is a float, not an int"),
        (2, 1, "the output is 2"),
        ([1, 2], [1, 2, 3], "the output is [1, 2], a list of 2, not of 3"),
        ([0] * 9, [0] * 10, "the output is a list of 9, not a list of 10"),
        (["x" * 60], ["x", "y"], "the output is a list of 1, not a list of 2"),
        ([1, 2, 4], [1, 2, 3], "the output is [1, 2, 4], wrong at [2]"),
        ([1, True], [1, 1], "the output[1] is a bool, not an int"),
        ((1, 2), [1, 2], "the output is a tuple of 2, not a list of 2"),
        ([(1, b"a")], [(1, b"b")], r"the output[0] is (1, b'a'), wrong at [1]"),
        ([0] * 9, [0] * 8 + [1], "the output[8] is 0"),
        (["a"], ["b"], "the output[0] is 'a'"),
        (
            [X, X],
            [X, X + 1],
            "6 of 6 values of the output[1] are wrong, the first at [0, 0]: yours is 0; "
            "every value is too small by the same amount: a constant was added",
        ),
        ([1, 2], [X, X], "the output[0] is an int, not a tensor"),
        ([X, X], [1, 2], "the output[0] is a tensor, not an int"),
        ({"a": 1}, {"b": 1}, "the output has other keys: ['a']"),
        ({"a": 1}, {"a": 2}, "the output['a'] is 1"),
        ({"a": X}, {"a": [X]}, "the output['a'] is a tensor, not a list of 1"),
        (math.nan, 1.0, "the output is nan"),
        (torch.float16, torch.float32, "the output is torch.float16"),
        ("x" * 70, "x" * 65 + "y", "the output is wrong from character 65 on: 'xxxxx'"),
        ("ab" * 40, "ab" * 41, "the output ends after 80 characters, too early"),
        (b"\x00" * 70, b"\x00" * 69 + b"\x01", r"the output is wrong from byte 69 on: b'\x00'"),
    ],
    ids=describe,
)
def test_plain_data_that_is_not_the_same(actual, expected, sentence):
    assert said(assert_equal, actual, expected) == sentence


SAME = [None, "a" * 100, 10**5000, math.nan, [math.nan, 1], {}, {"a": (X, [1])}, torch.int8, b""]


@pytest.mark.parametrize("value", SAME, ids=describe)
def test_plain_data_that_is_the_same(value):
    assert_equal(value, value)


def test_long_lists_are_compared_quickly():
    import time

    one = list(range(300_000))
    start = time.process_time()
    assert_equal(list(one), one)
    assert "the output[299999] is -1" in said(assert_equal, [*one[:-1], -1], one)
    assert time.process_time() - start < 2


# --- expected values are for public tests alone ---


@pytest.mark.parametrize(
    ("check", "actual", "expected", "secret"),
    [
        (assert_close, X, X + 41.5, "41.5"),
        (assert_close, 1.0, 41.5, "41.5"),
        (assert_equal, X.long(), X.long() + 41, "41"),
        (assert_equal, 1, 41, "41"),
        (assert_equal, "no", "41", "41"),
        (assert_equal, "n" * 100, "n" * 80 + "41", "41"),
        (assert_equal, "n" * 100, "n" * 100 + "41", "41"),
        (assert_equal, {"a": 1}, {"41": 1}, "41"),
        (assert_equal, [1, 2], [1, 41], "41"),
    ],
)
def test_the_sentence_holds_no_expected_value(check, actual, expected, secret):
    with pytest.raises(Mistake) as caught:
        check(actual, expected)
    assert secret not in str(caught.value)
    assert caught.value.expected.startswith("expected ") and secret in caught.value.expected


# --- bad arguments ---


def test_a_value_error_that_names_the_argument_is_asked_for(learner):
    assert_value_error(learner.halve, X, 0, naming="n")
    assert_value_error(learner.halve, X, n=0, naming="N")
    assert_value_error(learner.halve, X, 3, naming="n is bad")  # a subclass of ValueError
    assert said(assert_value_error, learner.halve, X, 1, naming="n_rep") == (
        "the ValueError does not mention `n_rep`; it says 'that will not do'"
    )
    assert said(assert_value_error, learner.halve, X, 6, naming="n") == (
        "the ValueError mentions `n`, but not the 6 that was given; it says 'n must be even, got 16 and -6'"
    )
    assert said(assert_value_error, learner.halve, X, 2, naming="n") == "halve raised KeyError where a bad n asks for ValueError"
    assert said(assert_value_error, learner.halve, X, 5, naming="n") == (
        "a bad n was accepted: no ValueError, a tensor came back"
    )
    assert said(assert_value_error, learner.returns, "none", naming="kind").endswith("no ValueError, None came back")


@pytest.mark.parametrize("name", ["halve", "absent"])
def test_what_is_not_written_is_told_as_such_and_not_as_a_wrong_error(learner, name):
    with pytest.raises(LearnerError) as caught:
        assert_value_error(getattr(learner, name), X, 4, naming="n")
    assert caught.value.type == ("NotImplementedError" if name == "halve" else "MissingName")


# --- arguments ---


def test_arguments_left_alone_give_the_result(learner):
    assert assert_arguments_unchanged(learner.spoil, "nothing", X) == "nothing"
    assert assert_arguments_unchanged(learner.spoil, "nothing", x=torch.full((2, 3), math.nan)) == "nothing"
    assert assert_arguments_unchanged(learner.spoil, "nothing", [1, [X]]) == "nothing"
    assert assert_arguments_unchanged(learner.spoil, "nothing", Stream([1])) == "nothing"
    assert assert_arguments_unchanged(learner.spoil, "nothing", learner.returns("object")) == "nothing"


@pytest.mark.parametrize(
    ("how", "x", "sentence"),
    [
        ("value", X, "spoil changed its argument 2 in place, first at [1, 2]"),
        ("shape", X, "spoil changed the shape or dtype of its argument 2 in place"),
        ("scalar", torch.tensor(1.0), "spoil changed its argument 2 in place"),
        ("list", [1, 2], "spoil changed its argument 2 in place"),
    ],
)
def test_changed_arguments_are_told(learner, how, x, sentence):
    assert said(assert_arguments_unchanged, learner.spoil, how, x) == sentence
    assert said(assert_arguments_unchanged, learner.spoil, how, x=x) == sentence.replace("argument 2", "`x`")


# --- faults of a test, and no verdict ---


def test_a_suites_mistakes_are_not_the_learners():
    with pytest.raises(AuthoringError, match="use assert_equal"):
        assert_close("a", "a")
    with pytest.raises(AuthoringError, match="no tolerance for float8_e5m2"):
        assert_close(X.to(torch.float8_e5m2), X.to(torch.float8_e5m2))


def test_a_test_can_fail_and_abstain_in_its_own_words():
    assert said(fail, "The mask is upside down.") == "The mask is upside down."
    with pytest.raises(NotAssessed, match="needs a GPU"):
        not_assessed("needs a GPU")


def test_plain_data_may_be_drawn_too():
    def drawn(yours, right):
        return f"{yours} beside {right}"

    assert_equal([1, 2], [1, 2], picture=drawn)
    with pytest.raises(Mistake) as caught:
        assert_equal([1, [2]], [1, [3]], what="the steps", picture=drawn)
    mistake = caught.value
    assert (str(mistake), mistake.expected) == ("the steps[1][0] is 2", "expected 3")
    assert mistake.picture == "[1, [2]] beside [1, [3]]" and not mistake.open_picture


def test_no_words_are_looked_for_where_nobody_reads_them(monkeypatch):
    def explain(*_):
        raise AssertionError("explained")

    def draw(*_):
        raise AssertionError("drawn")

    monkeypatch.setattr(checks, "explain_values", explain)
    right = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    for check in (checks.assert_close, checks.assert_equal):
        with checks.without_words(), pytest.raises(checks.Mistake, match=r"^the output is wrong$"):
            check(right * 2, right, picture=draw)
        with checks.without_words():
            check(right.clone(), right)
        with pytest.raises(AssertionError, match="drawn"):
            check(right * 2, right, picture=draw)
        with pytest.raises(AssertionError, match="explained"):
            check(right * 2, right)
