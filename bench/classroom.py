"""What an nbgrader classroom costs: our batch grader and autograde together, against nbgrader's own kernel autograde of the same
notebooks, with the same tests in hidden cells. Both run as commands; CPU time is that of whole process trees.

    python bench/classroom.py [--students N] [--exercise EX]

Half of the class is wrong. Feedback pages are left out on both sides: they are nbgrader's own and cost the same. Scores are compared but
for memory, which a kernel cannot measure from outside.
Ours runs before and after nbgrader's, so that a change of the machine's load shows.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import shutil
import sqlite3
import sys
import tempfile
from pathlib import Path

from cost import PR_SET_CHILD_SUBREAPER, ROOT, Cost, measure

sys.path.insert(0, str(ROOT))

CONFIG = """
c = get_config()
c.CourseDirectory.course_id = "kernel"
c.CourseDirectory.root = {root!r}
c.Execute.timeout = 120
"""
FIRST = """### BEGIN HIDDEN TESTS
import os, sys

os.environ["OMP_NUM_THREADS"] = "1"
sys.path.insert(0, {bench!r})
from pathlib import Path
from fresh_pytest import run_tests

_run = run_tests(Path("."), {exercise!r})
### END HIDDEN TESTS
"""
SUM = """### BEGIN HIDDEN TESTS
float(min({most!r}, sum(t.max_points for t in _run.tests if t.category == {name!r} and t.outcome == "passed")))
### END HIDDEN TESTS
"""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--students", type=int, default=30)
    parser.add_argument("--exercise", default="06")
    options = parser.parse_args()
    from grader.course import load_course

    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    course = load_course(ROOT)
    exercise = course.exercise(options.exercise)
    label = f"ex{exercise.label}"
    with tempfile.TemporaryDirectory() as folder:
        ours, kernel = Path(folder, "ours"), Path(folder, "kernel")
        classroom = (sys.executable, "-m", "grader", "classroom")
        measure(*classroom, "init", ours, "--course-id", "ours")
        measure(*classroom, "build", label, "--dir", ours)
        points = json.loads((ours / "ladder/assignments" / f"{label}.json").read_bytes())["cells"]
        _make_kernel_course(kernel, label, exercise.file, points)
        measure(sys.executable, "-m", "nbgrader", "generate_assignment", label, f"--CourseDirectory.root={kernel}", cwd=kernel)
        sources = _class(exercise.file, options.students)
        for number, source in enumerate(sources):
            for room in (ours, kernel):
                _submit(room, label, exercise.file, f"s{number:03d}", source)
        print(f"load {os.getloadavg()[0]:.2f} on {os.cpu_count()} cores, {len(sources)} submissions of {label}\n")
        grade = (*classroom, "grade", label, "--dir", ours, "--no-feedback")
        first = measure(*grade)
        theirs = measure(sys.executable, "-m", "nbgrader", "autograde", label, cwd=kernel)
        scores = _scores(ours), _scores(kernel)
        _forget(ours, label)
        second = measure(*grade)
    _show(first, theirs, second, len(sources))
    differ = [student for student, score in scores[0].items() if abs(scores[1].get(student, -1) - score) > 1e-6]
    print(
        f"\nscores differ for {len(differ)} of {len(scores[0])} students, memory left out; load {os.getloadavg()[0]:.2f} at the end"
    )


def _show(first: Cost, theirs: Cost, second: Cost, students: int) -> None:
    print("                                          wall      CPU   wall each   CPU each")
    for name, cost in (("ours", first), ("nbgrader's kernels", theirs), ("ours again", second)):
        each = f"{cost.wall / students:9.2f} s {cost.cpu / students:8.2f} s"
        print(f"{name:34s} {cost.wall:9.1f} s {cost.cpu:6.1f} s {each}")
    wall, cpu = (first.wall + second.wall) / 2, (first.cpu + second.cpu) / 2
    print(f"\nratio: {theirs.wall / wall:.1f} in wall time, {theirs.cpu / cpu:.1f} in CPU time")


def _class(name: str, students: int) -> list[str]:
    """Right solutions and mistakes, in turns."""
    right = [ROOT / f"solutions/{name}.py", *sorted((ROOT / f"solutions/wheats/{name}").glob("*.py"))]
    wrong = sorted((ROOT / f"solutions/chaffs/{name}").glob("*.py"))
    step = max(1, len(wrong) // (students // 2))
    chosen = [
        (right, wrong[::step])[number % 2][(number // 2) % len((right, wrong[::step])[number % 2])] for number in range(students)
    ]
    return [path.read_text() for path in chosen]


def _make_kernel_course(root: Path, label: str, exercise: str, points: dict[str, float]) -> None:
    """The same notebook as everybody makes it: a solution cell, and hidden tests in grade cells that a kernel runs."""
    from nbformat.v4 import new_code_cell, new_notebook, writes

    def marks(name: str, **more: object) -> dict[str, object]:
        plain = {"grade_id": name, "schema_version": 3, "locked": False, "solution": False, "grade": False, "task": False}
        return {"nbgrader": {**plain, **more}}

    cells = [new_code_cell("### BEGIN SOLUTION\n### END SOLUTION", metadata=marks("solution", solution=True), id="solution")]
    for number, (name, most) in enumerate(points.items()):
        source = (FIRST.format(bench=str(ROOT / "bench"), exercise=exercise) if number == 0 else "") + SUM.format(
            most=most, name=name
        )
        cells.append(new_code_cell(source, metadata=marks(name, locked=True, grade=True, points=most), id=name))
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    (root / "source" / label).mkdir(parents=True)
    (root / "source" / label / f"{label}.ipynb").write_text(writes(new_notebook(cells=cells, metadata={"kernelspec": kernel})))
    (root / "nbgrader_config.py").write_text(CONFIG.format(root=str(root)))


def _submit(room: Path, label: str, exercise: str, student: str, source: str) -> None:
    """What `nbgrader collect` would have put there."""
    folder = room / "submitted" / student / label
    shutil.copytree(room / "release" / label, folder)
    (folder / f"{exercise}.py").write_text(source)
    notebook = json.loads((folder / f"{label}.ipynb").read_text())
    for cell in notebook["cells"]:
        if cell["metadata"].get("nbgrader", {}).get("grade_id") == "solution":
            cell["source"] = f"# solution of {exercise}\n{source}"
    (folder / f"{label}.ipynb").write_text(json.dumps(notebook))
    (folder / "timestamp.txt").write_text("2026-01-01 00:00:00 UTC")


def _forget(room: Path, label: str) -> None:
    """As if nothing had been graded."""
    for name in ("autograded", "ladder/results", "ladder/receipts"):
        shutil.rmtree(room / name, ignore_errors=True)


def _scores(room: Path) -> dict[str, float]:
    query = """
        SELECT student_id, sum(auto_score) FROM grade
        JOIN base_cell ON grade.cell_id = base_cell.id JOIN submitted_notebook ON grade.notebook_id = submitted_notebook.id
        JOIN submitted_assignment ON submitted_notebook.assignment_id = submitted_assignment.id
        WHERE base_cell.name != 'memory' GROUP BY student_id
    """
    with sqlite3.connect(room / "gradebook.db") as database:
        return {student: score or 0.0 for student, score in database.execute(query)}


if __name__ == "__main__":
    main()
