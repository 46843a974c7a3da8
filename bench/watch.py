"""From saving a file to the verdict on the screen, in `watch`, driven through a terminal.

    python bench/watch.py [EX ...] [--saves N] [--pause SECONDS]

Two times for each save: `first`, until what failed last time is told (or, where nothing failed, the whole verdict), and `whole`,
until all of the suite has run. Saves alternate as a learner's do: two wrong solutions and then a right one, with a pause before
each in which somebody would write, and `watch` sees how chaffs answer.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import pty
import re
import shutil
import signal
import statistics
import struct
import sys
import tempfile
import termios
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EARLY, WHOLE = "The rest is being checked", "The next save is checked"
PATIENCE = 120.0
sys.path.insert(0, str(ROOT))


class Screen:
    """`watch` in a terminal; keeps when each piece of output came."""

    def __init__(self, folder: Path, exercise: str) -> None:
        self.pid, self._master = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.execve(sys.executable, [sys.executable, "-m", "grader", "watch", exercise], {**os.environ, "TERM": "xterm"})
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.pieces: list[tuple[float, str]] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        with contextlib.suppress(OSError):
            while data := os.read(self._master, 65536):
                self.pieces.append((time.perf_counter(), data.decode("utf-8", "replace")))

    def after(self, since: float) -> tuple[float | None, float]:
        """When something was told of the tests that failed, and when the verdict was whole."""
        end = time.monotonic() + PATIENCE
        early = None
        while time.monotonic() < end:
            text = ""
            for when, piece in list(self.pieces):
                if when < since:
                    continue
                text += piece
                plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
                if early is None and EARLY in plain:
                    early = when
                if WHOLE in plain:
                    return early, when
            time.sleep(0.005)
        raise SystemExit(f"no verdict within {PATIENCE:g} s")

    def end(self) -> None:
        """Ctrl-C."""
        os.write(self._master, b"\x03")
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)


def wrong_ones(exercise: str) -> list[Path]:
    """Chaffs that a suite tells from the reference within its first tests as well as its last: every fifth."""
    return sorted((ROOT / f"solutions/chaffs/{exercise}").glob("*.py"))[::5]


def measure(exercise: str, label: str, saves: int, pause: float) -> tuple[list[float], list[float]]:
    """Seconds until the first word and until the whole verdict, of each save."""
    right = ROOT / f"solutions/{exercise}.py"
    wrong = wrong_ones(exercise)
    firsts, wholes = [], []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place, "course")
        shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(".git", ".venv", ".ladder", "__pycache__", "results"))
        for path in (ROOT / "solutions").glob("ex*.py"):
            shutil.copy(path, folder / "exercises")
        file = folder / f"exercises/{exercise}.py"
        screen = Screen(folder, label)
        screen.after(0.0)
        for number in range(saves):
            source = right if number % 3 == 2 else wrong[number % len(wrong)]
            time.sleep(pause)
            content = source.read_bytes() + f"\n# {number}\n".encode()
            start = time.perf_counter()
            file.write_bytes(content)
            early, whole = screen.after(start)
            firsts.append((early or whole) - start)
            wholes.append(whole - start)
        screen.end()
    return firsts, wholes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("exercises", nargs="*", default=["06"])
    parser.add_argument("--saves", type=int, default=12)
    parser.add_argument("--pause", type=float, default=10.0, help="seconds before each save")
    options = parser.parse_args()
    from grader.course import load_course

    course = load_course(ROOT)
    print(
        f"load {os.getloadavg()[0]:.2f} on {os.cpu_count()} cores, {options.saves} saves each, {options.pause:g} s apart; from save to screen\n"
    )
    print("exercise                first: median   slowest     whole: median   slowest")
    for name in options.exercises:
        exercise = course.exercise(name)
        firsts, wholes = measure(exercise.file, exercise.label, options.saves, options.pause)
        middle = [statistics.median(firsts), max(firsts), statistics.median(wholes), max(wholes)]
        print("{:22s} {:14.2f} {:9.2f} {:17.2f} {:9.2f}".format(exercise.file, *middle), flush=True)


if __name__ == "__main__":
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    main()
