"""Peak memory of one call in a worker, read from the kernel, outside the worker."""

from __future__ import annotations

from typing import Any

import torch

from grader.sandbox.client import Worker, WorkerGone
from grader.sandbox.remote import Observation, RemoteFunction, RemoteModule, RemoteObject

from .checks import fail, not_assessed
from .diagnosis import PEAK, MeasuredPeak
from .inputs import AuthoringError
from .process import LearnerProcess

LATE_BYTES = 1 << 20  # what sending a result may take besides a copy of it


class KeptResult(RemoteObject):
    """A measured result: it is looked at once, and must not be made only then."""

    def __init__(self, kept: RemoteObject, worker: Worker, peak: int) -> None:
        super().__init__(kept._session, kept._handle, kept._what)
        self._worker, self._peak = worker, peak

    def fetch(self) -> Any:
        """The result as plain data; to send it, the worker may copy it once."""
        value = super().fetch()
        size = value.numel() * value.element_size() if isinstance(value, torch.Tensor) else 0
        late = self._worker.memory("VmPeak") or self._peak
        if late - self._peak > size + LATE_BYTES and isinstance(value, torch.Tensor):
            fail(f"{self._what} does its work only when the result is looked at")
        return value


class Peak(int):
    """Bytes by which the worker grew during a call; `result` is what the call left there."""

    result: RemoteObject


class PeakMemory:
    """The `peak_memory` fixture: each measurement in a worker that never held much more memory before."""

    def __init__(self, process: LearnerProcess | None) -> None:
        """`process` holds the code; None where it shares the grader's process, and nothing can be measured."""
        self._process = process
        self._used = False
        self.measured = False
        self.asked: tuple[RemoteFunction | RemoteModule, tuple, dict] | None = None  # for an explanation

    def __call__(self, function: RemoteFunction | RemoteModule, *arguments: Any, **keywords: Any) -> Peak:
        """Call `function` and keep its result there: peak bytes on top of what was held, the result included."""
        if self._used and self._process is not None:
            ours = (*arguments, *keywords.values())
            if isinstance(function, RemoteModule) or function.is_held or any(isinstance(one, RemoteObject) for one in ours):
                raise AuthoringError(
                    "a second measurement may have a worker of its own: no object of the first one can be part of it"
                )
            self._process.renew(even_alive=self._process.has_peaked())
        self._used = True
        self.asked = function, arguments, keywords
        session = function._session
        held = session.ask("hold", "arguments", arguments=arguments)
        session.ask("hold", "nothing", arguments=())  # until the next request the worker may still hold the last one's bytes
        worker = self._process.worker if self._process is not None else None
        before = worker.explained_memory() if worker else None
        if before is None:
            not_assessed("memory can only be measured on Linux, outside the worker")
        result = function.keep(*held, **keywords)
        after = worker.memory("VmPeak")
        if after is None:
            raise WorkerGone("the code ended its own process before its memory could be measured")
        self.measured = True
        peak = Peak(max(0, after - before))
        peak.result = KeptResult(result, worker, after)
        session.observe(Observation(PEAK, value=MeasuredPeak(int(peak))))
        return peak
