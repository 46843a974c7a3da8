"""What a test may assert, each with the sentence that a learner reads. Never names an expected value of a hidden test."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import torch

from grader.sandbox.client import Stream
from grader.sandbox.remote import LearnerError, RemoteFunction, RemoteIterator, RemoteModule, RemoteObject

from .explain import explain_nan, explain_shape, explain_values, same_places
from .inputs import AuthoringError, describe
from .pictures import Picture

# Largest error allowed, relative to the larger of 1 and the expected output's largest value. float64 input may be computed
# in float32 (a contract of the course); integers and bool are compared exactly.
TOLERANCE: dict[torch.dtype, float] = {
    torch.complex128: 1e-5,
    torch.complex64: 1e-5,
    torch.float64: 1e-5,
    torch.float32: 1e-5,
    torch.float16: 5e-3,
    torch.bfloat16: 3e-2,
}


class Mistake(AssertionError):
    """A test failed through the learner's code; `str` is what was seen, in a learner's words.

    `expected` and `picture` may hold what a public example should have given; of a hidden test, a learner sees neither, but the
    picture of a mask (`open_picture`).
    """

    def __init__(
        self, message: str, expected: str | None = None, *, picture: str | None = None, open_picture: bool = False
    ) -> None:
        super().__init__(message)
        self.expected, self.picture, self.open_picture = expected, picture, open_picture

    def with_note(self, note: str) -> Mistake:
        """The same mistake with a second sentence."""
        return Mistake(f"{self}; {note}", self.expected, picture=self.picture, open_picture=self.open_picture)


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
    if isinstance(value, tuple | list):
        return f"a {type(value).__name__} of {len(value)}"
    if isinstance(value, torch.Tensor):
        return "a tensor"
    name = value.type_name if isinstance(value, RemoteObject) else type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def _as_tensor(actual: Any, what: str) -> torch.Tensor:
    if isinstance(actual, torch.Tensor):
        return actual
    hint = ""
    if actual is None and "gradient" in what:
        raise Mistake(f"{what} is missing: no gradient flows back that far (is something detached on the way?)")
    if actual is None:
        hint = ". Is a `return` missing?"
    elif isinstance(actual, RemoteIterator):
        hint = ". Does it `yield` where it should `return`?"
    elif isinstance(actual, RemoteModule):
        hint = ". Was the module called?"
    elif isinstance(actual, RemoteObject) and actual.type_name.endswith("Tensor"):
        raise Mistake(f"{what} is a tensor without plain values (sparse, quantized or meta)")
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
    tolerance = max(TOLERANCE.get(tensor.dtype, 0.0), TOLERANCE.get(expected.dtype, 0.0))
    try:
        assert_shape(tensor, tuple(expected.shape), what=what)
    except Mistake as mistake:
        note = explain_shape(tensor, expected, tolerance)
        raise (mistake.with_note(note) if note else mistake) from None
    if tensor.dtype != expected.dtype:
        right = not tensor.dtype.is_complex and not expected.dtype.is_complex and expected.numel() > 0
        right = right and all_close(tensor.to(torch.float64), expected.to(torch.float64), tolerance)
        note = "; the values are right" if right else ""
        raise Mistake(f"{what} has dtype {_dtype(tensor.dtype)}, not {_dtype(expected.dtype)}{note}")
    return tensor


def _where(mask: torch.Tensor) -> list[int]:
    return mask.nonzero()[0].tolist() if mask.dim() else []


def _show(value: torch.Tensor) -> str:
    item = value.item()
    return f"{item:.5g}" if isinstance(item, float) else str(item)


def all_close(actual: torch.Tensor, expected: torch.Tensor, tolerance: float) -> bool:
    """Whether two tensors of the same shape and dtype are as good as equal everywhere; as `close_places`."""
    return torch.equal(actual, expected) or bool(close_places(actual, expected, tolerance).all())


def close_places(actual: torch.Tensor, expected: torch.Tensor, tolerance: float) -> torch.Tensor:
    """Where two tensors of one shape and dtype are as good as equal; as `same_places`, computed in double precision."""
    wide = torch.complex128 if expected.dtype.is_complex else torch.float64
    return same_places(actual.to(wide), expected.to(wide), tolerance)


_silent: list[bool] = []


@contextlib.contextmanager
def without_words() -> Iterator[None]:
    """Meanwhile nobody reads what a wrong tensor's mistake says: to find the words takes longer than to find the mistake."""
    _silent.append(True)
    try:
        yield
    finally:
        _silent.pop()


def _mismatch(
    tensor: torch.Tensor, expected: torch.Tensor, wrong: torch.Tensor, what: str, tolerance: float, picture: Picture | None
) -> Mistake:
    if _silent:
        return Mistake(f"{what} is wrong")
    place = _where(wrong)
    count, total = int(wrong.sum()), wrong.numel()
    yours = tensor[tuple(place)]
    many = f"{count} of {total} values of {what} {'is' if count == 1 else 'are'} wrong" if wrong.dim() else f"{what} is wrong"
    first = f"{'the first ' if count > 1 else ''}at {place}" if place else ""
    seen = f"{many}{', ' + first if first else ''}: yours is {_show(yours)}"
    mistake = Mistake(
        seen,
        expected=f"expected {_show(expected[tuple(place)])}",
        picture=picture(tensor, expected) if picture else None,
        open_picture=expected.dtype == torch.bool,
    )
    note = explain_values(tensor, expected, tolerance)
    return mistake.with_note(note) if note else mistake


def assert_close(
    actual: Any,
    expected: Any,
    *,
    what: str = "the output",
    tolerance: float | None = None,
    picture: Picture | None = None,
) -> None:
    """Same type, shape and dtype as the reference's tensor (or tuple or list of tensors, or float), and close values.

    `tolerance` replaces the table's figure; it is relative to max(1, largest expected value). `picture` draws a wrong tensor beside
    the right one; of hidden tests, only masks are drawn.
    """
    if isinstance(expected, tuple | list):
        if not isinstance(actual, tuple | list) or len(actual) != len(expected):
            raise Mistake(f"{what} is {_type_name(actual)}, not {_type_name(expected)}")
        for index, (one, other) in enumerate(zip(actual, expected, strict=True)):
            assert_close(one, other, what=f"{what}[{index}]", tolerance=tolerance, picture=picture)
        return
    if isinstance(expected, float):
        if isinstance(actual, bool) or not isinstance(actual, int | float):
            raise Mistake(f"{what} is {_type_name(actual)}, not a float")
        actual, expected = torch.tensor(_as_float(actual), dtype=torch.float64), torch.tensor(expected, dtype=torch.float64)
    if not isinstance(expected, torch.Tensor):
        raise AuthoringError(f"assert_close expects a tensor, not {describe(expected)}; use assert_equal")
    tensor = _same_kind(actual, expected, what)
    if not expected.dtype.is_floating_point and not expected.dtype.is_complex:
        assert_equal(tensor, expected, what=what, picture=picture)
        return
    tolerance = TOLERANCE.get(expected.dtype) if tolerance is None else tolerance
    if tolerance is None:
        raise AuthoringError(f"assert_close has no tolerance for {_dtype(expected.dtype)}; give one, or use assert_equal")
    if torch.equal(tensor, expected):
        return
    bad = tensor.isnan() & ~expected.isnan()
    if bad.any():
        count, place = int(bad.sum()), _where(bad)
        if not place:
            raise Mistake(f"{what} is NaN")
        many = f"{count} of {bad.numel()} values of {what} {'is' if count == 1 else 'are'} NaN"
        where = explain_nan(bad)
        raise Mistake(f"{many}, {'the first ' if count > 1 else ''}at {place}{'; ' + where if where else ''}")
    same = close_places(tensor, expected, tolerance)
    if not same.all():
        raise _mismatch(tensor, expected, ~same, what, tolerance, picture)


def _as_float(number: int | float) -> float:
    try:
        return float(number)
    except OverflowError:  # an integer beyond all floats
        return math.inf if number > 0 else -math.inf


def assert_equal(actual: Any, expected: Any, *, what: str = "the output", picture: Picture | None = None) -> None:
    """The very same plain data, types included; tensors equal in shape, dtype and every value, NaN only where it is expected.
    `picture` as in `assert_close`."""
    if isinstance(expected, torch.Tensor):
        tensor = _same_kind(actual, expected, what)
        wrong = tensor != expected
        if expected.dtype.is_floating_point or expected.dtype.is_complex:
            wrong &= ~(tensor.isnan() & expected.isnan())
        if wrong.any():
            raise _mismatch(tensor, expected, wrong, what, 0.0, picture)
        return
    if picture is not None:
        try:
            assert_equal(actual, expected, what=what)
        except Mistake as mistake:
            raise Mistake(str(mistake), mistake.expected, picture=picture(actual, expected)) from None
        return
    if type(actual) is not type(expected):
        raise Mistake(f"{what} is {_type_name(actual)}, not {_type_name(expected)}")
    if isinstance(expected, tuple | list):
        if len(actual) != len(expected):
            if _is_short(actual):
                raise Mistake(f"{what} is {describe(actual)}, {_type_name(actual)}, not of {len(expected)}")
            raise Mistake(f"{what} is {_type_name(actual)}, not {_type_name(expected)}")
        for index, (one, other) in enumerate(zip(actual, expected, strict=True)):
            if type(one) is type(other) and type(one) in _PLAIN:
                if one == other:  # quick: long lists
                    continue
                if _is_short(actual) and len(actual) > 1:
                    raise Mistake(f"{what} is {describe(actual)}, wrong at [{index}]", expected=f"expected {describe(expected)}")
            assert_equal(one, other, what=f"{what}[{index}]")
    elif isinstance(expected, dict):
        if actual.keys() != expected.keys():
            raise Mistake(f"{what} has other keys: {describe(list(actual))}", expected=f"expected {describe(list(expected))}")
        for key, other in expected.items():
            assert_equal(actual[key], other, what=f"{what}[{describe(key)}]")
    elif actual != expected and not (actual != actual and expected != expected):
        raise _difference(actual, expected, what)


_PLAIN = (int, str, bytes, bool)


def _is_short(items: tuple | list) -> bool:
    """A tuple or list that a message can show whole."""
    return len(items) <= 8 and all(type(item) in _PLAIN for item in items) and not describe(items).endswith("...")


def _difference(actual: Any, expected: Any, what: str) -> Mistake:
    """What is seen; of a long text, the part from the first wrong character on."""
    if not isinstance(actual, str | bytes) or len(repr(actual)) <= 60:
        return Mistake(f"{what} is {describe(actual)}", expected=f"expected {describe(expected)}")
    pairs = enumerate(zip(actual, expected, strict=False))
    place = next((index for index, (one, other) in pairs if one != other), min(len(actual), len(expected)))
    unit = "character" if isinstance(actual, str) else "byte"
    there = f"expected {expected[place : place + 40]!r} there" if place < len(expected) else f"expected its end at {place}"
    if place >= len(actual):
        return Mistake(f"{what} ends after {len(actual)} {unit}s, too early", expected=there)
    return Mistake(f"{what} is wrong from {unit} {place} on: {actual[place : place + 40]!r}", expected=there)


def assert_value_error(
    function: RemoteFunction, *arguments: Any, naming: str, values: Sequence[int | float] | None = None, **keywords: Any
) -> None:
    """The call must raise a ValueError whose message holds `naming`, the name of the bad argument, and the bad `values`; None
    means all numbers among the arguments."""
    try:
        result = function(*arguments, **keywords)
    except LearnerError as error:
        if error.type in ("NotImplementedError", "MissingName"):
            raise
        if not error.is_a("ValueError"):
            raise Mistake(f"{function.what} raised {error.type} where a bad {naming} asks for ValueError") from None
        if naming.lower() not in error.message.lower():
            raise Mistake(f"the ValueError does not mention `{naming}`; it says {describe(error.message)}") from None
        for value in (*arguments, *keywords.values()) if values is None else values:
            if type(value) in (int, float) and not re.search(rf"(?<![\w.-]){re.escape(str(value))}(?![\w.])", error.message):
                raise Mistake(
                    f"the ValueError mentions `{naming}`, but not the {value} that was given; it says {describe(error.message)}"
                ) from None
        return
    raise Mistake(f"a bad {naming} was accepted: no ValueError, {_type_name(result)} came back")


def assert_arguments_unchanged(function: RemoteFunction, *arguments: Any, **keywords: Any) -> Any:
    """Call it, and compare the arguments with what they were; the result is returned, to be checked too."""
    result, after, after_keywords = function.arguments_after(*arguments, **keywords)
    if len(after) != len(arguments):
        raise Mistake(f"{function.what} came back with other arguments than it was given")
    pairs = [(f"argument {index + 1}", before, now) for index, (before, now) in enumerate(zip(arguments, after, strict=True))]
    pairs += [(f"`{name}`", before, after_keywords.get(name)) for name, before in keywords.items()]
    for name, before, now in pairs:
        _assert_unchanged(function.what, name, before, now)
    return result


def _assert_unchanged(function: str, name: str, before: Any, now: Any) -> None:
    if isinstance(before, torch.Tensor):
        if not isinstance(now, torch.Tensor) or now.shape != before.shape or now.dtype != before.dtype:
            raise Mistake(f"{function} changed the shape or dtype of its {name} in place")
        wrong = (now != before) & ~((now != now) & (before != before))
        if wrong.any():
            raise Mistake(f"{function} changed its {name} in place{', first at ' + str(_where(wrong)) if wrong.dim() else ''}")
    elif not isinstance(before, RemoteObject | Stream):  # those stay where they are; nothing comes back to compare
        try:
            assert_equal(now, before)
        except Mistake:
            raise Mistake(f"{function} changed its {name} in place") from None
