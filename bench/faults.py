"""Kills everything that can be killed while a class is graded, and compares with a run in peace.

    python bench/faults.py [--exercise EX] [--size 200] [--seed N]

Two runs with faults: on this machine (a runner, a zygote and the command itself), and on Dask (a runner, a worker and the scheduler).
What must come out: no result is lost, none is written twice, and all scores are those of the run in peace.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from cluster import ROOT, Dask, below, grade_command, load, name_of, write_class

RUNNER = "grader.grading.runner"


class Writes(threading.Thread):
    """Notes every time that a result file is written: each is a new file that takes the place of an old one."""

    def __init__(self, out: Path) -> None:
        super().__init__(daemon=True)
        self.out, self.seen, self.over = out, set(), threading.Event()

    def run(self) -> None:
        while not self.over.wait(0.02):
            self.look()

    def look(self) -> None:
        """What is there now."""
        for path in self.out.glob("*/ex*.json"):
            with contextlib.suppress(OSError):
                status = path.stat()
                self.seen.add((path.parent.name, status.st_ino, status.st_mtime_ns))

    def counts(self) -> Counter[str]:
        """How often each student's result was written."""
        self.look()
        return Counter(student for student, *_ in self.seen)


def scores(out: Path) -> dict[str, object]:
    """By student: points and the outcome of each test."""
    found = {}
    for path in sorted(out.glob("*/ex*.json")):
        result = json.loads(path.read_text())
        found[path.parent.name] = (result["status"], result["points"], [(one["id"], one["outcome"]) for one in result["tests"]])
    return found


def runners(pid: int) -> list[int]:
    """The grading processes below a command or a worker."""
    return [one for one in below(pid) if f"-m {RUNNER}" in name_of(one) and RUNNER not in name_of(parent(one))]


def parent(pid: int) -> int:
    """Of a process."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def kill(pids: list[int], what: str, log: list[str]) -> None:
    """SIGKILL to one of them."""
    if pids:
        with contextlib.suppress(OSError):
            os.kill(random.choice(pids), signal.SIGKILL)
            log.append(what)


def grade(command: list[str], faults: list[tuple[int, Callable[[subprocess.Popen], None]]], writes: Writes) -> None:
    """Run a command until it has come to its end, and do what is due whenever so many results are there."""
    todo = sorted(faults, key=lambda one: one[0])
    while True:
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        while process.poll() is None:
            if todo and len(writes.counts()) >= todo[0][0]:
                todo.pop(0)[1](process)
            time.sleep(0.05)
        if process.returncode != -signal.SIGKILL:
            break
    if process.returncode:
        raise SystemExit(f"grade ended with {process.returncode}:\n{process.stdout.read()}")
    if todo:
        raise SystemExit(f"{len(todo)} faults were never due: too few submissions")


def report(name: str, log: list[str], writes: Writes, right: dict[str, object], out: Path) -> None:
    """One line: what was killed, and what came of it."""
    writes.over.set()
    counts, found = writes.counts(), scores(out)
    twice = sum(count - 1 for count in counts.values())
    lost = len(set(right) - set(found))
    other = [student for student in found if found[student] != right.get(student)]
    print(
        f"{name:8s} {', '.join(f'{count} x {what}' for what, count in Counter(log).items()):64s} {lost:5d} {twice:6d} {len(other):6d}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--exercise", default="06")
    parser.add_argument("--size", type=int, default=200)
    parser.add_argument("--seed", type=int, default=20260101)
    options = parser.parse_args()
    from grader.course import load_course

    exercise, size = load_course(ROOT).exercise(options.exercise), options.size
    print(f"{load()}, exercise {exercise.label}, {size} submissions\n")
    print(f"where    killed {'':57s} lost  twice  other scores")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_class(folder / "class", exercise.file, size)
        common = ("--seed", options.seed, "--jobs", 2)

        def start(name: str) -> tuple[list[str], Writes, Path, list[str]]:
            out = folder / name
            writes = Writes(out)
            writes.start()
            return grade_command(folder / "class", out, exercise.label, *common), writes, out, []

        command, writes, peace, log = start("peace")
        grade(command, [], writes)
        right = scores(peace)
        report("here", log, writes, right, peace)

        command, writes, out, log = start("here")
        zygotes = lambda pid: [one for runner in runners(pid) for one in below(runner) if parent(one) == runner]  # noqa: E731
        grade(
            command,
            [
                (size // 8, lambda process: kill(runners(process.pid), "runner", log)),
                (size // 4, lambda process: kill(zygotes(process.pid), "zygote", log)),
                (size // 2, lambda process: kill([process.pid], "command", log)),
                (5 * size // 8, lambda process: kill(runners(process.pid), "runner", log)),
                (3 * size // 4, lambda process: kill(zygotes(process.pid), "zygote", log)),
            ],
            writes,
        )
        report("here", log, writes, right, out)

        dask = Dask(folder)
        try:
            dask.add_worker()
            dask.add_worker()

            def lose_worker(_: subprocess.Popen) -> None:
                kill([dask.workers[0].pid], "worker", log)
                dask.workers.pop(0).wait()
                dask.add_worker()

            def lose_scheduler(_: subprocess.Popen) -> None:
                kill([dask.scheduler.pid], "scheduler", log)
                dask.scheduler.wait()
                dask.scheduler = dask.start_scheduler()
                for worker in dask.workers:  # they leave when their scheduler does; a cluster manager starts new ones
                    worker.kill()
                    worker.wait()
                dask.workers.clear()
                dask.add_worker()
                dask.add_worker()

            command, writes, out, log = start("dask")
            grade(
                [*command, "--scheduler", str(dask.file)],
                [
                    (size // 8, lambda _: kill(runners(dask.workers[0].pid), "runner", log)),
                    (size // 4, lose_worker),
                    (size // 2, lose_scheduler),
                    (3 * size // 4, lambda process: kill([process.pid], "command", log)),
                ],
                writes,
            )
            report("Dask", log, writes, right, out)
        finally:
            dask.end()


if __name__ == "__main__":
    main()
