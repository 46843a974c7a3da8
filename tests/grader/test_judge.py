"""The judge: with scripted arms and a scripted clock, what it makes of their answers and times; and once with real workers."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator

import pytest
import torch

from grader.sandbox.client import WorkerGone, WorkerHung
from grader.suite.arms import Arms, Sample
from grader.suite.checks import Mistake
from grader.suite.judge import SERIES_SECONDS, TooSlow, _cost, bar, check_same, settle
from grader.suite.verdict import MIN_FAIL_ROUNDS, Timing

REFERENCE, SLOW = 1.0, 6.0


class Scripted:
    """An arm whose clock follows a script: seconds for each call, or an exception."""

    def __init__(self, script: Callable[[int], float | Exception], answer: Callable[[int, int], object] | None = None) -> None:
        self.script, self.answer = script, answer or (lambda call, x: x * x)
        self.calls = 0

    def run(self, arguments: list[int]) -> Sample:
        self.calls += 1
        seconds = self.script(self.calls)
        if isinstance(seconds, Exception):
            raise seconds
        return Sample(self.answer(self.calls, *arguments), seconds)


class Machine:
    """Opens arms, one learner's script per series, and remembers what was asked for."""

    def __init__(self, *learners: Callable[[int], float | Exception], slow: float = SLOW, answer=None) -> None:
        self.learners, self.slow, self.answer = list(learners), slow, answer
        self.fresh: list[bool] = []
        self.opened: list[Arms] = []
        self.closed = 0

    @contextlib.contextmanager
    def __call__(self, fresh: bool) -> Iterator[Arms]:
        script = self.learners[min(len(self.fresh), len(self.learners) - 1)]
        self.fresh.append(fresh)
        arms = Arms(Scripted(script, self.answer), Scripted(lambda _: REFERENCE), Scripted(lambda _: self.slow))
        self.opened.append(arms)
        try:
            yield arms
        finally:
            self.closed += 1


def judged(machine: Machine, **more) -> Timing:
    numbers = itertools.count(2)
    found = settle(machine, lambda: [next(numbers)], check_same, **more)
    assert machine.closed == len(machine.fresh)
    return found


def always(seconds: float) -> Callable[[int], float]:
    return lambda _: seconds


def test_fast_code_passes_in_one_series():
    machine = Machine(always(1.0))
    assert judged(machine).verdict == "pass"
    assert machine.fresh == [False]


def test_a_fail_is_confirmed_in_fresh_workers():
    machine = Machine(always(6.0))
    assert judged(machine).verdict == "fail"
    assert machine.fresh == [False, True]
    assert [arms.learner.calls for arms in machine.opened] == [MIN_FAIL_ROUNDS, MIN_FAIL_ROUNDS]


def test_a_fail_that_fresh_workers_do_not_confirm_is_none():
    found = judged(Machine(always(6.0), always(1.0)))
    assert (found.verdict, found.share) == ("not_assessed", 0.0) and "disagree" in found.reason


def test_a_pass_after_an_inconclusive_series_is_a_pass():
    machine = Machine(lambda call: 1.0 if call % 2 else 6.0, always(1.0))
    assert judged(machine).verdict == "pass"
    assert machine.fresh == [False, True]


def test_a_fail_after_an_inconclusive_series_is_confirmed_too():
    machine = Machine(lambda call: 1.0 if call % 2 else 6.0, always(6.0))
    assert judged(machine).verdict == "fail"
    assert machine.fresh == [False, True, True]


def test_three_inconclusive_series_are_not_assessed():
    machine = Machine(lambda call: 1.0 if call % 2 else 6.0)
    found = judged(machine)
    assert found.verdict == "not_assessed" and found.reason and len(machine.fresh) == 3


def test_anchors_that_do_not_separate_are_tried_twice():
    machine = Machine(always(1.0), slow=1.2)
    found = judged(machine)
    assert found.verdict == "not_assessed" and "cannot tell" in found.reason and len(machine.fresh) == 2


def test_the_gap_that_is_asked_for_counts():
    assert judged(Machine(always(1.0), slow=2.9), gap=3.0).verdict == "not_assessed"
    assert judged(Machine(always(1.0), slow=3.1), gap=3.0).verdict == "pass"


def test_parts_are_confirmed_and_the_middle_of_three_counts():
    part, three_quarters = 6.0**0.6, 6.0**0.52
    assert judged(Machine(always(part))).share == 0.5
    assert judged(Machine(always(part), always(6.0), always(6.0))).verdict == "fail"
    assert judged(Machine(always(6.0), always(part), always(three_quarters))).share == 0.5
    assert judged(Machine(always(6.0), always(part), always(1.0))).verdict == "not_assessed"


def test_too_fast_is_marked_for_review():
    found = judged(Machine(always(0.1)))
    assert (found.verdict, found.review) == ("pass", True)


def test_a_wrong_answer_midway_ends_it():
    """Right answers at first and wrong ones later, however fast."""
    machine = Machine(always(0.5), answer=lambda call, x: x * x if call < 3 else 4)
    with pytest.raises(Mistake, match="the output is 4"):
        judged(machine)
    assert machine.opened[0].learner.calls == 3


def test_an_answer_from_an_earlier_round_is_wrong():
    kept: list[int] = []

    def answer(call: int, x: int) -> int:
        kept.append(x * x)
        return kept[0]

    with pytest.raises(Mistake):
        judged(Machine(always(0.5), answer=answer))


def test_a_worker_that_dies_midway_ends_it_with_its_reason():
    gone = WorkerGone("the code's process was ended by SIGKILL (out of memory?)")
    with pytest.raises(WorkerGone, match="SIGKILL"):
        judged(Machine(lambda call: gone if call == 4 else 1.0))


def test_a_hang_counts_as_a_fail_once_it_is_confirmed():
    def hangs(call: int) -> float | Exception:
        return WorkerHung("no answer within 2 s") if call == 3 else 1.0

    assert judged(Machine(hangs)).verdict == "fail"
    assert judged(Machine(hangs, always(1.0))).verdict == "not_assessed"


def test_a_series_has_an_end_on_the_clock():
    now = itertools.count(0.0, SERIES_SECONDS / 10)
    machine = Machine(lambda call: 1.0 if call % 2 else 6.0)
    assert judged(machine, clock=lambda: next(now)).verdict == "not_assessed"
    assert all(arms.learner.calls < 20 for arms in machine.opened)


def test_every_round_has_fresh_inputs_which_all_arms_share():
    seen: dict[str, list] = {"learner": [], "reference": [], "slow": []}

    class Noting(Scripted):
        def __init__(self, name: str, seconds: float) -> None:
            super().__init__(lambda _: seconds)
            self.name = name

        def run(self, arguments):
            seen[self.name].append(list(arguments))
            return super().run(arguments)

    @contextlib.contextmanager
    def open_arms(fresh: bool) -> Iterator[Arms]:
        yield Arms(Noting("learner", 1.0), Noting("reference", 1.0), Noting("slow", 6.0))

    numbers = itertools.count()
    settle(open_arms, lambda: [next(numbers)], check_same)
    assert seen["learner"] == seen["reference"] == seen["slow"] == [[number] for number in range(4)]


def test_arms_run_in_random_order():
    orders = set()

    called: list[str] = []

    class Noting(Scripted):
        def __init__(self, name: str, seconds: float) -> None:
            super().__init__(lambda _: seconds)
            self.name = name

        def run(self, arguments):
            called.append(self.name)
            return super().run(arguments)

    @contextlib.contextmanager
    def open_arms(fresh: bool) -> Iterator[Arms]:
        yield Arms(Noting("learner", 6.0), Noting("reference", 1.0), Noting("slow", 6.0))

    settle(open_arms, lambda: [2], check_same)
    for start in range(0, len(called), 3):
        orders.add(tuple(called[start : start + 3]))
        assert set(called[start : start + 3]) == set(Arms._fields)
    assert len(orders) > 2


def test_answers_are_compared_as_their_kind_asks():
    check_same(torch.ones(3) + 1e-7, torch.ones(3))
    check_same([1, 2], [1, 2])
    check_same((torch.ones(2), torch.ones(2)), (torch.ones(2), torch.ones(2)))
    for actual, expected in ((torch.ones(3), torch.zeros(3)), ([1, 2], [1, 3]), (True, 1)):
        with pytest.raises(Mistake):
            check_same(actual, expected)


def test_what_a_learner_reads():
    slow = TooSlow("train_bpe", Timing(verdict="fail", share=0.0, ratio=5.9, gap=6.0, rounds=14))
    assert "5.9 times" in str(slow) and "up to 2.4 times is full marks" in str(slow) and slow.share == 0
    assert "half of the points" in str(TooSlow("f", Timing(verdict="partial", share=0.5, ratio=3.0, gap=6.0, rounds=14)))
    hung = TooSlow("f", Timing(verdict="fail", share=0.0))
    assert "come to an end" in str(hung) and hung.picture is None


@pytest.mark.parametrize("position", [-0.5, 0.0, 0.3, 0.5, 0.7, 1.0, 1.5])
def test_the_bar_shows_where_the_code_lies(position):
    drawn = bar(Timing(verdict="fail", share=0.0, ratio=6.0**position, gap=6.0, rounds=14))
    line, legend = drawn.split("\n")
    assert line.count("#") == 1 and len(line) <= 60 and len(legend) <= 78
    mine = line.index("#")
    if 0 < position < 0.5:
        assert mine < line.index("|")
    if 0.5 < position < 1:
        assert line.index("|") < mine < line.index("S")
    if position > 1:
        assert line.index("S") < mine


@pytest.mark.parametrize(
    ("mine", "reference", "slow", "cost"),
    [
        ((0.2, 0.25), (0.1, 0.1), (0.5, 0.6), 0.2),
        ((0.2, 3.0), (0.1, 0.4), (0.5, 2.5), 0.2),  # everybody waits: the machine is busy
        ((0.2, 1.8), (0.1, 0.1), (0.1, 0.1), 1.8),  # nobody else does
        ((0.01, 0.5), (0.001, 0.001), (0.006, 0.006), 0.01),  # too short to keep rounds away
    ],
)
def test_who_waits_alone_pays_for_it(mine, reference, slow, cost):
    samples = {"learner": mine, "reference": reference, "slow": slow}
    assert _cost({name: Sample(0, *seconds) for name, seconds in samples.items()}) == cost
