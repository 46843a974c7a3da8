"""What runs inside a Dask worker: it keeps resident runners as child processes and passes tasks on to them.

No learner code, no suite and no torch is ever in the Dask worker itself. The course is the one beside this file.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from .local import Runner
from .protocol import Died, Finished, Job, Refused, Task
from .version import Version, version_of

ROOT = Path(__file__).resolve().parents[2]

_lock = threading.Lock()
_idle: list[tuple[str, Runner]] = []  # batch, runner
_busy: set[Runner] = set()
# The kernel ends a runner when the thread that started it ends, and Dask's own threads come and go: this one stays.
_starter = ThreadPoolExecutor(1, thread_name_prefix="runners")


class Differs(msgspec.Struct, frozen=True):
    """This machine would grade otherwise than the batch's: how."""

    differences: list[str]


@functools.cache
def version_here() -> Version:
    """Read once per process: whoever updates a course starts the workers anew."""
    return version_of(ROOT)


def differs(version: Version) -> Differs | None:
    """Whether this worker can take part in a batch of that version."""
    try:
        found = version.differences(version_here())
    except Exception as error:  # no course there, or no torch: said in the error's words
        found = [f"{type(error).__name__}: {error}"]
    return Differs(found) if found else None


def grade_task(batch: str, job: Job, version: Version, task: Task) -> Finished | Died | Refused | Differs:
    """Have one task graded by a runner of this batch."""
    if (problem := differs(version)) is not None:
        return problem
    runner = _take(batch, job)
    try:
        answer = runner.answer(task)
    except BaseException:
        _end(runner)
        raise
    if isinstance(answer, Finished):
        with _lock:
            _busy.discard(runner)
            _idle.append((batch, runner))
    else:
        _end(runner)
    return answer


def _take(batch: str, job: Job) -> Runner:
    """An idle runner of this batch or a new one; those of other batches have nothing to do here any more."""
    with _lock:
        old = [runner for name, runner in _idle if name != batch]
        mine = [runner for name, runner in _idle if name == batch]
        runner = mine.pop() if mine else None
        _idle[:] = [(batch, one) for one in mine]
    for other in old:
        other.say_goodbye()
        other.end(1.0)
    if runner is None:
        runner = _starter.submit(Runner, msgspec.structs.replace(job, root=ROOT)).result()
    with _lock:
        _busy.add(runner)
    return runner


def _end(runner: Runner) -> None:
    with _lock:
        _busy.discard(runner)
    with contextlib.suppress(OSError):
        runner.end()


def end_runners() -> None:
    """End all that this process started."""
    with _lock:
        runners = [*_busy, *(runner for _, runner in _idle)]
        _busy.clear()
        _idle.clear()
    for runner in runners:
        with contextlib.suppress(OSError):
            runner.end()


atexit.register(end_runners)
