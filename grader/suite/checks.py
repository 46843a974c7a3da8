"""What a test may assert, each with the sentence that a learner reads. Never names an expected value of a hidden test."""

from __future__ import annotations

from typing import Any, NoReturn

import torch

from grader.sandbox.remote import LearnerError, RemoteFunction, RemoteIterator, RemoteModule, RemoteObject

from .inputs import AuthoringError, describe

# Largest error allowed, relative to the larger of 1 and the expected output's largest value. float64 input may be computed
# in float32 (a contract of the course); integers and bool are compared exactly.
TOLERANCE: dict[torch.dtype, float] = {
    torch.float64: 1e-5,
    torch.float32: 1e-5,
    torch.float16: 5e-3,
    torch.bfloat16: 3e-2,
}


class Mistake(AssertionError):
    """A test failed through the learner's code; `str` is what was seen, in a learner's words.

    `expected` may hold what a public example should have given; it is never set from a hidden test's data by the runner.
    """

    def __init__(self, message: str, expected: str | None = None) -> None:
        super().__init__(message)
        self.expected = expected


class NotAssessed(Exception):
    """The test cannot be judged on this machine; `str` says why."""


def fail(sentence: str) -> NoReturn:
    """Fail the test with a sentence for the learner."""
    raise Mistake(sentence)


def not_assessed(reason: str) -> NoReturn:
    """Leave the test out of the score: it cannot be judged here."""
    raise NotAssessed(reason)


def _dtype(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _type_name(value: Any) -> str:
    if value is None:
        return "None"
    if isinstance(value, RemoteObject):
        return f"a {value.type_name}"
    if isinstance(value, tuple):
        return f"a tuple of {len(value)}"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if isinstance(value, torch.Tensor):
        return "a tensor"
    return f"a {type(value).__name__}"


def _as_tensor(actual: Any, what: str) -> torch.Tensor:
    if isinstance(actual, torch.Tensor):
        return actual
    hint = ""
    if actual is None:
        hint = ". Is a `return` missing?"
    elif isinstance(actual, RemoteIterator):
        hint = ". Does it `yield` where it should `return`?"
    elif isinstance(actual, RemoteModule):
        hint = ". Was the module called?"
    raise Mistake(f"{what} is {_type_name(actual)}, not a tensor{hint}")


def assert_shape(actual: Any, shape: tuple[int, ...] | list[int], *, what: str = "the output") -> None:
    """`actual` is a tensor of this shape."""
    tensor = _as_tensor(actual, what)
    if list(tensor.shape) != list(shape):
        same = sorted(tensor.shape) == sorted(shape)
        raise Mistake(
            f"{what} has shape {list(tensor.shape)}, not {list(shape)}" + (": the same axes in another order" if same else "")
        )


def _same_kind(actual: Any, expected: torch.Tensor, what: str) -> torch.Tensor:
    tensor = _as_tensor(actual, what)
    assert_shape(tensor, tuple(expected.shape), what=what)
    if tensor.dtype != expected.dtype:
        raise Mistake(f"{what} has dtype {_dtype(tensor.dtype)}, not {_dtype(expected.dtype)}")
    return tensor


def _where(mask: torch.Tensor) -> list[int]:
    return mask.nonzero()[0].tolist() if mask.dim() else []


def _show(value: torch.Tensor) -> str:
    item = value.item()
    return f"{item:.5g}" if isinstance(item, float) else str(item)


def _mismatch(tensor: torch.Tensor, expected: torch.Tensor, wrong: torch.Tensor, what: str) -> Mistake:
    place = _where(wrong)
    count, total = int(wrong.sum()), wrong.numel()
    yours = tensor[tuple(place)]
    many = f"{count} of {total} values of {what} are wrong" if total > 1 else f"{what} is wrong"
    first = f"{'the first ' if count > 1 else ''}at {place}" if place else ""
    seen = f"{many}{', ' + first if first else ''}: yours is {_show(yours)}"
    return Mistake(seen, expected=f"expected {_show(expected[tuple(place)])}")


def assert_close(actual: Any, expected: Any, *, what: str = "the output", tolerance: float | None = None) -> None:
    """Same type, shape and dtype as the reference's tensor (or tuple or list of tensors, or float), and close values.

    `tolerance` replaces the table's figure; it is relative to max(1, largest expected value).
    """
    if isinstance(expected, tuple | list):
        if not isinstance(actual, tuple | list) or len(actual) != len(expected):
            raise Mistake(f"{what} is {_type_name(actual)}, not {_type_name(expected)}")
        for index, (one, other) in enumerate(zip(actual, expected, strict=True)):
            assert_close(one, other, what=f"{what}[{index}]", tolerance=tolerance)
        return
    if isinstance(expected, float):
        if isinstance(actual, bool) or not isinstance(actual, int | float):
            raise Mistake(f"{what} is {_type_name(actual)}, not a float")
        actual, expected = torch.tensor(float(actual), dtype=torch.float64), torch.tensor(expected, dtype=torch.float64)
    if not isinstance(expected, torch.Tensor):
        raise AuthoringError(f"assert_close expects a tensor, not {describe(expected)}; use assert_equal")
    tensor = _same_kind(actual, expected, what)
    if not expected.dtype.is_floating_point and not expected.dtype.is_complex:
        assert_equal(tensor, expected, what=what)
        return
    bad = tensor.isnan() & ~expected.isnan()
    if bad.any():
        raise Mistake(f"{int(bad.sum())} of {bad.numel()} values of {what} are NaN, the first at {_where(bad)}")
    if not expected.numel():
        return
    wide, reference = tensor.double(), expected.double()
    finite = reference[reference.isfinite()].abs()
    scale = max(1.0, finite.max().item() if finite.numel() else 1.0)
    limit = (TOLERANCE[expected.dtype] if tolerance is None else tolerance) * scale
    same = (wide - reference).abs() <= limit
    same |= (wide == reference) | (wide.isnan() & reference.isnan())
    if not same.all():
        raise _mismatch(tensor, expected, ~same, what)


def assert_equal(actual: Any, expected: Any, *, what: str = "the output") -> None:
    """The very same plain data; tensors bit for bit in values, with shape and dtype."""
    if isinstance(expected, torch.Tensor):
        tensor = _same_kind(actual, expected, what)
        wrong = tensor != expected
        if expected.dtype.is_floating_point:
            wrong &= ~(tensor.isnan() & expected.isnan())
        if wrong.any():
            raise _mismatch(tensor, expected, wrong, what)
        return
    if type(actual) is not type(expected):
        raise Mistake(f"{what} is {_type_name(actual)}, not {_type_name(expected)}")
    if actual != expected:
        raise Mistake(f"{what} is {describe(actual)}", expected=f"expected {describe(expected)}")


def assert_value_error(function: RemoteFunction, *arguments: Any, naming: str, **keywords: Any) -> None:
    """The call must raise a ValueError whose message holds `naming`, the name of the bad argument."""
    try:
        result = function(*arguments, **keywords)
    except LearnerError as error:
        if error.type == "NotImplementedError":
            raise
        if not error.is_a("ValueError"):
            raise Mistake(f"{function.what} raised {error.type} where a bad {naming} asks for ValueError") from None
        if naming.lower() not in error.message.lower():
            raise Mistake(
                f"the ValueError does not name the bad argument `{naming}`; it says {describe(error.message)}"
            ) from None
        return
    raise Mistake(f"a bad {naming} was accepted: no ValueError, {_type_name(result)} came back")


def assert_arguments_unchanged(function: RemoteFunction, *arguments: Any, **keywords: Any) -> Any:
    """Call it, and compare the arguments with what they were; the result is returned, to be checked too."""
    result, after, after_keywords = function.arguments_after(*arguments, **keywords)
    pairs = [(f"argument {index + 1}", before, now) for index, (before, now) in enumerate(zip(arguments, after, strict=False))]
    pairs += [(f"`{name}`", before, after_keywords.get(name)) for name, before in keywords.items()]
    for name, before, now in pairs:
        if not isinstance(before, torch.Tensor):
            continue
        if not isinstance(now, torch.Tensor) or now.shape != before.shape or now.dtype != before.dtype:
            raise Mistake(f"{function.what} changed the shape or dtype of its {name} in place")
        wrong = (now != before) & ~((now != now) & (before != before))
        if wrong.any():
            raise Mistake(f"{function.what} changed its {name} in place, first at {_where(wrong)}")
    return result
