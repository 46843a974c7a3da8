"""The `grade` command: a progress bar over `grade_class`, and what an instructor is told at the end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from grader.submission import SubmissionError, find_submissions
from grader.text import one_line

from .batch import Done, Executor, grade_class
from .protocol import Job

LISTED = 10


def grade_submissions(
    console: Console, folder: Path, job: Job, jobs: int, executor: Callable[[Job], Executor] | None = None
) -> int:
    """Grade all submissions in `folder`, with `jobs` processes here or with another executor; returns the exit code."""
    submissions = find_submissions(folder)
    if not submissions:
        raise SubmissionError(f"{folder}: no submissions; expected a folder or a .zip per student")
    try:
        job.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SubmissionError(f"{job.out}: cannot be written: {error.strerror}") from None
    columns = (TextColumn("grading"), BarColumn(), MofNCompleteColumn(), TextColumn("exercises"), TimeRemainingColumn())
    done: list[Done] = []
    total = len(submissions) * len(job.exercises)
    progress = Progress(*columns, console=console, transient=True)
    bar = progress.add_task("grading", total=total)
    batch = grade_class(job, submissions, min(jobs, total), executor=executor, on_result=lambda: progress.advance(bar))
    try:
        with progress:
            done.extend(batch)
    except KeyboardInterrupt:
        finished = round(progress.tasks[0].completed)
        console.print(Text(f"stopped after {finished} of {total} exercises; the same command goes on from here"))
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
