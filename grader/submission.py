"""Owns finding and reading what learners handed in: folders and zip archives. Runs no learner code and unpacks nothing.

Layouts, for a class:

    SUBMISSIONS/<student>/exercises/exNN_name.py
    SUBMISSIONS/<student>/exNN_name.py
    SUBMISSIONS/<student>.zip             the same two layouts inside, also within one top folder

Where two files could be meant, the choice is fixed and said in the file's notes:

- `exercises/` before the top, because that is the file which the learner's own `make check` graded;
- a student's folder before a student's archive;
- in an archive that holds a path twice, the last one, which is what unpacking would leave.

Whatever a learner hands in, reading it never raises, never follows a symbolic link and never holds more than a few
megabytes: it gives a `SourceFile` or a `Problem` with a sentence that says what is wrong.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import struct
import unicodedata
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Literal, Protocol

import msgspec

MAX_FILE_BYTES = 1_000_000
MAX_ARCHIVE_BYTES = 50_000_000
MAX_DIRECTORY_BYTES = 2_000_000  # of an archive's list of entries: some twenty thousand of them
MAX_LISTED = 10_000  # names of a folder that are looked through for a hint
IGNORED_FOLDERS = ("__MACOSX", "__pycache__")
OTHER_ARCHIVES = (".tar.gz", ".tar.xz", ".tar.bz2", ".tgz", ".tar", ".rar", ".7z", ".gz")

FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a pipe without a writer must not block


class SubmissionError(Exception):
    """A folder of submissions that cannot be used as one: says which and why."""


class SourceFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file as it was handed in."""

    name: str  # "ex06_repeat_kv"
    content: bytes  # any bytes at all
    place: str  # within the submission: "exercises/ex06_repeat_kv.py"
    notes: tuple[str, ...] = ()  # what else was found and not used


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """Why a file cannot be graded, as a sentence for the learner."""

    kind: Literal["missing", "unreadable"]
    message: str


class Submission(msgspec.Struct, frozen=True, kw_only=True):
    """What one student handed in. Nothing is opened before `file` is called."""

    student: str  # the folder's or archive's name, any Unicode
    key: str  # the same, but never equal to another student's on a file system that ignores case: names their results
    path: Path
    kind: Literal["folder", "zip", "other"]
    notes: tuple[str, ...] = ()

    def file(self, name: str) -> SourceFile | Problem:
        """The file of module `name` ("ex06_repeat_kv" or "config")."""
        if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
            raise ValueError(f"name must be a module's name such as ex06_repeat_kv, got {name!r}")
        try:
            with self._opened() as tree:
                found = _find(tree, name)
        except _Unusable as error:
            found = Problem(kind="unreadable", message=str(error))
        if isinstance(found, SourceFile):
            return msgspec.structs.replace(found, notes=self.notes + found.notes)
        return msgspec.structs.replace(found, message="; ".join([found.message, *self.notes]))

    def other(self, file_name: str, limit: int) -> bytes | Problem:
        """The content of another file at the top or in `exercises/`, such as a notebook, of at most `limit` bytes."""
        try:
            with self._opened() as tree:
                for folder in tree.folders():
                    content = tree.read((*folder, file_name), limit)
                    if content is not None:
                        place = _show(_join((*folder, file_name)))
                        return Problem(kind="unreadable", message=f"{place} {content}") if isinstance(content, str) else content
        except _Unusable as error:
            return Problem(kind="unreadable", message=str(error))
        return Problem(kind="missing", message=f"there is no {_show(file_name)}")

    @contextmanager
    def _opened(self) -> Iterator[_Tree]:
        with ExitStack() as stack:
            if self.kind == "folder":
                yield _Folder(self.path, stack)
            elif self.kind == "zip":
                yield _Archive(self.path, stack)
            else:
                raise _Unusable(f"{_show(self.path.name)} is not a zip archive: hand in a folder or a .zip")


def find_submissions(folder: Path) -> list[Submission]:
    """The submissions in `folder`, sorted by student. Looks at names only, so a class of thousands takes a moment."""
    folder = Path(folder)
    found: dict[str, list[tuple[int, str, str]]] = {}  # student: rank, kind, file name
    loose: list[str] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                student, kind = _student_of(entry)
                if student and kind:
                    rank = ("folder", "zip", "other").index(kind)
                    found.setdefault(student, []).append((rank, kind, entry.name))
                elif re.fullmatch(r"ex[0-9]{2}_.*\.py", entry.name):
                    loose.append(entry.name)
    except FileNotFoundError:
        raise SubmissionError(f"{folder}: no such folder") from None
    except NotADirectoryError:
        raise SubmissionError(f"{folder} is a file; give the folder that holds a folder or a .zip per student") from None
    except OSError as error:
        raise SubmissionError(f"{folder}: cannot be read: {error.strerror or error}") from None
    if loose and not found:
        raise SubmissionError(
            f"{folder} holds {min(loose)} itself, so it looks like one student's folder; "
            "give the folder that holds a folder or a .zip per student"
        )
    names = {student: _clean(student) for student in found}
    taken = Counter(map(_folded, names.values()))
    submissions = []
    for student in sorted(found):
        (_, kind, chosen), *others = sorted(found[student], key=lambda one: (one[0], not one[2].endswith(".zip"), one[2]))
        name = names[student]
        submissions.append(
            Submission(
                student=name,
                key=_key(student, name, alone=taken[_folded(name)] == 1),
                path=folder / chosen,
                kind=kind,
                notes=tuple(f"{_show(other)} was handed in too and is ignored" for _, _, other in others),
            )
        )
    return submissions


def own_submission(folder: Path) -> Submission:
    """A learner's own work: the course's folder, or any folder or .zip that is laid out like a student's."""
    try:
        path = Path(folder).resolve()
    except (OSError, RuntimeError) as error:  # links in a circle
        raise SubmissionError(f"{folder}: cannot be read: {error}") from None
    if path.is_dir():
        return Submission(student="you", key="you", path=path, kind="folder")
    if path.is_file() and path.suffix.lower() == ".zip":
        return Submission(student="you", key="you", path=path, kind="zip")
    if path.exists():
        raise SubmissionError(f"{folder} is neither a folder nor a .zip")
    raise SubmissionError(f"{folder}: no such folder")


# ---- names ----------------------------------------------------------------------------------------------------


def _student_of(entry: os.DirEntry[str]) -> tuple[str, Literal["folder", "zip", "other"] | None]:
    """Whose submission an entry of the folder is; ("", None) for what is none."""
    name = entry.name
    if name.startswith(".") or name in IGNORED_FOLDERS:
        return "", None
    try:
        if entry.is_dir():  # a link to a folder counts, so that its student is told why it is not graded
            return name, "folder"
        if not entry.is_file() and not entry.is_symlink():
            return "", None
    except OSError:
        return "", None
    if name.lower().endswith(".zip"):
        return name[: -len(".zip")], "zip"
    for suffix in OTHER_ARCHIVES:
        if name.lower().endswith(suffix):
            return name[: -len(suffix)], "other"
    return "", None


def _clean(name: str) -> str:
    """A file name as valid Unicode: bytes that are no UTF-8 are shown as U+FFFD."""
    return os.fsencode(name).decode("utf-8", "replace")


def _folded(name: str) -> str:
    """Equal for names that one file system or another takes for the same."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def _key(raw: str, name: str, *, alone: bool) -> str:
    if alone and len(name.encode()) <= 200:
        return name
    short = name.encode()[:200].decode("utf-8", "ignore")
    return f"{short}~{hashlib.sha256(os.fsencode(raw)).hexdigest()[:12]}"


def _show(name: str) -> str:
    """A learner's file name within a sentence: printable and not long."""
    text = name if name.isprintable() else name.encode("unicode_escape", "backslashreplace").decode()
    return text if len(text) <= 100 else text[:97] + "..."


def _size(count: int) -> str:
    return f"{count / 1e6:.1f} MB"


# ---- one file of one submission -------------------------------------------------------------------------------

Parts = tuple[str, ...]


class _Unusable(Exception):
    """The whole submission cannot be read: says why."""


class _Tree(Protocol):
    """A submission as a set of places (`("exercises", "ex06_repeat_kv.py")`) that can be read."""

    notes: list[str]

    def folders(self) -> list[Parts]:
        """Where a learner's files may lie, the preferred one first."""

    def read(self, place: Parts, limit: int = MAX_FILE_BYTES) -> bytes | str | None:
        """The content, or a sentence on why it cannot be read, or None where nothing is."""

    def names(self) -> Iterator[Parts]:
        """The places to look through for a hint."""


def _find(tree: _Tree, name: str) -> SourceFile | Problem:
    wanted = f"{name}.py"
    found = [(folder, content) for folder in tree.folders() if (content := tree.read((*folder, wanted))) is not None]
    if not found:
        where = f"there is no {wanted}, neither at the top nor in exercises/"
        return Problem(kind="missing", message="; ".join([where, *_hints(tree, wanted), *tree.notes]))
    (folder, content), *others = found
    place = _show(_join((*folder, wanted)))
    notes = [
        f"{_show(_join((*other, wanted)))} is there too, with other content, and is ignored: {place} counts"
        for other, its_content in others
        if its_content != content
    ]
    if isinstance(content, str):
        return Problem(kind="unreadable", message="; ".join([f"{place} {content}", *notes]))
    return SourceFile(name=name, content=content, place=place, notes=(*notes, *tree.notes))


def _hints(tree: _Tree, wanted: str) -> list[str]:
    """What may have been meant: the file under another spelling or in another folder, or an archive within."""
    similar, archives = [], []
    for place in tree.names():
        if _spelling(place[-1]) == wanted:
            similar.append(place)
        elif place[-1].lower().endswith((".zip", *OTHER_ARCHIVES)):
            archives.append(place)
        elif len(place) == 1 and place[0] != "exercises" and place[0].casefold() == "exercises":
            similar.append(place)
    if similar:
        place = min(similar)
        if _spelling(place[-1]) != wanted:
            expected = "exercises"
        else:
            expected = wanted if place[-1] != wanted else f"exercises/{wanted}"
        return [f"found {_show(_join(place))}; expected {expected}"]
    if archives:
        return [f"found {_show(_join(min(archives)))}, an archive within the submission, which is not opened"]
    return []


def _spelling(name: str) -> str:
    """A name without what browsers, editors and shift keys do to it: "Ex06-Repeat_kv (1).py.txt"."""
    plain = re.sub(r"[ _-]*(\([0-9]+\)|\bcopy\b)", "", name[:200].casefold()).removesuffix(".txt")
    return plain.strip().replace("-", "_").replace(" ", "_")


def _join(place: Parts) -> str:
    return "/".join(place)


def _is_ignored(part: str) -> bool:
    return part.startswith(".") or part in IGNORED_FOLDERS


class _Folder:
    """A folder on disk, read through descriptors so that no link is followed, not even one swapped in meanwhile."""

    def __init__(self, path: Path, stack: ExitStack) -> None:
        self.notes: list[str] = []
        self._descriptors: dict[Parts, int] = {}
        try:
            if stat.S_ISLNK(os.lstat(path).st_mode):
                raise _Unusable(f"{_show(path.name)} is a symbolic link; links are not followed")
            top = os.open(path, FOLDER_FLAGS)
        except OSError as error:
            raise _Unusable(f"{_show(path.name)} cannot be read: {error.strerror or error}") from None
        stack.callback(os.close, top)
        self._descriptors[()] = top
        try:
            mode = os.stat("exercises", dir_fd=top, follow_symlinks=False).st_mode
            if stat.S_ISLNK(mode):
                self.notes.append("exercises is a symbolic link; links are not followed")
            elif stat.S_ISDIR(mode):
                inner = os.open("exercises", FOLDER_FLAGS, dir_fd=top)
                stack.callback(os.close, inner)
                self._descriptors["exercises",] = inner
        except FileNotFoundError:
            pass
        except OSError as error:
            self.notes.append(f"exercises/ cannot be read: {error.strerror or error}")

    def folders(self) -> list[Parts]:
        return [folder for folder in (("exercises",), ()) if folder in self._descriptors]

    def read(self, place: Parts, limit: int = MAX_FILE_BYTES) -> bytes | str | None:
        try:
            return _read_regular(place[-1], self._descriptors[place[:-1]], limit)
        except FileNotFoundError:
            return None
        except OSError as error:
            return f"cannot be read: {error.strerror or error}"

    def names(self) -> Iterator[Parts]:
        for folder, descriptor in self._descriptors.items():
            try:
                with os.scandir(descriptor) as entries:
                    for entry in islice(entries, MAX_LISTED):
                        if not _is_ignored(entry.name):
                            yield (*folder, entry.name)
            except OSError:
                continue  # only hints are lost


def _read_regular(name: str | Path, folder: int | None, limit: int) -> bytes | str:
    """The content of a regular file, or a sentence; raises OSError for what the system refuses."""
    before = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    if stat.S_ISLNK(before):
        return "is a symbolic link; links are not followed"
    if not stat.S_ISREG(before):
        return "is a folder, not a file" if stat.S_ISDIR(before) else "is not a regular file"
    descriptor = os.open(name, FILE_FLAGS, dir_fd=folder)
    with open(descriptor, "rb", buffering=0) as stream:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return "is not a regular file"
        if status.st_size > limit:
            return _too_large(status.st_size, limit)
        chunks, length = [], 0
        while length <= limit and (chunk := stream.read(limit + 1 - length)):
            chunks.append(chunk)
            length += len(chunk)
    return b"".join(chunks) if length <= limit else _too_large(length, limit)


def _too_large(size: int, limit: int) -> str:
    return f"is too large: {_size(size)}, at most {_size(limit)} are read"


class _Archive:
    """A zip archive, read in place. Paths are only compared, never created, so none can lead out of anywhere."""

    def __init__(self, path: Path, stack: ExitStack) -> None:
        self.notes: list[str] = []
        self._entries: dict[Parts, zipfile.ZipInfo] = {}
        self._twice: set[Parts] = set()
        self._elsewhere: list[Parts] = []  # ignored entries, for hints
        name = _show(path.name)
        try:
            if stat.S_ISLNK(os.lstat(path).st_mode):
                raise _Unusable(f"{name} is a symbolic link; links are not followed")
            stream = stack.enter_context(os.fdopen(os.open(path, FILE_FLAGS), "rb"))
            status = os.fstat(stream.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise _Unusable(f"{name} is not a regular file")
            if status.st_size > MAX_ARCHIVE_BYTES:
                reason = _too_large(status.st_size, MAX_ARCHIVE_BYTES)
                raise _Unusable(f"{name} {reason}: hand in the exercises folder only")
            wrong = _directory_problem(stream, status.st_size)
            if wrong:
                raise _Unusable(f"{name} {wrong}")
            self._zip = stack.enter_context(zipfile.ZipFile(stream))
        except _Unusable:
            raise
        except OSError as error:
            raise _Unusable(f"{name} cannot be read: {error.strerror or error}") from None
        except Exception:  # zipfile raises a dozen kinds of error on damaged archives
            raise _Unusable(f"{name} is not a zip archive, or is damaged") from None
        self._list(self._zip.infolist())

    def _list(self, entries: Iterable[zipfile.ZipInfo]) -> None:
        tops: set[str] = set()
        for entry in entries:
            parts = entry.filename.replace("\\", "/").split("/")  # some tools on Windows write backslashes
            place = tuple(part for part in parts[1:] if part not in ("", "."))
            place = place if parts[0] == "." else (parts[0], *place)
            if not place or place == ("",):
                continue
            if parts[0] == "" or any(map(_is_ignored, place)):
                self._elsewhere.append(place)
                continue
            if parts[-1] == "" or len(place) > 1:
                tops.add(place[0])
            if parts[-1] != "":
                if place in self._entries:
                    self._twice.add(place)
                self._entries[place] = entry
        tops.discard("exercises")
        self._top = tops.pop() if len(tops) == 1 else None

    def folders(self) -> list[Parts]:
        inner: list[Parts] = [(self._top, "exercises"), (self._top,)] if self._top else []
        return [("exercises",), (), *inner]

    def read(self, place: Parts, limit: int = MAX_FILE_BYTES) -> bytes | str | None:
        entry = self._entries.get(place)
        if entry is None:
            return None
        if place in self._twice:
            self.notes.append(f"the archive holds {_show(_join(place))} more than once; the last one counts")
        kind = stat.S_IFMT(entry.external_attr >> 16)
        if kind == stat.S_IFLNK:
            return "is a symbolic link; links are not followed"
        if kind not in (0, stat.S_IFREG):
            return "is not a regular file"
        if entry.flag_bits & 0x1:
            return "is encrypted; hand in an archive without a password"
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            return "is compressed in an unusual way; hand in an ordinary zip"
        if entry.file_size > limit:
            return _too_large(entry.file_size, limit)
        try:
            with self._zip.open(entry) as stream:
                return stream.read(limit + 1)  # zipfile stops at file_size and then compares the checksum
        except Exception:  # BadZipFile, zlib.error, EOFError, struct.error and more
            return "is damaged within the archive"

    def names(self) -> Iterator[Parts]:
        yield from self._entries
        yield from self._elsewhere


def _directory_problem(stream: BinaryIO, size: int) -> str | None:
    """Looks at the archive's end before zipfile does, which would read a list of entries of any length into memory."""
    length = min(size, 20 + 22 + 65535)  # the ZIP64 locator, the end record and its comment
    stream.seek(size - length)
    tail = stream.read(length)
    at = tail.rfind(b"PK\x05\x06")
    if at < 0 or len(tail) - at < 22:
        return "is not a zip archive, or is damaged"
    if at >= 20 and tail[at - 20 : at - 16] == b"PK\x06\x07":
        return "is a zip archive for huge files (ZIP64); hand in an ordinary zip"
    (listed,) = struct.unpack_from("<L", tail, at + 12)
    if listed > MAX_DIRECTORY_BYTES:
        return "holds too many files: hand in the exercises folder only"
    return None
