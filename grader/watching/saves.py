"""Notices that files were saved, however an editor does it. Runs no code and decides nothing about exercises."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from watchfiles import watch

STEP = 25  # milliseconds: so long nothing more must happen before a save counts as one
LONGEST = 400  # milliseconds, though more and more happens
GAP = 0.15  # seconds for which a file may be away while an editor puts another in its place


class Saves:
    """Follows the files of some folders and tells which have another content than before.

    What counts is content: a save that changes nothing, a lock or a backup beside the file tells nothing. `on_save` is called in
    a thread of its own, while what was saved waits for `take`.
    """

    def __init__(self, folders: Iterable[Path], wanted: Callable[[Path], bool], on_save: Callable[[], None]) -> None:
        self._folders, self._wanted, self._on_save = list(folders), wanted, on_save
        self._contents = self._look()
        self._waiting: set[Path] = set()
        self._lock = threading.Lock()
        self._news, self._end = threading.Event(), threading.Event()
        self.problem: OSError | RuntimeError | None = None
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def __enter__(self) -> Saves:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._end.set()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until something was saved; whether it was."""
        return self._news.wait(seconds)

    def take(self) -> set[Path]:
        """What was saved since the last time. Raises what ended the following, if it has ended."""
        with self._lock:
            taken, self._waiting = self._waiting, set()
            self._news.clear()
        if self.problem is not None:
            raise self.problem
        return taken

    def _follow(self) -> None:
        try:
            for _ in watch(
                *self._folders,
                recursive=False,
                step=STEP,
                debounce=LONGEST,
                rust_timeout=1000,  # also a second look, in case that news got lost
                yield_on_timeout=True,
                raise_interrupt=False,
                stop_event=self._end,
                watch_filter=None,
            ):
                self._compare()
        except (OSError, RuntimeError) as error:  # the folder itself is gone, or the system follows no more files
            if not self._end.is_set():
                self.problem = error
                self._news.set()
                self._on_save()

    def _compare(self) -> None:
        now = self._look()
        if set(self._contents) - set(now):
            time.sleep(GAP)
            now = self._look()
        changed = {path for path in {*self._contents, *now} if self._contents.get(path) != now.get(path)}
        self._contents = now
        if changed:
            with self._lock:
                self._waiting |= changed
                self._news.set()
            self._on_save()

    def _look(self) -> dict[Path, bytes]:
        """What is there: a hash of each wanted file's content."""
        found = {}
        for folder in self._folders:
            try:
                for path in folder.iterdir():
                    if self._wanted(path):
                        found[path] = hashlib.sha256(path.read_bytes()).digest()
            except OSError:  # a folder or file that is just being replaced
                continue
        return found
