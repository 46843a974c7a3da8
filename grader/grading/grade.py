"""Grades one learner's exercise: runs the suite, scores it, and does not punish an earlier bug twice.

Runs no learner code itself: the suite asks the sandbox.
"""

from __future__ import annotations

import datetime
import functools
import math
import platform
import time
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec
import torch

from grader import __version__
from grader.course import Course, Exercise
from grader.sandbox.client import Sandbox, SandboxError
from grader.sandbox.probe import probe
from grader.submission import Problem, SourceFile
from grader.suite.plugin import Suite, Watcher, rehearse_suite, run_suite
from grader.suite.records import SuiteRun, TestRecord
from grader.suite.sentences import EARLIER_STUB, NOT_STARTED

from .calibration import switched_off
from .materials import Materials, make_suite, read_materials, result_key, timed_tests
from .protocol import drawn
from .result import Environment, Result, TestResult, TimingFigures

Files = Callable[[str], SourceFile | Problem]
UNTIMED = "not timed in this run"
PATIENCE = 60.0  # seconds of CPU time for the diagnosis of one run, where it is to be found out what can be named


class Runs(Protocol):
    """Another way to run whole suites than `run_suite` and `rehearse_suite`, which it has to be like."""

    def run(self, suite: Suite, sandbox: Sandbox, watcher: Watcher | None) -> SuiteRun:
        """All tests, on the learner's code."""

    def rehearse(self, suite: Suite, sandbox: Sandbox, enough: Callable[[], bool]) -> None:
        """All tests, on the chaffs."""


class _Options(NamedTuple):
    """How a suite is run."""

    seed: int
    only: str | None
    untimed: str | None
    first: frozenset[str]
    watcher: Watcher | None


class Grader:
    """A course and a sandbox, ready to grade any number of submissions in this process."""

    def __init__(
        self,
        course: Course,
        sandbox: Sandbox,
        *,
        official: bool = False,
        carry_forward: bool = True,
        patient: bool = False,
        remember: bool = False,
        device: str = "cpu",
        calibrated: bool = True,
        runs: Runs | None = None,
    ) -> None:
        """With `official` the sandbox is probed once; only then can results be official. With `carry_forward` a mistake in an
        earlier exercise does not cost points in later ones. With `remember` what references and chaffs answer is kept for more
        runs of one exercise with one seed. With `patient` the diagnosis has no small limit of time. Without `calibrated`, tests
        are timed that this machine is known not to tell. `runs` runs suites in another way."""
        self.course, self.sandbox = course, sandbox
        self._official, self._carry_forward, self._patient, self._remember = official, carry_forward, patient, remember
        self.device, self._calibrated, self._runs = device, calibrated, runs
        self._probe: list[str] | None = None
        self._materials: dict[str, Materials] = {}

    def materials(self, exercise: Exercise) -> Materials:
        """The exercise's suite, reference and chaffs, read once."""
        if exercise.file not in self._materials:
            self._materials[exercise.file] = read_materials(self.course, exercise)
        return self._materials[exercise.file]

    def forget_materials(self) -> None:
        """Read the course's own files anew when they are needed next."""
        self._materials.clear()

    def probed(self) -> list[str] | None:
        """What the hostile probe could do here; None when it was not asked for."""
        if self._official and self._probe is None:
            secret = next((self.course.root / "solutions").glob("ex*.py"), self.course.root / "course.toml")
            self._probe = probe(self.sandbox, Path(secret))
        return self._probe

    def environment(self) -> Environment:
        """Where and how this process grades."""
        return Environment(
            isolation=self.sandbox.tier or "?",
            layers=list(self.sandbox.layers),
            probe=self.probed(),
            device=self.device,
            versions=versions(),
        )

    def hardware(self) -> str:
        """The kind of hardware and isolation that a result's key holds."""
        self.probed()  # also settles the tier
        return (
            f"{self.device} {platform.machine()} torch {torch.__version__} isolation {self.sandbox.tier or self.sandbox.wanted}"
        )

    def key(self, exercise: Exercise, files: Files) -> str:
        """The key of the result that `grade` would make now."""
        found, problems = self._collect(exercise, files)
        return self._key(self.materials(exercise), {**found, **problems})

    def _key(self, materials: Materials, files: Mapping[str, bytes | str]) -> str:
        return result_key(materials, files, self.hardware(), self._off(materials.exercise))

    def _off(self, exercise: Exercise) -> Mapping[str, str]:
        """Timed tests that calibration has switched off on this machine, and why."""
        return switched_off(exercise.file, self.device) if self._calibrated and exercise.timed else {}

    def grade(
        self,
        exercise: Exercise,
        files: Files,
        *,
        student: str = "you",
        seed: int | None = None,
        known: Mapping[str, Result] | None = None,
        only: str | None = None,
        explain: bool = True,
        first: frozenset[str] = frozenset(),
        watcher: Watcher | None = None,
        own: bool = False,
        untimed: str | None = None,
    ) -> Result:
        """Grade one exercise. `known` holds results of earlier exercises of the same submission, by file name; without `explain` no
        mistake is looked for by name; with `untimed` no clock is read, and what needs one is not assessed for that reason. The tests
        whose ids are `first` run before the others, and `watcher` is told of each; with `own` they run on the learner's earlier
        exercises, whatever these are worth."""
        started, clock = datetime.datetime.now(datetime.UTC), time.perf_counter()
        materials = self.materials(exercise)
        seed = drawn(seed)
        found, problems = self._collect(exercise, files)
        common = {
            "student": student,
            "exercise": exercise.file,
            "started": started.isoformat(timespec="seconds"),
            "seed": seed,
        }
        main = f"{exercise.file}.py"
        if main in problems:
            missing = files(exercise.file)
            status = "missing" if isinstance(missing, Problem) and missing.kind == "missing" else "error"
            return Result(
                **common,
                status=status,
                reason=problems[main],
                points=None,
                max_points=exercise.points,
                official=False,
                key=self._key(materials, {**found, **problems}),
                environment=self.environment(),
            )
        options = _Options(seed, only, untimed, first, watcher)
        try:
            run, tests, which = self._counted_run(materials, found, options, files, None if own else known or {}, explain=explain)
        except SandboxError as error:
            reason = f"the sandbox failed: {error}"
            return Result(**common, status="error", reason=reason, points=None, max_points=exercise.points, official=False)
        environment = self.environment()
        is_own, faults = which == "own", _faults(run, exercise, materials, only)
        return Result(
            **common,
            status="error" if faults else "graded",
            reason="; ".join(faults) or (_reason(tests, run) if is_own else None),
            points=None if faults else _points(tests),
            max_points=round(sum(test.max_points for test in tests if test.outcome not in ("not_assessed", "error")), 6),
            official=not faults and environment.probe == [],
            prerequisites=which,
            tests=tests,
            output=run.output if is_own and run.output else None,
            environment=environment,
            key=self._key(materials, {**found, **problems}),
            seconds=round(time.perf_counter() - clock, 3),
        )

    def rehearse(self, exercise: Exercise, files: Files, seed: int, enough: Callable[[], bool]) -> None:
        """While there is nothing else to do, have the chaffs answer what the tests will ask, until it is enough: for a grader that
        remembers, which then names a mistake at once."""
        found, problems = self._collect(exercise, files)
        materials = self.materials(exercise)
        if materials.chaffs and f"{exercise.file}.py" not in problems:
            run = rehearse_suite if self._runs is None else self._runs.rehearse
            run(self._suite(materials, found, seed, None, UNTIMED), self.sandbox, enough)

    def _collect(self, exercise: Exercise, files: Files) -> tuple[dict[str, bytes], dict[str, str]]:
        """The learner's file and those of its prerequisites, and why some cannot be had."""
        found: dict[str, bytes] = {}
        problems: dict[str, str] = {}
        for one in (*self.course.prerequisites_of(exercise), exercise):
            file = files(one.file)
            if isinstance(file, SourceFile):
                found[f"{one.file}.py"] = file.content
            else:
                problems[f"{one.file}.py"] = file.message
        return found, problems

    def _suite(self, materials: Materials, files: dict[str, bytes], seed: int, only: str | None, untimed: str | None) -> Suite:
        suite = make_suite(self.course, materials, files, seed, only)
        return msgspec.structs.replace(
            suite,
            timed=timed_tests(materials, self.device, self._off(materials.exercise)),
            untimed=untimed,
            device=self.device,
            diagnosis_seconds=PATIENCE if self._patient else suite.diagnosis_seconds,
            remember=self._remember,
        )

    # --- an early bug is not punished twice ---

    def _counted_run(
        self,
        materials: Materials,
        found: dict[str, bytes],
        options: _Options,
        files: Files,
        known: Mapping[str, Result] | None,
        *,
        explain: bool,
    ) -> tuple[SuiteRun, list[TestResult], str]:
        """The run on the learner's own files; the tests that count; and which prerequisites these ran on, "own" or "reference".

        Without `known` nothing is carried forward."""
        carries = self._carry_forward and known is not None and bool(materials.references)
        # Where something underneath is known to be wrong, this run most likely does not count: it need not be whole, or explained.
        doubtful = (
            carries and explain and any(one.file in known and _is_short(known[one.file]) for one in materials.prerequisites)
        )
        run = self._run(materials, found, options, explain=explain and not doubtful, to_lose=0.0 if doubtful else math.inf)
        if all(map(_is_full, run.tests)) or _faults(run, materials.exercise, materials, options.only):
            return run, _results(run.tests), "own"
        again = None
        if carries and (doubtful or self._prerequisite_failed(materials, files, known)):
            again = self._on_references(materials, found, options, explain=explain)
        if not doubtful:
            tests = _results(run.tests)
            return (run, again, "reference") if again is not None and _points(again) > _points(tests) else (run, tests, "own")
        if again is not None:
            lost = sum(map(_lost, again))
            if sum(_lost(test) for test in run.tests if test.outcome != "blocked") > lost:
                return run, again, "reference"
            # What fails on right code most likely fails here, too; then one failure more decides.
            weak = frozenset(test.id for test in again if not _is_full(test))
            run = self._run(materials, found, options._replace(first=weak), explain=False, to_lose=lost)
            tests = _results(run.tests)
            if _points(again) > _points(tests):
                return run, again, "reference"
            if (told := _told(tests, again)) is not None:
                return run, told, "own"
        run = self._run(materials, found, options, explain=True)
        return run, _results(run.tests), "own"

    def _run(
        self,
        materials: Materials,
        files: dict[str, bytes],
        options: _Options,
        *,
        explain: bool,
        to_lose: float = math.inf,
    ) -> SuiteRun:
        """Run the suite; with more points lost than `to_lose` it is over, and the other tests stay blocked."""
        suite = self._suite(materials, files, options.seed, options.only, options.untimed)
        suite = msgspec.structs.replace(suite, first=options.first, chaffs=suite.chaffs if explain else [])
        lost = 0.0

        def watcher(record: TestRecord, diagnosis: str | None) -> None:
            nonlocal lost
            lost += _lost(record)
            if options.watcher is not None:
                options.watcher(record, diagnosis)

        if self._runs is not None and to_lose == math.inf:
            return self._runs.run(suite, self.sandbox, watcher)
        return run_suite(suite, self.sandbox, watcher, enough=lambda: lost > to_lose + 1e-6)

    def _prerequisite_failed(self, materials: Materials, files: Files, known: Mapping[str, Result]) -> bool:
        """Whether something underneath is wrong; what is not known yet is found out."""
        for one in materials.prerequisites:
            result = known.get(one.file) or self.grade(one, files, known=known, untimed=UNTIMED, explain=False)
            if _is_short(result):
                return True
        return False

    def _on_references(
        self, materials: Materials, found: dict[str, bytes], options: _Options, *, explain: bool
    ) -> list[TestResult] | None:
        """The suite again, with the reference in place of every prerequisite; None if the grader failed in it. Nothing the
        learner's code says is kept, since it shares its process with reference code here."""
        main = f"{materials.exercise.file}.py"
        again = self._run(materials, {**materials.references, main: found[main]}, options, explain=explain)
        if _faults(again, materials.exercise, materials, options.only):
            return None
        return [msgspec.structs.replace(test, message=_silent(test), picture=None) for test in _results(again.tests)]


@functools.cache
def versions() -> dict[str, str]:
    """Versions that a result depends on."""
    return {
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": metadata.version("numpy"),
        "grader": __version__,
    }


def _is_short(result: Result) -> bool:
    return result.points is None or result.points < result.max_points


def _is_full(test: TestRecord | TestResult) -> bool:
    return test.outcome in ("passed", "not_assessed") or test.max_points == 0


def _lost(test: TestRecord | TestResult) -> float:
    """Points."""
    return 0.0 if _is_full(test) else test.max_points - test.points


def _results(records: list[TestRecord]) -> list[TestResult]:
    return [
        TestResult(
            id=record.id,
            title=record.title,
            category=record.category,
            points=record.points,
            max_points=record.max_points,
            outcome=record.outcome,
            visible=record.visible,
            message=record.message,
            diagnosis=record.diagnosis,
            hint=record.hint,
            picture=record.picture,
            detail=record.detail,
            timing=msgspec.convert(record.timing, TimingFigures, from_attributes=True) if record.timing else None,
        )
        for record in records
    ]


def _points(tests: list[TestResult]) -> float:
    return round(sum(test.points for test in tests), 6)


def _told(tests: list[TestResult], again: list[TestResult]) -> list[TestResult] | None:
    """The tests with the names of the mistakes that were found in a run on right code, where the same ones failed; None if others
    failed, too."""
    found = {test.id: test for test in again if not _is_full(test)}
    if any(not _is_full(test) and test.id not in found for test in tests):
        return None
    return [
        test if _is_full(test) else msgspec.structs.replace(test, diagnosis=found[test.id].diagnosis, hint=found[test.id].hint)
        for test in tests
    ]


def _silent(test: TestResult) -> str | None:
    """The message without a word of the learner's code."""
    if test.outcome == "failed":
        return "failed, with right code in place of the earlier exercises"
    if test.outcome == "blocked":
        return "not run, with right code in place of the earlier exercises"
    return test.message  # the suite's own words


def _faults(run: SuiteRun, exercise: Exercise, materials: Materials, only: str | None) -> list[str]:
    """What the grader itself got wrong; any of it makes the whole result an error."""
    faults = list(run.problems)
    total = sum(test.max_points for test in run.tests)
    if not faults and not only and materials.has_hidden and abs(total - exercise.points) >= 1e-6:
        faults.append(f"the hidden suite of {exercise.file} sums to {total:g} points, course.toml says {exercise.points:g}")
    errors = [test.id for test in run.tests if test.outcome == "error"]
    if errors:
        some = ", ".join(errors[:3])
        faults.append(f"{len(errors)} of {len(run.tests)} tests ended in an error of the grader's own: {some}")
    return faults


def _reason(tests: list[TestResult], run: SuiteRun) -> str | None:
    """Why everything failed at once, where one thing explains it."""
    if run.blocked_by:
        return run.blocked_by
    said = [test.message or "" if test.outcome == "failed" else "" for test in tests]
    if any(NOT_STARTED in one for one in said) and all(NOT_STARTED in one or EARLIER_STUB in one for one in said):
        return "not started"
    return None
