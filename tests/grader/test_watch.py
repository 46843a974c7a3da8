"""`watch`, driven through a terminal as a learner would: how files are saved, what is interrupted, what is left behind."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from grader.authoring.kit import make_kit
from grader.course import Course
from grader.watching.interrupts import Interrupts, Outdated
from grader.watching.saves import Saves
from tests.grader.small_course import BASE, DOUBLE, QUADRUPLE, ROOT, TOP, write_course

PATIENCE = 90.0  # seconds, on a busy machine
WRONG = DOUBLE.replace("2 * x", "3 * x")
LOOP = "def double(x):\n    while True:\n        pass\n"
ROWS, COLUMNS = 24, 80


# --- files ---


@pytest.fixture
def saves(tmp_path) -> Iterator[Callable[[], set[str]]]:
    """Follows tmp_path/here; each call waits for news and returns the files' names."""
    folder = tmp_path / "here"
    folder.mkdir()
    (folder / "a.py").write_text("1")
    told: list[float] = []
    with Saves([folder], lambda path: path.suffix == ".py", lambda: told.append(time.monotonic())) as following:
        time.sleep(0.3)  # the system takes a moment before it tells what happens

        def news(seconds: float = 20.0) -> set[str]:
            following.wait(seconds)
            return {path.name for path in following.take()}

        yield news


def test_a_file_is_noticed_however_it_is_saved(saves, tmp_path):
    folder = tmp_path / "here"
    (folder / "a.py").write_text("2")
    assert saves() == {"a.py"}
    (folder / ".a.py.swp").write_text("3")
    (folder / ".a.tmp").write_text("3")
    os.replace(folder / ".a.tmp", folder / "a.py")
    assert saves() == {"a.py"}
    os.rename(folder / "a.py", folder / "a.py~")  # an editor that keeps a backup
    (folder / "a.py").write_text("4")
    assert saves() == {"a.py"}
    (folder / "a.py").unlink()
    assert saves() == {"a.py"}
    (folder / "b.py").write_text("new")
    assert saves() == {"b.py"}


def test_what_changes_nothing_is_no_news(saves, tmp_path):
    folder = tmp_path / "here"
    (folder / "a.py").write_text("1")
    os.utime(folder / "a.py")
    (folder / "notes.txt").write_text("x")
    assert saves(1.5) == set()


def test_a_run_is_ended_once_and_nothing_outside_of_it():
    with Interrupts() as interrupts:
        interrupts.interrupt()
        time.sleep(0.05)
        with pytest.raises(Outdated), interrupts.run():
            threading.Timer(0.05, interrupts.interrupt).start()
            try:
                time.sleep(20)
            finally:
                interrupts.interrupt()
                time.sleep(0.05)  # a second one must not disturb the tidying up
        with pytest.raises(Outdated), interrupts.run():
            with contextlib.suppress(BaseException):
                interrupts.interrupt()
                time.sleep(20)
            interrupts.check()  # whoever swallowed it cannot go on
        assert not interrupts.ended
        with pytest.raises(KeyboardInterrupt), interrupts.run():
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(20)
        assert interrupts.ended


# --- the command ---


class Terminal:
    """A command in a terminal of its own."""

    def __init__(self, *command: str, folder: Path) -> None:
        self.pid, self._master = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.execve(command[0], command, {**os.environ, "TERM": "xterm", "LADDER_MAKE": ""})
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self._output = ""
        self.code: int | None = None
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        with contextlib.suppress(OSError):
            while data := os.read(self._master, 65536):
                self._output += data.decode("utf-8", "replace")

    @property
    def screen(self) -> str:
        """What has been printed since the screen was last cleared, without colours."""
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self._output.rpartition("\x1b[2J")[2]).replace("\r\n", "\n")

    def verdict(self, *words: str) -> str:
        """Wait for a whole verdict that holds these words."""
        return self.wait(lambda screen: "The next save is checked" in screen and all(word in screen for word in words))

    def wait(self, arrived: Callable[[str], bool], seconds: float = PATIENCE) -> str:
        end = time.monotonic() + seconds
        while not arrived(screen := self.screen):
            assert time.monotonic() < end, f"it never came:\n{screen}"
            time.sleep(0.01)
        return screen

    def key(self, keys: bytes) -> None:
        os.write(self._master, keys)

    def modes(self) -> list:
        return termios.tcgetattr(self._master)

    def end(self) -> int:
        """Wait for the end; the exit code."""
        end = time.monotonic() + PATIENCE
        while self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.code = os.waitstatus_to_exitcode(status)
            else:
                assert time.monotonic() < end, f"it does not end:\n{self.screen}"
                time.sleep(0.02)
        return self.code

    def everything(self) -> str:
        return self._output

    def left(self) -> list[str]:
        """The processes of this session that are still there."""
        found = subprocess.run(["ps", "-s", str(self.pid), "-o", "stat=,pid=,args="], capture_output=True, text=True).stdout
        return [line for line in found.splitlines() if not line.startswith("Z")]

    def kill(self) -> None:
        if self.code is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)


@pytest.fixture
def place(tmp_path) -> Path:
    """A small course with the grader in it, as a learner's folder is."""
    write_course(tmp_path)
    shutil.copytree(ROOT / "grader", tmp_path / "grader", ignore=shutil.ignore_patterns("__pycache__"))
    course = tmp_path / "course.toml"
    course.write_text(course.read_text().replace("call_seconds = 2.0", "call_seconds = 300.0").replace("= 30.0", "= 600.0"))
    return tmp_path


@pytest.fixture
def watching(place) -> Iterator[Callable[..., Terminal]]:
    """Starts `watch` in a terminal."""
    terminals = []

    def start(*arguments: str, folder: Path = place) -> Terminal:
        terminals.append(Terminal(sys.executable, "-m", "grader", "watch", *arguments, folder=folder))
        return terminals[-1]

    yield start
    for terminal in terminals:
        terminal.kill()


def replace(path: Path, text: str) -> None:
    """Save as many editors do: a new file, renamed."""
    path.with_name(".new").write_text(text)
    os.replace(path.with_name(".new"), path)


@pytest.mark.timeout(400)
def test_a_learner_gets_a_verdict_at_every_save(watching, place):
    file = place / "exercises" / f"{BASE}.py"
    terminal = watching("01")
    terminal.verdict("Not started")
    before = terminal.modes()
    file.write_text(WRONG)
    screen = terminal.verdict("1 of 4 points", "Is that twice?", "Stuck?", "s after the save")
    assert len(screen.split("\n")) <= ROWS and max(map(len, screen.split("\n"))) <= COLUMNS
    replace(file, "def double(x:\n")
    terminal.verdict("SyntaxError", "line 1")
    file.unlink()
    terminal.verdict("There is nothing to check")
    replace(file, DOUBLE)
    terminal.verdict("4 of 4 points", "All done. Next: exercise 02")
    size = len(terminal.everything())
    replace(file, DOUBLE)  # nothing new in it
    (place / "exercises/notes.txt").write_text("x")
    time.sleep(1.5)
    assert len(terminal.everything()) == size
    for number in range(6):  # in quick succession: the last one counts
        file.write_text(f"# {number}\n" + WRONG)
        time.sleep(0.05)
    replace(file, LOOP)
    terminal.wait(lambda screen: "is being checked" in screen)
    time.sleep(0.5)
    replace(file, DOUBLE)  # interrupts what would wait for minutes
    terminal.verdict("4 of 4 points")
    replace(file, LOOP)
    terminal.wait(lambda screen: "is being checked" in screen)
    time.sleep(0.5)
    terminal.key(b"\x03")
    assert terminal.end() == 0
    assert "Traceback" not in terminal.everything() and "no answer within" not in terminal.everything()
    assert terminal.modes() == before and terminal.left() == []


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_what_failed_is_run_first_and_told_at_once(watching, place):
    suite = place / "tests/hidden" / f"test_{BASE}.py"
    slow = '\n\n@points(1, "shape")\ndef test_waits(learner):\n    """It takes its time."""\n    import time; time.sleep(3)\n'
    suite.write_text(suite.read_text().replace('@points(1, "shape")', '@points(0.5, "shape")') + slow.replace("(1,", "(0.5,"))
    text = suite.read_text()
    head, *tests = text.split("\n\n@points")
    suite.write_text("\n\n@points".join([head, *tests[::-1]]))  # the slow test comes first in the file
    file = place / "exercises" / f"{BASE}.py"
    file.write_text(WRONG)
    terminal = watching("01")
    terminal.verdict("1 of 4 points")
    replace(file, "# still\n" + WRONG)
    early = terminal.wait(lambda screen: "The rest is being checked" in screen)
    assert "not yet" in early and "of 4 points" not in early
    terminal.verdict("1 of 4 points")
    replace(file, DOUBLE)
    terminal.wait(lambda screen: "what failed before passes now" in screen)
    terminal.verdict("4 of 4 points")


@pytest.mark.timeout(400)
def test_a_save_and_ctrl_c_need_not_wait_for_what_chaffs_answer(watching, place):
    for number in range(100):  # more than anybody's patience
        text = (
            f'"""Slow?"""\n\nCATEGORY = "numerics"\n\n\ndef double(x):\n    import time; time.sleep(1)\n    return {number} * x\n'
        )
        (place / f"solutions/chaffs/{BASE}/slow{number}.py").write_text(text)
    file = place / "exercises" / f"{BASE}.py"
    file.write_text(DOUBLE)
    terminal = watching("01")
    terminal.verdict("4 of 4 points")
    time.sleep(0.5)
    replace(file, "# again\n" + DOUBLE)
    terminal.verdict("4 of 4 points", "s after the save")
    time.sleep(0.5)
    terminal.key(b"\x03")
    assert terminal.end() == 0 and "Traceback" not in terminal.everything() and terminal.left() == []


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_without_an_exercise_it_follows_the_saved_one_and_the_files_it_builds_on(watching, place):
    terminal = watching()
    terminal.wait(lambda screen: "Waiting for the first save" in screen)
    time.sleep(0.5)
    replace(place / "exercises" / f"{BASE}.py", WRONG)
    terminal.verdict("Exercise 01", "1 of 4 points")
    replace(place / "exercises" / f"{TOP}.py", QUADRUPLE)
    terminal.verdict("Exercise 02", "6 of 6 points", "Graded on right code for the earlier exercises")
    terminal.key(b"\x03")
    assert terminal.end() == 0

    terminal = watching("2")
    terminal.verdict("Exercise 02")
    replace(place / "exercises" / f"{BASE}.py", DOUBLE)
    screen = terminal.verdict("Exercise 02", "6 of 6 points", "s after the save")
    assert "Graded on right code" not in screen
    terminal.key(b"\x03")
    assert terminal.end() == 0 and terminal.left() == []


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_what_is_right_is_timed_last(watching, place):
    suite, course = place / "tests/hidden" / f"test_{BASE}.py", place / "course.toml"
    timed = """


@points(0.5, "speed")
def test_fast(learner, judge):
    \"\"\"It doubles once.\"\"\"
    judge(learner.double, lambda: (randn(200, 300),))
"""
    suite.write_text(suite.read_text().replace('@points(1, "shape")', '@points(0.5, "shape")') + timed)
    anchor = '[[exercise.timed]]\ntest = "test_fast"\ntitle = "Once"\nnames = ["double"]\npoints = 0.5\n'
    anchor += 'cpu = { slow = "over_and_over", size = 1, gap = 3.0 }\n\n[[exercise]]\nnumber = 2'
    course.write_text(course.read_text().replace("[[exercise]]\nnumber = 2", anchor))
    slow = DOUBLE.replace("    return", "    for _ in range(400):\n        x = x + 1 - 1\n    return")
    chaff = slow.replace('"""Base."""', '"""How often?"""\n\nCATEGORY = "speed"')
    (place / "solutions/chaffs" / BASE / "over_and_over.py").write_text(chaff)
    file = place / "exercises" / f"{BASE}.py"
    file.write_text(DOUBLE)
    terminal = watching("01")
    early = terminal.wait(lambda screen: "is being measured" in screen)
    assert "it is timed once everything else is right" in early and "All done" not in early
    terminal.verdict("4 of 4 points", "times the reference's time")
    replace(file, slow)
    terminal.verdict("3.5 of 4 points", "How often?")
    replace(file, "# again\n" + slow)
    terminal.wait(lambda screen: "is being measured" in screen)
    replace(file, DOUBLE)  # interrupts the measurement, whose workers are ended
    terminal.verdict("4 of 4 points", "times the reference's time")
    terminal.key(b"\x03")
    assert terminal.end() == 0 and "Traceback" not in terminal.everything() and terminal.left() == []


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_watch_works_in_a_kit(watching, course: Course, tmp_path):
    kit = tmp_path / "kit"
    files = make_kit(course, kit)
    assert {"grader/watching/__init__.py", "grader/watching/saves.py", "grader/watching/watch.py"} <= set(files)
    terminal = watching("06", folder=kit)
    terminal.verdict("Not started")
    replace(kit / "exercises/ex06_repeat_kv.py", (ROOT / "solutions/chaffs/ex06_repeat_kv/tiles_heads.py").read_text())
    terminal.verdict("of 5 examples", "expected")
    terminal.key(b"\x03")
    assert terminal.end() == 0 and "Traceback" not in terminal.everything()


def test_a_folder_without_exercises_is_told(place, watching):
    shutil.rmtree(place / "exercises")
    terminal = watching("01")
    terminal.wait(lambda screen: "there is no such folder to watch" in screen.replace("\n", " "))  # the end may be seen before it
    assert terminal.end() == 2
