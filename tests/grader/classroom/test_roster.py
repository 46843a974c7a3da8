"""Rosters: what registrars export is read, and every mistake names its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.classroom.folder import ClassroomError
from grader.classroom.roster import Student, read_roster

HEAD = "id,first_name,last_name,email,lms_user_id\n"


def roster(folder: Path, text: str | bytes) -> Path:
    path = folder / "roster.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_names_with_commas_quotes_and_any_letters(tmp_path):
    text = HEAD + 'noether,Emmy,"Noether, Dr.",emmy@example.org,101\nturing,"Alan ""Al""",Ødegård,,\n\n'
    assert read_roster(roster(tmp_path, "\ufeff" + text)) == [
        Student(id="noether", first_name="Emmy", last_name="Noether, Dr.", email="emmy@example.org", lms_user_id="101"),
        Student(id="turing", first_name='Alan "Al"', last_name="Ødegård"),
    ]


def test_other_names_of_columns_semicolons_and_columns_of_no_use(tmp_path):
    text = "Student_ID;Surname;Given name;Group\nnoether;Noether;Emmy;7\n"
    assert read_roster(roster(tmp_path, text)) == [Student(id="noether", first_name="Emmy", last_name="Noether")]


def test_an_empty_field_erases_nothing():
    assert Student(id="a", email="a@b").known() == {"email": "a@b"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("name,email\nx,y\n", "line 1: has no column `id`"),
        ("id,email,e-mail\nx,,\n", "line 1: has email and e-mail, which mean the same"),
        (HEAD, "names no students"),
        (HEAD + "a,b\n", "line 2: 2 fields, the first line has 5"),
        (HEAD + "a,,,,\nb,,,,\nA,,,,\n", "line 4: id 'A' stands on line 2 already"),
        (HEAD + ",Emmy,,,\n", "line 2: no id"),
        (HEAD + "a/b,,,,\n", "line 2: id 'a/b'"),
        (HEAD + "..,,,,\n", "line 2: id '..'"),
        (HEAD + "a+b,,,,\n", "line 2: id 'a+b'"),
        (HEAD + "s[1],,,,\n", "line 2: id 's[1]'"),
        (HEAD + "a,,,nobody,\n", "line 2: email 'nobody' is none"),
        (HEAD + "x" * 129 + ",,,,\n", "longer than 128"),
        (HEAD + 'a,"open,,,\n', "not CSV"),
        (HEAD.encode() + b"a,\xff,,,\n", "line 2: not UTF-8"),
        (HEAD + 'a,"two\nlines",,,\n', "control character"),
    ],
)
def test_a_mistake_names_its_line(tmp_path, text, said):
    path = roster(tmp_path, text)
    with pytest.raises(ClassroomError) as caught:
        read_roster(path)
    assert said in str(caught.value) and str(path) in str(caught.value)


def test_all_mistakes_come_at_once_but_not_hundreds_of_them(tmp_path):
    with pytest.raises(ClassroomError) as caught:
        read_roster(roster(tmp_path, HEAD + "a/b,,,,\n" * 200))
    assert str(caught.value).count("line ") == 10 and "and 190 more" in str(caught.value)


def test_no_file(tmp_path):
    with pytest.raises(ClassroomError, match="no such file"):
        read_roster(tmp_path / "none.csv")
