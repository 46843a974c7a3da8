"""Our steps of nbgrader's conversions, on notebooks that were tampered with: cells repaired, scores plain floats, no points by default."""

from __future__ import annotations

import math
import warnings
from pathlib import Path

import msgspec
import pytest

pytest.importorskip("nbgrader")

from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from nbgrader.api import Gradebook
from nbgrader.preprocessors import ClearSolutions, SaveAutoGrades
from nbgrader.utils import compute_checksum, determine_grade
from traitlets.config import Config

from grader.classroom.folder import Assignment, Classroom, Receipt
from grader.classroom.late import PercentPerDay
from grader.classroom.preprocessors import KeepStubs, RepairCells, SaveScores, close_others, write_scores
from grader.classroom.standing import Standing, StandingError
from grader.submission import Problem, SourceFile
from tests.grader.classroom.test_scores import EXERCISE, record, result

BUILT = Assignment(exercise="ex06_repeat_kv", suite="s", cells={"shape": 2.0, "numerics": 4.0}, checker="check")
FILE = SourceFile(name="ex06_repeat_kv", content=b"def repeat_kv(): ...", place="ex06_repeat_kv.py", notes=("it counts",))
RECEIPT = Receipt(submission="", suite="", result="")
TESTS = [record("a", "shape", 2.0), record("b", "numerics", 1.5, "failed"), record("c", "numerics", 2.5)]


def marks(grade_id: str, **more) -> dict:
    plain = {"grade": False, "solution": False, "locked": False, "task": False, "schema_version": 3}
    return {"nbgrader": {"grade_id": grade_id, **plain, **more}}


def released() -> list:
    return [
        new_markdown_cell("lesson"),
        new_code_cell("stub", metadata=marks("solution", solution=True), id="solution"),
        new_code_cell("check()", metadata=marks("check", locked=True), id="check"),
        new_code_cell("# shape", metadata=marks("shape", locked=True, grade=True, points=2.0), id="shape"),
        new_code_cell("# numerics", metadata=marks("numerics", locked=True, grade=True, points=4.0), id="numerics"),
    ]


def by_id(cells: list) -> dict:
    return {cell.metadata.nbgrader.grade_id: cell for cell in cells if "nbgrader" in cell.metadata}


def standing(*tests, file=FILE, **more) -> Standing:
    return Standing(result=result(*(tests or TESTS), **more), file=file, receipt=RECEIPT)


# ---- scores ----


def test_nbgrader_reads_exactly_our_score():
    cells = by_id(released())
    write_scores(cells, EXERCISE, BUILT, standing())
    assert [determine_grade(cells[name]) for name in BUILT.cells] == [(2.0, 2.0), (2.5, 4.0)]
    assert cells["numerics"].outputs[-1].data["text/plain"] == "2.5"
    assert {output.output_type for output in cells["shape"].outputs} == {"stream", "execute_result"}
    assert "4.5 of 6 points" in cells["check"].outputs[0].text and "it counts." in cells["check"].outputs[0].text
    assert cells["solution"].source.startswith("# What was graded: ex06_repeat_kv.py\ndef repeat_kv")


def test_every_score_from_nothing_to_all_survives_nbgrader():
    for points in (0.0, 1 / 3, 1e-9, 0.1 + 0.2, 3.9999999, 4.0):
        cells = by_id(released())
        tests = [record("a", "shape", 2.0), record("b", "numerics", points or 4.0, "passed" if points else "failed")]
        tests.append(record("c", "numerics", 4.0 - (points or 4.0), "failed"))
        write_scores(cells, EXERCISE, BUILT, standing(*tests))
        score, _ = determine_grade(cells["numerics"])
        assert type(score) is float and score == pytest.approx(points, abs=1e-6) and 0 <= score <= 4.0


def test_what_a_student_left_as_output_or_points_does_not_count():
    cells = by_id(released())
    fake = new_output("execute_result", data={"text/plain": "99.0"})
    cells["numerics"].outputs = [fake]
    write_scores(cells, EXERCISE, BUILT, standing())
    assert determine_grade(cells["numerics"]) == (2.5, 4.0) and fake not in cells["numerics"].outputs


@pytest.mark.parametrize(
    "change",
    [
        lambda cells: cells.pop("shape"),
        lambda cells: cells["shape"].metadata.nbgrader.update(points=99.0),
        lambda cells: cells["shape"].metadata.nbgrader.update(solution=True),
        lambda cells: cells["shape"].metadata.nbgrader.update(grade=False),
        lambda cells: cells.update(shape=new_markdown_cell("x", metadata=marks("shape", grade=True, points=2.0))),
    ],
    ids=["gone", "points", "a solution", "no grade cell", "markdown"],
)
def test_a_cell_that_does_not_fit_stops_this_student(change):
    cells = by_id(released())
    change(cells)
    with pytest.raises(StandingError):
        write_scores(cells, EXERCISE, BUILT, standing())
    assert not cells["numerics"].outputs


def test_a_result_of_another_suite_stops_this_student():
    for tests in ([record("a", "shape", 2.0)], [*TESTS, record("d", "speed", 1.0)], [record("a", "shape", 1.0), *TESTS[1:]]):
        with pytest.raises(StandingError, match="points have changed"):
            write_scores(by_id(released()), EXERCISE, BUILT, standing(*tests))


def test_what_cannot_be_graded_gives_no_points_whoever_reads_the_cells():
    cells = by_id(released())
    missing = Problem(kind="missing", message="there is no ex06_repeat_kv.py")
    write_scores(cells, EXERCISE, BUILT, msgspec.structs.replace(standing(), file=missing))
    assert [determine_grade(cells[name])[0] for name in BUILT.cells] == [0, 0]
    assert "there is no ex06_repeat_kv.py" in cells["shape"].outputs[0].text


def test_nothing_assessed_is_not_full_marks():
    cells = by_id(released())
    tests = [record("a", "shape", 2.0, "not_assessed"), record("b", "numerics", 4.0, "not_assessed")]
    write_scores(cells, EXERCISE, BUILT, standing(*tests))
    assert [determine_grade(cells[name])[0] for name in BUILT.cells] == [0, 0]


def test_grade_cells_that_an_instructor_added_are_closed():
    cells = by_id(released())
    cells["extra"] = new_code_cell("assert True", metadata=marks("extra", locked=True, grade=True, points=5.0))
    cells["essay"] = new_markdown_cell("", metadata=marks("essay", grade=True, solution=True, points=5.0))
    assert close_others(cells, BUILT) == {"extra"} and determine_grade(cells["extra"])[0] == 0


# ---- with a gradebook ----


@pytest.fixture(scope="module")
def room(tmp_path_factory, request) -> tuple[Classroom, str]:
    """A classroom with one assignment of ours in a real gradebook."""
    folder = tmp_path_factory.mktemp("room")
    classroom = Classroom(folder)
    classroom.write_assignment("ex06", BUILT)
    url = f"sqlite:///{folder / 'gradebook.db'}"
    patch = pytest.MonkeyPatch()
    import os
    import sys

    patch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")  # it runs `alembic`
    request.addfinalizer(patch.undo)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with Gradebook(url, "llm") as gradebook:
            gradebook.add_assignment("ex06")
            gradebook.add_notebook("ex06", "ex06")
            for cell in released()[1:]:
                own = cell.metadata.nbgrader
                if own.grade:
                    gradebook.add_grade_cell(own.grade_id, "ex06", "ex06", max_score=own.points, cell_type="code")
                if own.solution:
                    gradebook.add_solution_cell(own.grade_id, "ex06", "ex06")
                checksum = compute_checksum(cell)
                more = {"cell_type": "code", "locked": own.locked, "checksum": checksum}
                gradebook.add_source_cell(own.grade_id, "ex06", "ex06", source=cell.source, **more)
            gradebook.add_student("ada")
            gradebook.add_submission("ex06", "ada")
    return classroom, url


def resources(url: str, assignment: str = "ex06") -> dict:
    return {"nbgrader": {"student": "ada", "assignment": assignment, "notebook": "ex06", "db_url": url}}


def config(classroom: Classroom) -> Config:
    settings = Config()
    settings.OurStep.classroom = str(classroom.root)
    return settings


def repaired(room: tuple[Classroom, str], cells: list) -> list:
    notebook, _ = RepairCells(config=config(room[0])).preprocess(new_notebook(cells=cells), resources(room[1]))
    return notebook.cells


def ids(cells: list) -> list:
    return [cell.metadata.get("nbgrader", {}).get("grade_id") for cell in cells]


ORDER = [None, "solution", "check", "shape", "numerics"]


def test_an_honest_notebook_stays_as_it_is(room):
    cells = repaired(room, released())
    assert ids(cells) == ORDER and [cell.source for cell in cells] == [cell.source for cell in released()]


@pytest.mark.parametrize("gone", [["shape"], ["solution"], ["solution", "check", "shape"], ["check", "numerics"]])
def test_deleted_cells_come_back_where_they_were(room, gone):
    cells = repaired(room, [cell for cell in released() if cell.id not in gone])
    assert ids(cells) == ORDER
    assert by_id(cells)["shape"].source == "# shape" and by_id(cells)["shape"].metadata.nbgrader.points == 2.0


def test_everything_deleted_comes_back(room):
    assert ids(repaired(room, [])) == ORDER[1:]


def test_of_copies_the_last_stays_ours_and_the_others_are_plain_cells(room):
    cells = repaired(room, [*released(), *released()])
    assert sorted(filter(None, ids(cells))) == sorted(filter(None, ORDER))
    assert len({cell.id for cell in cells}) == len(cells) == 10


def test_metadata_that_was_edited_is_as_the_gradebook_has_it(room):
    cells = released()
    forged = {"points": 99.0, "solution": True, "locked": False, "schema_version": 1, "grade": False}
    for cell in cells[1:]:
        cell.metadata.nbgrader.update(forged)
        cell.source = "99.0"
    cells.append(new_code_cell("99.0", metadata=marks("bonus", grade=True, points=50.0)))
    cells.append(new_code_cell("x", metadata={"nbgrader": "no table"}))
    cells.append(new_code_cell("x", metadata={"nbgrader": {"grade_id": ["shape"]}}))
    found = repaired(room, cells)
    assert ids(found) == [*ORDER, None, None, None]
    shape, solution = by_id(found)["shape"], by_id(found)["solution"]
    assert shape.source == "# shape" and shape.metadata.nbgrader == {
        **marks("shape", locked=True, grade=True, points=2.0)["nbgrader"],
        "cell_type": "code",
        "checksum": compute_checksum(released()[3]),
    }
    assert solution.source == "99.0" and not solution.metadata.nbgrader.grade  # what a learner writes there stays


def test_a_cell_turned_into_markdown_is_code_again(room):
    cells = released()
    cells[3] = new_markdown_cell("mine", metadata=cells[3].metadata)
    assert by_id(repaired(room, cells))["shape"].cell_type == "code"


def test_pictures_in_a_learners_own_cell_stay(room):
    mine = new_markdown_cell("![x](attachment:x.png)", attachments={"x.png": {"image/png": "AA=="}})
    assert repaired(room, [*released(), mine])[-1].attachments == mine.attachments


def test_assignments_that_are_not_ours_are_left_alone(room):
    classroom, url = room
    notebook = new_notebook(cells=released()[1:2])
    same, _ = RepairCells(config=config(classroom)).preprocess(notebook.copy(), resources(url, "essay"))
    assert same.cells == notebook.cells
    ours, _ = KeepStubs(config=config(classroom)).preprocess(notebook.copy(), resources(url))
    assert ours.cells[0].source == "stub"
    cleared, _ = KeepStubs(config=config(classroom)).preprocess(new_notebook(cells=released()[1:2]), resources(url, "essay"))
    expected, _ = ClearSolutions().preprocess(new_notebook(cells=released()[1:2]), resources(url, "essay"))
    assert cleared.cells == expected.cells and "YOUR CODE HERE" in cleared.cells[0].source


def test_a_cell_without_a_score_waits_for_the_instructor_and_a_manual_score_stays(room):
    classroom, url = room
    cells = by_id(released())
    write_scores(cells, EXERCISE, BUILT, standing())
    notebook = new_notebook(cells=list(cells.values()))
    with Gradebook(url, "llm") as gradebook:
        gradebook.find_grade("shape", "ex06", "ex06", "ada").manual_score = 1.25
        gradebook.db.commit()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        SaveScores(config=config(classroom)).preprocess(notebook, {**resources(url), "ladder": {"unscored": {"numerics"}}})
    with Gradebook(url, "llm") as gradebook:
        numerics, shape = (gradebook.find_grade(name, "ex06", "ex06", "ada") for name in ("numerics", "shape"))
        assert (numerics.auto_score, numerics.needs_manual_grade, numerics.score) == (None, True, 0.0)
        assert (shape.auto_score, shape.manual_score, shape.score, shape.needs_manual_grade) == (2.0, 1.25, 1.25, True)
        shape.needs_manual_grade = False  # the instructor has looked at it
        gradebook.db.commit()
    for tests, flagged in ((TESTS, False), ([record("a", "shape", 2.0, "failed"), *TESTS[1:]], True)):
        write_scores(cells, EXERCISE, BUILT, standing(*tests))
        notebook = new_notebook(cells=list(cells.values()))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            SaveScores(config=config(classroom)).preprocess(notebook, {**resources(url), "ladder": {"unscored": set()}})
        with Gradebook(url, "llm") as gradebook:  # again only if there is something new to look at
            shape = gradebook.find_grade("shape", "ex06", "ex06", "ada")
            assert (shape.score, shape.needs_manual_grade) == (1.25, flagged)
    assert issubclass(SaveScores, SaveAutoGrades)


# ---- late ----


@pytest.mark.parametrize(
    ("seconds", "expected"), [(0, None), (1, 0.8), (24 * 3600, 0.8), (24 * 3600 + 1, 1.6), (9 * 24 * 3600, 7.2), (1e9, 8.0)]
)
def test_a_penalty_grows_with_each_day_begun(seconds, expected):
    assert PercentPerDay(percent=10.0).late_submission_penalty("ada", 8.0, seconds) == expected


def test_a_score_of_nothing_loses_nothing():
    assert PercentPerDay().late_submission_penalty("ada", 0.0, 100.0) is None and math.isclose(PercentPerDay().percent, 10.0)
