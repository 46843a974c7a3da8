"""Shows results in a learner's terminal: what passed, what failed and why, and what to do next. Decides nothing."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

import msgspec
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from grader.course import Course, Exercise
from grader.grading.result import CATEGORIES, Result, TestResult
from grader.text import clean, one_line

SHOWN_FAILURES = 4
SHORT_OUTPUT = 4  # lines of what a learner's code printed, on a small screen
EXAMPLES = "examples"
EXAMPLES_ONLY = "They are a small part of what is graded in the end: read the contract and the traps once more."


class Failure(msgspec.Struct):
    """Failed tests that a learner reads as one: the same sentence, or the same reason."""

    title: str
    category: str
    message: str | None
    hint: str | None
    picture: str | None = None
    cases: int = 1
    others: int = 0  # tests with other sentences that failed for the same reason


def command(text: str) -> str:
    """A command as this learner types it: through make where make started us."""
    return (
        f"make {text}"
        if os.environ.get("LADDER_MAKE")
        else f"python -m grader {text.replace('EX=', '').replace('DEBUG=', '--debug ')}"
    )


def amount(points: float) -> str:
    """Points for people: 4, 4.25."""
    return f"{points:.2f}".rstrip("0").rstrip(".")


def show_result(
    console: Console,
    course: Course,
    exercise: Exercise,
    result: Result,
    *,
    everything: bool = False,
    unfinished: Sequence[Exercise] = (),
    short: bool = False,
    is_last: bool = True,
) -> None:
    """The verdict on one exercise. `unfinished`: earlier ones that it uses and whose last check found something. `short` is for a
    screen of 24 lines. Without `is_last` there is more to come, and so no next step."""
    good = is_complete(result)
    console.print()
    console.print(_heading(exercise, result, good))
    console.print()
    if result.status != "graded":
        _show_unusable(console, exercise, result)
        return
    if result.reason == "not started":
        _show_not_started(console, course, exercise, result)
        return
    show_findings(console, exercise, result, everything=everything, short=short)
    if result.prerequisites == "reference":
        _block(
            console,
            "Graded on right code for the earlier exercises",
            "An early mistake is not punished twice; mend that one first.",
        )
    elif unfinished and not is_complete(result):
        names = " and ".join(f"{one.label} ({one.title})" for one in unfinished)
        _block(console, f"This exercise uses your {names}", "The last check there found mistakes: mend them first.")
    if result.output:
        _block(console, "Your code printed", _end_of(result.output, SHORT_OUTPUT) if short else result.output)
    if is_last:
        _next_step(console, course, exercise, result)


def show_findings(
    console: Console,
    exercise: Exercise,
    result: Result,
    *,
    everything: bool = False,
    examples_only: bool = False,
    short: bool = False,
) -> None:
    """What passed, by category, and what failed (with `examples_only`, of the examples) and why; or the one reason why nothing
    could be checked."""
    if result.tests and all(test.outcome == "blocked" for test in result.tests):
        _block(console, "Nothing could be checked", result.reason or result.tests[0].message or "")
        return
    _print(console, _categories(result), below=1)
    if exercise.feedback == "explain":
        _show_timed(console, result)
    if exercise.feedback != "verdict":
        tests = [test for test in result.tests if test.visible or not examples_only]
        shown = len(tests) if everything else 1 if short else SHOWN_FAILURES
        show_failures(console, exercise, tests, shown=shown)


def is_complete(result: Result) -> bool:
    """Whether nothing is left to do: all assessed points, and all examples."""
    return (
        result.status == "graded"
        and result.points is not None
        and abs(result.points - result.max_points) < 1e-6
        and all(test.outcome in ("passed", "not_assessed") for test in result.tests)
    )


def is_started(result: Result) -> bool:
    """Whether there is anything of the learner's in it: no stub, and not nothing."""
    return result.reason != "not started" and result.status != "missing"


def score(result: Result) -> str:
    """Points in words; a kit without the grading suite counts examples."""
    if result.status != "graded":
        return result.status
    if not result.max_points:
        return f"{sum(test.outcome == 'passed' for test in result.tests)} of {len(result.tests)} examples"
    points = f"{amount(result.points or 0.0)} of {amount(result.max_points)} points"
    full = (result.points or 0.0) >= result.max_points - 1e-6
    return f"{points}, but an example fails" if full and not is_complete(result) else points


def show_overview(console: Console, course: Course, results: list[Result]) -> None:
    """All exercises in a table, and where to go on."""
    table = Table(box=None, padding=(0, 2), show_header=False)
    for result in results:
        exercise = course.exercise(result.exercise)
        good = is_complete(result)
        reason = one_line(result.reason) if result.reason else ""
        style = "green" if good else "yellow" if result.points else "red"
        table.add_row(
            Text(mark(console, good), style=style),
            exercise.label,
            exercise.title,
            Text(score(result), style=style),
            Text(reason, style="dim"),
        )
    console.print()
    console.print(table)
    first = next((course.exercise(result.exercise) for result in results if not is_complete(result)), None)
    console.print()
    if first is None:
        _print(console, Text("Everything passes. Well done!", style="bold green"))
        if not any(result.max_points for result in results):
            _print(console, Text(EXAMPLES_ONLY))
    else:
        _print(console, Text(f"Next: {command(f'check EX={first.label}')} shows what exercise {first.label} still needs."))
    console.print()


def mark(console: Console, good: bool) -> str:
    """A tick or a cross, in letters where the terminal has no signs."""
    if "utf" in (console.encoding or "").lower():
        return "✓" if good else "✗"
    return "ok" if good else "no"


def _heading(exercise: Exercise, result: Result, good: bool) -> Text:
    style = "green" if good else "red" if not result.points else "yellow"
    text = Text.assemble((f"  Exercise {exercise.label}", "bold"), f"  {exercise.title}   ")
    return text.append(score(result), style=f"bold {style}")


def _print(console: Console, what: RenderableType, indent: int = 2, below: int = 0) -> None:
    """Print with an indent that wrapped lines keep."""
    console.print(Padding(what, (0, 0, below, indent), expand=False))


def _block(console: Console, title: str, body: str) -> None:
    _print(console, Text(title, style="bold"))
    _print(console, Text(clean(body).rstrip()), indent=4, below=1)


def _show_unusable(console: Console, exercise: Exercise, result: Result) -> None:
    title = {"missing": "There is nothing to check", "error": "This could not be graded"}[result.status]
    _block(console, title, result.reason or "")
    for test in result.tests:
        if test.outcome == "error" and test.detail:
            _block(console, test.id, test.detail)


def _show_not_started(console: Console, course: Course, exercise: Exercise, result: Result) -> None:
    file = f"exercises/{exercise.file}.py"
    names = ", ".join(exercise.names)
    _block(
        console,
        "Not started",
        f"{file} is still the stub: {names} " + ("raises" if len(exercise.names) == 1 else "raise") + " NotImplementedError.",
    )
    steps = (
        f"1. Read the lesson: exercises/{exercise.file}.md\n"
        f"2. Write {names} in {file}, in place of the `raise` line"
        + ("" if len(exercise.names) == 1 else "s")
        + f"\n3. Run {command(f'check EX={exercise.label}')} again; for a hint, {command(f'hint EX={exercise.label}')}"
    )
    _block(console, "What to do", steps)


def _categories(result: Result) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(style="bold")
    table.add_column(justify="right")
    table.add_column()
    for name in (EXAMPLES, *CATEGORIES):
        tests = [test for test in result.tests if (EXAMPLES if test.visible else test.category) == name]
        if not tests:
            continue
        passed = sum(test.outcome == "passed" for test in tests)
        left_out = sum(test.outcome == "not_assessed" for test in tests)
        got, most = sum(test.points for test in tests), sum(test.max_points for test in tests if test.outcome != "not_assessed")
        count = f"{passed} of {len(tests) - left_out} tests" + (f", {left_out} not assessed here" if left_out else "")
        style = "green" if passed == len(tests) - left_out else "red" if not passed else "yellow"
        table.add_row(
            Text(name.replace("_", " ")),
            Text(f"{amount(got)} of {amount(most)}" if most else "", style=style),
            Text(count, style=style),
        )
    return table


def _show_timed(console: Console, result: Result) -> None:
    """How fast right code is, and why what could not be assessed was not."""
    for test in result.tests:
        if test.outcome == "passed" and test.timing is not None and test.timing.ratio and test.timing.gap:
            figures = f"{test.timing.ratio:.1f} times the reference's time; the slow way takes {test.timing.gap:.1f} times"
            _print(console, Text.assemble((f"{test.title} ", "dim"), (figures, "green")), below=1)
        elif test.outcome == "not_assessed" and test.message:
            _print(console, Text.assemble((f"{test.title} Not assessed: ", "dim"), (clean(test.message), "yellow")), below=1)


def group_failures(tests: Iterable[TestResult]) -> list[Failure]:
    """Failed tests in the order of the suite, those with the same sentence, or the very same reason, as one."""
    groups: list[Failure] = []
    for test in tests:
        if test.outcome not in ("failed", "blocked"):
            continue
        for group in groups:
            if group.title == test.title and group.category == test.category:
                group.cases += 1
                group.hint = group.hint or test.hint
                break
            if (test.hint and group.hint == test.hint) or (not test.hint and not group.hint and group.message == test.message):
                group.others += 1
                break
        else:
            groups.append(
                Failure(
                    title=test.title,
                    category=EXAMPLES if test.visible else test.category,
                    message=test.message,
                    hint=test.hint,
                    picture=test.picture,
                )
            )
    return groups


def _end_of(text: str, lines: int) -> str:
    """The last lines of a text, and that there are more."""
    every = text.rstrip().split("\n")
    return "\n".join(every if len(every) <= lines else ["...", *every[1 - lines :]])


def show_failures(console: Console, exercise: Exercise, tests: Iterable[TestResult], *, shown: int) -> None:
    """What failed and why, one entry for each mistake, as far as the exercise's feedback policy lets it be told."""
    groups = group_failures(tests)
    explain = exercise.feedback == "explain"
    for group in groups[:shown]:
        title = Text(clean(group.title), style="bold").append(f"  [{group.category.replace('_', ' ')}]", style="not bold dim")
        heading = Table.grid(padding=(0, 1, 0, 0))
        heading.add_row(Text(mark(console, False), style="red"), title)
        _print(console, heading)
        lines: list[tuple[str, str]] = []
        if explain and group.message:
            lines.append(("seen", clean(group.message)))
        if explain and group.picture:
            lines.append(("", clean(group.picture)))
        if explain and group.hint:
            lines.append(("looks like", clean(group.hint)))
        if group.others:
            lines.append(("also", f"{group.others} more test{'s' if group.others > 1 else ''} failed for the same reason"))
        table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
        table.add_column(style="dim", no_wrap=True)
        table.add_column()
        for label, line in lines:
            table.add_row(label, Text(line, style="cyan" if label == "looks like" else ""))
        _print(console, table, indent=4, below=1)
    rest = len(groups) - shown
    if rest > 0:
        all_of_them = command(f"check EX={exercise.label}") + (" ARGS=--all" if os.environ.get("LADDER_MAKE") else " --all")
        _print(console, Text(f"... and {rest} more: {all_of_them}. The first is the one to mend first.", style="dim"), below=1)


def _next_step(console: Console, course: Course, exercise: Exercise, result: Result) -> None:
    if is_complete(result):
        later = next((one for one in course.exercises if one.number > exercise.number), None)
        sentence = (
            f"Next: exercise {later.label}, {later.title}: exercises/{later.file}.md" if later else "That was the last rung."
        )
        if not result.max_points:
            _print(console, Text(f"All examples pass. {EXAMPLES_ONLY}", style="green"))
            _print(console, Text(sentence), below=1)
            return
        _print(console, Text(f"All done. {sentence}", style="green"), below=1)
        return
    example = next((test for test in result.tests if test.visible and test.outcome == "failed"), None)
    _print(console, Text(f"Stuck? {command(f'hint EX={exercise.label}')} gives a hint."))
    if example is not None:
        name = example.id.removeprefix("public::")
        debug = command(f"check EX={exercise.label} DEBUG={name}")
        _print(console, Text(f"To look inside: {debug} runs that example here, so print and breakpoint() work."))
    console.print()
