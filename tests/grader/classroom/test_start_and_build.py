"""`init` and `build` on a small course: safe to run again, kind to a course that is there already, and clear about what is in the way."""

from __future__ import annotations

import datetime
import io
import json
import os
import sys
import warnings
from pathlib import Path

import pytest

pytest.importorskip("nbgrader")

from rich.console import Console

from grader.classroom.build import build
from grader.classroom.dates import parse_due_dates
from grader.classroom.folder import Classroom, ClassroomError
from grader.classroom.grading import Options, grade
from grader.classroom.nbgrader_api import opened
from grader.classroom.start import start_classroom
from grader.course import Course, CourseError, load_course
from tests.grader.small_course import DOUBLE, QUADRUPLE, write_course

LESSON = "# {name}\n\nText.\n\n## Hints\n\n### Hint 1\n\na\n\n### Hint 2\n\nb\n\n### Hint 3\n\nc\n"


@pytest.fixture
def small(tmp_path: Path, monkeypatch) -> Course:
    """The small course with lessons and stubs, and nobody's nbgrader configuration."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    root = write_course(tmp_path / "course")
    for name in ("ex01_base", "ex02_top"):
        (root / f"exercises/{name}.md").write_text(LESSON.format(name=name))
        path = root / f"solutions/{name}.py"
        source = path.read_text()
        line = next(line for line in source.split("\n") if line.strip().startswith("return"))
        path.write_text(source.replace(line, f"    # BEGIN SOLUTION\n{line}\n    # END SOLUTION"))
    (root / "solutions/config.py").write_text((root / "exercises/config.py").read_text())
    (root / "tests/public/test_ex02_top.py").write_text(
        (root / "tests/public/test_ex01_base.py").read_text().replace("double", "quadruple")
    )
    return load_course(root)


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nbgrader's own
        yield


def said_by(do, *arguments, **options) -> str:
    console = Console(file=io.StringIO(), width=200)
    do(console, *arguments, **options)
    return console.file.getvalue()


def roster(folder: Path, *lines: str) -> Path:
    path = folder / "roster.csv"
    path.write_text("\n".join(["id,first_name,last_name,email,lms_user_id", *lines]) + "\n")
    return path


def test_init_can_be_run_again_and_loses_nothing(small, tmp_path):
    room = Classroom(tmp_path / "room")
    first = said_by(
        start_classroom, small, room, roster=roster(tmp_path, "ada,Ada,L,ada@x,1"), late="zero", due=["1=2030-01-02T03:04+02:00"]
    )
    assert "is now a classroom" in first and "1 new" in first and "due 2030-01-02 01:04 UTC" in first
    assert (room.root / "exchange").stat().st_mode & 0o777 == 0o777
    mine = (room.root / "nbgrader_config.py").read_text() + "c.Exchange.timezone = 'CET'\n"
    (room.root / "nbgrader_config.py").write_text(mine)
    again = said_by(start_classroom, small, room, roster=roster(tmp_path, "ada,Ada,,,", "bob,Bob,B,,"))
    assert "up to date" in again and "1 new" in again and "0 points" in again  # late: as it was told before
    assert (room.root / "nbgrader_config.py").read_text() == mine
    third = said_by(start_classroom, small, room, roster=roster(tmp_path, "bob,Bob,B,,"), late="5%")
    assert "kept: ada" in third and "5%" in third
    with opened(room) as api, api.gradebook as gradebook:
        assert {one.id: one.last_name for one in gradebook.students} == {"ada": "L", "bob": "B"}
        assert gradebook.find_assignment("ex01").duedate == datetime.datetime(2030, 1, 2, 1, 4)
        assert "PercentPerDay" in str(api.config.AssignLatePenalties.plugin_class)


def test_a_course_that_nbgrader_had_before_keeps_its_settings(small, tmp_path):
    room = tmp_path / "room"
    room.mkdir()
    theirs = "c = get_config()\nc.CourseDirectory.course_id = 'phys101'\nc.Exchange.root = '%s'\n" % (tmp_path / "shared")
    (room / "nbgrader_config.py").write_text(theirs)
    (tmp_path / "shared").mkdir(mode=0o700)
    said = said_by(start_classroom, small, Classroom(room))
    assert "phys101" in said and str(tmp_path / "shared") in said and "chmod 777" in said and "one more line" in said
    assert (room / "nbgrader_config.py.before").read_text() == theirs and (room / "nbgrader_config.py").read_text().endswith(
        theirs
    )
    assert "phys101" in (room / "students/nbgrader_config.py").read_text()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"late": "10"}, "none, zero, or a percentage"),
        ({"late": "0%"}, "none, zero, or a percentage"),
        ({"due": ["01"]}, "an exercise and a date"),
        ({"due": ["01=tomorrow"]}, "is no date and time"),
        ({"due": ["01=2030-01-02T03:04"]}, "in which time zone"),
        ({"course_id": "a b"}, "course id 'a b'"),
        ({"roster": Path("nowhere.csv")}, "no such file"),
    ],
)
def test_what_init_refuses_leaves_nothing_behind(small, tmp_path, options, said):
    with pytest.raises(ClassroomError, match=said):
        said_by(start_classroom, small, Classroom(tmp_path / "room"), **options)
    assert not (tmp_path / "room").exists()


def test_an_exercise_that_there_is_not_and_utc_in_words(small):
    with pytest.raises(CourseError):
        parse_due_dates(small, ["77=2030-01-01T00:00Z"])
    moment = datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC)
    assert (
        parse_due_dates(small, ["1=2030-01-01 00:00 UTC"])
        == parse_due_dates(small, ["ex01=2030-01-01T00:00Z"])
        == {"ex01_base": moment}
    )


def test_another_course_id_needs_another_folder(small, tmp_path):
    room = Classroom(tmp_path / "room")
    said_by(start_classroom, small, room, course_id="one")
    with pytest.raises(ClassroomError, match="another id needs another folder"):
        said_by(start_classroom, small, room, course_id="two")


def test_a_folder_that_is_no_classroom_says_how_to_make_it_one(small, tmp_path):
    with pytest.raises(ClassroomError, match="classroom init"):
        said_by(build, small, Classroom(tmp_path), list(small.exercises))


def test_a_notebook_that_was_edited_is_not_overwritten_unasked(small, tmp_path):
    room = Classroom(tmp_path / "room")
    said_by(start_classroom, small, room)
    said = said_by(build, small, room, list(small.exercises))
    assert "ex01  4 points (shape 1, numerics 3)" in said and "ex02  6 points" in said
    notebook = room.root / "source/ex01/ex01.ipynb"
    before = notebook.read_bytes()
    said_by(build, small, room, list(small.exercises))  # the same again: the same
    assert notebook.read_bytes() == before
    edited = json.loads(before)
    edited["cells"].append({"cell_type": "markdown", "id": "more", "metadata": {}, "source": "Mine."})
    notebook.write_text(json.dumps(edited))
    with pytest.raises(ClassroomError, match="was changed since it was built"):
        said_by(build, small, room, [small.exercise(1)])
    said_by(build, small, room, [small.exercise(1)], force=True)
    assert notebook.read_bytes() == before and "Mine." in (room.ours / "before/ex01.ipynb").read_text()
    assert sorted(path.name for path in (room.root / "release/ex01").iterdir()) == ["ex01.ipynb", "ex01_base.py", "ladder.zip"]


def test_a_suite_that_does_not_add_up_is_not_built(small, tmp_path):
    room = Classroom(tmp_path / "room")
    said_by(start_classroom, small, room)
    path = small.hidden_test_path(small.exercise(1))
    path.write_text(path.read_text().replace("@points(3", "@points(2"))
    with pytest.raises(ClassroomError, match=r"gives 3 points, course\.toml says 4"):
        said_by(build, small, room, [small.exercise(1)])
    assert room.assignments() == [] and not (room.root / "source/ex01").exists()


@pytest.mark.slow
def test_earlier_exercises_students_of_strange_names_and_a_kill_half_way(small, tmp_path):
    room = Classroom(tmp_path / "room")
    said_by(start_classroom, small, room)
    said_by(build, small, room, list(small.exercises))
    wrong = DOUBLE.replace("return 2 * x", "return 3 * x")

    def hand_in(student: str, label: str, **files: str) -> None:
        folder = room.root / "submitted" / student / label
        folder.mkdir(parents=True)
        (folder / f"{label}.ipynb").write_bytes((room.root / "release" / label / f"{label}.ipynb").read_bytes())
        for name, text in files.items():
            (folder / f"{name}.py").write_text(text)

    hand_in("own", "ex01", ex01_base=DOUBLE)
    hand_in("own", "ex02", ex02_top=QUADRUPLE)
    hand_in("beside", "ex02", ex02_top=QUADRUPLE, ex01_base=DOUBLE)
    hand_in("none", "ex02", ex02_top=QUADRUPLE)
    hand_in("wrong", "ex01", ex01_base=wrong)
    hand_in("wrong", "ex02", ex02_top=QUADRUPLE)
    strange = 'Ødegård, J. "x" 1'
    hand_in(strange, "ex01", ex01_base=DOUBLE)
    hand_in("w*", "ex01", ex01_base=DOUBLE)  # nbgrader would take it for a pattern
    options = Options(jobs=1, feedback=False)
    codes = []
    said = said_by(lambda *a: codes.append(grade(*a)), small, room, list(small.exercises), options)
    assert codes == [1] and said.count("1 STOPPED") == 1 and "w*: the folder's name holds" in said, said
    assert "not in the roster, graded all the same" in said
    with opened(room) as api, api.gradebook as gradebook:
        scores = {
            (one.student.id, label): one.score for label in ("ex01", "ex02") for one in gradebook.assignment_submissions(label)
        }
    assert scores == {
        ("own", "ex01"): 4.0,
        (strange, "ex01"): 4.0,
        ("wrong", "ex01"): 1.0,
        **{(student, "ex02"): 6.0 for student in ("own", "beside", "none", "wrong")},  # no mistake is punished twice
    }
    # killed after grading, before the gradebook: receipts are there, scores are not
    for student in ("own", "wrong"):
        path = room.ours / "receipts" / student / "ex01.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "written": ""}))
    (room.ours / "receipts/none/ex02.json").write_text("half a rec")
    said = said_by(lambda *a: codes.append(grade(*a)), small, room, list(small.exercises), options)
    assert codes == [1, 1] and "3 of 4 submissions in the gradebook, 1 of them already" in said and "3 of them already" in said
