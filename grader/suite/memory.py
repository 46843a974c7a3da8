"""Peak memory of one call in a worker, read from the kernel, outside the worker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from grader.sandbox.client import Worker, WorkerGone
from grader.sandbox.remote import Observation, RemoteFunction, RemoteModule, RemoteObject

from .checks import not_assessed
from .diagnosis import PEAK, MeasuredPeak
from .inputs import AuthoringError


class Peak(int):
    """Bytes by which the worker grew during a call; `result` is what the call left there."""

    result: RemoteObject


class PeakMemory:
    """The `peak_memory` fixture: one measurement per test, in a worker that did nothing else before."""

    def __init__(self, worker: Callable[[], Worker | None]) -> None:
        self._worker = worker
        self._used = False

    def __call__(self, function: RemoteFunction | RemoteModule, *arguments: Any, **keywords: Any) -> Peak:
        """Call `function` and keep its result there: peak bytes on top of what was held, the result included."""
        if self._used:
            raise AuthoringError("peak_memory measures once per test; parametrize the test for more")
        self._used = True
        session = function._session
        held = session.ask("hold", "arguments", arguments=arguments)
        session.ask("hold", "nothing", arguments=())  # until the next request the worker may still hold the last one's bytes
        worker = self._worker()
        before = worker.memory("VmSize") if worker else None
        if before is None:
            not_assessed("memory can only be measured on Linux, outside the worker")
        result = function.keep(*held, **keywords)
        after = worker.memory("VmPeak")
        if after is None:
            raise WorkerGone("the code ended its own process before its memory could be measured")
        peak = Peak(max(0, after - before))
        peak.result = result
        session.observe(Observation(PEAK, value=MeasuredPeak(int(peak))))
        return peak
