"""What several test modules share: one sandbox (a zygote imports torch once) and the real course."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from grader.course import Course
    from grader.sandbox.client import Sandbox

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def sandbox() -> Iterator[Sandbox]:
    """The best isolation of this machine, from a clean zygote: the process of the tests holds secrets."""
    from grader.sandbox.client import Sandbox

    with Sandbox("auto", start="spawn") as sandbox:
        yield sandbox


@pytest.fixture(scope="session")
def course() -> Course:
    """The course of this repository."""
    from grader.course import load_course

    return load_course(ROOT)
