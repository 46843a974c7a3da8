"""Which processes are there, for tests of what is left behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


def descendants(pid: int) -> Iterator[int]:
    """The numbers of all processes below one."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parent = int(entry.joinpath("stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            continue
        if parent == pid:
            yield int(entry.name)
            yield from descendants(int(entry.name))


def runs(pid: int) -> bool:
    """Whether a process is there and has not ended: one that only waits to be reaped has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
