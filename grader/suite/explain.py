"""Says in what way a wrong tensor is wrong, where it is a way that people know: axes swapped, a constant factor, one row. Looks at
nothing but the two tensors, and tells no value that is expected."""

from __future__ import annotations

import itertools

import torch

MAX_VALUES = 1 << 20  # larger tensors are not looked into
MAX_AXES = 5
SAMPLE = 64  # values of a slice that are looked at first
MAX_SLICES = 32  # along an axis whose slices may have changed places


def explain_shape(actual: torch.Tensor, expected: torch.Tensor, tolerance: float) -> str | None:
    """What a tensor of another shape has to do with the right one: the same values, arranged otherwise."""
    if actual.numel() != expected.numel() or not _small(expected) or not _varied(expected):
        return None
    if actual.dim() == expected.dim():
        swapped = _swapped(actual, expected, tolerance)
        if swapped:
            return swapped
    if _close(actual.reshape(expected.shape), expected, tolerance):
        return "the values are right, in another shape"
    return None


def explain_values(actual: torch.Tensor, expected: torch.Tensor, tolerance: float) -> str | None:
    """What wrong values of the right shape and dtype have to do with the right ones."""
    if not _small(expected) or expected.numel() < 2 or expected.dtype in (torch.complex64, torch.complex128):
        return None
    if expected.dtype == torch.bool:
        return "every value is the opposite" if torch.equal(actual, ~expected) else _places(actual != expected)
    one, other = actual.to(torch.float64), expected.to(torch.float64)
    if not (one.isfinite() & other.isfinite()).all():
        return _places(~same_places(one, other, tolerance))
    if not one.any() and other.any():
        return "every value is 0"
    return (
        _places(~same_places(one, other, tolerance)) or (_varied(expected) and _rearranged(actual, expected, tolerance)) or None
    )


def explain_nan(bad: torch.Tensor) -> str | None:
    """Where NaN stands, beyond its first place."""
    if bad.dim() == 0 or bad.numel() < 2:
        return None
    if bad.all():
        return "all of it is"
    places = _places(bad)
    if places:
        return "everything else is a number" if not places.startswith("everything") else places.replace("right", "a number")
    if bad.dim() > 1 and torch.equal(bad.any(-1), bad.all(-1)):
        return "always whole rows of the last axis"
    return None


def _small(tensor: torch.Tensor) -> bool:
    return 0 < tensor.numel() <= MAX_VALUES and tensor.dim() <= MAX_AXES


def _varied(expected: torch.Tensor) -> bool:
    """Whether a rearrangement could be noticed at all."""
    return bool((expected != expected.flatten()[0]).any())


def _limit(other: torch.Tensor, tolerance: float) -> float:
    finite = other[other.isfinite()].abs()
    return tolerance * max(1.0, finite.max().item() if finite.numel() else 1.0)


def _within(one: torch.Tensor, other: torch.Tensor, limit: float) -> torch.Tensor:
    return ((one - other).abs() <= limit) | (one == other) | (one.isnan() & other.isnan())


def same_places(one: torch.Tensor, other: torch.Tensor, tolerance: float) -> torch.Tensor:
    """Where two wide tensors are as good as equal, with `tolerance` relative to max(1, the largest of `other`).

    A NaN equals a NaN, an infinity the same infinity, and neither equals anything else.
    """
    return _within(one, other, _limit(other, tolerance))


def _close(actual: torch.Tensor, expected: torch.Tensor, tolerance: float) -> bool:
    if actual.dtype.is_complex or expected.dtype.is_complex:
        return False
    return bool(same_places(actual.to(torch.float64), expected.to(torch.float64), tolerance).all())


def _rearranged(actual: torch.Tensor, expected: torch.Tensor, tolerance: float) -> str | None:
    one, other = actual.to(torch.float64), expected.to(torch.float64)
    return _swapped(actual, expected, tolerance) or _moved(one, other, tolerance) or _scaled(one, other, tolerance)


def _swapped(actual: torch.Tensor, expected: torch.Tensor, tolerance: float) -> str | None:
    for order in itertools.permutations(range(actual.dim())):
        if list(order) == sorted(order) or [actual.shape[axis] for axis in order] != list(expected.shape):
            continue
        if _close(actual.permute(order), expected, tolerance):
            moved = [axis for axis in range(len(order)) if order[axis] != axis]
            if len(moved) == 2:
                return f"the values are right, but axes {moved[0]} and {moved[1]} are swapped"
            return "the values are right, but the axes are in another order"
    return None


def _places(wrong: torch.Tensor) -> str | None:
    """Whether all mistakes lie in the first, or the last, position of an axis."""
    if wrong.dim() > 1 and int(wrong.sum()) < 2:  # a single place says it all
        return None
    for axis in range(wrong.dim()):
        size = wrong.shape[axis]
        if size < 3:
            continue
        hit = wrong.movedim(axis, 0).flatten(1).any(1) if wrong.dim() > 1 else wrong
        if int(hit.sum()) != 1 or not (hit[0] or hit[-1]) or 2 * int(wrong.sum()) * size < wrong.numel():
            continue  # not one position, one in the middle, or little of it
        return f"everything is right except at the {'first' if hit[0] else 'last'} position of axis {axis}"
    return None


def _moved(one: torch.Tensor, other: torch.Tensor, tolerance: float) -> str | None:
    """Whether the slices along one axis changed places."""
    for axis in range(one.dim()):
        size = one.shape[axis]
        if not 1 < size <= MAX_SLICES:
            continue
        if same_places(one.flip(axis), other, tolerance).all():
            return f"the values are right, but axis {axis} runs backwards"
        yours, theirs = one.movedim(axis, 0).reshape(size, -1), other.movedim(axis, 0).reshape(size, -1)
        matches = _matches(yours, theirs, _limit(other, tolerance))
        if (matches.sum(0) == 1).all() and (matches.sum(1) == 1).all():
            return f"the slices along axis {axis} are right, but in another order"
        for step in (1, -1):
            if size > 3 and matches.diagonal(step).all():
                way = "late" if step == -1 else "early"
                return f"along axis {axis} everything comes one position too {way}"
    return None


def _matches(yours: torch.Tensor, theirs: torch.Tensor, limit: float) -> torch.Tensor:
    """Which slice [yours, theirs, -1] equals which; where a few values of each already tell that hardly any does, these are enough."""
    step = -(-yours.shape[1] // SAMPLE)
    rough = _within(yours[:, None, ::step], theirs[None, :, ::step], limit).all(-1)
    if step == 1 or int(rough.sum()) < len(yours) - 1:
        return rough
    return _within(yours[:, None], theirs[None], limit).all(-1)


def _scaled(one: torch.Tensor, other: torch.Tensor, tolerance: float) -> str | None:
    """A constant factor, or a constant that was added."""
    square = (other * other).sum()
    if square > 0:
        factor = ((one * other).sum() / square).item()
        if abs(factor) > 1e-6 and f"{factor:.2g}" != "1" and same_places(one / factor, other, tolerance).all():
            if abs(factor + 1) < 1e-3:
                return "every value has the wrong sign"
            return f"every value is about {factor:.2g} times what it should be: a constant factor"
    offset = (one - other).mean().item()
    if other.numel() > 2 and same_places(one - offset, other, tolerance).all():
        return f"every value is too {'large' if offset > 0 else 'small'} by the same amount: a constant was added"
    return None
