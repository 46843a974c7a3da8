"""Which of two processes runs which test of a suite. Holds numbers only, and runs nothing."""

from __future__ import annotations

import fcntl
import mmap
import struct
import tempfile
from collections.abc import Iterator, Sequence

ROOM = 4096  # tests of one suite
NUMBER = struct.Struct("q")  # of the run, at the beginning of the page
SEEN, TAKEN = NUMBER.size, NUMBER.size + 1
PASSED, OWNER = TAKEN + ROOM, TAKEN + 2 * ROOM
LEADER, PARTNER = 1, 2


class Board:
    """A page that a process and its fork both see: whoever takes a test first runs it.

    Where the same inputs come again, a test goes to whoever had it then, since what references and chaffs answered is known
    there; to the other only when that one has nothing else left to do.
    """

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # also a lock, which the kernel takes from whoever dies
        self._file.truncate(OWNER + ROOM)
        self._page = mmap.mmap(self._file.fileno(), OWNER + ROOM)
        self._of: object = None

    def begin(self, of: object) -> int:
        """A new run; its number. `of` says what it is about: tests keep their owners only as long as that is the same."""
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX)
            number = NUMBER.unpack_from(self._page)[0] + 1
            NUMBER.pack_into(self._page, 0, number)
            self._page[SEEN:OWNER] = bytes(OWNER - SEEN)
            if of != self._of:
                self._page[OWNER:] = bytes(ROOM)
            self._of = of
        finally:
            self.let_go()
        return number

    def end(self) -> None:
        """Nothing more of the last run is to be taken."""
        self.begin(self._of)

    def take(self, run: int, side: int, test: int, *, leftover: bool) -> bool:
        """Whether a test is this side's to run; `leftover`: even if it was the other's."""
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX)  # in here: an interruption that follows at once must not leave it locked
            if NUMBER.unpack_from(self._page)[0] != run or self._page[TAKEN + test]:
                return False
            if not leftover and self._page[OWNER + test] not in (0, side):
                return False
            self._page[TAKEN + test], self._page[OWNER + test] = 1, side
            return True
        finally:
            self.let_go()

    def note(self, run: int, place: int) -> None:
        """Set a mark that both see, for this run."""
        if NUMBER.unpack_from(self._page)[0] == run:
            self._page[place] = 1

    def is_noted(self, place: int) -> bool:
        """Whether one of the two has set it."""
        return bool(self._page[place])

    def let_go(self) -> None:
        """Whoever was interrupted holds nothing that the other waits for."""
        fcntl.lockf(self._file, fcntl.LOCK_UN)


class Share:
    """One side's part in one run."""

    def __init__(self, board: Board, run: int, side: int) -> None:
        self._board, self._run, self._side = board, run, side

    def mine(self, tests: Sequence[int]) -> Iterator[tuple[int, bool]]:
        """The tests in the order in which this side is to go through them, and whether each is its own: taken at the moment when it
        is asked for."""
        for leftover in (False, True):
            for test in tests:
                yield test, self._board.take(self._run, self._side, test, leftover=leftover)

    def note_passed(self, test: int) -> None:
        """A test of this side has passed."""
        self._board.note(self._run, PASSED + test)

    def has_passed(self, test: int) -> bool:
        """Whether a test has passed, on either side."""
        return self._board.is_noted(PASSED + test)

    def note_seen(self) -> None:
        """A forbidden call was seen."""
        self._board.note(self._run, SEEN)

    def was_seen(self) -> bool:
        """Whether one was seen, on either side."""
        return self._board.is_noted(SEEN)
