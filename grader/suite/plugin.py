"""Runs a suite under pytest in the trusted process: fixtures, points, outcomes. Learner code is only ever a remote here."""

from __future__ import annotations

import hashlib
import math
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from grader.sandbox.client import Limits, Package, Sandbox, SandboxError, WorkerGone
from grader.sandbox.remote import ForbiddenCall, LearnerError, Remote, Session

from . import resident
from .arms import Contest
from .by_hand import ByHandRule
from .by_hand_check import ByHandCheck
from .checks import Mistake, NotAssessed
from .costs import costs_of, memory_note, speed_note
from .diagnosis import SECONDS, Chaff, Listener, forget_objects, local
from .inputs import AuthoringError, InputSource, describe
from .judge import Judge, Timed, TooSlow
from .memory import PeakMemory
from .process import LearnerProcess, OwnProcess
from .recordings import Player, forget_all, remember_only, tape
from .records import SuiteRun, TestRecord, name_mistakes
from .replays import Case, Replays, function_name
from .sentences import MAX_MESSAGE, fit, forbidden_sentence, is_stub, learner_error
from .sharing import Share

CATEGORIES = ("shape", "numerics", "gradients", "robustness", "by_hand", "speed", "memory")
WATCHED = 0.25  # of the tests after the by-hand ones, in which forbidden functions are looked for all the same
LIKE_THE_ANCHOR = 0.4  # how far from it, on the scale from reference to slow anchor, code still looks like the same mistake


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
    rules: list[ByHandRule] = []
    training: tuple[int, float] | None = None  # steps, and the loss to fall under
    limits: Limits = Limits()
    exercise_seconds: float = 120.0
    max_hangs: int = 3
    diagnosis_seconds: float = SECONDS  # of CPU time at most
    remember: bool = False  # what references and chaffs answer: for more runs of one exercise with one seed
    timed: dict[str, Timed] = {}  # by test function: what it is measured against, for `device`
    untimed: str | None = None  # why nothing is timed in this run; answers are checked all the same
    device: str = "cpu"
    seed: int = 0
    only: str | None = None  # run only tests whose name contains this
    first: frozenset[str] = frozenset()  # ids of tests to run before the others
    debug_paths: dict[str, str] | None = None  # real paths of the learner's files: run them in this process


Watcher = Callable[[TestRecord, str | None], None]  # a test that has just run, and the chaff that it looks like so far


class Plugin:
    """The pytest plugin of one suite, for one run after the other: `begin`, `select`, the tests, `finish`."""

    def __init__(self) -> None:
        forget_all()  # the suite's tests may have been others before

    def begin(
        self,
        suite: Suite,
        sandbox: Sandbox | None,
        watcher: Watcher | None = None,
        enough: Callable[[], bool] = lambda: False,
        *,
        share: Share | None = None,
        rehearse: bool = False,
    ) -> None:
        """A new run: nothing of an earlier one is left."""
        self.suite, self.sandbox, self._watcher = suite, sandbox, watcher
        self.is_enough, self._share, self._rehearses = enough, share, rehearse
        self._deadline = math.inf
        if suite.debug_paths is not None:
            self.process: LearnerProcess = OwnProcess(suite.learner, suite.debug_paths)
        else:
            assert sandbox is not None
            self.process = LearnerProcess(sandbox, suite.learner, suite.limits)
        self.listener = Listener(self.process.transport)
        self.session = Session(lambda: self.listener)
        self.run = SuiteRun()
        self._records: dict[str, TestRecord] = {}
        self._replays = Replays(suite, sandbox, self._reference)
        remember_only(suite.seed, suite.learner.main) if suite.remember else forget_all()
        self._imported = False
        self._hangs = 0

    # --- collection ---

    @pytest.hookimpl
    def pytest_configure(self, config: pytest.Config) -> None:
        config.addinivalue_line("markers", "points(value, category): the test's points and category")

    @pytest.hookimpl
    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.run.problems.append(f"{report.nodeid}: {report.longreprtext}"[-2000:])

    def select(self, items: list[pytest.Item]) -> list[pytest.Item]:
        """Have a record for each collected test of this run; returns the tests in the order in which they are to be run."""
        cases = Counter(_function(item) for item in items)
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
                id=f"{'public' if visible else 'hidden'}::{item.nodeid.partition('::')[2]}",
                title=title,
                category=category,
                max_points=value / cases[_function(item)],
                visible=visible,
            )
            self._records[item.nodeid] = record
            self.run.tests.append(record)
            kept.append(item)
        self._numbers = {name: number for number, name in enumerate(self._records)}
        self._unproven = {item.nodeid for item in kept if "by_hand" in _fixtures(item)} or {"nothing can prove it"}
        self._to_measure = {item.nodeid for item in kept if "peak_memory" in _fixtures(item)}
        self._check_timed(kept)
        # A test that wants a fresh process, or one that never held much memory, comes early: then most cost no process of their own.
        # What the by-hand tests find out comes early, too: see `_is_watched`. While one of two processes trains a model, the other
        # can do the rest.
        rank = {"fresh_learner": 0, "by_hand": 1, "training": 2 if self._share else 4, "peak_memory": 3}
        return sorted(
            kept,
            key=lambda item: (
                self._records[item.nodeid].id not in self.suite.first,
                min((rank.get(name, 4) for name in _fixtures(item)), default=4),
            ),
        )

    def mine(self, items: list[pytest.Item]) -> Iterator[pytest.Item]:
        """The selected tests that this process is to run, each taken when its turn comes."""
        if self._share is None:
            yield from items
            return
        by_number = {self._numbers[item.nodeid]: item for item in items}
        for number, is_mine in self._share.mine(list(by_number)):
            if is_mine:
                yield by_number[number]
            else:
                self._to_measure.discard(by_number[number].nodeid)

    def _check_timed(self, items: list[pytest.Item]) -> None:
        """What course.toml declares as timed is in the hidden suite, with those points."""
        if self.suite.only or not any(not self._records[item.nodeid].visible for item in items):
            return
        for name, timed in self.suite.timed.items():
            records = [self._records[item.nodeid] for item in items if function_name(item) == name]
            points = sum(record.max_points for record in records if record.category == "speed")
            if abs(points - timed.points) > 1e-6:
                self.run.problems.append(f"{name}: course.toml gives {timed.points:g} points for speed, the suite {points:g}")

    # --- running ---

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        InputSource.current = InputSource(self.suite.seed, self._records[item.nodeid].id)

    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> bool:
        """Call the test and judge what it raises here: pytest never gets to format an exception, which costs more than a test."""
        record = self._records[pyfuncitem.nodeid]
        case = Case(pyfuncitem, record.id, record.category)
        if self._rehearses:
            self._replays.rehearse(case, self.is_enough)
            return True
        if not self._imported and self.run.blocked_by is None:
            self._import()
        record.message = self._blocked()
        if record.message is None:
            self.process.watch(self._is_watched(record))
            self.process.hurry(not self._to_measure and not case.is_measured)
            try:
                pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames})
                record.outcome = "passed"
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                self._judge(case, record, error)
        if record.outcome == "passed":
            self._unproven.discard(pyfuncitem.nodeid)
            if self._share is not None:
                self._share.note_passed(self._numbers[pyfuncitem.nodeid])
        self._to_measure.discard(pyfuncitem.nodeid)
        self._note_timing(pyfuncitem, record)
        record.message = fit(record.message)
        if self._watcher is not None:
            self._watcher(record, self._replays.named().get(pyfuncitem.nodeid))
        return True

    def _is_watched(self, record: TestRecord) -> bool:
        """Whether calls of forbidden functions are looked for in a test: in all until the by-hand tests have passed, and after one in
        which there was such a call. Of the others some are drawn, and nobody can know which."""
        draw = hashlib.sha256(f"{self.suite.seed}:{record.id}:watched".encode()).digest()[0] / 256
        return self._is_suspect() or draw < WATCHED

    def _is_suspect(self) -> bool:
        if self._share is None:
            return bool(self._unproven)
        passed = {name for name in self._unproven if name in self._numbers and self._share.has_passed(self._numbers[name])}
        return self._share.was_seen() or bool(self._unproven - passed)

    def _note_timing(self, item: pytest.Function, record: TestRecord) -> None:
        """Keep the figures; code that takes what the slow anchor takes most likely does what that does."""
        judge = item.funcargs.get("judge")
        record.timing = judge.timing if judge is not None else None
        if record.timing is None or record.outcome != "failed" or record.timing.verdict != "fail":
            return
        position = record.timing.position
        if position is not None and abs(position - 1) <= LIKE_THE_ANCHOR:
            record.diagnosis, record.hint = judge.timed.slow, judge.timed.hint

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
            self._deadline = self.process.start(self.suite.exercise_seconds)
            self.session.ask("import", "import", extra=self.suite.names)
        except LearnerError as error:
            self.run.blocked_by = f"the file cannot be loaded: {learner_error(error, self.suite.learner)}"
        except ForbiddenCall as error:
            self.run.blocked_by = forbidden_sentence(error)
        except WorkerGone as error:
            self.run.blocked_by = f"the file cannot be loaded: {error}"
        except SandboxError as error:
            self.run.problems.append(f"the sandbox failed: {error}")
            self.run.blocked_by = "the sandbox failed"
        self.run.blocked_by = fit(self.run.blocked_by)
        self.session.trace.clear()

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A fixture that fails is a fault of the suite."""
        if report.failed:
            self.run.problems.append(f"{report.nodeid} in {report.when}: {report.longreprtext}"[-2000:])

    def _judge(self, case: Case, record: TestRecord, error: BaseException) -> None:
        """Turn what a test raised into an outcome and a learner's sentence."""
        item = case.item
        record.outcome = "failed"
        explain = True
        if isinstance(error, Mistake):
            record.message = str(error) + (f"; {error.expected}" if record.visible and error.expected else "")
            record.message += self._costs(item, record)
            record.picture = fit(error.picture) if record.visible or error.open_picture else None
            record.share = error.share if isinstance(error, TooSlow) else 0.0
        elif isinstance(error, LearnerError) and error.session is self.session:
            record.message = learner_error(error, self.suite.learner)
            explain = not is_stub(error)
        elif isinstance(error, ForbiddenCall):
            record.message = forbidden_sentence(error)
            self._unproven.add(item.nodeid)
            if self._share is not None:
                self._share.note_seen()
        elif isinstance(error, WorkerGone):
            record.message = str(error)
            self._hangs += error.hung
            explain = False
        elif isinstance(error, NotAssessed):
            record.outcome, record.message = "not_assessed", str(error)
            return
        elif _is_bare_assert(error, item.path):  # it fails the test, whose sentence says why
            pass
        elif not isinstance(error, SandboxError) and self._stumbled_over_answers(case):
            last = self.session.trace[-1]
            record.message = f"the test could not go on with an answer of `{last.what}`: {describe(last.value)}"
        else:
            record.outcome = "error"
            record.message = "the grader itself failed here; please tell your instructor"
            made = ", ".join(InputSource.current.recorded) if InputSource.current else ""
            record.detail = fit("".join(traceback.format_exception(error))[-MAX_MESSAGE:] + f"\ninputs: {made or 'none'}")
            return
        if explain and case.can_be_replayed:
            self._replays.explain(case, list(self.session.trace), self.listener.last)

    def _costs(self, item: pytest.Function, record: TestRecord) -> str:
        """What the code did that took too much time or memory, as a second sentence."""
        judge, peak = item.funcargs.get("judge"), item.funcargs.get("peak_memory")
        note = None
        if record.category == "speed" and judge is not None and judge.timing is not None:
            function, arguments = judge.asked
            note = speed_note(costs_of(function, arguments, {}), costs_of(judge.right(function), arguments, {}))
        elif record.category == "memory" and peak is not None and peak.asked is not None and peak.measured:
            note = memory_note(costs_of(*peak.asked))
        return f"; {note}" if note else ""

    def _stumbled_over_answers(self, case: Case) -> bool:
        """Whether a test that broke down holds for the reference: then it was an answer of another kind that broke it, and not
        the suite. Where there is no reference, as in a learner's kit, any answer is blamed."""
        if not self.session.trace or self.suite.reference is None:
            return bool(self.session.trace)
        return self._replays.holds_for_reference(case)

    def finish(self) -> None:
        """The run is over: settle on names for the mistakes, and let go of everything."""
        self.run.matches = {self._records[nodeid].id: names for nodeid, names in self._replays.found.items()}
        name_mistakes(self.run, self.suite.chaffs)
        self.process.close()
        self.run.output = "".join(self.process.printed)
        InputSource.current = None
        forget_objects()

    # --- fixtures ---

    @pytest.fixture
    def learner(self, request: pytest.FixtureRequest) -> Remote:
        """The learner's module, in its jail."""
        self.process.renew(even_alive="peak_memory" in request.fixturenames and self.process.has_peaked())
        self.session.trace.clear()
        return Remote(self.session)

    @pytest.fixture
    def fresh_learner(self) -> Remote:
        """Like `learner`, in a process that has done nothing before: for what a second call may know of the first."""
        self.process.renew(even_alive=True)
        self.session.trace.clear()
        return Remote(self.session)

    @pytest.fixture
    def reference(self, request: pytest.FixtureRequest) -> Remote:
        """The reference, in this process, behind the same interface."""
        if self.suite.reference is None:
            raise AuthoringError("this test needs the reference, which is not here")
        return self._reference(request.node)

    def _reference(self, item: pytest.Item) -> Remote:
        """The reference for one run of one test: it computes each answer once, however often the test is run on chaffs."""
        package = self.suite.reference
        player = Player(tape(package, item.nodeid), lambda: local(package))
        return Remote(Session(lambda: player))

    @pytest.fixture
    def device(self) -> str:
        """Where tensors live: "cpu" or "cuda"."""
        return self.suite.device

    @pytest.fixture
    def training(self) -> tuple[int, float]:
        """What course.toml asks of a small model: to fall under a loss within so many steps."""
        if self.suite.training is None:
            raise AuthoringError("this test needs `training = { steps = ..., loss = ... }` in its exercise's course.toml")
        return self.suite.training

    @pytest.fixture
    def by_hand(self) -> ByHandCheck:
        """The source scan of the exercise's by-hand rules."""
        return ByHandCheck(self.suite.learner, self.suite.rules, self.session)

    @pytest.fixture
    def peak_memory(self) -> PeakMemory:
        """Measures one call's peak memory, from outside."""
        return PeakMemory(None if isinstance(self.process, OwnProcess) else self.process)

    @pytest.fixture
    def judge(self, request: pytest.FixtureRequest) -> Iterator[Judge]:
        """Whether code is fast enough. The time that measuring takes is not the learner's."""
        start = time.monotonic()
        timed, untimed = self.suite.timed.get(function_name(request.node)), self.suite.untimed
        if self.sandbox is None or self.suite.reference is None:
            untimed = untimed or "time is only measured where the reference is"
        yield Judge(
            timed,
            lambda: self._reference(request.node),
            None if untimed else self._contest,
            untimed=untimed or "",
        )
        if not untimed:
            self._deadline = self.process.grant(time.monotonic() - start)

    def _contest(self, timed: Timed) -> Contest:
        assert self.sandbox is not None and self.suite.reference is not None
        return Contest(
            sandbox=self.sandbox,
            learner=self.suite.learner,
            reference=msgspec.structs.replace(self.suite.reference, forbidden=self.suite.learner.forbidden),  # watched as closely
            slow=timed.package,
            limits=self.suite.limits,
            device=self.suite.device,
        )


def _is_bare_assert(error: BaseException, path: Path) -> bool:
    """Whether an `assert` statement of the test file itself failed."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    return isinstance(error, AssertionError) and frame is not None and frame.tb_frame.f_code.co_filename == str(path)


def _fixtures(item: pytest.Item) -> Sequence[str]:
    """The names of what a test is given."""
    return getattr(item, "fixturenames", ())


def _function(item: pytest.Item) -> str:
    """What the cases of a parametrized test have in common."""
    return item.nodeid.removesuffix(item.name) + function_name(item)


def rehearse_suite(suite: Suite, sandbox: Sandbox, enough: Callable[[], bool], share: Share | None = None) -> None:
    """Have the chaffs of a suite that remembers answer its tests, until it is enough, so that a mistake is named at once later.
    Runs no learner code."""
    resident.run(Plugin, suite, sandbox, enough=enough, share=share, rehearse=True)


def run_suite(
    suite: Suite,
    sandbox: Sandbox | None,
    watcher: Watcher | None = None,
    *,
    enough: Callable[[], bool] = lambda: False,
    share: Share | None = None,
    collect_only: bool = False,
) -> SuiteRun:
    """Run public and hidden tests of one exercise on one learner's package. Faults of the suite are in `problems`.

    `watcher` is told of each test as soon as it has run. After a KeyboardInterrupt, which is passed on, the next run is as good.
    Tests that are left when it is `enough` stay "blocked", and so do those that another process takes, where there is a `share`.
    With `collect_only` nothing runs: the tests are listed, with their points.
    """
    return resident.run(Plugin, suite, sandbox, watcher, enough=enough, share=share, collect_only=collect_only)


__all__ = ["Plugin", "SandboxError", "Suite", "points", "rehearse_suite", "run_suite"]
