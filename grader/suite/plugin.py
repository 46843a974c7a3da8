"""Runs a suite under pytest in the trusted process: fixtures, points, outcomes. Learner code is only ever a remote here."""

from __future__ import annotations

import logging
import os
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from grader.sandbox.client import Limits, Package, Sandbox, SandboxError, Worker, WorkerGone
from grader.sandbox.remote import ForbiddenCall, LearnerError, Local, Observation, Remote, Session

from . import by_hand
from .checks import Mistake, NotAssessed
from .diagnosis import Chaff, Search, local, replay, settle
from .inputs import AuthoringError, InputSource
from .memory import PeakMemory

CATEGORIES = ("shape", "numerics", "gradients", "robustness", "by_hand", "speed", "memory")
NOT_REPLAYED = ("speed",)


def points(value: float, category: str) -> pytest.MarkDecorator:
    """Mark a test with its points (0 for public examples; a parametrized test's cases share them) and its category."""
    if category not in CATEGORIES:
        raise AuthoringError(f"category {category!r}: allowed are {', '.join(CATEGORIES)}")
    if value < 0:
        raise AuthoringError(f"points {value}: must not be negative")
    return pytest.mark.points(value, category)


class Suite(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that one run of one exercise needs, in plain data."""

    learner: Package
    names: list[str]  # graded names
    files: list[Path]  # public and hidden test files
    public: Path  # folder of the public ones
    reference: Package | None = None  # absent in a learner's kit
    chaffs: list[Chaff] = []
    rules: list[by_hand.ByHandRule] = []
    limits: Limits = Limits()
    exercise_seconds: float = 120.0
    max_hangs: int = 3
    seed: int = 0
    only: str | None = None  # run only tests whose name contains this
    debug_paths: dict[str, str] | None = None  # real paths of the learner's files: run them in this process


class TestRecord(msgspec.Struct, kw_only=True):
    """What became of one test."""

    __test__ = False

    id: str
    title: str
    category: str
    max_points: float
    visible: bool
    outcome: str = "blocked"
    message: str | None = None
    diagnosis: str | None = None
    hint: str | None = None
    detail: str | None = None


class SuiteRun(msgspec.Struct, kw_only=True):
    """What became of one run."""

    tests: list[TestRecord] = []
    blocked_by: str | None = None  # why nothing ran: the learner's file cannot be imported
    problems: list[str] = []  # faults of the suite itself
    output: str = ""


class LearnerProcess:
    """The worker that holds the learner's code: started when first needed, replaced after a death."""

    def __init__(self, sandbox: Sandbox, package: Package, limits: Limits) -> None:
        self._sandbox, self._package, self._limits = sandbox, package, limits
        self.worker: Worker | None = None
        self.printed: list[str] = []

    def transport(self) -> Worker:
        """The live worker. One that died inside a test stays dead until `renew`."""
        if self.worker is None:
            self.worker = self._sandbox.worker(self._package, self._limits)
        return self.worker

    def renew(self, *, even_alive: bool = False) -> None:
        """Before a test: forget a dead worker (or any, for a test that measures)."""
        if self.worker is not None and (even_alive or not self.worker.alive):
            self.close()

    def close(self) -> None:
        """End the worker and keep what it printed."""
        if self.worker is not None:
            self.worker.kill()
            self.printed.append(self.worker.output())
            self.worker = None


class OwnProcess(LearnerProcess):
    """No jail at all: the code runs here, so that prints, breakpoints and debuggers work. Never for grading."""

    def __init__(self, package: Package, paths: dict[str, str]) -> None:
        self._local = Local(package, paths)

    def transport(self) -> Local:
        return self._local

    def renew(self, *, even_alive: bool = False) -> None:
        """Nothing to renew: there is one process."""

    def close(self) -> None:
        """Nothing to end."""

    worker, printed = None, ()


class Plugin:
    """The pytest plugin of one run."""

    def __init__(self, suite: Suite, sandbox: Sandbox | None) -> None:
        self.suite, self.sandbox = suite, sandbox
        if suite.debug_paths is not None:
            self.process: LearnerProcess = OwnProcess(suite.learner, suite.debug_paths)
        else:
            assert sandbox is not None
            self.process = LearnerProcess(sandbox, suite.learner, suite.limits)
        self.session = Session(self.process.transport)
        self.run = SuiteRun()
        self._records: dict[str, TestRecord] = {}
        self._search = Search(suite.chaffs)
        self._imported = False
        self._hangs = 0
        self._deadline = time.monotonic() + suite.exercise_seconds

    # --- collection ---

    @pytest.hookimpl
    def pytest_configure(self, config: pytest.Config) -> None:
        config.addinivalue_line("markers", "points(value, category): the test's points and category")

    @pytest.hookimpl
    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.run.problems.append(f"{report.nodeid}: {report.longreprtext}"[-2000:])

    @pytest.hookimpl
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        cases: dict[tuple[str, str], int] = {}
        for item in items:
            cases[_function(item)] = cases.get(_function(item), 0) + 1
        kept = []
        for item in items:
            marker = item.get_closest_marker("points")
            visible = self.suite.public in item.path.parents
            title = (item.obj.__doc__ or "").strip().split("\n")[0]
            if marker is None or not title:
                self.run.problems.append(f"{item.nodeid}: {'no points' if marker is None else 'no docstring'}")
                continue
            value, category = marker.args
            if bool(value) == visible:
                self.run.problems.append(f"{item.nodeid}: public tests carry 0 points, hidden ones more")
                continue
            if self.suite.only and self.suite.only not in item.name:
                continue
            record = TestRecord(
                id=f"{'public' if visible else 'hidden'}::{item.name}",
                title=title,
                category=category,
                max_points=value / cases[_function(item)],
                visible=visible,
            )
            self._records[item.nodeid] = record
            self.run.tests.append(record)
            kept.append(item)
        items[:] = kept

    # --- running ---

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        InputSource.current = InputSource(self.suite.seed, self._records[item.nodeid].id)

    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> bool:
        """Call the test and judge what it raises here: pytest never gets to format an exception, which costs more than a test."""
        record = self._records[pyfuncitem.nodeid]
        if not self._imported and self.run.blocked_by is None:
            self._import()
        record.message = self._blocked()
        if record.message is None:
            try:
                pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames})
                record.outcome = "passed"
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                self._judge(pyfuncitem, record, error)
        return True

    def _blocked(self) -> str | None:
        """Why the next test cannot be run, or None."""
        if self.run.blocked_by is not None:
            return self.run.blocked_by
        if self._hangs >= self.suite.max_hangs:
            return f"not run: {self._hangs} tests before this one never came to an end"
        if time.monotonic() > self._deadline:
            return f"not run: the {self.suite.exercise_seconds:g} s for the whole exercise are used up"
        return None

    def _import(self) -> None:
        """Load the learner's file once, apart from any test, so that a file that cannot be loaded is told once."""
        self._imported = True
        try:
            self.session.ask("import", "import", extra=self.suite.names)
        except LearnerError as error:
            self.run.blocked_by = f"the file cannot be loaded: {learner_error(error, self.suite.learner)}"
        except ForbiddenCall as error:
            self.run.blocked_by = forbidden_sentence(error)
        except WorkerGone as error:
            self.run.blocked_by = f"the file cannot be loaded: {error}"
        self.session.trace.clear()

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A fixture that fails is a fault of the suite."""
        if report.failed:
            self.run.problems.append(f"{report.nodeid} in {report.when}: {report.longreprtext}"[-2000:])

    def _judge(self, item: pytest.Function, record: TestRecord, error: BaseException) -> None:
        """Turn what a test raised into an outcome and a learner's sentence."""
        record.outcome = "failed"
        explain = True
        if isinstance(error, Mistake):
            record.message = str(error) + (f"; {error.expected}" if record.visible and error.expected else "")
        elif isinstance(error, LearnerError) and error.session is self.session:
            record.message = learner_error(error, self.suite.learner)
            explain = error.type != "NotImplementedError"
        elif isinstance(error, ForbiddenCall):
            record.message = forbidden_sentence(error)
        elif isinstance(error, WorkerGone):
            record.message = str(error)
            self._hangs += error.hung
            explain = False
        elif isinstance(error, NotAssessed):
            record.outcome, record.message = "not_assessed", str(error)
            return
        else:
            record.outcome = "error"
            record.message = "the grader itself failed here; please tell your instructor"
            record.detail = "".join(traceback.format_exception(error))[-4000:]
            return
        if explain and record.category not in NOT_REPLAYED:
            self._diagnose(item, record)

    # --- diagnosis ---

    def _diagnose(self, item: pytest.Item, record: TestRecord) -> None:
        trace = list(self.session.trace)
        measured = "peak_memory" in item.fixturenames
        chaffs = [chaff for chaff in self.suite.chaffs if not measured or chaff.category == "memory"]
        run = self._replay_measured if measured else self._replay
        self._search.explain(item.nodeid, chaffs, lambda chaff: run(item, record, chaff, trace))

    def _replay(self, item: pytest.Item, record: TestRecord, chaff: Chaff, trace: list[Observation]) -> bool:
        """Run the test once more with a chaff in the learner's place, in this process, on the same inputs."""
        return self._run_again(item, record, chaff, trace, Session(lambda: local(chaff.package)), None)

    def _replay_measured(self, item: pytest.Item, record: TestRecord, chaff: Chaff, trace: list[Observation]) -> bool:
        """The same in a worker: memory can only be measured there."""
        process = LearnerProcess(self.sandbox, chaff.package, self.suite.limits)
        try:
            return self._run_again(item, record, chaff, trace, Session(process.transport), process)
        finally:
            process.close()

    def _run_again(
        self,
        item: pytest.Item,
        record: TestRecord,
        chaff: Chaff,
        trace: list[Observation],
        session: Session,
        process: LearnerProcess | None,
    ) -> bool:
        InputSource.current = InputSource(self.suite.seed, record.id)
        ours = {
            "learner": Remote(session),
            "peak_memory": PeakMemory(lambda: process.worker if process else None),
            "by_hand": ByHandCheck(chaff.package, self.suite.rules),
        }
        arguments = {name: ours.get(name, item.funcargs[name]) for name in item._fixtureinfo.argnames}
        return replay(session, trace, lambda: item.obj(**arguments))

    @pytest.hookimpl
    def pytest_sessionfinish(self) -> None:
        hints = {chaff.name: chaff.hint for chaff in self.suite.chaffs}
        for nodeid, name in settle(self._search.found).items():
            record = self._records[nodeid]
            record.diagnosis, record.hint = name, hints.get(name) if name else None
        self.process.close()
        self.run.output = "".join(self.process.printed)
        InputSource.current = None

    # --- fixtures ---

    @pytest.fixture
    def learner(self, request: pytest.FixtureRequest) -> Remote:
        """The learner's module, in its jail."""
        self.process.renew(even_alive="peak_memory" in request.fixturenames)
        self.session.trace.clear()
        return Remote(self.session)

    @pytest.fixture
    def reference(self) -> Remote:
        """The reference, in this process, behind the same interface."""
        package = self.suite.reference
        if package is None:
            raise AuthoringError("this test needs the reference, which is not here")
        return Remote(Session(lambda: local(package)))

    @pytest.fixture
    def device(self) -> str:
        """Where tensors live: "cpu" or "cuda"."""
        return "cpu"

    @pytest.fixture
    def by_hand(self) -> ByHandCheck:
        """The source scan of the exercise's by-hand rules."""
        return ByHandCheck(self.suite.learner, self.suite.rules)

    @pytest.fixture
    def peak_memory(self) -> PeakMemory:
        """Measures one call's peak memory, from outside."""
        return PeakMemory(lambda: self.process.worker)


class ByHandCheck:
    """The `by_hand` fixture."""

    def __init__(self, package: Package, rules: list[by_hand.ByHandRule]) -> None:
        self._package, self._rules = package, rules

    def assert_clean(self) -> None:
        """No forbidden name, and nothing that would hide one, in the learner's file."""
        file = f"{self._package.main}.py"
        for rule in self._rules:
            for finding in by_hand.scan(self._package.files[file], rule):
                raise Mistake(f"line {finding.line} of {file} {finding.sentence}")


def forbidden_sentence(error: ForbiddenCall) -> str:
    """What a learner reads when the spy saw a forbidden call."""
    return f"the code calls `{error}`, which this exercise asks you to write by hand"


def learner_error(error: LearnerError, package: Package) -> str:
    """An exception of the learner's, with the line of theirs that raised it."""
    if error.type == "NotImplementedError":
        return f"{error.what} is not written yet"
    if error.type == "MissingName":
        return f"{package.main}.py has no `{error.message}`; the name is part of the contract"
    place = ""
    for file, line, _ in reversed(error.frames):
        source = package.files.get(os.path.basename(file))
        if source is not None:
            lines = source.decode("utf-8", "replace").splitlines()
            text = lines[line - 1].strip() if 0 < line <= len(lines) else ""
            place = f"\n  {os.path.basename(file)}, line {line}:  {text[:200]}"
            break
    if error.what == "import":
        return f"{error.type}: {error.message}{place}"
    return f"{error}{place}"


def _function(item: pytest.Item) -> tuple[str, str]:
    return str(item.path), item.originalname or item.name


CONFIG = Path(__file__).with_name("pytest.ini")
OFF = ["terminal", "cacheprovider", "faulthandler", "doctest", "junitxml", "pastebin", "logging", "warnings", "unraisableexception", "threadexception", "debugging", "setuponly", "setupplan", "stepwise", "legacypath"]  # noqa: E501


def run_suite(suite: Suite, sandbox: Sandbox | None) -> SuiteRun:
    """Run public and hidden tests of one exercise on one learner's package. Faults of the suite are in `problems`."""
    plugin = Plugin(suite, sandbox)
    options = ["-c", str(CONFIG), "--rootdir", str(suite.public.parent), "--import-mode=importlib", "--noconftest"]
    options += ["--assert=plain", "--capture=no"]
    if suite.debug_paths is None:  # a debugger may take all the time it needs
        options += ["-p", "pytest_timeout", f"--timeout={suite.exercise_seconds + 60:g}"]
    for name in OFF:
        options += ["-p", f"no:{name}"]
    logging.disable(logging.CRITICAL)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    os.environ.pop("PYTEST_ADDOPTS", None)
    try:
        code = pytest.main([*options, *(str(file) for file in suite.files)], plugins=[plugin])
    finally:
        logging.disable(logging.NOTSET)
        plugin.process.close()
    if (
        code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED)
        and not plugin.run.problems
    ):
        plugin.run.problems.append(f"pytest ended with {code!r}")
    return plugin.run


__all__ = ["Plugin", "SandboxError", "Suite", "SuiteRun", "points", "run_suite"]
