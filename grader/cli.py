"""The commands: arguments, exit codes and what a person reads. The work is done in the other rooms.

Heavy modules are imported inside the commands: torch first, then the zygote is forked, then everything that learner code must
not find in its memory.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from grader.course import Course, CourseError, Exercise, load_course

if TYPE_CHECKING:
    from grader.grading.batch import Executor
    from grader.grading.grade import Files, Grader
    from grader.grading.protocol import Job
    from grader.grading.result import Result
    from grader.playing.own import OwnCode
    from grader.playing.saved import Speaker
    from grader.playing.talk import Options

ROOT = Path(__file__).resolve().parents[1]

app = typer.Typer(
    name="python -m grader",
    help="The autograder of Attention Ladder.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
console = Console(highlight=False)
errors = Console(stderr=True, highlight=False)

LEARNERS = ("check", "watch", "hint", "look", "progress", "doctor", "pretrain", "talk", "submit")  # the commands of a kit
ExerciseArgument = Annotated[str | None, typer.Argument(metavar="EX", help="An exercise: 06, 6, ex06 or its file's name.")]
IsolationOption = Annotated[str, typer.Option(metavar="TIER", help="Isolation tier: auto, A, B, C or D. See `doctor`.")]


class Stop(Exception):
    """Ends a command with a sentence for the user and exit code 2."""


def _add_classroom() -> None:
    """For instructors; a learner's kit does not hold it."""
    with contextlib.suppress(ModuleNotFoundError):
        from grader.classroom.commands import app as classroom

        app.add_typer(classroom)


def run() -> NoReturn:
    """Run a command; whatever goes wrong ends in a sentence, never in a traceback of ours."""
    if not (ROOT / "grader" / "authoring").is_dir():  # a learner's kit
        _hide_what_learners_lack()
    code: object = 2
    _add_classroom()
    try:
        code = app(standalone_mode=False)
    except (CourseError, Stop) as error:
        _complain(str(error))
    except typer.Exit as exit_:
        code = exit_.exit_code
    except (KeyboardInterrupt, typer.Abort):
        _complain("stopped")
        code = 130
    except BrokenPipeError:
        sys.stderr.close()
        os._exit(0)
    except Exception as error:
        code = _unexpected(error)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 0)  # torch takes a tenth of a second to say goodbye


def _hide_what_learners_lack() -> None:
    """`--help` shows the commands that a kit can run."""
    for one in app.registered_commands:
        one.hidden = one.callback is None or one.callback.__name__ not in LEARNERS
    for group in app.registered_groups:
        group.hidden = True


def _unexpected(error: Exception) -> int:
    """Errors of other rooms that carry a sentence, usage errors, and at last faults of the grader itself."""
    if hasattr(error, "format_message"):  # click's usage errors
        context = getattr(error, "ctx", None)
        if context is not None:
            errors.print(Text(context.get_usage()))
        _complain(error.format_message())
        return 2
    if isinstance(error, ModuleNotFoundError) and (error.name or "").startswith("grader."):
        _complain("this command is for instructors and authors; a learner's kit does not hold it")
        return 2
    known = (
        "SandboxError",
        "MaterialError",
        "SubmissionError",
        "AuthoringError",
        "LessonError",
        "ResultError",
        "BatchError",
        "PlayingError",
        "ClassroomError",
    )
    if type(error).__name__ in known:
        _complain(str(error))
        return 2
    import traceback

    from grader.grading.result import write_atomically

    log = ROOT / ".ladder" / "error.log"
    with contextlib.suppress(OSError):
        log.parent.mkdir(exist_ok=True)
        write_atomically(log, "".join(traceback.format_exception(error)).encode("utf-8", "replace"))
    _complain(f"the grader itself failed ({type(error).__name__}: {error}). Nothing of yours was changed; details are in {log}")
    return 2


def _complain(sentence: str) -> None:
    errors.print(Text.assemble(("error: ", "bold red"), sentence))


@contextlib.contextmanager
def _grader(isolation: str, *, remember: bool = False, pair: bool = False) -> Iterator[Grader]:
    """A sandbox whose zygote was forked before anything secret was loaded, and a grader in it; with `pair` a second process, if there
    is a core for it, runs a part of the tests."""
    course = load_course(ROOT)
    try:
        import torch  # noqa: F401 - before the fork
    except ImportError as error:
        raise Stop(f"torch cannot be imported: {error}. `make setup` installs what the course needs") from None
    from grader.sandbox.client import Sandbox
    from grader.sandbox.environment import trade_memory_for_time

    with contextlib.ExitStack() as stack:
        runs = None
        if pair:
            from grader.watching.pair import Pair

            runs = stack.enter_context(Pair(isolation))
        sandbox = stack.enter_context(Sandbox(isolation, start="fork"))
        trade_memory_for_time()
        from grader.grading.grade import Grader

        yield Grader(course, sandbox, remember=remember, runs=runs)


@app.command()
def check(
    exercise: ExerciseArgument = None,
    from_: Annotated[
        Path | None, typer.Option("--from", metavar="DIR", help="Check a folder or .zip instead of exercises/.")
    ] = None,
    json: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write the result as JSON.")] = None,
    markdown: Annotated[Path | None, typer.Option(metavar="FILE", help="Also append the result to a Markdown file.")] = None,
    started: Annotated[bool, typer.Option("--started", help="Exit code 1 only for what was started and does not pass.")] = False,
    debug: Annotated[
        str | None, typer.Option(metavar="TEST", help="Run one public example in this very process: for debuggers.")
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="Show every failure, not only the first few.")] = False,
    seed: Annotated[int | None, typer.Option(metavar="N", help="Repeat a run: the seed of its inputs.")] = None,
    isolation: IsolationOption = "auto",
) -> None:
    """Grade one exercise, or all of them, in the terminal.

    Exit code 0: all points; 1: not all; 2: wrong usage, or the grader failed.
    """
    from grader.submission import own_submission

    course = load_course(ROOT)
    wanted = [course.exercise(exercise)] if exercise else list(course.exercises)
    submission = own_submission(from_ or ROOT)
    if debug is not None:
        if not exercise:
            raise Stop("--debug needs an exercise: check EX --debug TEST")
        _debug(course, wanted[0], submission.file, debug, seed)
        return
    with _grader(isolation) as grader:
        from grader import display
        from grader.progress import remember, unfinished_below

        results: dict[str, Result] = {}
        for one in wanted:
            results[one.file] = grader.grade(one, submission.file, seed=seed, known=results)
        if exercise:
            below = unfinished_below(course, wanted[0]) if from_ is None else []
            display.show_result(console, course, wanted[0], results[wanted[0].file], everything=all_, unfinished=below)
        else:
            display.show_overview(console, course, list(results.values()))
        if from_ is None:
            remember(course, list(results.values()))
        if json is not None:
            _write_json(json, list(results.values()), single=exercise is not None)
        if markdown is not None:
            _append_markdown(markdown, course, list(results.values()))
        if any(result.status == "error" for result in results.values()):
            raise typer.Exit(2)
        looked_at = [result for result in results.values() if not started or display.is_started(result)]
        raise typer.Exit(0 if all(map(display.is_complete, looked_at)) else 1)


def _append_markdown(path: Path, course: Course, results: list[Result]) -> None:
    from grader.markdown import as_markdown

    try:
        with path.open("a", encoding="utf-8") as stream:
            stream.write(as_markdown(course, results) + "\n")
    except OSError as error:
        raise Stop(f"{path}: cannot be written: {error.strerror}") from None


def _write_json(path: Path, results: list[Result], *, single: bool) -> None:
    import msgspec

    from grader.grading.result import write_atomically

    try:
        write_atomically(path, msgspec.json.format(msgspec.json.encode(results[0] if single else results), indent=1) + b"\n")
    except OSError as error:
        raise Stop(f"{path}: cannot be written: {error.strerror}") from None


def _debug(course: Course, exercise: Exercise, files: Files, test: str, seed: int | None) -> None:
    """One public example on the learner's own files, without a jail: `print`, `breakpoint()` and debuggers work."""
    import torch  # noqa: F401

    from grader.grading.debug import run_example

    outcome = run_example(course, exercise, files, test, seed)
    console.print()
    console.print(Text(f"  {outcome.title}", style="bold"))
    style = "green" if outcome.outcome == "passed" else "red"
    console.print(Text(f"  {outcome.outcome}" + (f": {outcome.message}" if outcome.message else ""), style=style))
    console.print()
    raise typer.Exit(0 if outcome.outcome == "passed" else 1)


@app.command()
def watch(exercise: ExerciseArgument = None, isolation: IsolationOption = "auto") -> None:
    """Check at every save: an exercise, or whichever is saved. Ctrl-C ends.

    What failed last time is run first. The inputs stay the same until everything passes.
    """
    course = load_course(ROOT)
    one = course.exercise(exercise) if exercise else None
    if not course.exercises_dir.is_dir():
        raise Stop(f"{course.exercises_dir}: there is no such folder to watch")
    with _grader(isolation, remember=True, pair=True) as grader:
        from grader.watching.screen import Screen
        from grader.watching.watch import Watch

        try:
            Watch(course, grader, Screen(console), one).run()
        except (OSError, RuntimeError) as error:
            raise Stop(f"{course.exercises_dir} cannot be watched any more: {error}. Start `watch` again") from None
    console.print()


@app.command()
def hint(
    exercise: Annotated[str, typer.Argument(metavar="EX", help="An exercise: 06, 6, ex06 or its file's name.")],
    again: Annotated[bool, typer.Option("--again", help="Begin with the first hint again.")] = False,
) -> None:
    """Give the next of an exercise's three hints."""
    from rich.markdown import Markdown

    from grader import display
    from grader.lessons import HINTS, forget_hints, next_hint

    course = load_course(ROOT)
    one = course.exercise(exercise)
    if again:
        forget_hints(course, one)
    given = next_hint(course, one)
    console.print()
    console.print(Text.assemble((f"  Exercise {one.label}", "bold"), f"  hint {given.number} of {HINTS}"))
    console.print(Padding(Markdown(given.text), (1, 4)))
    if given.is_last:
        console.print(Text(f"  That was the last one; the lesson is exercises/{one.file}.md. --again starts over."))
    else:
        console.print(Text(f"  Try that first; {display.command(f'hint EX={one.label}')} has more."))
    console.print()


@app.command()
def look(
    exercise: Annotated[str, typer.Argument(metavar="EX", help="An exercise: 06, 6, ex06 or its file's name.")],
    from_: Annotated[Path | None, typer.Option("--from", metavar="DIR", help="A folder or .zip instead of exercises/.")] = None,
    isolation: IsolationOption = "auto",
) -> None:
    """Show what your own code makes: shapes, masks, bars, curves. Judges nothing.

    Exit code 0: shown; 1: your code is not so far yet; 2: wrong usage.
    """
    from grader.submission import own_submission

    course = load_course(ROOT)
    one = course.exercise(exercise)
    submission = own_submission(from_ or ROOT)
    with _grader(isolation) as grader:
        from grader.looking import blocks
        from grader.text import clean

        console.print()
        console.print(Text.assemble((f"  Exercise {one.label}", "bold"), f"  {one.title}, as your code has it"))
        for block in blocks(course, one, submission.file, grader.sandbox):
            console.print()
            console.print(Padding(Text(clean(block.text), style="" if block.good else "red"), (0, 2)))
        console.print()
        raise typer.Exit(0 if block.good else 1)


@app.command()
def progress() -> None:
    """Show the ladder and where you stand, from your last checks."""
    from rich.table import Table

    from grader import display
    from grader.lessons import HINTS, hints_shown
    from grader.progress import content_hash, read_progress

    course = load_course(ROOT)
    checked = read_progress(course)
    table = Table(box=None, padding=(0, 2), show_header=False)
    next_one: Exercise | None = None
    for exercise in course.exercises:
        last = checked.get(exercise.file)
        done = last is not None and last.is_complete
        if last is None:
            state, style = "not checked yet", "dim"
        elif last.max_points:
            state = f"{display.amount(last.points)} of {display.amount(last.max_points)} points"
            style = "green" if done else "yellow" if last.points else "red"
        else:
            state, style = f"{last.passed} of {last.tests} examples", "green" if done else "yellow"
        notes = []
        if last is not None and last.content != content_hash(course, exercise):
            notes.append("changed since")
        if used := hints_shown(course, exercise):
            notes.append(f"{used} of {HINTS} hints used")
        if next_one is None and not done:
            next_one = exercise
        sign = display.mark(console, True) if done else "·"
        table.add_row(
            Text(sign, style=style), exercise.label, exercise.title, Text(state, style=style), Text(", ".join(notes), style="dim")
        )
    console.print()
    console.print(table)
    console.print()
    if next_one is None:
        console.print(Text("  You are at the top. Well done!\n", style="bold green"))
    else:
        console.print(Text(f"  Next: exercises/{next_one.file}.md, then {display.command(f'check EX={next_one.label}')}\n"))


@app.command()
def submit(
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Where to write it. Default: submission.zip.")] = None,
    exercises: Annotated[
        str | None, typer.Option(metavar="LIST", help="Only these and what they build on, such as 06,07.")
    ] = None,
) -> None:
    """Pack your exercises into one zip to hand in, and say what is in it.

    Exit code 0: packed; 1: packed, but something should be looked at first; 2: nothing was packed.
    """
    from grader.submitting import NAME, pack, show, write

    course = load_course(ROOT)
    out = out or ROOT / NAME
    names = [part for part in (exercises or "").replace(",", " ").split() if part]
    found = pack(course, [course.exercise(name) for name in names] or course.exercises)
    checksum = write(out, found.items)
    show(console, course, found, out, checksum)
    raise typer.Exit(1 if found.look_at else 0)


@app.command()
def doctor(isolation: IsolationOption = "auto") -> None:
    """Show machine, versions, device and isolation, measured by a hostile probe.

    Exit code 0: results graded here can be official; 1: they cannot, and why.
    """
    course = load_course(ROOT)
    import torch  # noqa: F401

    from grader.sandbox.client import Sandbox

    with Sandbox(isolation, start="fork") as sandbox:
        from grader.diagnostics import examine, show

        findings = examine(course, sandbox)
        show(console, findings)
        raise typer.Exit(0 if findings.probe == [] else 1)


@app.command()
def grade(
    submissions: Annotated[Path, typer.Argument(metavar="SUBMISSIONS", help="Holds a folder or a .zip per student.")],
    out: Annotated[Path, typer.Option(metavar="RESULTS", help="Where RESULTS/<student>/exNN.json are written.")],
    exercises: Annotated[str | None, typer.Option(metavar="LIST", help="Only these, such as 06,07. Default: all.")] = None,
    jobs: Annotated[
        int, typer.Option(metavar="N", min=1, max=256, help="Processes that grade. Default: one per core.")
    ] = os.cpu_count() or 1,
    seed: Annotated[int | None, typer.Option(metavar="N", help="Repeat a batch: its inputs. Default: new in each batch.")] = None,
    isolation: IsolationOption = "auto",
    scheduler: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Dask's scheduler, or its scheduler file: grade on its workers.")
    ] = None,
) -> None:
    """Grade a class. Stopped at any moment and started again, it does only what is missing.

    Exit code 0: all graded; 1: some in error; 2: wrong usage.
    """
    from grader.grading.command import grade_submissions
    from grader.grading.protocol import Job, drawn

    course = load_course(ROOT)
    names = [part for part in (exercises or "").replace(",", " ").split() if part]
    wanted = list(dict.fromkeys(course.exercise(name).file for name in names)) or [one.file for one in course.exercises]
    seed = drawn(seed)  # one for all: the same questions, and references answer them once
    job = Job(root=ROOT, out=out.absolute(), exercises=sorted(wanted), isolation=isolation, seed=seed)
    raise typer.Exit(grade_submissions(console, submissions, job, jobs, _cluster(scheduler)))


def _cluster(scheduler: str | None) -> Callable[[Job], Executor] | None:
    """Dask's workers as executor, if they are asked for."""
    if scheduler is None:
        return None
    try:
        from grader.grading.cluster import Cluster
    except ImportError as error:
        raise Stop(f"{error.name} is missing: `make setup-instructor` installs what --scheduler needs") from None
    return lambda job: Cluster(job, scheduler, say=lambda sentence: errors.print(Text(sentence, style="yellow")))


@app.command(add_help_option=False, context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def report(context: typer.Context) -> None:
    """The instructor's report on a graded class: who is where, which test is unfair, whom to help."""
    try:
        from grader.report import main as report_main
    except ImportError as error:
        raise Stop(f"the report is not part of this folder, or {error.name} is missing: `make setup-instructor`") from None
    raise typer.Exit(report_main(context.args, program="python -m grader report"))


@app.command()
def verify(
    exercise: ExerciseArgument = None,
    jobs: Annotated[
        int, typer.Option(metavar="N", min=1, max=256, help="Processes that grade. Default: one per core.")
    ] = os.cpu_count() or 1,
    seed: Annotated[int | None, typer.Option(metavar="N", help="Repeat a run.")] = None,
    isolation: IsolationOption = "auto",
) -> None:
    """Prove the suites: stubs score 0, solutions and wheats all points, every chaff fails in its category, and most are named.

    Exit code 0: proven; 1: something is not as it should be.
    """
    from grader.authoring.verify import proven, show, verify_course

    course = load_course(ROOT)
    wanted = [course.exercise(exercise)] if exercise else list(course.exercises)
    proofs = verify_course(course, wanted, jobs=jobs, seed=seed, isolation=isolation, console=console)
    show(console, proofs)
    raise typer.Exit(0 if proven(proofs) else 1)


@app.command()
def calibrate(
    exercise: ExerciseArgument = None,
    isolation: IsolationOption = "auto",
) -> None:
    """Measure which timed tests this machine can tell, and switch off, by name, those that it cannot.

    Exit code 0: all are judged here; 1: some are switched off.
    """
    course = load_course(ROOT)
    wanted = [course.exercise(exercise)] if exercise else list(course.exercises)
    if not any(one.timed for one in wanted):
        raise Stop("nothing is timed there: [[exercise.timed]] in course.toml declares what is")
    with _grader(isolation) as grader:
        from grader.authoring.calibrate import calibrate as measure
        from grader.authoring.calibrate import show

        with console.status("measuring references and slow anchors, three times each"):
            findings = measure(course, wanted, grader.sandbox)
    show(console, findings)
    raise typer.Exit(1 if any(one.calibrated.off for one in findings) else 0)


@app.command()
def stubs(
    ex: ExerciseArgument = None,
    check: Annotated[bool, typer.Option("--check", help="Only say which are out of date.")] = False,
) -> None:
    """Write exercises/*.py anew from solutions/*.py.

    Exit code 1 with --check: some are out of date.
    """
    from grader.authoring.stubs import stale_stubs, write_stubs

    course = load_course(ROOT)
    names = (stale_stubs if check else write_stubs)(course, None if ex is None else [course.exercise(ex)])
    for name in names:
        console.print(Text(f"{'out of date' if check else 'wrote'}: {name}"))
    if check and names:
        console.print(Text("`python -m grader stubs` writes them anew"))
    elif not names:
        console.print(Text("all stubs are up to date"))
    raise typer.Exit(1 if check and names else 0)


@app.command()
def kit(
    out: Annotated[Path, typer.Option(metavar="DIR", help="A new or an empty folder.")],
    torch: Annotated[
        str, typer.Option(metavar="WORDS", help="Which torch learners install: what follows `pip install` for a CPU-only build.")
    ] = "",
) -> None:
    """Write the folder that a learner gets: no solutions, hidden tests or history."""
    from grader.authoring.kit import make_kit

    files = make_kit(load_course(ROOT), out, torch)
    console.print(Text(f"wrote {len(files)} files to {out}"))
    console.print(Text("Next: hand out this folder, as a zip or a repository; its README.md tells learners how to begin."))


@app.command()
def gradescope(
    out: Annotated[Path, typer.Option(metavar="ZIP", help="Where to write it.")],
    exercises: Annotated[
        str | None, typer.Option(metavar="LIST", help="What the assignment has, such as 06,07. Default: all.")
    ] = None,
    visibility: Annotated[
        str,
        typer.Option(metavar="WHEN", help="When students see their points: visible, after_due_date, after_published, hidden."),
    ] = "visible",
    leaderboard: Annotated[
        bool, typer.Option(help="Tokens per second of the learner's own model, where 14 and 15 are right.")
    ] = True,
    torch: Annotated[
        str, typer.Option(metavar="WORDS", help="Which torch is installed: what follows `pip install` for a CPU-only build.")
    ] = "",
    minutes: Annotated[float, typer.Option(metavar="N", min=1, max=600, help="Gradescope's limit for one run.")] = 10,
    accept_unofficial: Annotated[
        bool, typer.Option("--accept-unofficial", help="Give points although the sandbox there is weak (docs/gradescope.md).")
    ] = False,
) -> None:
    """Write a Gradescope autograder for some exercises. It holds the answers: upload it, and give it to nobody."""
    from grader.display import amount
    from grader.gradescope.build import make_autograder, make_options

    course = load_course(ROOT)
    names = [part for part in (exercises or "").replace(",", " ").split() if part]
    wanted = {course.exercise(name).number for name in names} or {one.number for one in course.exercises}
    chosen = [one for one in course.exercises if one.number in wanted]
    options = make_options(chosen, visibility, leaderboard=leaderboard, accept_unofficial=accept_unofficial, minutes=minutes)
    size = make_autograder(course, out, options, torch)
    points = amount(sum(one.points for one in chosen))
    labels = "all exercises" if len(chosen) == len(course.exercises) else ", ".join(one.label for one in chosen)
    console.print(Text(f"wrote {out} ({size / 1e6:.1f} MB) for {labels}: {points} points in all"))
    if not torch:
        console.print(
            Text(
                "without --torch, pip's default build of torch is installed, which on Linux carries CUDA: several GB",
                style="yellow",
            )
        )
    console.print(
        Text(
            f"Next, on Gradescope: a programming assignment worth {points} points; Configure Autograder, upload this file, a base image "
            f"with Ubuntu 24.04, at least 3 GB of memory, a timeout of {minutes:g} minutes. docs/gradescope.md has all of it."
        )
    )


@app.command()
def pretrain(
    steps: Annotated[int, typer.Option(metavar="N", min=1, max=1_000_000, help="Steps of training.")] = 600,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Of the weights and the batches.")] = 0,
    from_: Annotated[Path | None, typer.Option("--from", metavar="DIR", help="A folder or .zip instead of exercises/.")] = None,
) -> None:
    """Train your own model on real text, with your own tokenizer (01), model (14) and training (16).

    It is kept in .ladder/model for `talk`. Your code runs in this process, without a jail.
    """
    with _own_code(from_, training=True) as code:
        from grader.playing.pretrain import pretrain as run_pretrain
        from grader.playing.saved import FOLDER

        run_pretrain(console, code, ROOT / FOLDER, steps, seed)
        console.print(Text(f"  It is kept in {FOLDER}. To talk to it: {_command('talk')}\n"))


@app.command()
def talk(
    prompt: Annotated[str | None, typer.Argument(metavar="PROMPT", help="How the text begins. Without it you are asked.")] = None,
    model: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="A Qwen3 folder as Hugging Face has it. Default: what `pretrain` made.")
    ] = None,
    temperature: Annotated[float, typer.Option(metavar="X", min=0.0, help="0: always the likeliest token.")] = 0.8,
    top_k: Annotated[int | None, typer.Option(metavar="N", min=1, help="Only the N likeliest tokens.")] = None,
    top_p: Annotated[float | None, typer.Option(metavar="P", min=0.0, max=1.0, help="Only the likeliest, P in all.")] = None,
    max_new_tokens: Annotated[int, typer.Option(metavar="N", min=0, help="How long an answer may be.")] = 200,
    seed: Annotated[int | None, typer.Option(metavar="N", min=0, help="Say the same again.")] = None,
    from_: Annotated[Path | None, typer.Option("--from", metavar="DIR", help="A folder or .zip instead of exercises/.")] = None,
) -> None:
    """Let your model go on with a text, token by token, with your own `stream` (15).

    With --model, a Qwen3 checkpoint is loaded into your own CausalLM and Tokenizer. Your code runs in this process, without a jail.
    """
    if prompt is None and not sys.stdin.isatty():
        raise Stop("there is no PROMPT, and no terminal to ask for one: talk 'Once upon a time'")
    with _own_code(from_) as code:
        from grader.playing.saved import FOLDER
        from grader.playing.talk import Options, load_speaker

        speaker = load_speaker(code, ROOT / FOLDER if model is None else model, own=model is None)
        for note in speaker.notes:
            errors.print(Text(f"note: {note}", style="dim"))
        options = Options(temperature=temperature, top_k=top_k, top_p=top_p, max_new_tokens=max_new_tokens, seed=seed)
        if prompt is not None:
            _say(code, speaker, prompt, options)
            return
        console.print(Text("  Give the beginning of a text; an empty line ends it.", style="dim"))
        with contextlib.suppress(EOFError, KeyboardInterrupt):
            while line := console.input("[bold]> [/bold]"):
                with contextlib.suppress(KeyboardInterrupt):
                    _say(code, speaker, line, options)
                console.print()


def _say(code: OwnCode, speaker: Speaker, prompt: str, options: Options) -> None:
    """The prompt and what the model makes of it, as it comes."""
    from grader.playing.talk import speak
    from grader.text import clean

    for number, piece in enumerate(speak(code, speaker, prompt, options)):
        console.out(clean(prompt) + piece if number == 0 else piece, end="", highlight=False)
    console.out("")


@contextlib.contextmanager
def _own_code(folder: Path | None, *, training: bool = False) -> Iterator[OwnCode]:
    """The learner's own exercises, loaded into this process, which may use all cores."""
    from grader.submission import own_submission

    course = load_course(ROOT)
    submission = own_submission(folder or ROOT)
    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise Stop(f"torch cannot be imported: {error}. `make setup` installs what the course needs") from None
    from grader.playing.own import OwnCode, use_all_cores
    from grader.playing.talk import NEEDED

    use_all_cores()
    code = OwnCode(course, submission.file, submission.path, [*NEEDED, 16] if training else NEEDED)
    try:
        yield code
    finally:
        code.close()


def _command(text: str) -> str:
    from grader import display

    return display.command(text)
