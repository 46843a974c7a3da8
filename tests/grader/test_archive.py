"""Archives depend on their files alone, and sentences list no more names than one reads."""

from __future__ import annotations

import io
import zipfile

from grader.archive import OLDEST, zip_of
from grader.text import some_of


def test_the_same_files_give_the_same_bytes_in_any_order():
    one = zip_of({"run": b"#!", "b/é.py": b"x = 1\n"}, executable=["run"])
    assert one == zip_of({"b/é.py": b"x = 1\n", "run": b"#!"}, executable=["run"])
    with zipfile.ZipFile(io.BytesIO(one)) as archive:
        entries = {entry.filename: entry for entry in archive.infolist()}
        assert archive.read("b/é.py") == b"x = 1\n" and list(entries) == ["b/é.py", "run"]
    assert {entry.date_time for entry in entries.values()} == {OLDEST}
    assert [entries[name].external_attr >> 16 & 0o777 for name in ("run", "b/é.py")] == [0o755, 0o644]


def test_some_of_many_names():
    assert some_of([], 2) == ""
    assert some_of(["a", "b"], 2) == "a, b"
    assert some_of(["a", "b", "c", "d"], 2) == "a, b and 2 more"
    assert some_of(["a", "b", "c"], 2, "; ") == "a; b and 1 more"
