"""A class of any size, a local Dask cluster and the processes below one: what `scale.py` and `faults.py` share."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
TICKS = os.sysconf("SC_CLK_TCK")


def write_class(folder: Path, exercise: str, size: int) -> None:
    """A class of which half is right: wheats and chaffs in turns."""
    right = [ROOT / f"solutions/{exercise}.py", *sorted((ROOT / f"solutions/wheats/{exercise}").glob("*.py"))]
    wrong = sorted((ROOT / f"solutions/chaffs/{exercise}").glob("*.py"))
    for number in range(size):
        some = wrong if number % 2 else right
        path = folder / f"student{number:05d}" / f"{exercise}.py"
        path.parent.mkdir(parents=True)
        shutil.copy(some[number // 2 % len(some)], path)


def stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the state on; empty when there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def below(pid: int) -> Iterator[int]:
    """The processes that one has started, and those that these have."""
    parents = {int(path.name): stat(int(path.name)) for path in Path("/proc").glob("[0-9]*")}
    found = [pid]
    while found:
        parent = found.pop()
        children = [child for child, fields in parents.items() if fields and int(fields[1]) == parent]
        yield from children
        found += children


def cpu_seconds(pid: int) -> float:
    """CPU time of a process, of all below it and of those that these have outlived."""
    fields = [stat(one) for one in (pid, *below(pid))]
    return sum(sum(map(int, one[11:15])) for one in fields if one) / TICKS


def name_of(pid: int) -> str:
    """The command line of a process."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


class Dask:
    """A scheduler and workers of one thread each on this machine."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.file = folder, folder / "scheduler.json"
        self.environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        self.workers: list[subprocess.Popen] = []
        self.scheduler = self.start_scheduler()

    def _start(self, command: str, *options: object) -> subprocess.Popen:
        arguments = [sys.executable, "-m", f"distributed.cli.dask_{command}", "--no-dashboard", *map(str, options)]
        return subprocess.Popen(
            arguments, cwd=self.folder, env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def start_scheduler(self) -> subprocess.Popen:
        """A new one, at the old address if there was one."""
        port = json.loads(self.file.read_text())["address"].rpartition(":")[2] if self.file.exists() else "0"
        self.file.unlink(missing_ok=True)
        process = self._start("scheduler", "--host", "127.0.0.1", "--port", port, "--scheduler-file", self.file)
        while not self.file.exists() or not self.file.stat().st_size:
            time.sleep(0.05)
        return process

    def add_worker(self, *options: object) -> None:
        """One more."""
        more = ("--nthreads", 1, "--no-nanny", "--local-directory", self.folder / "scratch", *options)
        self.workers.append(self._start("worker", "--scheduler-file", self.file, *more))

    def end(self) -> None:
        """End everything."""
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait()


def grade_command(submissions: Path, out: Path, exercise: str, *more: object) -> list[str]:
    """`grade`, as an instructor types it."""
    return [sys.executable, "-m", "grader", "grade", *map(str, (submissions, "--out", out, "--exercises", exercise, *more))]


def load() -> str:
    """The machine's, for the head of a table."""
    return f"load {os.getloadavg()[0]:.2f} on {os.cpu_count()} cores, Python {sys.version.split()[0]}"
