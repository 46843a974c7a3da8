"""The report's figures against computations that share no line with them: loops, textbook formulas, numpy's own functions."""

from __future__ import annotations

import itertools
import math
import statistics as standard
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.reporting.statistics import alpha, discrimination, group_weights, item_rest, median_time, survival


def drawn(seed: int, students: int = 40, tests: int = 7, gaps: float = 0.0) -> np.ndarray:
    """Outcomes of students of different ability, some of them not assessed."""
    draw = np.random.default_rng(seed)
    ability, difficulty = draw.normal(size=(students, 1)), draw.normal(size=(1, tests))
    passed = (draw.random((students, tests)) < 1 / (1 + np.exp(difficulty - 2 * ability))).astype(float)
    passed[draw.random((students, tests)) < gaps] = np.nan
    return passed


@pytest.mark.parametrize("seed", range(5))
def test_item_rest_is_pearsons_correlation_with_the_sum_of_the_other_points(seed):
    passed = drawn(seed)
    points = np.array([1, 2, 0.5, 1, 3, 0.25, 1])
    for test, found in enumerate(item_rest(passed, points)):
        rest = [sum(row[other] * points[other] for other in range(7) if other != test) for row in passed.tolist()]
        assert found == pytest.approx(standard.correlation(passed[:, test].tolist(), rest), abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_item_rest_takes_each_student_over_what_was_assessed(seed):
    passed, points = drawn(seed, gaps=0.2), np.arange(1.0, 8.0)
    for test, found in enumerate(item_rest(passed, points)):
        pairs = []
        for row in passed.tolist():
            others = [other for other in range(7) if other != test and not math.isnan(row[other])]
            if not math.isnan(row[test]) and others:
                rest = sum(row[other] * points[other] for other in others) / sum(points[other] for other in others)
                pairs.append((row[test], rest))
        assert found == pytest.approx(np.corrcoef(np.array(pairs).T)[0, 1], abs=1e-12)


def test_item_rest_of_a_test_without_points_is_with_the_whole_score():
    passed = drawn(3, tests=4)
    points = np.array([0.0, 1, 1, 1])
    assert item_rest(passed, points)[0] == pytest.approx(np.corrcoef(passed[:, 0], passed[:, 1:].sum(axis=1))[0, 1])


def test_item_rest_is_not_defined_where_nobody_differs():
    assert np.isnan(item_rest(np.ones((10, 2)), np.ones(2))).all()
    assert np.isnan(item_rest(drawn(0, students=2), np.ones(7))).all()
    assert np.isnan(item_rest(np.full((5, 2), np.nan), np.ones(2))).all()


def test_discrimination_compares_the_upper_and_the_lower_27_percent_by_the_other_points():
    # 100 students, and points of the others that differ for everyone: the groups are exactly the 27 best and the 27 weakest.
    draw = np.random.default_rng(1)
    points = 2.0 ** np.arange(8)
    passed = (draw.random((100, 8)) < draw.random((100, 1))).astype(float)
    passed = np.hstack([passed, (draw.random((100, 1)) < 0.5).astype(float)])
    for number, row in enumerate(passed):
        row[:8] = [number * 2 >> bit & 1 for bit in range(8)]
    shares = passed[:, :8] @ points
    best, weakest = np.argsort(-shares)[:27], np.argsort(shares)[:27]
    expected = passed[best, 8].mean() - passed[weakest, 8].mean()
    assert discrimination(passed, np.append(points, 5.0))[8] == pytest.approx(expected)


def test_discrimination_of_perfect_reversed_and_equal_tests():
    ladder = np.tril(np.ones((50, 50)))  # student n passes the n easiest
    above = (np.arange(50) > 25).astype(float)[:, None]
    passed = np.hstack([ladder, above, 1 - above, np.ones((50, 1))])
    points = np.concatenate([np.ones(50), np.zeros(3)])
    assert discrimination(passed, points)[-3:] == pytest.approx([1, -1, 0])
    assert np.isnan(discrimination(np.full((5, 2), np.nan), np.ones(2))).all()


def test_a_test_that_nobody_can_foresee_does_not_discriminate_by_its_own_points():
    # Everybody has all other points: by the whole score those who were lucky would be the best.
    passed = np.ones((40, 5))
    passed[::2, 0] = 0
    assert discrimination(passed, np.ones(5))[0] == pytest.approx(0)


@given(st.lists(st.integers(0, 4), min_size=4, max_size=40), st.randoms())
@settings(max_examples=60, deadline=None)
def test_groups_hold_27_percent_and_do_not_depend_on_the_order(shares, draw):
    keys = np.array(shares, dtype=float)
    weights = group_weights(keys)
    assert weights.sum() == pytest.approx(0.27 * len(shares))
    assert all(0 <= weight <= 1 for weight in weights)
    assert all(
        weights[one] >= weights[other] for one in range(len(keys)) for other in range(len(keys)) if keys[one] < keys[other]
    )
    mixed = list(range(len(shares)))
    draw.shuffle(mixed)
    assert group_weights(keys[mixed]) == pytest.approx(weights[mixed])


@pytest.mark.parametrize("seed", range(5))
def test_alpha_of_zeros_and_ones_is_kr20(seed):
    passed = drawn(seed)
    parts = passed.shape[1]
    p = passed.mean(axis=0)
    kr20 = parts / (parts - 1) * (1 - (p * (1 - p)).sum() / standard.pvariance(passed.sum(axis=1).tolist()))
    assert alpha(passed) == (pytest.approx(kr20), 40)


def test_alpha_of_points_is_cronbachs_formula_over_complete_students():
    scores = np.random.default_rng(5).normal(size=(30, 1)) + np.random.default_rng(6).normal(size=(30, 5))
    expected = (
        5
        / 4
        * (1 - sum(standard.variance(column) for column in scores.T.tolist()) / standard.variance(scores.sum(axis=1).tolist()))
    )
    gaps = np.vstack([scores, [[1, 2, np.nan, 4, 5]] * 3])
    assert alpha(gaps) == (pytest.approx(expected), 30)


def test_alpha_is_1_for_equal_parts_and_undefined_without_variance():
    column = np.arange(10.0)[:, None]
    assert alpha(np.hstack([column, column, column]))[0] == pytest.approx(1)
    for scores in (np.ones((10, 3)), np.ones((10, 1)), np.ones((2, 3)), np.full((10, 3), np.nan)):
        assert alpha(scores)[0] is None


def test_survival_of_a_textbook_example():
    # Six who tried; two stopped before passing (at 2 and at 5).
    steps = survival([1, 2, 3, 3, 5, 8], [True, False, True, True, False, True])
    assert [(step.time, step.at_risk, step.passed) for step in steps] == [(1, 6, 1), (3, 4, 2), (8, 1, 1)]
    expected = [Fraction(5, 6), Fraction(5, 6) * Fraction(2, 4), Fraction(0)]
    assert [step.left for step in steps] == pytest.approx([float(one) for one in expected])
    assert median_time(steps) == 3


@given(st.lists(st.tuples(st.integers(0, 9), st.booleans()), min_size=1, max_size=30))
@settings(max_examples=60, deadline=None)
def test_survival_never_rises_and_without_censoring_is_the_plain_share(tries):
    times = [float(time) for time, _ in tries]
    left = [1.0, *(step.left for step in survival(times, [passed for _, passed in tries]))]
    assert all(later <= earlier + 1e-12 for earlier, later in itertools.pairwise(left))
    for step in survival(times, [True] * len(times)):
        assert step.left == pytest.approx(sum(time > step.time for time in times) / len(times))


def test_median_time_of_a_class_that_has_not_come_so_far_is_unknown():
    assert median_time(survival([1, 2, 3, 4], [True, False, False, False])) is None
    assert survival([1, 2], [False, False]) == []
