"""Compares a learner's module with the reference, and says which submodule is the first to differ."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import torch

from grader.sandbox.remote import LearnerError, Remote, RemoteModule, Submodule

from .checks import Mistake, all_close, assert_close

MODULE_TOLERANCE = 1e-4  # whole modules add up the rounding of many operations

PerSide = Callable[[Remote], dict[str, Any]]


def assert_module_close(
    module: RemoteModule,
    right: RemoteModule,
    *arguments: Any,
    what: str = "the output",
    tolerance: float = MODULE_TOLERANCE,
    per_side: PerSide | None = None,
    **keywords: Any,
) -> Any:
    """The learner's `module` gives what the reference's gives on the same arguments; returns the learner's output.

    `per_side` makes keywords that belong to one side, such as a cache: it is called with that side's remote before every run.
    """

    def mine(one: RemoteModule) -> dict[str, Any]:
        return {**keywords, **(per_side(Remote(one._session)) if per_side else {})}

    expected = right(*arguments, **mine(right))
    actual = module(*arguments, **mine(module))
    try:
        assert_close(actual, expected, what=what, tolerance=tolerance)
    except Mistake as mistake:
        where = None
        try:
            where = first_difference(
                module.submodules(*arguments, **mine(module)), right.submodules(*arguments, **mine(right)), tolerance
            )
        except LearnerError:  # it cannot be looked into: a second call raises, or a hook does
            pass
        raise (mistake.with_note(where) if where else mistake) from None
    return actual


def first_difference(yours: list[Submodule], theirs: list[Submodule], tolerance: float) -> str | None:
    """A sentence on the first submodule, in the reference's order, whose output differs, or that is given something else."""
    runs: dict[str, list[Submodule]] = defaultdict(list)
    for part in yours:
        runs[part.name].append(part)
    found = False
    for right in theirs:
        if not runs[right.name]:
            continue
        found = True
        mine = runs[right.name].pop(0)
        if _same(mine.outputs, right.outputs, tolerance):
            continue
        if mine.inputs and right.inputs and not _same(mine.inputs[:1], right.inputs[:1], tolerance):
            return f"`{right.name}` is the first part that is given another input than it should get"
        return f"`{right.name}` is the first part whose output differs"
    return "every part gives the right output: look at what happens between them" if found else None


def _same(ones: list[torch.Tensor], others: list[torch.Tensor], tolerance: float) -> bool:
    if len(ones) != len(others):
        return False
    for one, other in zip(ones, others, strict=True):
        if one.shape != other.shape or one.dtype != other.dtype:
            return False
        if not other.is_floating_point():
            if not torch.equal(one, other):
                return False
        elif not all_close(one, other, tolerance):
            return False
    return True


def assert_chunks_close(
    actual: list[Any], expected: list[Any], *, what: str = "the output of chunk", tolerance: float = MODULE_TOLERANCE
) -> None:
    """Outputs of calls that follow one another on one cache; says whether the mistake begins where the cache is used."""
    for index, (one, other) in enumerate(zip(actual, expected, strict=True)):
        try:
            assert_close(one, other, what=f"{what} {index + 1}", tolerance=tolerance)
        except Mistake as mistake:
            raise (mistake.with_note("right until the cache is used") if index else mistake) from None
