"""Says in words what a call did, where it took too much time or memory: operations, bytes, and the line with the largest tensor.

Counted in the learner's own process, which could lie: it explains a verdict that was reached without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from grader.sandbox.client import WorkerGone
from grader.sandbox.remote import ForbiddenCall, LearnerError, RemoteFunction, RemoteModule, Session


class Largest(msgspec.Struct, frozen=True):
    """The largest new tensor of a call."""

    bytes: int
    operation: str
    shape: list[int]
    line: str  # "line 12 of ex09_flash.py", or nothing


class Costs(msgspec.Struct, frozen=True):
    """What one call did."""

    operations: int  # of torch
    bytes: int  # of new tensors
    calls: int  # of functions, in Python
    largest: Largest


def costs_of(function: RemoteFunction | RemoteModule, arguments: Sequence[Any], keywords: dict[str, Any]) -> Costs | None:
    """Run it once more and count; None if it cannot be run again. Leaves no trace in its session."""
    session = function._session
    trace, watch = list(session.trace), session.watch
    session.watch = None
    try:
        return msgspec.convert(_ask(session, function, arguments, keywords), Costs)
    except (LearnerError, ForbiddenCall, WorkerGone, msgspec.ValidationError):
        return None
    finally:
        session.trace[:], session.watch = trace, watch


def _ask(session: Session, function: RemoteFunction | RemoteModule, arguments: Sequence[Any], keywords: dict[str, Any]) -> Any:
    if isinstance(function, RemoteFunction):
        return session.ask("account", function.what, arguments=tuple(arguments), keywords=keywords, **function._target)
    return session.ask("account", "account", arguments=tuple(arguments), keywords=keywords, handle=function._handle.number)


def memory_note(costs: Costs | None) -> str | None:
    """Which operation made the largest tensor."""
    if costs is None or not costs.largest.bytes:
        return None
    largest = costs.largest
    where = f" in {largest.line}" if largest.line else ""
    return f"the largest tensor, {largest.shape} with {size(largest.bytes)}, is made by `{largest.operation}`{where}"


def speed_note(mine: Costs | None, right: Costs | None) -> str | None:
    """What was done more often than the reference does it, the most telling figure first."""
    if mine is None or right is None:
        return None
    pairs = [
        (mine.operations, right.operations, f"{mine.operations} torch operations, the reference {right.operations}"),
        (mine.bytes, right.bytes, f"{size(mine.bytes)} of new tensors, the reference {size(right.bytes)}"),
        (mine.calls, right.calls, f"{mine.calls} calls of functions, the reference {right.calls}"),
    ]
    told = sorted((pair for pair in pairs if pair[0] > 1.5 * max(pair[1], 1)), key=lambda pair: -pair[0] / max(pair[1], 1))
    return f"counted while it ran: {told[0][2]}" if told else None


def size(count: int) -> str:
    """Bytes for people."""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if count >= unit:
            return f"{count / unit:.3g} {name}"
    return f"{count} bytes"
