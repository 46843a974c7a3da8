"""Proves the suites: grades stubs, references, wheats, chaffs and careless code through the real path, and compares with what
must come out.

Runs none of them itself: each is a submission of a class that `grade_class` grades in the sandbox.
"""

from __future__ import annotations

import ast
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from grader.course import Course, Exercise
from grader.grading.batch import grade_class
from grader.grading.materials import MaterialError, read_materials
from grader.grading.protocol import Job, drawn
from grader.grading.result import Result, read_result, result_path
from grader.submission import Submission

from .stubs import stub_of

NAMED_SHARE = 0.85  # of all chaffs, at least; inputs are fresh in every run, and now and then two mistakes look alike
STUB, REFERENCE, WHEAT, CHAFF, CARELESS = "stub", "reference", "wheat", "chaff", "careless"


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One program and what it must come to."""

    kind: str
    name: str
    exercise: str
    source: bytes
    category: str = ""  # of a chaff

    @property
    def student(self) -> str:
        """Its name as a submission."""
        return f"{self.exercise}-{self.kind}-{self.name}"

    @property
    def is_timed(self) -> bool:
        """Whether its speed says something about the suite: that of right code, and of code that is only too slow."""
        return self.kind in (REFERENCE, WHEAT) or self.category == "speed"


class Proof(msgspec.Struct, kw_only=True):
    """What was found out about one exercise."""

    exercise: Exercise
    tests: int = 0
    wheats: int = 0
    wheats_accepted: int = 0
    chaffs: int = 0
    chaffs_rejected: int = 0
    chaffs_named: int = 0
    problems: list[str] = []
    unnamed: list[str] = []  # a sentence for each chaff that the feedback does not name

    @property
    def holds(self) -> bool:
        """Whether everything came out as it must; how many chaffs are named is judged over all exercises."""
        return not self.problems


def proven(proofs: Sequence[Proof]) -> bool:
    """Whether each exercise holds, and enough of all chaffs are named."""
    chaffs, named = sum(proof.chaffs for proof in proofs), sum(proof.chaffs_named for proof in proofs)
    return all(proof.holds for proof in proofs) and named >= NAMED_SHARE * chaffs


def verify_course(
    course: Course, exercises: Sequence[Exercise], *, jobs: int, seed: int | None, isolation: str, console: Console
) -> list[Proof]:
    """Grade every case of these exercises and compare."""
    cases = [case for exercise in exercises for case in cases_of(course, exercise)]
    with tempfile.TemporaryDirectory(prefix="attention-ladder-verify-") as folder:
        submissions = [_submit(course, case, Path(folder, "submissions")) for case in cases]
        out = Path(folder, "results")
        seed = drawn(seed)  # the same for all, so that a chaff's answers are asked for once
        job = Job(
            root=course.root,
            out=out,
            exercises=[exercise.file for exercise in exercises],
            isolation=isolation,
            seed=seed,
            only={case.student: [case.exercise] for case in cases},
            carry_forward=False,
            patient=True,
            undiagnosed=frozenset(case.student for case in cases if case.kind != CHAFF),
            untimed=frozenset(case.student for case in cases if not case.is_timed),
        )
        columns = (TextColumn("verifying"), BarColumn(), MofNCompleteColumn(), TextColumn("programs"))
        with Progress(*columns, console=console, transient=True) as progress:
            task = progress.add_task("verifying", total=len(cases))
            for _ in grade_class(job, submissions, min(jobs, len(cases))):
                progress.advance(task)
        results = {case.student: read_result(result_path(out, case.student, case.exercise)) for case in cases}
        unheard = [case for case in cases if case.category == "speed" and _was_not_told(results[case.student])]
        if unheard:  # a second chance, alone: the machine was busy
            for case in unheard:
                result_path(out, case.student, case.exercise).unlink()
            again = [one for one in submissions if one.key in {case.student for case in unheard}]
            for _ in grade_class(job, again, 1):
                pass
            for case in unheard:
                results[case.student] = read_result(result_path(out, case.student, case.exercise))
    graded = [(case, results[case.student]) for case in cases]
    return [_prove(exercise, [one for one in graded if one[0].exercise == exercise.file]) for exercise in exercises]


def _was_not_told(result: Result) -> bool:
    """Whether code that is too slow was not found so, because no verdict could be reached."""
    speed = [test.outcome for test in result.tests if test.category == "speed" and not test.visible]
    return "failed" not in speed and "not_assessed" in speed


def cases_of(course: Course, exercise: Exercise) -> list[Case]:
    """Every program that says something about this exercise's suite."""
    materials = read_materials(course, exercise)
    file = f"{exercise.file}.py"
    if file not in materials.references or not materials.has_hidden:
        raise MaterialError(f"no solution or no hidden suite of exercise {exercise.label} here; a kit cannot be verified")

    def case(kind: str, name: str, source: bytes, category: str = "") -> Case:
        return Case(kind=kind, name=name, exercise=exercise.file, source=source, category=category)

    cases = [case(STUB, "stub", stub_of(course, exercise).encode()), case(REFERENCE, "reference", materials.references[file])]
    cases += [case(WHEAT, path.stem, path.read_bytes()) for path in sorted(course.wheats_dir(exercise).glob("*.py"))]
    cases += [case(CHAFF, chaff.name, chaff.package.files[file], chaff.category) for chaff in materials.chaffs]
    words = _parameter_names(materials.references[file])
    for name, body in careless_bodies(words).items():
        cases.append(case(CARELESS, name, careless_module(exercise, body)))
    return cases


ANYTHING = """import numpy, torch
    kinds = ['no', 0.0, (), numpy.zeros((2, 3)), torch.empty(0), torch.eye(3).to_sparse(), {}, (one for one in [0])]
    calls.append(None)
    return kinds[len(calls) % len(kinds)]"""  # another kind for every call


def careless_bodies(words: str) -> dict[str, str]:
    """Bodies of functions that answer anything at all; none may earn a point or make the grader fail."""
    return {
        "returns_none": "return None",
        "returns_anything": ANYTHING,
        "always_raises": f"raise ValueError({words!r})",
        "exits": "raise SystemExit(0)",
    }


def careless_module(exercise: Exercise, body: str) -> bytes:
    """A module that has every graded name, each with this body."""
    parts = ["calls = []\n"]
    parts += [f"def {name}(*arguments, **keywords):\n    {body}\n" for name in exercise.names]
    return "\n\n".join(parts).encode()


def _parameter_names(source: bytes) -> str:
    """All names of parameters in a module: an error message that holds them names every bad argument."""
    tree = ast.parse(source)
    return " ".join(sorted({node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}))


def _submit(course: Course, case: Case, folder: Path) -> Submission:
    """Lay the case out like a student's folder, on right code for the earlier exercises."""
    path = folder / case.student
    path.mkdir(parents=True)
    for one in course.prerequisites_of(course.exercise(case.exercise)):
        (path / f"{one.file}.py").write_bytes(course.solution_path(one).read_bytes())
    (path / f"{case.exercise}.py").write_bytes(case.source)
    return Submission(student=case.student, key=case.student, path=path, kind="folder")


def _prove(exercise: Exercise, graded: list[tuple[Case, Result]]) -> Proof:
    proof = Proof(exercise=exercise, problems=[], unnamed=[])
    for case, result in graded:
        if result.status != "graded":
            proof.problems.append(f"{case.kind} {case.name}: {result.status}: {result.reason}")
            for test in result.tests:
                if test.detail:
                    proof.problems.append(f"  {test.id}: {test.detail.strip().splitlines()[-1]}")
            continue
        if case.kind == REFERENCE:
            proof.tests = len(result.tests)
        check = {STUB: _prove_stub, REFERENCE: _prove_right, WHEAT: _prove_right, CHAFF: _prove_chaff, CARELESS: _prove_careless}
        check[case.kind](proof, case, result)
    return proof


def _prove_stub(proof: Proof, case: Case, result: Result) -> None:
    if result.points or result.reason != "not started":
        proof.problems.append(f"stub: {result.points:g} points, {result.reason}; must be 0 and not started")


def _prove_careless(proof: Proof, case: Case, result: Result) -> None:
    if result.points:
        passed = [test.id for test in result.tests if test.outcome == "passed"]
        proof.problems.append(f"careless {case.name}: {result.points:g} points, must be 0; passes {', '.join(passed[:3])}")


def _prove_right(proof: Proof, case: Case, result: Result) -> None:
    proof.wheats += case.kind == WHEAT
    bad = [test for test in result.tests if test.outcome not in ("passed", "not_assessed")]
    if bad or result.points != result.max_points:
        first = f"{bad[0].id}: {bad[0].message}" if bad else ""
        proof.problems.append(f"{case.kind} {case.name}: {result.points:g} of {result.max_points:g} points; {first}")
    else:
        proof.wheats_accepted += case.kind == WHEAT


def _prove_chaff(proof: Proof, case: Case, result: Result) -> None:
    proof.chaffs += 1
    failed = [test for test in result.tests if test.outcome == "failed"]
    if any(test.category == case.category and not test.visible for test in failed):
        proof.chaffs_rejected += 1
    else:
        where = ", ".join(sorted({test.category for test in failed})) or "nothing"
        proof.problems.append(f"chaff {case.name}: must fail in {case.category}, fails in {where}")
    named = Counter(test.diagnosis for test in failed if test.diagnosis)
    if named and named.most_common(1)[0][0] == case.name:
        proof.chaffs_named += 1
    else:
        said = ", ".join(f"{name} ({count})" for name, count in named.most_common(3)) or "nothing"
        proof.unnamed.append(f"chaff {case.name}: the feedback does not name it, but {said}")


def show(console: Console, proofs: Sequence[Proof]) -> None:
    """The table, then everything that is not as it should be."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("exercise", "points", "tests", "wheats accepted", "chaffs rejected", "chaffs named"):
        table.add_column(heading, justify="left" if heading == "exercise" else "right")
    for proof in proofs:
        table.add_row(
            proof.exercise.file,
            f"{proof.exercise.points:g}",
            str(proof.tests),
            f"{proof.wheats_accepted} of {proof.wheats}",
            f"{proof.chaffs_rejected} of {proof.chaffs}",
            f"{proof.chaffs_named} of {proof.chaffs}",
            style="" if proof.holds else "red",
        )
    total = {
        name: sum(getattr(proof, name) for proof in proofs)
        for name in ("tests", "wheats", "wheats_accepted", "chaffs", "chaffs_rejected", "chaffs_named")
    }
    if len(proofs) > 1:
        table.add_section()
        table.add_row(
            "all",
            f"{sum(proof.exercise.points for proof in proofs):g}",
            str(total["tests"]),
            f"{total['wheats_accepted']} of {total['wheats']}",
            f"{total['chaffs_rejected']} of {total['chaffs']}",
            f"{total['chaffs_named']} of {total['chaffs']}",
            style="bold",
        )
    console.print(table)
    for proof in proofs:
        for sentence in proof.unnamed:
            console.print(Text(f"{proof.exercise.file}: {sentence}", style="yellow"))
        for problem in proof.problems:
            console.print(Text(f"{proof.exercise.file}: {problem}", style="red"))
    if total["chaffs_named"] < NAMED_SHARE * total["chaffs"]:
        share = total["chaffs_named"] / total["chaffs"]
        console.print(Text(f"Only {share:.0%} of the chaffs are named; at least {NAMED_SHARE:.0%} must be.", style="red"))
    if proven(proofs):
        console.print(Text("Proven: stubs and careless code score 0, solutions and wheats all points.", style="green"))
