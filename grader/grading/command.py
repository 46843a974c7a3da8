"""The `grade` command: a progress bar over `grade_class`, and what an instructor is told at the end."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from grader.submission import SubmissionError, find_submissions
from grader.text import one_line

from .batch import Done, Job, grade_class

LISTED = 10


def grade_submissions(console: Console, folder: Path, job: Job, jobs: int) -> int:
    """Grade all submissions in `folder`; returns the exit code."""
    submissions = find_submissions(folder)
    if not submissions:
        raise SubmissionError(f"{folder}: no submissions; expected a folder or a .zip per student")
    try:
        job.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SubmissionError(f"{job.out}: cannot be written: {error.strerror}") from None
    columns = (TextColumn("grading"), BarColumn(), MofNCompleteColumn(), TextColumn("students"), TimeRemainingColumn())
    done: list[Done] = []
    batch = grade_class(job, submissions, min(jobs, len(submissions)))
    try:
        with Progress(*columns, console=console, transient=True) as progress:
            task = progress.add_task("grading", total=len(submissions))
            for one in batch:
                done.append(one)
                progress.advance(task)
    except KeyboardInterrupt:
        console.print(Text(f"stopped after {len(done)} of {len(submissions)} students; the same command goes on from here"))
        return 130
    finally:
        batch.close()
    return _summarise(console, job, done)


def _summarise(console: Console, job: Job, done: list[Done]) -> int:
    """Counts, then who needs a look."""
    graded, kept = sum(len(one.graded) for one in done), sum(len(one.kept) for one in done)
    console.print(Text(f"{len(done)} students, {len(job.exercises)} exercises: {graded} graded now, {kept} were up to date"))
    missing = sum(len(one.missing) for one in done)
    if missing:
        console.print(Text(f"{missing} not handed in"))
    unofficial = sum(len(one.unofficial) for one in done)
    if unofficial:
        console.print(
            Text(
                f"{unofficial} results are NOT OFFICIAL: a hostile submission could get out of this sandbox (`doctor` says how)",
                style="yellow",
            )
        )
    failed = [(one.student, exercise, reason) for one in done for exercise, reason in one.errors.items()]
    if failed:
        console.print(Text(f"{len(failed)} in error; they have no points, and are tried again by the next run:", style="red"))
        for student, exercise, reason in failed[:LISTED]:
            console.print(Text(f"  {one_line(student)}  {exercise}  {one_line(reason)}"))
        if len(failed) > LISTED:
            console.print(Text(f"  ... and {len(failed) - LISTED} more"))
    console.print(Text(f"Next: python grader/report.py {job.out}"))
    return 1 if failed else 0
