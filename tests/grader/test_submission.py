"""Finding and reading what learners handed in, however strange it is."""

from __future__ import annotations

import io
import os
import random
import socket
import stat
import time
import zipfile
from pathlib import Path

import pytest

import grader.submission
from grader.submission import Problem, SourceFile, Submission, SubmissionError, find_submissions, own_submission

NAME = "ex06_repeat_kv"
FILE = f"{NAME}.py"


def put(path: Path, content: bytes = b"x = 1\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def pack(path: Path, entries: dict[str, bytes] | list[tuple[str | zipfile.ZipInfo, bytes]], **options) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", **options) as archive:
        for name, content in entries.items() if isinstance(entries, dict) else entries:
            archive.writestr(name, content)
    return path


def only(folder: Path) -> Submission:
    (submission,) = find_submissions(folder)
    return submission


def source(submission: Submission, name: str = NAME) -> SourceFile:
    found = submission.file(name)
    assert isinstance(found, SourceFile), found
    return found


def problem(submission: Submission, kind: str, name: str = NAME) -> str:
    found = submission.file(name)
    assert isinstance(found, Problem), found
    assert found.kind == kind
    assert str(submission.path.parent) not in found.message  # learners read it
    return found.message


def zip_of(folder: Path, entries) -> Submission:
    pack(folder / "ada.zip", entries)
    return only(folder)


# ---- layouts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", [FILE, f"exercises/{FILE}"])
def test_a_folder_holds_files_at_its_top_or_in_exercises(tmp_path, place):
    put(tmp_path / "ada" / place, b"bytes \xff\x00")
    assert source(only(tmp_path)) == SourceFile(name=NAME, content=b"bytes \xff\x00", place=place)


@pytest.mark.parametrize(
    "place",
    [FILE, f"exercises/{FILE}", f"kit/{FILE}", f"kit/exercises/{FILE}", f"./exercises/{FILE}"],
)
def test_an_archive_has_the_same_layouts_also_within_one_top_folder(tmp_path, place):
    submission = zip_of(tmp_path, {place: b"bytes \xff\x00", "__MACOSX/kit/._x": b"", ".git/config": b"", "notes.txt": b""})
    assert submission.kind == "zip"
    assert source(submission) == SourceFile(name=NAME, content=b"bytes \xff\x00", place=place.removeprefix("./"))


def test_an_archive_with_backslashes_is_read(tmp_path):
    assert source(zip_of(tmp_path, {f"kit\\exercises\\{FILE}": b"1"})).content == b"1"


def test_an_archive_with_several_top_folders_is_not_searched(tmp_path):
    message = problem(zip_of(tmp_path, {f"one/{FILE}": b"1", "two/x.py": b"2"}), "missing")
    assert message.endswith(f"found one/{FILE}; expected exercises/{FILE}")


def test_other_modules_are_read_the_same_way(tmp_path):
    put(tmp_path / "ada" / "exercises" / "config.py", b"c")
    assert source(only(tmp_path), "config").content == b"c"
    assert problem(only(tmp_path), "missing") == f"there is no {FILE}, neither at the top nor in exercises/"


@pytest.mark.parametrize("name", ["../x", "a/b", "", "ex06_repeat_kv.py", ".x", "A", "x\n"])
def test_only_module_names_are_asked_for(tmp_path, name):
    put(tmp_path / "ada" / FILE)
    with pytest.raises(ValueError, match="name"):
        only(tmp_path).file(name)


# ---- students --------------------------------------------------------------------------------------------------------


def test_students_are_listed_in_order_and_strays_are_ignored(tmp_path):
    for student in ("zoë 李", "ada.lovelace", "O'Brien, Jr"):
        put(tmp_path / student / FILE)
    pack(tmp_path / "bob.zip", {FILE: b""})
    put(tmp_path / "roster.csv")
    put(tmp_path / ".hidden" / FILE)
    put(tmp_path / ".zip")
    put(tmp_path / "__MACOSX" / FILE)
    found = find_submissions(tmp_path)
    assert [one.student for one in found] == ["O'Brien, Jr", "ada.lovelace", "bob", "zoë 李"]
    assert [one.key for one in found] == [one.student for one in found]
    assert all(isinstance(one.file(NAME), SourceFile) for one in found)


def test_students_whose_names_differ_only_in_case_or_composition_are_kept_apart(tmp_path):
    put(tmp_path / "Ada" / FILE, b"upper")
    pack(tmp_path / "ada.zip", {FILE: b"lower"})
    put(tmp_path / "zo\u00eb" / FILE, b"composed")
    put(tmp_path / "zoe\u0308" / FILE, b"decomposed")
    put(tmp_path / "bob" / FILE, b"bob")
    found = {one.student: one for one in find_submissions(tmp_path)}
    if len(found) < 5:
        pytest.skip("this file system takes such names for the same")
    assert source(found["Ada"]).content == b"upper"
    assert source(found["ada"]).content == b"lower"
    keys = [one.key.casefold() for one in found.values()]
    assert len(set(keys)) == 5
    assert found["Ada"].key.startswith("Ada~")
    assert found["bob"].key == "bob"
    assert [one.key for one in find_submissions(tmp_path)] == [one.key for one in found.values()]


def test_a_name_that_is_no_unicode_is_still_a_student(tmp_path):
    try:
        os.mkdir(os.fsencode(tmp_path) + b"/ad\xffa")
    except OSError:
        pytest.skip("this file system takes Unicode only")
    put(tmp_path / "ad\ufffda" / FILE, b"2")
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/ad\xffa/" + FILE.encode())).write_bytes(b"1")
    found = find_submissions(tmp_path)
    assert [one.student.encode() for one in found] == ["ad\ufffda".encode()] * 2
    assert {source(one).content for one in found} == {b"1", b"2"}
    assert len({one.key for one in found}) == 2
    problem(found[0], "missing", "config")


def test_a_very_long_name_gets_a_key_that_still_leaves_room(tmp_path):
    put(tmp_path / ("é" * 120) / FILE)
    submission = only(tmp_path)
    assert submission.student == "é" * 120
    assert len(submission.key.encode()) <= 220


def test_a_folder_counts_before_an_archive_of_the_same_student(tmp_path):
    put(tmp_path / "ada" / FILE, b"folder")
    pack(tmp_path / "ada.zip", {FILE: b"zip", "config.py": b""})
    pack(tmp_path / "ada.ZIP", {FILE: b"ZIP"})
    found = source(only(tmp_path))
    assert found.content == b"folder"
    assert found.notes == ("ada.zip was handed in too and is ignored", "ada.ZIP was handed in too and is ignored")
    assert "ada.zip was handed in too" in problem(only(tmp_path), "missing", "config")


@pytest.mark.parametrize("suffix", [".tar.gz", ".tgz", ".rar", ".7z", ".TAR"])
def test_another_kind_of_archive_is_not_lost_but_said(tmp_path, suffix):
    put(tmp_path / f"ada{suffix}")
    assert only(tmp_path).student == "ada"
    assert "is not a zip archive" in problem(only(tmp_path), "unreadable")


def test_what_cannot_be_a_folder_of_submissions_is_said(tmp_path):
    with pytest.raises(SubmissionError, match="no such folder"):
        find_submissions(tmp_path / "nowhere")
    with pytest.raises(SubmissionError, match="is a file"):
        find_submissions(put(tmp_path / "one" / FILE))
    with pytest.raises(SubmissionError, match="looks like one student's folder"):
        find_submissions(tmp_path / "one")
    (tmp_path / "empty").mkdir()
    assert find_submissions(tmp_path / "empty") == []


def test_thousands_of_students_take_a_moment(tmp_path, monkeypatch):
    for number in range(2000):
        (tmp_path / f"student{number:04d}").mkdir()
    monkeypatch.setattr(os, "open", None)  # nothing is opened to list them
    before = time.process_time()
    assert len(find_submissions(tmp_path)) == 2000
    assert time.process_time() - before < 2


# ---- one's own work --------------------------------------------------------------------------------------------------


def test_own_work_is_read_from_exercises_an_any_folder_or_an_archive(tmp_path):
    put(tmp_path / "exercises" / FILE, b"own")
    assert source(own_submission(tmp_path)).content == b"own"
    assert source(own_submission(tmp_path / "exercises")).content == b"own"
    assert source(own_submission(pack(tmp_path / "w.zip", {FILE: b"zipped"}))).content == b"zipped"
    (tmp_path / "link").symlink_to(tmp_path)  # what a learner names for themselves may be a link
    assert source(own_submission(tmp_path / "link")).content == b"own"


def test_own_work_that_is_not_there_is_said(tmp_path):
    with pytest.raises(SubmissionError, match="no such folder"):
        own_submission(tmp_path / "nowhere")
    with pytest.raises(SubmissionError, match=r"neither a folder nor a \.zip"):
        own_submission(put(tmp_path / FILE))
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    with pytest.raises(SubmissionError):
        own_submission(tmp_path / "circle")


# ---- ambiguity and hints ---------------------------------------------------------------------------------------------


def test_the_file_in_exercises_counts_and_the_other_is_named(tmp_path):
    put(tmp_path / "ada" / FILE, b"top")
    put(tmp_path / "ada" / "exercises" / FILE, b"inner")
    found = source(only(tmp_path))
    assert (found.content, found.place) == (b"inner", f"exercises/{FILE}")
    (note,) = found.notes
    assert note.startswith(f"{FILE} is there too")


def test_two_equal_files_need_no_note(tmp_path):
    put(tmp_path / "ada" / FILE)
    put(tmp_path / "ada" / "exercises" / FILE)
    assert source(only(tmp_path)).notes == ()


def test_the_file_in_exercises_counts_even_if_it_cannot_be_read(tmp_path):
    put(tmp_path / "ada" / FILE, b"top")
    (tmp_path / "ada" / "exercises" / FILE).mkdir(parents=True)
    message = problem(only(tmp_path), "unreadable")
    assert message.startswith(f"exercises/{FILE} is a folder, not a file; {FILE} is there too")


def test_a_path_twice_in_an_archive_means_the_last_one(tmp_path):
    with pytest.warns(UserWarning, match="Duplicate name"):
        submission = zip_of(tmp_path, [(FILE, b"first"), (FILE, b"last")])
    found = source(submission)
    assert found.content == b"last"
    assert found.notes == (f"the archive holds {FILE} more than once; the last one counts",)


@pytest.mark.parametrize(
    "found",
    ["Ex06_Repeat_kv.py", "ex06_repeat_kv.PY", "ex06_repeat_kv (1).py", "ex06-repeat-kv.py", "ex06_repeat_kv.py.txt"],
)
@pytest.mark.parametrize("kind", ["folder", "zip"])
def test_another_spelling_is_a_hint_and_not_taken(tmp_path, found, kind):
    if kind == "folder":
        put(tmp_path / "ada" / found)
        if (tmp_path / "ada" / FILE).exists():
            pytest.skip("this file system ignores case")
    else:
        pack(tmp_path / "ada.zip", {found: b""})
    assert problem(only(tmp_path), "missing").endswith(f"found {found}; expected {FILE}")


def test_a_lesson_or_another_exercise_is_no_hint(tmp_path):
    for name in (f"{NAME}.md", f"{NAME}.pyc", "ex07_attention.py", f"my_{FILE}"):
        put(tmp_path / "ada" / "exercises" / name)
    assert "found" not in problem(only(tmp_path), "missing")


def test_a_folder_named_almost_exercises_is_a_hint(tmp_path):
    put(tmp_path / "ada" / "Exercises" / FILE)
    if (tmp_path / "ada" / "exercises").exists():
        pytest.skip("this file system ignores case")
    assert problem(only(tmp_path), "missing").endswith("found Exercises; expected exercises")


def test_an_archive_within_a_submission_is_said_and_not_opened(tmp_path):
    inner = pack(tmp_path / "inner.zip", {FILE: b""}).read_bytes()
    (tmp_path / "inner.zip").unlink()
    assert "work.zip, an archive within" in problem(zip_of(tmp_path, {"work.zip": inner}), "missing")
    (tmp_path / "ada.zip").unlink()
    put(tmp_path / "eve" / "work.zip", inner)
    assert "work.zip, an archive within" in problem(only(tmp_path), "missing")


def test_a_strange_name_is_printed_safely(tmp_path):
    message = problem(zip_of(tmp_path, {f"a\x1b[2J\n/b/{FILE}": b""}), "missing")
    assert message.isprintable()
    assert "\\x1b[2J" in message


# ---- hostile folders -------------------------------------------------------------------------------------------------


@pytest.fixture
def secret(tmp_path_factory) -> Path:
    return put(tmp_path_factory.mktemp("outside") / FILE, b"secret")


@pytest.mark.parametrize("place", [FILE, f"exercises/{FILE}"])
def test_a_link_to_a_file_is_not_followed(tmp_path, secret, place):
    path = tmp_path / "ada" / place
    path.parent.mkdir(parents=True)
    path.symlink_to(secret)
    assert "is a symbolic link" in problem(only(tmp_path), "unreadable")


def test_a_link_in_place_of_exercises_is_not_followed(tmp_path, secret):
    (tmp_path / "ada").mkdir()
    (tmp_path / "ada" / "exercises").symlink_to(secret.parent)
    assert "exercises is a symbolic link" in problem(only(tmp_path), "missing")
    put(tmp_path / "ada" / FILE, b"top")
    found = source(only(tmp_path))
    assert found.content == b"top"
    assert found.notes == ("exercises is a symbolic link; links are not followed",)


def test_a_link_in_place_of_a_student_is_not_followed(tmp_path, secret):
    (tmp_path / "ada").symlink_to(secret.parent)
    (tmp_path / "bob.zip").symlink_to(pack(secret.parent / "x.zip", {FILE: b""}))
    (tmp_path / "eve.zip").symlink_to(tmp_path / "nowhere")
    (tmp_path / "notes.txt").symlink_to(secret)
    found = find_submissions(tmp_path)
    assert [one.student for one in found] == ["ada", "bob", "eve"]
    for submission in found:
        assert "is a symbolic link" in problem(submission, "unreadable")


def test_a_link_swapped_in_after_the_look_is_not_followed(tmp_path, secret, monkeypatch):
    path = put(tmp_path / "ada" / FILE)
    submission = only(tmp_path)
    really_open = os.open

    def swap_then_open(name, flags, *args, **kwargs):
        if name == FILE:
            path.unlink()
            path.symlink_to(secret)
        return really_open(name, flags, *args, **kwargs)

    monkeypatch.setattr(os, "open", swap_then_open)
    assert "cannot be read" in problem(submission, "unreadable")


def test_pipes_sockets_and_folders_in_place_of_a_file_do_not_block(tmp_path, monkeypatch):
    (tmp_path / "fifo").mkdir()
    os.mkfifo(tmp_path / "fifo" / FILE)
    (tmp_path / "folder" / FILE).mkdir(parents=True)
    (tmp_path / "socket").mkdir()
    monkeypatch.chdir(tmp_path / "socket")  # a socket's path must be short
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(FILE)
    messages = {one.student: problem(one, "unreadable") for one in find_submissions(tmp_path)}
    assert messages == {
        "fifo": f"{FILE} is not a regular file",
        "folder": f"{FILE} is a folder, not a file",
        "socket": f"{FILE} is not a regular file",
    }


def test_size_is_capped(tmp_path):
    put(tmp_path / "fits" / FILE, b"#" * 1_000_000)
    path = put(tmp_path / "huge" / FILE)
    os.truncate(path, 10**12)
    fits, huge = find_submissions(tmp_path)
    assert len(source(fits).content) == 1_000_000
    assert "is too large: 1000000.0 MB, at most 1.0 MB are read" in problem(huge, "unreadable")


def test_a_file_that_grows_while_it_is_read_is_capped(tmp_path, monkeypatch):
    put(tmp_path / "ada" / FILE, b"#" * 2_000_000)
    really_fstat = os.fstat

    class Small:
        st_mode, st_size = stat.S_IFREG, 10

    def fstat(descriptor):
        status = really_fstat(descriptor)
        return Small if status.st_size == 2_000_000 else status

    monkeypatch.setattr(os, "fstat", fstat)
    assert "is too large" in problem(only(tmp_path), "unreadable")


def test_what_the_system_refuses_is_said(tmp_path, monkeypatch):
    put(tmp_path / "ada" / FILE)
    submission = only(tmp_path)
    really_open = os.open

    def refuse(name, flags, *args, **kwargs):
        if name == FILE:
            raise PermissionError(13, "Permission denied")
        return really_open(name, flags, *args, **kwargs)

    monkeypatch.setattr(os, "open", refuse)
    assert problem(submission, "unreadable") == f"{FILE} cannot be read: Permission denied"
    monkeypatch.setattr(os, "open", lambda *args, **kwargs: refuse(FILE, 0))
    assert problem(submission, "unreadable") == "ada cannot be read: Permission denied"


def test_a_submission_that_vanished_is_said(tmp_path):
    put(tmp_path / "ada" / FILE).unlink()
    submission = only(tmp_path)
    (tmp_path / "ada").rmdir()
    assert "No such file" in problem(submission, "unreadable")


def test_no_descriptor_is_left_open(tmp_path):
    put(tmp_path / "ada" / "exercises" / FILE)
    pack(tmp_path / "bob.zip", {FILE: b""})
    put(tmp_path / "eve.zip", b"no zip")
    before = len(os.listdir("/dev/fd"))
    for submission in find_submissions(tmp_path):
        submission.file(NAME)
        submission.file("config")
    assert len(os.listdir("/dev/fd")) == before


# ---- hostile archives ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", [f"../{FILE}", f"/{FILE}", f"exercises/../../{FILE}", f"..\\{FILE}", f"__MACOSX/{FILE}", f".x/{FILE}"]
)
def test_a_path_that_leads_out_or_is_hidden_is_never_read(tmp_path, name):
    submission = zip_of(tmp_path, {name: b"evil", "notes.txt": b""})
    assert "expected" in problem(submission, "missing")
    pack(tmp_path / "ada.zip", [(name, b"evil"), (FILE, b"good")])
    assert source(submission).content == b"good"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ada.zip"]  # nothing is unpacked


def test_a_link_in_an_archive_is_not_followed(tmp_path):
    entry = zipfile.ZipInfo(FILE)
    entry.create_system = 3
    entry.external_attr = (stat.S_IFLNK | 0o777) << 16
    assert "is a symbolic link" in problem(zip_of(tmp_path, [(entry, b"/etc/passwd")]), "unreadable")
    entry.external_attr = (stat.S_IFIFO | 0o777) << 16
    assert "is not a regular file" in problem(zip_of(tmp_path, [(entry, b"")]), "unreadable")


def test_a_bomb_is_not_unpacked(tmp_path):
    submission = zip_of(tmp_path, {})
    pack(tmp_path / "ada.zip", {FILE: bytes(30_000_000)}, compression=zipfile.ZIP_DEFLATED)
    assert submission.path.stat().st_size < 100_000
    assert "is too large: 30.0 MB" in problem(submission, "unreadable")


def test_a_bomb_that_lies_about_its_size_is_not_unpacked(tmp_path):
    pack(tmp_path / "ada.zip", {FILE: bytes(30_000_000)}, compression=zipfile.ZIP_DEFLATED)
    content = (tmp_path / "ada.zip").read_bytes().replace((30_000_000).to_bytes(4, "little"), (10).to_bytes(4, "little"))
    (tmp_path / "ada.zip").write_bytes(content)
    assert "is damaged" in problem(only(tmp_path), "unreadable")


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_unusual_compression_is_said(tmp_path, method):
    pack(tmp_path / "ada.zip", {FILE: b"x"}, compression=method)
    assert "compressed in an unusual way" in problem(only(tmp_path), "unreadable")


def test_an_encrypted_file_is_said(tmp_path):
    content = bytearray(pack(tmp_path / "ada.zip", {FILE: b"x"}).read_bytes())
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(signature) + offset] |= 1
    (tmp_path / "ada.zip").write_bytes(content)
    assert "is encrypted" in problem(only(tmp_path), "unreadable")


def test_a_huge_archive_is_not_opened(tmp_path):
    pack(tmp_path / "ada.zip", {FILE: b"x"})
    os.truncate(tmp_path / "ada.zip", 60_000_000)
    assert "is too large: 60.0 MB" in problem(only(tmp_path), "unreadable")


def test_an_archive_with_too_many_entries_is_not_listed(tmp_path, monkeypatch):
    pack(tmp_path / "ada.zip", {f"{number:0200d}.txt": b"" for number in range(9_000)})
    monkeypatch.setattr(grader.submission.zipfile, "ZipFile", None)
    assert "holds too many files" in problem(only(tmp_path), "unreadable")


def test_an_archive_of_the_zip64_kind_is_said(tmp_path):
    content = pack(tmp_path / "ada.zip", {FILE: b"x"}).read_bytes()
    end = content.index(b"PK\x05\x06")
    (tmp_path / "ada.zip").write_bytes(content[:end] + b"PK\x06\x07" + bytes(16) + content[end:])
    assert "ZIP64" in problem(only(tmp_path), "unreadable")


@pytest.mark.parametrize("content", [b"", b"PK", b"no zip at all", b"PK\x05\x06", b"PK\x05\x06" + b"\xff" * 18, bytes(100_000)])
def test_what_is_no_archive_is_said(tmp_path, content):
    put(tmp_path / "ada.zip", content)
    message = problem(only(tmp_path), "unreadable")
    assert message.startswith("ada.zip ")


def test_an_empty_archive_holds_nothing(tmp_path):
    assert problem(zip_of(tmp_path, {}), "missing") == f"there is no {FILE}, neither at the top nor in exercises/"


def test_an_archive_with_a_comment_is_read(tmp_path):
    with zipfile.ZipFile(tmp_path / "ada.zip", "w") as archive:
        archive.writestr(FILE, b"x")
        archive.comment = b"c" * 65535
    assert source(only(tmp_path)).content == b"x"


def test_damaged_archives_never_raise(tmp_path):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"kit/exercises/{FILE}", b"def repeat_kv(x, n_rep):\n    return x\n" * 5)
        archive.writestr("kit/é.txt", b"x")
    good = stream.getvalue()
    path = put(tmp_path / "ada.zip", good)
    submission = only(tmp_path)
    assert isinstance(submission.file(NAME), SourceFile)
    rng = random.Random(6)
    kinds = set()
    for _ in range(400):
        bad = bytearray(good)
        for _ in range(rng.randint(1, 6)):
            bad[rng.randrange(len(bad))] = rng.randrange(256)
        path.write_bytes(bad[: rng.randint(len(bad) // 2, len(bad))] if rng.random() < 0.2 else bad)
        found = submission.file(NAME)
        kinds.add(type(found))
        if isinstance(found, Problem):
            assert found.message.isprintable()
    assert kinds == {SourceFile, Problem}
