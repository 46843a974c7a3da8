"""A class of simulated students through the real nbgrader: from release to fetched feedback, with two exercises.

One test, because the way is one: everything after a step looks at what that step left.
"""

from __future__ import annotations

import csv
import datetime
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

pytest.importorskip("nbgrader")

from grader.classroom.scores import cell_scores, points_by_category
from grader.grading.result import Result, read_result
from tests.grader.classroom.students import ROOT, Student, nbgrader

MODULES = {"ex06": "ex06_repeat_kv", "ex08": "ex08_mask"}
FULL = ("right", "warns", "deleted", "duplicated", "renamed", "cell", "both", "late", "corrupt", "stranger")
NONE = ("crash", "segfault", "loop", "hog", "syntax")
UNSCORED = ("empty", "oversized")
KINDS = (*FULL, *NONE, *UNSCORED, "partial", "wrong", "forger")
NAMES = {
    "right": ("Emmy", "Noether, Dr."),
    "partial": ('Alan "Al"', "Turing"),
    "wrong": ("=HYPERLINK(1)", "Ødegård"),
    "warns": ("光", "@山田"),
}


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_class_from_release_to_fetched_feedback(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))  # nobody's nbgrader configuration, nobody's cache
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    warnings.simplefilter("ignore")  # nbgrader's own
    course, room = _copy_of_the_course(tmp_path), tmp_path / "room"
    exchange, students = room / "exchange", [Student(name=kind, kind=kind, home=tmp_path / "homes" / kind) for kind in KINDS]
    by_kind = {student.kind: student for student in students}
    config = room / "students" / "nbgrader_config.py"

    # --- the instructor starts and releases ---
    roster = tmp_path / "roster.csv"
    _write_roster(roster)
    said = ladder(course, "init", room, "--roster", roster, "--late", "10%", "--course-id", "llm")
    assert "is now a classroom" in said and f"{len(KINDS) - 1} new" in said and "classroom build" in said
    said = ladder(course, "build", "06", "08")
    assert "ex06  10 points" in said and "nbgrader release_assignment ex06" in said
    assert "Released as: llm ex06" in nbgrader(room, "release_assignment", "ex06")
    assert "released to the exchange" in ladder(course, "build", "08", "--release")
    _check_release(course, room)

    # --- the students fetch, work and submit ---
    for student in students:
        student.home.mkdir(parents=True)
        for label in MODULES:
            if (student.kind, label) == ("right", "ex06"):  # each of nbgrader's own commands once; it is the same code
                student.command("fetch_assignment", label, config=config)
            else:
                student.exchange("fetch_assignment", label, exchange, "llm")
    by_kind["both"].exchange("submit", "ex06", exchange, "llm")  # the stub, far too early; a second submission follows
    time.sleep(0.01)
    for label, module in MODULES.items():
        for student in students:
            student.work(label, module)
            if (student.kind, label) == ("right", "ex06"):
                assert "Submitted as" in student.command("submit", label, config=config)
            elif (student.kind, label) != ("late", "ex08"):
                student.exchange("submit", label, exchange, "llm")
    due = datetime.datetime.now(datetime.UTC)
    assert "ex08 is due" in ladder(course, "init", room, "--due", f"08={due.isoformat()}")  # run again: loses nothing
    time.sleep(0.01)
    by_kind["late"].exchange("submit", "ex08", exchange, "llm")

    # --- collected, graded, given back ---
    for label in MODULES:
        nbgrader(room, "collect", label)
    assert len(list((room / "submitted").iterdir())) == len(KINDS)
    said = ladder(course, "grade", "06", "08", "--release", "--jobs", "2")
    for expected in ("not in the roster, graded all the same: stranger", "1 late: late", "2 without a score", "fetch_feedback"):
        assert expected in said, said
    assert "STOPPED" not in said and "there is no notebook" in said and "the notebook is called my work (1).ipynb" in said
    for student in students:
        for label in MODULES:
            if (student.kind, label) == ("right", "ex06"):
                student.command("fetch_feedback", label, config=config)
            else:
                student.exchange("fetch_feedback", label, exchange, "llm")

    _check_scores(room)
    _check_feedback(room, students)
    _check_exports(course, room, tmp_path)
    _check_that_nothing_is_done_twice(course, room)
    _check_regrading(course, room, by_kind, exchange)


def ladder(course: Path, *arguments: object, code: int = 0) -> str:
    """`python -m grader classroom ...` in a copy of the course; returns what it printed."""
    environment = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1"}
    environment.pop("ATTENTION_LADDER_ENVIRONMENT", None)
    command = [sys.executable, "-m", "grader", "classroom", *map(str, arguments)]
    done = subprocess.run(command, cwd=course, env=environment, capture_output=True, text=True, timeout=500)
    assert "Traceback" not in done.stdout + done.stderr, done.stderr
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def _copy_of_the_course(folder: Path) -> Path:
    """Two exercises, and short limits for those that never end."""
    course = folder / "course"
    ignore = shutil.ignore_patterns(
        ".git", ".venv", ".ladder", "__pycache__", "grader_tests", "*.egg-info", ".hypothesis", "referees"
    )
    shutil.copytree(ROOT, course, ignore=ignore)
    head, *tables = (course / "course.toml").read_text().split("[[exercise]]\n")
    head = re.sub(r"call_seconds = [0-9.]+", "call_seconds = 1.5", head)
    some = [table for table in tables if table.startswith(("number = 6\n", "number = 8\n"))]
    (course / "course.toml").write_text("[[exercise]]\n".join([head, *some]))
    return course


def _write_roster(path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8-sig") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "first_name", "last_name", "email", "lms_user_id"])
        for number, kind in enumerate(kind for kind in KINDS if kind != "stranger"):
            first, last = NAMES.get(kind, (kind.title(), "Student"))
            writer.writerow([kind, first, last, f"{kind}@example.org", str(1000 + number)])


def results_of(room: Path, kind: str) -> dict[str, Result]:
    return {label: read_result(room / "ladder/results" / kind / f"{label}.json") for label in MODULES}


def _check_release(course: Path, room: Path) -> None:
    """What students get holds no solution and no hidden test, and nbgrader's own validation accepts it."""
    for label, module in MODULES.items():
        folder = room / "release" / label
        assert sorted(path.name for path in folder.iterdir()) == [f"{label}.ipynb", f"{module}.py", "ladder.zip"]
        stub = (course / "exercises" / f"{module}.py").read_text()
        assert (folder / f"{module}.py").read_text() == stub
        cells = {cell["id"]: "".join(cell["source"]) for cell in json.loads((folder / f"{label}.ipynb").read_text())["cells"]}
        assert cells["solution"].endswith(stub.strip()), label
        shutil.unpack_archive(folder / "ladder.zip", folder.parent / f"{label}-unpacked")
        texts = [path.read_text() for path in (folder.parent / f"{label}-unpacked").rglob("*") if path.is_file()]
        texts.append((folder / f"{label}.ipynb").read_text())
        hidden = re.findall(r"^def (test_\w+)", (course / f"tests/hidden/test_{module}.py").read_text(), re.MULTILINE)
        public = re.findall(r"^def (test_\w+)", (course / f"tests/public/test_{module}.py").read_text(), re.MULTILINE)
        assert hidden and not [name for name in set(hidden) - set(public) if any(f"{name}(" in text for text in texts)]
        assert not any("BEGIN SOLUTION" in text.replace('BEGIN = "# BEGIN SOLUTION"', "") for text in texts)
    assert "Success" in nbgrader(room / "release/ex06", "validate", "ex06.ipynb")


def _check_scores(room: Path) -> None:
    """No student is lost, and every grade cell holds exactly what our result says."""
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{room / 'gradebook.db'}", "llm") as gradebook:
        for label in MODULES:
            submissions = {one.student.id: one for one in gradebook.assignment_submissions(label)}
            assert submissions.keys() == set(KINDS)
            for kind, submission in submissions.items():
                grades = {grade.name: grade for notebook in submission.notebooks for grade in notebook.grades}
                result = results_of(room, kind)[label]
                if kind in UNSCORED:
                    assert result.status != "graded" and submission.needs_manual_grade and submission.score == 0
                    assert {grade.auto_score for grade in grades.values()} == {None}
                    continue
                cells = {cell.category: cell for cell in cell_scores(result)}
                assert {name: grade.auto_score for name, grade in grades.items()} == {n: c.score for n, c in cells.items()}, kind
                assert {name: grade.max_score for name, grade in grades.items()} == {n: c.max_points for n, c in cells.items()}
                assert (
                    abs(submission.score - result.points) < 1e-5
                    and submission.max_score == 10
                    and not submission.needs_manual_grade
                )
                if kind in FULL:
                    assert submission.score == 10, kind
                elif kind in NONE:
                    assert submission.score == 0, kind
                else:
                    assert submission.score < 10, kind
                late = (kind, label) == ("late", "ex08")
                assert submission.late_submission_penalty == (1.0 if late else 0.0)
            assert submissions["partial"].score > 0
            assert submissions["forger"].score == submissions["wrong"].score


def _check_feedback(room: Path, students: list[Student]) -> None:
    """Everybody who can fetch feedback did, and no page holds a hidden test's name, its source or an expected value."""
    for student in students:
        for label, module in MODULES.items():
            fetched = list((student.home / label / "feedback").rglob("*.html"))
            if student.kind == "empty":  # no notebook was submitted: nbgrader has no name to fetch feedback under
                assert fetched == [] and (room / "feedback/empty" / label / f"{label}.html").exists()
                continue
            assert len(fetched) == 1, (student.kind, label)
            page = fetched[0].read_text()
            result = results_of(room, student.kind)[label]
            hidden = [test for test in result.tests if not test.visible]
            names = {re.split(r"[\[:]", test.id.removeprefix("hidden::"))[0] for test in hidden}
            assert not [name for name in names if name in page], student.kind
            assert "hidden::" not in page and "tests/hidden" not in page and "reference." not in page
            assert "assert_equal(" not in page and "assert_close(" not in page
            if student.kind in FULL:
                assert "10 of 10 points" in page, student.kind
            elif student.kind == "partial":
                assert any(test.hint and " ".join(test.hint.split()[:4]) in page for test in hidden) or label == "ex08"
            elif student.kind == "oversized":
                assert "is too large" in page and "decides" in page
            if student.kind in ("right", "partial", "late"):
                assert "holds something else" not in page
            if student.kind == "both":
                assert f"{module}.py counts" in page
            if student.kind in ("cell", "renamed"):
                assert f"the solution cell of {'my work (1)' if student.kind == 'renamed' else label}.ipynb counts" in page
            cells = json.loads((room / "autograded" / student.kind / label / f"{label}.ipynb").read_text())["cells"]
            ours = {cell["metadata"]["nbgrader"]["grade_id"] for cell in cells if "nbgrader" in cell["metadata"]}
            assert ours == {"start", "solution", "check", *points_by_category(results_of(room, "right")[label].tests)}
            assert not any(cell.get("outputs") for cell in cells if "nbgrader" not in cell["metadata"])  # nobody's own claims
    mine = (room / "feedback/right/ex06/ex06.html").read_text()
    assert "What was graded: ex06_repeat_kv.py" in mine and "No response" not in mine


def _check_exports(course: Path, room: Path, folder: Path) -> None:
    table, moodle, canvas = folder / "scores.csv", folder / "moodle.csv", folder / "canvas.csv"
    head = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "ex06 (77)", "Masks (78)", "Current Score"]
    with canvas.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerows([head, ["    Points Possible", "", "", "", "", "10.0", "20.0", "(read only)"]])
        for number, kind in enumerate(kind for kind in KINDS if kind != "stranger"):
            writer.writerow([", ".join(reversed(NAMES.get(kind, ("A", "B")))), str(1000 + number), "", kind, "S1", "1", "", "0"])
        writer.writerow(["Guest", "1", "", "guest", "S1", "5", "6", "0"])
    files = ("--csv", table, "--moodle", moodle, "--canvas", canvas, "--canvas-column", "08=Masks (78)")
    said = ladder(course, "export", *files)
    for expected in (
        "needs manual",
        "Canvas has it at 20.0 points",
        "Guest",
        "'Masks (78)'",
        "graded but not in Canvas' file: stranger",
    ):
        assert expected in said, said
    rows = list(csv.DictReader(table.open(newline="", encoding="utf-8")))
    assert {row["student"] for row in rows} == set(KINDS)
    for row in rows:
        result = results_of(room, row["student"])[row["assignment"]]
        if row["student"] in UNSCORED:
            assert row["score"] == row["auto_score"] == row["assignment_score"] == "" and row["status"] == "needs manual"
            continue
        cell = next(cell for cell in cell_scores(result) if cell.category == row["item"])
        assert float(row["score"]) == float(row["auto_score"]) == pytest.approx(cell.score, abs=1e-6)
        assert row["manual_score"] == "" and row["status"] == "graded"
        penalty = 1.0 if (row["student"], row["assignment"]) == ("late", "ex08") else 0.0
        assert float(row["late_penalty"]) == penalty
        assert float(row["assignment_score"]) == pytest.approx(result.points - penalty, abs=1e-5)
        assert (int(row["seconds_late"]) >= 0) and row["max_score"] != ""
    by_student = {row["student"]: row for row in rows}
    assert by_student["right"]["last_name"] == "Noether, Dr." and by_student["partial"]["first_name"] == 'Alan "Al"'
    assert by_student["wrong"]["first_name"] == "'=HYPERLINK(1)" and by_student["warns"]["last_name"] == "'@山田"
    filled = list(csv.reader((folder / "canvas-filled.csv").open(newline="")))
    assert filled[0] == head and len(filled) == len(KINDS) - 1 + 3
    for row in filled[2:-1]:
        result = results_of(room, row[3])
        if row[3] in UNSCORED:
            assert row[5:7] == ["1", ""]  # as Canvas had it
        else:
            late = 1.0 if row[3] == "late" else 0.0
            assert [float(row[5]), float(row[6])] == pytest.approx(
                [result["ex06"].points, result["ex08"].points - late], abs=1e-5
            )
    assert filled[-1][5:7] == ["5", "6"]
    rows = {row["Email address"]: row for row in csv.DictReader(moodle.open(newline="", encoding="utf-8"))}
    assert rows["late@example.org"]["ex08"] == "9" and rows["empty@example.org"]["ex06"] == ""


def _check_that_nothing_is_done_twice(course: Path, room: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in (room / "autograded").rglob("*.ipynb")}
    said = ladder(course, "grade", "06", "--no-feedback")
    assert f"{len(KINDS)} of {len(KINDS)} submissions in the gradebook, {len(KINDS)} of them already" in said
    assert before == {path: path.stat().st_mtime_ns for path in before}


def _check_regrading(course: Path, room: Path, by_kind: dict[str, Student], exchange: Path) -> None:
    """Manual scores, comments and extensions survive; what is stale gives no points; one broken student stops nobody."""
    from nbgrader.api import Gradebook

    url = f"sqlite:///{room / 'gradebook.db'}"
    with Gradebook(url, "llm") as gradebook:
        grade = gradebook.find_grade("numerics", "ex06", "ex06", "partial")
        grade.manual_score, grade.extra_credit = 2.75, 0.5
        gradebook.find_comment("solution", "ex06", "ex06", "partial").manual_comment = "A fine idea, nearly there."
        for name in ("shape", "numerics", "gradients", "robustness", "memory"):
            gradebook.find_grade(name, "ex06", "ex06", "oversized").manual_score = 1.0
        gradebook.db.commit()
        gradebook.grant_extension("ex08", "late", days=3)
    # `partial` submits again, and is right now; `wrong` changes nothing; somebody edits a collected file by hand
    for kind in ("partial",):
        (by_kind[kind].home / "ex06/ex06_repeat_kv.py").write_text((course / "solutions/ex06_repeat_kv.py").read_text())
        by_kind[kind].exchange("submit", "ex06", exchange, "llm")
    nbgrader(room, "collect", "ex06", "--update")
    stale = room / "submitted/crash/ex06/ex06_repeat_kv.py"
    os.chmod(stale, 0o644)
    stale.write_text((course / "solutions/ex06_repeat_kv.py").read_text())
    before = _auto_scores(room)

    # nbgrader's own command, by hand, before anything was graded again: it stops those two and gives them nothing
    done = subprocess.run(
        [sys.executable, "-m", "nbgrader", "autograde", "ex06", "--force"], cwd=room, capture_output=True, text=True, timeout=300
    )
    assert done.returncode != 0 and done.stderr.count("has changed since it was graded") >= 2
    assert "classroom grade 06" in done.stderr
    after = _auto_scores(room)
    assert {key: value for key, value in after.items() if key[0] not in ("crash", "partial")} == {
        key: value for key, value in before.items() if key[0] not in ("crash", "partial")
    }
    assert all(after[key] == before[key] for key in after if key[0] == "crash")  # and not 10

    said = ladder(course, "export", "--csv", room.parent / "stale.csv")
    assert "2 outdated" in said
    shutil.rmtree(room / "ladder/results/wrong")  # a killed batch, or a tidy colleague
    said = ladder(course, "grade", "06", "08", "--release")
    assert "STOPPED" not in said
    scores = _auto_scores(room)
    assert sum(scores["partial", "ex06", name] for name in ("shape", "numerics", "gradients", "robustness", "memory")) == 10
    assert sum(scores["crash", "ex06", name] for name in ("shape", "numerics", "gradients", "robustness", "memory")) == 10
    with Gradebook(url, "llm") as gradebook:
        grade = gradebook.find_grade("numerics", "ex06", "ex06", "partial")
        assert (grade.manual_score, grade.extra_credit, grade.needs_manual_grade) == (2.75, 0.5, True)
        assert gradebook.find_comment("solution", "ex06", "ex06", "partial").comment == "A fine idea, nearly there."
        assert gradebook.find_submission("ex06", "oversized").score == 5.0
        assert gradebook.find_submission("ex08", "late").late_submission_penalty == 0.0
    assert "A fine idea, nearly there." in (room / "feedback/partial/ex06/ex06.html").read_text()

    # points may change after submissions, categories may not
    suite = course / "tests/hidden/test_ex06_repeat_kv.py"
    text = suite.read_text()
    suite.write_text(text.replace('@points(1, "shape")', '@points(0.5, "shape")', 1))
    toml = (course / "course.toml").read_text()
    (course / "course.toml").write_text(toml.replace("points = 10", "points = 9.5", 1))
    said = ladder(course, "grade", "06", code=1)
    assert "the suite's points have changed" in said and "classroom build" in said
    assert _auto_scores(room) == scores
    assert "shape 1.5" in ladder(course, "build", "06")
    assert "STOPPED" not in ladder(course, "grade", "06", "--no-feedback")
    assert _auto_scores(room)["right", "ex06", "shape"] == 1.5
    suite.write_text(suite.read_text().replace('"gradients")', '"speed")'))
    said = ladder(course, "build", "06", code=2)
    assert "Points may change, categories may not" in said and "speed" in said


def _auto_scores(room: Path) -> dict[tuple[str, str, str], float | None]:
    query = """
        SELECT student.id, assignment.name, base_cell.name, grade.auto_score FROM grade
        JOIN base_cell ON grade.cell_id = base_cell.id JOIN submitted_notebook ON grade.notebook_id = submitted_notebook.id
        JOIN submitted_assignment ON submitted_notebook.assignment_id = submitted_assignment.id
        JOIN assignment ON submitted_assignment.assignment_id = assignment.id JOIN student ON submitted_assignment.student_id = student.id
    """
    with sqlite3.connect(room / "gradebook.db") as database:
        return {(student, label, name): score for student, label, name, score in database.execute(query)}
