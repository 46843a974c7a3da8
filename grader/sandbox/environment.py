"""The environment variables of every process of the grader. Imports nothing heavy: it is needed before torch is imported."""

from __future__ import annotations

import ctypes
import gc
import os

KEPT = frozenset(
    (
        *("PATH", "HOME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "CI"),
        "PYTHONPATH",  # where clusters keep their packages
        *("LADDER_MAKE", "TERM", "COLORTERM", "COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR"),
        "WATCHFILES_FORCE_POLLING",  # where no news of changed files come: network drives, containers
    )
)
MARK = "ATTENTION_LADDER_ENVIRONMENT"
SET = {
    MARK: "clean",
    "OMP_NUM_THREADS": "1",  # a forked OpenMP or BLAS pool hangs
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "MALLOC_MMAP_THRESHOLD_": "131072",  # big tensors are mapped one by one: peak memory is repeatable
}


def clean_environment() -> dict[str, str]:
    """What the grader's processes start with: tokens and passwords of the caller's do not get near learner code."""
    kept = {name: value for name, value in os.environ.items() if name in KEPT or name.startswith("LC_")}
    return kept | SET


def is_clean() -> bool:
    """Whether this process was started with that environment."""
    return os.environ.get(MARK) == SET[MARK]


M_MMAP_THRESHOLD, M_TRIM_THRESHOLD = -3, -1
LARGEST = 32 << 20  # bytes; the most that glibc takes
GC_THRESHOLDS = 20_000, 10, 10  # instead of 700: objects that were made before somebody looks


def trade_memory_for_time() -> None:
    """For a process whose memory nobody measures, once its zygote is forked, if it has one: a tensor takes memory that another gave
    back, and not pages that the kernel has to clear, which is a fifth of the CPU time of some suites; and torch's own 200,000 objects
    are not looked through for garbage every few seconds, which is a tenth."""
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # not glibc
        return
    mallopt(M_MMAP_THRESHOLD, LARGEST)
    mallopt(M_TRIM_THRESHOLD, 8 * LARGEST)
