"""Remembers which timed tests this machine cannot tell, as `python -m grader calibrate` found out. Measures nothing itself.

One file per user and machine, outside every course's folder: `calibration.json` in `$XDG_CACHE_HOME/attention-ladder`. A file
from other hardware or another torch counts for nothing.
"""

from __future__ import annotations

import functools
import os
import platform
from pathlib import Path

import msgspec
import torch

from .result import write_atomically


class Calibrated(msgspec.Struct, frozen=True, kw_only=True):
    """What was found out about one timed test."""

    gap: float | None  # slow anchor / reference, median
    off: str | None  # why it is not judged here; None: it is
    when: str  # UTC, ISO 8601


class Calibration(msgspec.Struct, kw_only=True):
    """What was found out on one machine."""

    host: str
    tests: dict[str, Calibrated] = {}  # by "exercise device test"


def calibration_path() -> Path:
    """Where it lies."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(cache, "attention-ladder", "calibration.json")


@functools.cache
def host() -> str:
    """What decides about times here: machine, cores and torch."""
    name = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), name)
    except OSError:
        pass
    return f"{platform.node()}, {name}, {os.cpu_count()} cores, torch {torch.__version__}"


def read_calibration() -> Calibration:
    """That of this machine; an empty one if there is none, or none that can be used."""
    try:
        found = msgspec.json.decode(calibration_path().read_bytes(), type=Calibration)
    except (OSError, msgspec.MsgspecError, ValueError, RecursionError):
        return Calibration(host=host())
    return found if found.host == host() else Calibration(host=host())


def write_calibration(calibration: Calibration) -> Path:
    """Replace it; an OSError says why that cannot be done."""
    path = calibration_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, msgspec.json.format(msgspec.json.encode(calibration), indent=1) + b"\n")
    return path


def entry(exercise: str, device: str, test: str) -> str:
    """The key of one test."""
    return f"{exercise} {device} {test}"


def switched_off(exercise: str, device: str) -> dict[str, str]:
    """The tests of an exercise that are not judged here, and why."""
    start = entry(exercise, device, "")
    found = read_calibration().tests
    return {name.removeprefix(start): one.off for name, one in found.items() if name.startswith(start) and one.off}
