"""On which cores processes run, where the system lets that be said (Linux); elsewhere nothing happens."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path


def cores() -> frozenset[int]:
    """The cores that this thread may run on; empty where they cannot be told."""
    return frozenset(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else frozenset()


@contextlib.contextmanager
def own_core() -> Iterator[frozenset[int]]:
    """A core that no other process keeps in this way meanwhile, best the one where this thread is; empty if there is none."""
    here = _here()
    with contextlib.ExitStack() as stack:
        for core in sorted(cores(), key=lambda core: core != here):
            try:
                # A file for each core and user: the kernel lets go of it when its holder dies.
                path = Path(tempfile.gettempdir(), f"attention-ladder-core-{os.getuid()}-{core}.lock")
                file = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_NONBLOCK | os.O_NOFOLLOW, 0o600)
                stack.callback(os.close, file)
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:  # somebody has it, or put something else in its place
                continue
            yield frozenset({core})
            return
        yield frozenset()


def stay(processes: Iterable[int], where: frozenset[int]) -> None:
    """Keep processes (0 is this thread) on some cores. One that has ended, or is not ours to move, is left alone."""
    if not where:
        return
    for process in set(processes):
        with contextlib.suppress(OSError):
            os.sched_setaffinity(process, where)


def _here() -> int:
    try:
        return ctypes.CDLL(None).sched_getcpu()
    except (AttributeError, OSError):
        return -1
