"""Makes a class as a course sees it: results, earlier attempts and submissions, with faults planted that a report has to find.

    .venv/bin/python bench/classes.py FOLDER                            # 60 students: FOLDER/results, /history, /submissions
    .venv/bin/python bench/classes.py FOLDER --students 1000 --measure  # and what the report costs on it

Tests, their points and the mistakes come from the real suites, which are parsed and never run. Everything follows from the
seed. `FOLDER/planted.json` says what was planted. Runs no learner code.
"""

from __future__ import annotations

import argparse
import ast
import math
import os
import random
import sys
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
if __name__ == "__main__":
    sys.path[0] = str(ROOT)

import msgspec  # noqa: E402

from grader.course import Exercise, load_course  # noqa: E402
from grader.grading.result import Environment, Result, TestResult, result_path  # noqa: E402

FIRST = "Ada Bo Chiara Dmitri Émile Fatima Grace Hiro Ines Jonas Kavya Lars Mei Noor Olu Priya Quentin Rosa Søren Tuğba".split()
LAST = "Abel Birch Cantor Dijk Euler Franklin Germain Hopper Ito Jensen Kim Lovelace Mirzakhani Noether Okafor Perez".split()
BUSY = {"A": 0.02, "B": 0.3}  # how often a verdict on speed stays open, by the isolation that tells the two hosts apart
OPENED = datetime(2026, 3, 2, 9, tzinfo=UTC)  # the first exercise; the next ones follow a week apart
STUCK_ATTEMPTS = 6  # of the students at risk
DILIGENT = 0.4  # how often one of the others tries until all is right


@dataclass(frozen=True)
class Blueprint:
    """One test of a suite, and how students fare with it."""

    id: str
    title: str
    category: str
    points: float
    difficulty: float  # the ability at which half of the students pass
    slope: float = 1.8  # how sharply it tells students apart


@dataclass
class Planted:
    """What the report has to find."""

    unfair_exercise: str = ""
    unfair_test: str = ""
    leaked_exercise: str = ""
    leaked_students: list[str] = field(default_factory=list)
    at_risk: list[str] = field(default_factory=list)


@dataclass
class MadeClass:
    """A class before it is written."""

    attempts: dict[tuple[str, str], list[Result]] = field(default_factory=dict)  # by student and exercise; the last one counts
    sources: dict[tuple[str, str], str] = field(default_factory=dict)
    planted: Planted = field(default_factory=Planted)


@cache
def blueprints(exercise: str, tests: int | None) -> tuple[Blueprint, ...]:
    """The hidden suite's tests, read from its source; cut, or filled up with further cases, to a number of `tests`."""
    tree = ast.parse((ROOT / "tests" / "hidden" / f"test_{exercise}.py").read_text(encoding="utf-8"))
    draw = random.Random(exercise)
    found = []
    for node in tree.body:
        given = [
            one.args for one in getattr(node, "decorator_list", ()) if getattr(getattr(one, "func", None), "id", "") == "points"
        ]
        if isinstance(node, ast.FunctionDef) and given:
            points, category = (ast.literal_eval(one) for one in given[0][:2])
            title = " ".join((ast.get_docstring(node) or node.name).split())
            found.append(Blueprint(f"hidden::{node.name}", title, category, float(points), draw.gauss(-0.7, 0.6)))
    for number in range((tests or 0) - len(found)):
        like = found[number]
        found.append(Blueprint(f"{like.id}[case {number}]", like.title, like.category, like.points, draw.gauss(-0.7, 0.6)))
    return tuple(found[:tests])


@cache
def mistakes(exercise: str) -> dict[str, list[tuple[str, str]]]:
    """(name, hint) of the known mistakes, by the category that they fail in."""
    found: dict[str, list[tuple[str, str]]] = {}
    for path in sorted((ROOT / "solutions" / "chaffs" / exercise).glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in tree.body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "CATEGORY":
                hint = " ".join((ast.get_docstring(tree) or "").split())
                found.setdefault(ast.literal_eval(node.value), []).append((path.stem, hint))
    return found


class Maker:
    """Draws one class."""

    def __init__(self, students: int, exercises: int, tests: int | None, seed: int, at_risk: int, attempts: bool) -> None:
        self.draw = random.Random(seed)
        self.exercises: tuple[Exercise, ...] = load_course(ROOT).exercises[:exercises]
        self.tests = tests
        self.attempts = attempts
        self.names = [f"{number:04d} {FIRST[number % 20]} {LAST[number * 7 % 16]}" for number in range(1, students + 1)]
        self.made = MadeClass()
        planted = self.made.planted
        planted.at_risk = sorted(self.draw.sample(self.names, min(at_risk, students // 3)))
        middle = self.exercises[len(self.exercises) // 2]
        planted.unfair_exercise = middle.file
        planted.unfair_test = blueprints(middle.file, tests)[3].id
        planted.leaked_exercise = self.exercises[-1].file
        able = [name for name in self.names if name not in planted.at_risk]
        planted.leaked_students = sorted(self.draw.sample(able, 2))

    def make(self) -> MadeClass:
        for name in self.names:
            weak = name in self.made.planted.at_risk
            ability = self.draw.gauss(-1.3, 0.2) if weak else self.draw.gauss(0.5, 0.8)
            late = self.draw.uniform(8, 12) if weak else self.draw.lognormvariate(0.3, 0.7)  # days after an exercise opened
            stops = 4 if weak else len(self.exercises) if ability > -0.6 else len(self.exercises) - 1
            for exercise in self.exercises:
                if exercise.number > stops:
                    reason = f"no file {exercise.file}.py"
                    self.made.attempts[name, exercise.file] = [self._ungraded(name, exercise, "missing", reason)]
                else:
                    self.made.attempts[name, exercise.file] = self._attempts(name, exercise, ability, late, weak)
        return self.made

    def _attempts(self, name: str, exercise: Exercise, ability: float, late: float, weak: bool) -> list[Result]:
        plan = blueprints(exercise.file, self.tests)
        chance = [self._chance(exercise, test, ability) for test in plan]
        diligent = not weak and self.draw.random() < DILIGENT
        passes = [
            self.draw.random() < one or (diligent and not self._is_unfair(exercise, test))
            for one, test in zip(chance, plan, strict=True)
        ]
        known = mistakes(exercise.file)
        favourite = {category: self.draw.choice(one) for category, one in known.items()}
        when = OPENED + timedelta(days=7 * (exercise.number - 1) + late * self.draw.uniform(0.8, 1.2))
        count = STUCK_ATTEMPTS if weak else 1 + min(5, int(self.draw.expovariate(0.9)))
        made = []
        for attempt in range(count if self.attempts else 1):
            left = (
                0.0 if weak or not self.attempts else 0.5 * (count - 1 - attempt) / count
            )  # what is still wrong and gets right later
            now = [right and self.draw.random() >= left for right in passes]
            made.append(self._graded(name, exercise, plan, now, favourite, when))
            when += timedelta(days=self.draw.expovariate(2))
        if not weak and self.draw.random() < 0.008:
            made[-1] = self._ungraded(name, exercise, "error", "the grading process died twice (out of memory?)")
        return made

    def _chance(self, exercise: Exercise, test: Blueprint, ability: float) -> float:
        if self._is_unfair(exercise, test):
            return 0.5 - 0.4 * math.tanh(ability)  # asks for something that only a wrong solution does
        return 1 / (1 + math.exp(-test.slope * (ability - test.difficulty)))

    def _is_unfair(self, exercise: Exercise, test: Blueprint) -> bool:
        return (exercise.file, test.id) == (self.made.planted.unfair_exercise, self.made.planted.unfair_test)

    def _graded(self, name, exercise, plan, passes, favourite, when) -> Result:  # type: ignore[no-untyped-def]
        crashed = self.draw.random() < 0.01
        tier = "B" if self.draw.random() < 0.3 else "A"
        tests = []
        for test, right in zip(plan, passes, strict=True):
            outcome, message, diagnosis, hint = "passed", None, None, None
            if crashed:
                outcome, message = "blocked", "the file cannot be loaded"
            elif test.category in ("memory", "speed") and self.draw.random() < BUSY[tier]:
                outcome, message = "not_assessed", "the machine was too busy for a verdict"
            elif not right:
                places = self.draw.randint(8, 400)
                outcome = "failed"
                message = (
                    f"differs in {self.draw.randint(1, places)} of {places} places, at most by {self.draw.expovariate(1):.3g}"
                )
                if test.category in favourite and self.draw.random() < 0.6:
                    diagnosis, hint = favourite[test.category]
            points = test.points if outcome == "passed" else 0.0
            given = {"id": test.id, "title": test.title, "category": test.category, "max_points": test.points, "visible": False}
            tests.append(TestResult(**given, points=points, outcome=outcome, message=message, diagnosis=diagnosis, hint=hint))
        assessed = [test for test in tests if test.outcome != "not_assessed"]
        return Result(
            student=name, exercise=exercise.file, status="graded", official=True, tests=tests, started=f"{when:%Y-%m-%dT%H:%M:%SZ}",
            reason="SyntaxError in line 3: invalid syntax" if crashed else None,
            points=round(sum(test.points for test in assessed), 6), max_points=round(sum(test.max_points for test in assessed), 6),
            environment=Environment(isolation=tier, layers=["landlock", "seccomp"], probe=[], device="cpu", versions={"torch": "2.13.0"}),
            seed=self.draw.getrandbits(40), key=f"{self.draw.getrandbits(80):020x}", seconds=self.draw.uniform(0.2, 2),
        )  # fmt: skip

    def _ungraded(self, name: str, exercise: Exercise, status: str, reason: str) -> Result:
        return Result(
            student=name, exercise=exercise.file, status=status, reason=reason, points=None, max_points=0, official=False  # type: ignore[arg-type]
        )  # fmt: skip

    def write_sources(self) -> None:
        """A file of everyone for the last exercise; of the leaked pair the second is the first with other names and order."""
        planted = self.made.planted
        for name in self.names:
            self.made.sources[name, planted.leaked_exercise] = program(random.Random(f"{name}{self.draw.random()}"))
        first, second = planted.leaked_students
        self.made.sources[second, planted.leaked_exercise] = disguised(self.made.sources[first, planted.leaked_exercise])


STATEMENTS = [
    "{a} = {b} * {n} + {c}", "{a} = {b}.reshape(-1, {n})", "{a} = torch.cat([{b}, {c}], dim={d})", "{a} = {b}.transpose({d}, -1)",
    "if {b}.shape[{d}] > {n}:\n        {a} = {b}[..., :{n}]", "for step in range({n}):\n        {a} = {a} + {b} / (step + 1)",
    "{a} = torch.where({b} > {n}, {b}, {c})", "while {a}.dim() < {n}:\n        {a} = {a}.unsqueeze({d})",
    "{a} = {b}.softmax(dim=-1) @ {c}", "{a} = {b} - {b}.mean(dim={d}, keepdim=True)", "{a} = torch.einsum('btd,bsd->bts', {b}, {c})",
    "{a} = ({b} ** 2).sum(dim=-1).sqrt()", "{a} = {b}.masked_fill({c} < {n}, float('-inf'))", "{a} = {b}.repeat_interleave({n}, dim={d})",
    "{a} = [one * {n} for one in {b}]", "{a} = {b}.float().clamp(min={n})", "assert {b}.shape[0] == {c}.shape[0], 'sizes differ'",
    "{a} = {b}.contiguous().view({c}.shape)", "{a}, {b} = {b}, {a}", "{a} = torch.zeros_like({b}).index_add_({d}, {c}, {b})",
    "try:\n        {a} = {b}[{n}]\n    except IndexError:\n        {a} = {c}", "{a} = sum({b}.unbind({d})) / {n}",
]  # fmt: skip


def program(draw: random.Random) -> str:
    """A file as nobody else would write it: its statements, their order and their numbers are drawn."""
    parts = ["import torch\n"]
    for function in range(draw.randint(3, 5)):
        names = draw.sample("x y left right total heads keys values state past rows scores".split(), 4)
        lines = []
        for _ in range(draw.randint(6, 11)):
            a, b, c = draw.sample(names, 3)
            lines.append("    " + draw.choice(STATEMENTS).format(a=a, b=b, c=c, n=draw.randint(2, 9), d=draw.randint(0, 2)))
        parts.append(f"def step_{function}({', '.join(names)}):\n" + "\n".join(lines) + f"\n    return {names[0]}\n")
    return "\n\n".join(parts)


def disguised(source: str) -> str:
    """The same program with every name exchanged, comments added and its functions in another order."""
    head, *functions = source.split("\n\n\n")
    words = "x y left right total heads keys values state past rows scores".split()
    for number, word in enumerate(words):
        functions = [ast.unparse(_Renamer({word: f"tensor_{number}"}).visit(ast.parse(one))) for one in functions]
    return "\n\n\n".join([head, *(f"# my own idea\n{one}\n" for one in reversed(functions))])


class _Renamer(ast.NodeTransformer):
    def __init__(self, names: dict[str, str]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.Name:
        node.id = self.names.get(node.id, node.id)
        return node

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.arg = self.names.get(node.arg, node.arg)
        return node


def write_class(
    folder: Path, students: int = 60, exercises: int = 8, tests: int | None = None, seed: int = 1, *, at_risk: int = 10,
    attempts: bool = True,
) -> Planted:  # fmt: skip
    """Write FOLDER/results, FOLDER/history/<number>, FOLDER/submissions and FOLDER/planted.json; returns what was planted."""
    maker = Maker(students, exercises, tests, seed, at_risk, attempts)
    made = maker.make()
    maker.write_sources()
    for tries in made.attempts.values():
        for number, result in enumerate(tries, 1):
            where = folder / "results" if number == len(tries) else folder / "history" / f"{number:02d}"
            path = result_path(where, result.student, result.exercise)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(msgspec.json.format(msgspec.json.encode(result), indent=1) + b"\n")
    for (name, exercise), source in made.sources.items():
        path = folder / "submissions" / name / f"{exercise}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source, encoding="utf-8")
    (folder / "planted.json").write_bytes(msgspec.json.format(msgspec.json.encode(made.planted)) + b"\n")
    return made.planted


def measure(command: list[str]) -> tuple[float, float, int]:
    """(wall seconds, CPU seconds, peak memory in MiB) of one command."""
    started = time.perf_counter()
    quiet = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    child = os.posix_spawn(command[0], command, os.environ, file_actions=quiet)
    _, status, usage = os.wait4(child, 0)
    if status:
        sys.exit(f"{' '.join(command)} ended with {os.waitstatus_to_exitcode(status)}")
    return time.perf_counter() - started, usage.ru_utime + usage.ru_stime, usage.ru_maxrss // 1024


def main() -> None:
    parser = argparse.ArgumentParser(description="Make a class of made-up students.")
    parser.add_argument("folder", metavar="FOLDER", type=Path)
    parser.add_argument("--students", type=int, default=60)
    parser.add_argument("--exercises", type=int, default=16)
    parser.add_argument("--tests", type=int, metavar="N", help="tests of each exercise; default: as many as its suite has")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--last-only", action="store_true", help="no earlier attempts")
    parser.add_argument("--measure", action="store_true", help="run the report's page on it and print what that costs")
    given = parser.parse_args()
    planted = write_class(
        given.folder, given.students, given.exercises, given.tests, given.seed, attempts=not given.last_only
    )  # fmt: skip
    print(f"wrote {given.folder}: {given.students} students x {given.exercises} exercises; planted: {planted}")
    if given.measure:
        page = given.folder / "report.html"
        report = [sys.executable, str(ROOT / "grader" / "report.py"), str(given.folder / "results")]
        for words, command in (("terminal", report), ("page", [*report, "--out", str(page)])):
            wall, cpu, memory = measure(command)
            print(f"{words}: {wall:.1f} s wall, {cpu:.1f} s CPU, {memory} MiB at most; load {os.getloadavg()[0]:.1f}")
        print(f"page: {page.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
