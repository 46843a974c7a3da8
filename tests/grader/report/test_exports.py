"""The files for other programs: their numbers are those of the results, what is not graded is empty, and no cell is a formula."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from grader.exports import text_field
from grader.grading.result import write_result
from grader.reporting.classroom import Classroom, Person
from grader.reporting.exports import ITEMS, canvas_csv, csv_bytes, csv_of_items, moodle_csv, parquet_of_tests, report_json
from grader.reporting.gradebook import ReportError, read_gradebook
from grader.reporting.summary import Report

from .made import EX06, EX07, a_test, graded, line_of, rows, show, tree, ungraded


@pytest.fixture
def results(tmp_path) -> Path:
    return tree(
        tmp_path / "results",
        graded("ada", a_test("shape"), a_test("value")),
        graded("ada", a_test("mask", most=4), exercise=EX07),
        graded("bob", a_test("shape"), a_test("value", "failed", message="=1+1", diagnosis="tiled")),
        ungraded("bob", "missing", "no file", exercise=EX07),
        ungraded("cyd", "error", "died"),
        graded("dan, the 1st", a_test("shape", "not_assessed"), a_test("value")),
    )


@pytest.fixture
def made(results) -> Report:
    book = read_gradebook(results)
    book.weights = {EX06: 10, EX07: 20}
    book.titles = {EX06: "Repeat key and value heads", EX07: "Scaled dot-product attention"}
    return Report(book)


def table(data: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(data.decode(), newline=""), strict=True))


@pytest.mark.parametrize("text", ["=1", "+1", "-1", "@x", "\t=1", "\r=1", "\n=1", "＝1", "－1"])
def test_a_formula_becomes_text_and_a_number_stays_one(text):
    assert text_field(text) == "'" + text
    assert csv_bytes(["a"], [[text], [-1.5], [3], [None], [True]]).decode().splitlines()[-4:] == ["-1.5", "3", '""', "true"]


def test_a_row_per_test_carries_its_figures(made):
    found = table(csv_of_items(made))
    assert list(found[0]) == list(ITEMS)
    value = next(row for row in found if row["test"] == "hidden::test_value")
    assert (value["assessed"], value["passed"], value["p"], value["public"]) == ("3", "2", "0.666667", "false")
    mask = next(row for row in found if row["test"] == "hidden::test_mask")
    assert (mask["p"], mask["item_rest"], mask["flags"]) == ("1", "", "easy")


def test_parquet_holds_the_rows_of_the_table_with_their_types(results, made, tmp_path):
    polars = pytest.importorskip("polars", reason="reads Parquet with polars: install the instructor extra")
    frame = polars.read_parquet(io.BytesIO(parquet_of_tests(made)))
    plain = rows(results, tmp_path)
    assert len(frame) == len(plain)
    assert frame["points"].dtype == polars.Float64 and frame["official"].dtype == polars.Boolean
    assert frame["points"].sum() == sum(float(row["points"]) for row in plain if row["points"])
    assert frame.filter(polars.col("status") != "graded")["points"].null_count() == len(
        frame.filter(polars.col("status") != "graded")
    )
    assert frame.filter(polars.col("message") == "=1+1")["student"].to_list() == ["bob"]  # texts as they are: no spreadsheet


def test_a_seed_of_any_size_fits_into_parquet(tmp_path):
    pytest.importorskip("polars", reason="writes Parquet with polars: install the instructor extra")
    write_result(tmp_path / "r", graded("ada", a_test("shape"), seed=2**64 - 1))
    show(tmp_path / "r", parquet=tmp_path / "t.parquet")
    assert (tmp_path / "t.parquet").read_bytes()[:4] == b"PAR1"


def test_moodle_gets_points_on_the_courses_scale_and_nothing_for_what_is_not_graded(made):
    found = {row["ID number"]: row for row in table(moodle_csv(made))}
    six, seven = "ex06 Repeat key and value heads", "ex07 Scaled dot-product attention"
    assert {name: (row[six], row[seven]) for name, row in found.items()} == {
        "ada": ("10", "20"), "bob": ("5", ""), "cyd": ("", ""), "dan, the 1st": ("10", "")
    }  # fmt: skip
    made.classroom = Classroom(people={"ada": Person("ada", "=Ada", "L, Jr", "Ada@example.org", "77")})
    [ada] = [row for row in table(moodle_csv(made)) if row["ID number"] == "77"]
    assert (ada["Email address"], ada["First name"], ada["Last name"]) == ("Ada@example.org", "'=Ada", "L, Jr")


CANVAS = """\ufeffStudent,ID,SIS User ID,SIS Login ID,Section,Repeat key and value heads (12),ex07 attention (13),Essay (14),Final Score
    Points Possible,,,,,100,20,5,(read only)
"=Lovelace, Ada",501,ada,,A,1,2,4,-3
"Babbage, Bob",502,x,BOB,A,3,4,,
"Nobody, Ned",503,ned,ned,A,5,6,,
"Dan",504,,"dan, the 1st",A,7,,,
"Student, Test",505,,,A,,,,
"""


def test_canvas_gets_its_own_file_back_with_our_points_filled_in(made, tmp_path):
    (tmp_path / "canvas.csv").write_text(CANVAS, encoding="utf-8")
    data, notes = canvas_csv(made, tmp_path / "canvas.csv")
    found = list(csv.reader(io.StringIO(data.decode(), newline="")))
    assert found[0] == CANVAS.lstrip("\ufeff").splitlines()[0].split(",")
    assert found[1] == CANVAS.splitlines()[1].split(",")
    assert found[2] == ["'=Lovelace, Ada", "501", "ada", "", "A", "100", "20", "4", "-3"]
    assert found[3] == ["Babbage, Bob", "502", "x", "BOB", "A", "50", "4", "", ""]  # missing in ex07: what Canvas has stays
    assert found[4] == ["Nobody, Ned", "503", "ned", "ned", "A", "5", "6", "", ""]
    assert found[5] == ["Dan", "504", "", "dan, the 1st", "A", "100", "", "", ""]
    assert notes == [
        "Canvas: 4 grades filled in",
        "Canvas: rows of nobody in these results: Nobody, Ned",
        "Canvas: no row for cyd",
    ]


def test_canvas_finds_students_by_the_ids_and_emails_of_the_roster(made, tmp_path):
    made.classroom = Classroom(
        people={"cyd": Person("cyd", lms_id="501"), "ada": Person("ada", email="A@x.org"), "bob": Person("bob", lms_id="ada")}
    )
    text = CANVAS.replace(",ada,,A", ",,,A").replace("x,BOB", "x,a@X.org")
    (tmp_path / "canvas.csv").write_text(text, encoding="utf-8")
    found = list(csv.reader(io.StringIO(canvas_csv(made, tmp_path / "canvas.csv")[0].decode(), newline="")))
    assert found[2][5:7] == ["1", "2"]  # cyd is in error: Canvas keeps what it has
    assert found[3][5:7] == ["100", "20"]


def test_a_column_of_ex1_is_not_that_of_ex10(made, tmp_path):
    text = "Student,ID,ex060 (1),ex06 (2)\nada,ada,,\n"
    (tmp_path / "canvas.csv").write_text(text)
    data, notes = canvas_csv(made, tmp_path / "canvas.csv")
    assert data.decode().splitlines()[1] == "ada,ada,,10" and "Canvas: no column for ex07" in notes


@pytest.mark.parametrize("content", [b"", b"a,b\n1,2\n", b"\xff\xfe", b'"open'], ids=["empty", "other", "bytes", "quote"])
def test_a_file_that_canvas_did_not_export_is_refused(results, made, tmp_path, content):
    (tmp_path / "x.csv").write_bytes(content)
    with pytest.raises(ReportError, match=r"x\.csv"):
        canvas_csv(made, tmp_path / "x.csv")
    text = show(results, 200, 2, canvas=(tmp_path / "x.csv", tmp_path / "y.csv"))
    assert "x.csv" in line_of(text, "report:") and not (tmp_path / "y.csv").exists()
    assert "cannot be read" in line_of(show(results, 200, 2, canvas=(tmp_path / "no.csv", tmp_path / "y.csv")), "report:")


def test_json_holds_what_the_documented_schema_says(made):
    document = json.loads(report_json(made))
    documented = (Path(__file__).resolve().parents[3] / "docs" / "report.md").read_text(encoding="utf-8")
    assert set(document) == {
        "schema", "exercises", "students", "reliability", "at_risk", "hosts", "similar", "regrade", "skipped", "notes"
    }  # fmt: skip
    for part in (document, document["exercises"][0], document["exercises"][0]["tests"][0], document["students"][0]):
        assert all(f"`{name}`" in documented for name in part if name not in (EX06, EX07)), part.keys()
    ada = document["students"][0]
    assert ada["total"] == {"points": 30, "max_points": 30, "graded": 2}
    assert ada["results"][EX06]["points"] == 10
    cyd = document["students"][2]
    assert (cyd["total"], cyd["results"][EX06]["status"], cyd["results"][EX06]["points"]) == (None, "error", None)
    assert document["exercises"][0]["histogram"] == [0, 0, 0, 0, 0, 1, 0, 0, 0, 2]


def test_every_file_is_written_by_its_option(results, tmp_path):
    pytest.importorskip("polars", reason="writes Parquet with polars: install the instructor extra")
    files = {name: tmp_path / f"file.{name}" for name in ("csv", "items", "parquet", "json", "moodle")}
    text = show(results, width=200, **files)
    for path in files.values():
        assert path.stat().st_size > 50 and f"wrote {path}" in text
