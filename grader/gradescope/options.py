"""Owns what an instructor decides about one assignment: written into the autograder's zip, read at every run."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

OPTIONS_FILE = "options.json"  # beside run_autograder, so that it can be changed without building anew

Visibility = Literal["visible", "after_due_date", "after_published", "hidden"]
VISIBILITIES: tuple[str, ...] = Visibility.__args__  # type: ignore[attr-defined]


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One assignment."""

    exercises: list[str]  # their files' names
    visibility: Visibility = "visible"  # of what gives points; the public examples are always visible
    leaderboard: bool = True  # tokens per second of the learner's own model, where exercises 14 and 15 are right
    accept_unofficial: bool = False  # give points although hostile code could get out of this machine's sandbox
    minutes: float = 10.0  # Gradescope's limit for one run


class OptionsError(Exception):
    """Options that cannot be used: says which and why."""


def read_options(path: Path) -> Options:
    """The options of this autograder."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Options)
    except OSError as error:
        raise OptionsError(f"{path.name} cannot be read: {error.strerror or error}") from None
    except (msgspec.MsgspecError, ValueError) as error:
        raise OptionsError(f"{path.name} is not as it should be: {error}") from None
