"""Files for spreadsheets, Canvas and Moodle: quoted, no formulas, no invented columns, and nothing where there is no score."""

from __future__ import annotations

import csv
import io

import pytest

from grader.exports import Column, ExportError, Graded, csv_file, fill_canvas, moodle_file, number_field, text_field

EX06 = Column(label="ex06", names=("ex06", "Repeat key and value heads"), max_points=10)
EX08 = Column(label="ex08", names=("ex08",), max_points=10)
NOETHER = Graded(id="noether", last_name="Noether, E.", email="Emmy@example.org", lms_user_id="101", scores={"ex06": 9.5})
TURING = Graded(
    id="turing", first_name='Alan "Al"', email="alan@example.org", lms_user_id="102", scores={"ex06": 0.0, "ex08": 2 / 3}
)
CANVAS = """Student,ID,SIS User ID,SIS Login ID,Section,ex06 (77),Essay (78),Final Score
    Points Possible,,,,,10.0,5,(read only)
"Noether, Emmy",101,,noether,"S, 1",,4,0
"Turing, Alan",999,,ALAN@example.org,S1,3,,0
Guest,5,,guest,S1,7,,0
"Student, Test",1,,x,S1,,,0
"""


def rows_of(content: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(content.decode("utf-8-sig"), newline="")))


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@x", "\tx", "＝1"])
def test_a_formula_stays_text(text):
    assert text_field(text) == "'" + text


def test_ordinary_names_stay_as_they_are():
    for name in ("O'Neill", "Ødegård", "山田", "", "a=b", '"quoted"'):
        assert text_field(name) == name


def test_numbers():
    assert [number_field(value) for value in (None, 0.0, 10.0, 2 / 3, 0.1 + 0.2)] == ["", "0", "10", "0.666667", "0.3"]


def test_fields_with_commas_quotes_and_lines_come_back():
    table = [["Noether, Dr.", 'Alan "Al"', "two\nlines", "Ødegård", "\udc80"]]
    assert rows_of(csv_file(["a", "b", "c", "d", "e"], table))[1] == ["Noether, Dr.", 'Alan "Al"', "two\nlines", "Ødegård", "?"]


def test_moodle_has_a_column_per_exercise_and_nothing_where_there_is_no_score():
    rows = rows_of(moodle_file([NOETHER, TURING, Graded(id="x", first_name="=cmd()")], [EX06, EX08]))
    assert rows[0] == ["Email address", "ID number", "First name", "Last name", "ex06", "ex08"]
    assert rows[1] == ["Emmy@example.org", "101", "", "Noether, E.", "9.5", ""]
    assert rows[2][4:] == ["0", "0.666667"]
    assert rows[3] == ["", "x", "'=cmd()", "", "", ""]


def test_canvas_gets_scores_in_its_own_columns_and_keeps_everything_else():
    filled = fill_canvas(CANVAS.encode("utf-8-sig"), [NOETHER, TURING], [EX06, EX08])
    before, after = rows_of(CANVAS.encode()), rows_of(filled.content)
    assert filled.content.startswith(b"\xef\xbb\xbf") and filled.columns == {"ex06": "ex06 (77)"} and filled.filled == 2
    assert after[2][5] == "9.5" and after[3][5] == "0"  # by Canvas' id, and by login whatever its case
    for row in (2, 3):
        before[row][5] = after[row][5]
    assert after == before
    assert any("ex08: there is no such column" in note for note in filled.notes)
    assert any("Guest" in note for note in filled.notes) and not any("Test" in note for note in filled.notes)


def test_a_score_that_does_not_exist_changes_nothing_in_canvas():
    filled = fill_canvas(CANVAS.encode(), [Graded(id="turing", email="alan@example.org")], [EX06])
    assert rows_of(filled.content) == rows_of(CANVAS.encode()) and filled.filled == 0


def test_another_maximum_in_canvas_is_said():
    text = CANVAS.replace("10.0,5", "100,5")
    assert any("100 points" in note for note in fill_canvas(text.encode(), [NOETHER], [EX06]).notes)


def test_students_whom_canvas_does_not_have_are_named():
    assert any(
        "hopper" in note for note in fill_canvas(CANVAS.encode(), [Graded(id="hopper", scores={"ex06": 1.0})], [EX06]).notes
    )


def test_a_student_is_not_found_by_an_empty_key():
    text = CANVAS.replace("101,,noether", "101,,")
    filled = fill_canvas(text.encode(), [Graded(id="hopper", scores={"ex06": 1.0})], [EX06])
    assert filled.filled == 0


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "no gradebook of Canvas"),
        (b"a,b\n1,2\n", "no gradebook of Canvas"),
        (b"Student,ID\nx\n", "another number of fields"),
        (b'Student,ID\n"x', "not CSV"),
        (b"\xff\xfe", "not UTF-8"),
        (b"Student,ID,Other (1)\nA,1,\n", "its assignments are: Other (1)"),
        (b"Student,ID,ex06 (1),EX06 (2)\nA,1,,\n", "several columns"),
    ],
)
def test_what_is_no_gradebook_of_canvas(content, said):
    with pytest.raises(ExportError, match="(?s).*" + said.replace("(", r"\(").replace(")", r"\)")):
        fill_canvas(content, [NOETHER], [EX06])


def test_a_column_can_be_named_with_its_number():
    text = "Student,ID,Week (1),Week (2)\nA,101,,\n"
    filled = fill_canvas(text.encode(), [NOETHER], [Column(label="ex06", names=("Week (2)",), max_points=10)])
    assert rows_of(filled.content)[1] == ["A", "101", "", "9.5"]
