"""What a notebook's check cell runs, in a process of its own beside the kernel: the public tests on what would be graded now.

    python -m grader.classroom.in_notebook ex06 NOTEBOOK_FOLDER [SOLUTION_CELL_FILE]

It lies in the archive that every assignment carries, with the part of the grader that it needs. Imports no nbgrader.
Exit code 0: all examples pass; 1: not all; 2: they could not be run.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from grader.sandbox.environment import clean_environment, is_clean

ROOT = Path(__file__).resolve().parents[2]


def check(label: str, folder: Path, live_cell: str | None) -> int:
    """Print the verdict on the work in `folder`; returns the exit code."""
    import torch  # noqa: F401 - before the zygote is forked

    from grader.course import load_course
    from grader.sandbox.client import Sandbox

    course = load_course(ROOT)
    exercise = course.exercise(label)
    with Sandbox("auto", start="fork") as sandbox:
        from grader.grading.grade import Grader

        from .scores import checked
        from .submitted import ClassroomSubmission, read_stubs

        stubs = read_stubs(course, exercise)
        submission = ClassroomSubmission(
            student="you", key="you", path=folder, kind="folder", assignment=label, stubs=stubs, live_cell=live_cell
        )
        result = Grader(course, sandbox).grade(exercise, submission.file)
        print(checked(exercise, result, submission.file(exercise.file)), end="", flush=True)
    return 2 if result.status == "error" else 0 if all(test.outcome == "passed" for test in result.tests) else 1


def main() -> None:
    """The command line, in the grader's own clean environment."""
    if not is_clean():
        os.execve(sys.executable, [sys.executable, "-m", "grader.classroom.in_notebook", *sys.argv[1:]], clean_environment())
    label, folder, *cell = sys.argv[1:]
    live = Path(cell[0]).read_text(encoding="utf-8") if cell else None
    code = check(label, Path(folder), live)
    sys.stdout.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
