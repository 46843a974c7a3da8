"""Verdicts on scripted rounds: what is said, when, and that noise alone never decides."""

from __future__ import annotations

import math
import random

import pytest

from grader.suite.verdict import BATCH, CLEAR_ROUNDS, MAX_ROUNDS, MIN_FAIL_ROUNDS, Round, Series, Timing, binomial_tail


def ran(rounds, gap=1.5):
    """What is said first, and after how many rounds; the last word if nothing was said before."""
    series = Series(gap)
    for one in rounds:
        series.add(Round(*one))
        found = series.verdict()
        if found is not None:
            return found
    return series.last_word()


def steady(learner, reference=1.0, slow=6.0, count=MAX_ROUNDS):
    return [(learner, reference, slow)] * count


def noisy(learner, reference=1.0, slow=6.0, spread=0.3, seed=0, count=MAX_ROUNDS):
    """Rounds whose arms are each slowed down at random, sometimes by far, as on a busy machine."""
    source = random.Random(seed)

    def slowed(seconds):
        return seconds * math.exp(abs(source.gauss(0, spread))) * (8 if source.random() < 0.03 else 1)

    return [(slowed(learner), slowed(reference), slowed(slow)) for _ in range(count)]


def test_as_fast_as_the_reference_passes_after_few_rounds():
    found = ran(steady(1.0))
    assert (found.verdict, found.share, found.rounds, found.review) == ("pass", 1.0, CLEAR_ROUNDS, False)
    assert (found.ratio, found.gap) == (1.0, 6.0)


def test_nothing_is_fast_before_the_anchors_are_apart():
    rounds = [*steady(4.0, reference=4.0, count=3), *steady(1.0)]
    assert [ran(rounds, gap).rounds for gap in (1.5, 2.0)] == [CLEAR_ROUNDS, 6]


@pytest.mark.parametrize(
    "rounds",
    [
        steady(6.0**0.35),  # under the limit, but not by far
        [*steady(1.0, count=3), (6.0**0.35, 1.0, 6.0), *steady(1.0)],  # a round that is like that
        [(1.0, 7.0, 6.0), *steady(1.0)],  # a round in which the anchor was the faster one
    ],
)
def test_whatever_else_is_under_the_limit_passes_after_a_batch(rounds):
    found = ran(rounds, gap=2.0)
    assert (found.verdict, found.rounds) == ("pass", BATCH)


def test_the_limit_is_the_geometric_mean():
    assert ran(steady(2.4)).verdict == "pass"  # sqrt(6) = 2.449
    assert ran(steady(2.5)).verdict != "pass"
    assert ran(steady(2.4)).limit == pytest.approx(6**0.5)


def test_as_slow_as_the_anchor_fails_after_two_batches_and_never_sooner():
    found = ran(steady(6.0))
    assert (found.verdict, found.share, found.rounds) == ("fail", 0.0, MIN_FAIL_ROUNDS)
    assert ran(steady(6.0, count=MIN_FAIL_ROUNDS - 1)).verdict == "not_assessed"


def test_what_lies_between_gets_a_part_by_where_it_lies():
    shares = {position: ran(steady(6.0**position)).share for position in (0.45, 0.52, 0.6, 0.66, 0.75, 1.0)}
    assert shares == {0.45: 1.0, 0.52: 0.75, 0.6: 0.5, 0.66: 0.25, 0.75: 0.0, 1.0: 0.0}
    assert [ran(steady(6.0**position)).verdict for position in (0.52, 0.75)] == ["partial", "fail"]


def test_anchors_that_are_close_leave_no_room_for_parts():
    assert ran(steady(2.0, slow=3.0)).verdict == "fail"
    assert ran(steady(1.7, slow=3.0)).verdict == "pass"


def test_anchors_that_do_not_separate_say_nothing():
    for learner in (0.5, 1.0, 1.3, 50.0):
        found = ran(steady(learner, slow=1.3))
        assert found.verdict == "not_assessed" and "cannot tell the fast way from the slow one" in found.reason
    assert ran(steady(1.0, slow=2.5), gap=3.0).verdict == "not_assessed"
    assert ran(steady(1.0, slow=3.1), gap=3.0).verdict == "pass"


def test_anchors_that_change_places_say_nothing():
    rounds = [(1.0, 1.0, 6.0) if index % 3 else (1.0, 6.0, 1.0) for index in range(MAX_ROUNDS)]
    assert ran(rounds).verdict == "not_assessed"


def test_hopeless_anchors_are_given_up_early():
    assert ran(steady(1.0, slow=1.1)).rounds < MAX_ROUNDS / 2


def test_outliers_of_any_arm_change_nothing():
    for arm in range(3):
        fast, slow = steady(1.0), steady(6.0)
        for rounds in (fast, slow):
            for index in range(2, MAX_ROUNDS, 9):
                rounds[index] = tuple(seconds * (40 if place == arm else 1) for place, seconds in enumerate(rounds[index]))
        assert ran(fast).verdict == "pass"
        assert ran(slow).verdict == "fail"


def test_one_fast_round_does_not_save_slow_code_and_one_slow_round_does_not_sink_fast_code():
    slow, fast = steady(6.0), steady(1.0)
    slow[3], fast[3] = (1.0, 1.0, 6.0), (60.0, 1.0, 6.0)
    assert ran(slow).verdict != "pass"
    assert ran(fast).verdict == "pass"


def test_a_machine_that_slows_down_for_a_while_slows_all_arms():
    def weather(learner):
        return [tuple(seconds * (1 + index % 5) for seconds in (learner, 1.0, 6.0)) for index in range(MAX_ROUNDS)]

    assert ran(weather(1.2)).verdict == "pass"
    assert ran(weather(6.0)).verdict == "fail"


@pytest.mark.parametrize("spread", [0.1, 0.3, 0.6])
def test_noise_never_turns_a_verdict_around(spread):
    words = {"fast": [], "slow": []}
    for seed in range(300):
        words["fast"].append(ran(noisy(1.1, spread=spread, seed=seed)).verdict)
        words["slow"].append(ran(noisy(6.0, spread=spread, seed=seed)).verdict)
    assert "fail" not in words["fast"]
    assert "pass" not in words["slow"]
    if spread <= 0.3:
        assert words["fast"].count("pass") >= 297
        assert words["slow"].count("fail") >= 290


def test_code_on_the_limit_is_never_failed_by_a_coin():
    words = [ran(noisy(6**0.5, spread=0.1, seed=seed)).verdict for seed in range(300)]
    assert words.count("fail") == 0


def test_far_slower_than_the_anchor_is_told_at_once():
    found = ran(steady(100.0))
    assert (found.verdict, found.rounds) == ("fail", 3)
    assert ran([(1.0, 1.0, 6.0), *steady(100.0)]).rounds > 3  # not if a single round says otherwise


def test_too_fast_is_for_a_person_to_look_at():
    found = ran(steady(0.19))
    assert (found.verdict, found.review) == ("pass", True)
    assert not ran(steady(0.21)).review


def test_a_clock_that_stands_still_breaks_nothing():
    assert ran(steady(0.0)).review
    assert ran(steady(0.0, reference=0.0, slow=0.0)).verdict == "not_assessed"
    assert ran([]).verdict == "not_assessed"


@pytest.mark.parametrize(("edge", "verdict", "share"), [(0.69, "partial", 0.25), (0.71, "fail", 0.0)])
def test_where_it_stays_open_by_how_far_the_median_counts(edge, verdict, share):
    found = ran([(6**edge * (1.05 if index % 2 else 0.95), 1.0, 6.0) for index in range(MAX_ROUNDS)])
    assert (found.verdict, found.share, found.rounds) == (verdict, share, MAX_ROUNDS)


def test_position_has_ends():
    assert Timing(verdict="pass", share=1.0, ratio=1.0, gap=6.0).position == 0
    assert Timing(verdict="fail", share=0.0, ratio=6.0, gap=6.0).position == pytest.approx(1)
    assert Timing(verdict="fail", share=0.0).position is None
    assert Timing(verdict="not_assessed", share=0.0, ratio=2.0, gap=0.9).position is None


def test_the_sign_test():
    assert binomial_tail(0, 5) == 1
    assert binomial_tail(14, 14) == 2**-14
    assert binomial_tail(8, 14) == pytest.approx(0.395, abs=1e-3)
