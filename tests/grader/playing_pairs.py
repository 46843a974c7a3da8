"""A process that grades with a `Pair`, for tests of it: to be forked, it must hold no threads, which pytest's processes may.

    python -m tests.grader.playing_pairs FOLDER SCENARIO

FOLDER holds a small course; its hidden tests note in FOLDER/log who ran them. Prints what came of it as JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch  # noqa: F401 - before the fork

from grader.sandbox.client import Sandbox
from grader.watching.pair import Channel, Pair
from tests.grader.processes import descendants, runs


class Desk:
    """A grader of which a pair runs the suites."""

    def __init__(self, folder: Path, pair: Pair, sandbox: Sandbox) -> None:
        from grader.course import load_course
        from grader.grading.grade import Grader
        from grader.submission import own_submission

        self.folder, self.pair = folder, pair
        course = load_course(folder)
        self.exercise, self.files = course.exercise(1), own_submission(folder).file
        self.grader = Grader(course, sandbox, remember=True, runs=pair)

    def grade(self, *, untimed: str | None = "not now", **options: Any) -> dict[str, Any]:
        """The result, and who ran each hidden test."""
        (self.folder / "log").write_text("")
        result = self.grader.grade(self.exercise, self.files, seed=5, own=True, untimed=untimed, **options)
        return {
            "status": result.status,
            "reason": result.reason,
            "points": result.points,
            "outcomes": [test.outcome for test in result.tests],
            "diagnoses": [test.diagnosis for test in result.tests],
            "hints": [test.hint for test in result.tests],
            "output": result.output,
            "who": self.who(),
        }

    def who(self) -> dict[str, str]:
        """Which of the two ran which hidden test."""
        lines = (line.split() for line in (self.folder / "log").read_text().splitlines())
        return {name: "first" if int(pid) == os.getpid() else "second" for pid, name in lines}


def twice(desk: Desk) -> list[Any]:
    """The same again."""
    return [desk.grade(), desk.grade()]


def interrupted(desk: Desk) -> list[Any]:
    """The first process is interrupted while the second waits for something that never comes; then a whole run."""

    def interrupt(record: Any, diagnosis: str | None) -> None:
        while "second" not in desk.who().values():
            time.sleep(0.01)
        raise KeyboardInterrupt

    try:
        desk.grade(watcher=interrupt)
    except KeyboardInterrupt:
        (desk.folder / "go").touch()
        return ["interrupted", desk.grade()]
    return ["not interrupted"]


def never_sent(desk: Desk) -> list[Any]:
    """The first process is interrupted just before the second hears of the run; then a whole run."""
    send = Channel.send

    def interrupt(*_: Any) -> None:
        Channel.send = send
        raise KeyboardInterrupt

    Channel.send = interrupt
    try:
        desk.grade()
    except KeyboardInterrupt:
        return ["interrupted", desk.grade()]
    return ["not interrupted"]


def told(desk: Desk) -> list[Any]:
    """What the watcher hears of."""
    heard: list[list[Any]] = []
    first = frozenset(f"hidden::test_{number}" for number in range(4))
    result = desk.grade(first=first, watcher=lambda record, diagnosis: heard.append([record.id, record.outcome, diagnosis]))
    return [result, heard]


def rehearsed(desk: Desk) -> list[Any]:
    """A rehearsal in both, then a run."""
    (desk.folder / "log").write_text("")
    desk.grader.rehearse(desk.exercise, desk.files, 5, lambda: False)
    return [desk.who(), desk.grade()]


def timed(desk: Desk) -> list[Any]:
    """With and without a clock."""
    return [desk.grade(untimed=None), desk.grade()]


SCENARIOS: dict[str, Callable[[Desk], list[Any]]] = {
    "twice": twice,
    "interrupted": interrupted,
    "never sent": never_sent,
    "told": told,
    "rehearsed": rehearsed,
    "timed": timed,
}


def main() -> None:
    """Play one scenario."""
    folder, scenario = Path(sys.argv[1]), sys.argv[2]
    if "--one-core" in sys.argv:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
    os.environ["FIRST"] = str(os.getpid())
    with Pair("auto") as pair, Sandbox("auto", start="fork") as sandbox:
        found = SCENARIOS[scenario](Desk(folder, pair, sandbox))
    print(json.dumps({"found": found, "left": [pid for pid in descendants(os.getpid()) if runs(pid)]}))


if __name__ == "__main__":
    main()
