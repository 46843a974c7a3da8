"""On which cores processes may run, where the system lets that be said (Linux); elsewhere nothing happens."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterable


def cores() -> frozenset[int]:
    """The cores that this thread may run on; empty where they cannot be told."""
    return frozenset(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else frozenset()


def here() -> frozenset[int]:
    """The core that this thread runs on, which the kernel chose when it last woke it; empty where it cannot be told."""
    try:
        core = ctypes.CDLL(None).sched_getcpu()
    except (AttributeError, OSError):
        return frozenset()
    return frozenset({core}) & cores()


def stay(processes: Iterable[int], where: frozenset[int]) -> None:
    """Keep processes (0 is this thread) on some cores. One that has ended, or is not ours to move, is left alone."""
    if not where:
        return
    for process in set(processes):
        with contextlib.suppress(OSError):
            os.sched_setaffinity(process, where)
