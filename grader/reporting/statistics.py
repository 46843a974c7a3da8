"""Owns the formulas: how tests tell students apart, how reliable a score is, how long passing takes. Knows no results.

Scores come as a matrix, students x tests, 1 for passed, 0 for not, NaN where nothing was assessed.
docs/report.md explains each figure to an instructor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

GROUP = 0.27  # of the class, at each end: the usual size of the groups that discrimination compares


def rest_shares(passed: np.ndarray, points: np.ndarray) -> np.ndarray:
    """[students, tests]: each student's share of the points of all *other* tests that were assessed; NaN without any.

    Without the test itself, because every test agrees with a sum that holds it.
    """
    earned = np.nan_to_num(passed) * points
    most = ~np.isnan(passed) * points
    others = most.sum(axis=1, keepdims=True) - most
    with np.errstate(divide="ignore", invalid="ignore"):
        return (earned.sum(axis=1, keepdims=True) - earned) / np.where(others > 1e-12, others, np.nan)


def item_rest(passed: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Corrected item-rest correlation of each test: Pearson's, with the share of all other points.

    passed: [students, tests] of 1, 0 and NaN; points: [tests], 0 for tests outside the score. NaN where it is not defined:
    under three students, or everybody (or nobody) passes, or the rest is the same for all.
    """
    rest = rest_shares(passed, points)
    return np.array([_pearson(passed[:, one], rest[:, one]) for one in range(passed.shape[1])])


def _pearson(x: np.ndarray, y: np.ndarray) -> float:
    both = ~(np.isnan(x) | np.isnan(y))
    x, y = x[both], y[both]
    if len(x) < 3:
        return float("nan")
    x, y = x - x.mean(), y - y.mean()
    scale = float(np.sqrt((x**2).sum() * (y**2).sum()))
    return float((x * y).sum() / scale) if scale > 1e-12 else float("nan")


def discrimination(passed: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Of each test, p in the best 27 % of the students minus p in the weakest 27 %, by all other points; from -1 to 1.

    Students with equal shares at a group's border belong to it in part, so the order of the students changes nothing. NaN where
    a group has nobody who was assessed. Arguments as in `item_rest`.
    """
    rest = np.where(np.isnan(passed), np.nan, rest_shares(passed, points))
    return np.array([_difference(passed[:, one], rest[:, one]) for one in range(passed.shape[1])])


def _difference(passed: np.ndarray, rest: np.ndarray) -> float:
    best, weakest = group_weights(-rest), group_weights(rest)
    if not best.any() or not weakest.any():
        return float("nan")
    right = np.nan_to_num(passed)
    return float((right * best).sum() / best.sum() - (right * weakest).sum() / weakest.sum())


def group_weights(keys: np.ndarray) -> np.ndarray:
    """How much of each student belongs to the 27 % with the smallest keys: 1, 0, or a part at the border. NaN keys: 0."""
    weights = np.zeros(len(keys))
    room = GROUP * np.count_nonzero(~np.isnan(keys))
    for key in np.unique(keys[~np.isnan(keys)]):
        tied = keys == key
        weights[tied] = min(1.0, room / tied.sum())
        room -= weights[tied].sum()
        if room <= 1e-12:
            break
    return weights


def alpha(scores: np.ndarray) -> tuple[float | None, int]:
    """(Cronbach's alpha, students it rests on); for scores of 0 and 1 this is KR-20.

    scores: [students, parts]. Students with a NaN are left out, since a sum with a gap is no sum. None with fewer than two
    parts or three students, or when all sums are equal.
    """
    complete = scores[~np.isnan(scores).any(axis=1)]
    students, parts = complete.shape
    if students < 3 or parts < 2:
        return None, students
    whole = float(complete.sum(axis=1).var(ddof=1))
    if whole < 1e-12:
        return None, students
    return float(parts / (parts - 1) * (1 - complete.var(axis=0, ddof=1).sum() / whole)), students


@dataclass(frozen=True)
class Step:
    """A point in time at which somebody passed."""

    time: float
    at_risk: int  # who was still trying just before
    passed: int
    left: float  # estimated share that has not passed after this time


def survival(times: Sequence[float], passed: Sequence[bool]) -> list[Step]:
    """Kaplan-Meier's estimate of who has not passed yet; who stopped without passing counts until they stopped.

    times: of passing, or of the last attempt of those who have not passed; in any unit.
    """
    steps: list[Step] = []
    left = 1.0
    ordered = sorted(zip(times, passed, strict=True))
    for time in sorted({time for time, has_passed in ordered if has_passed}):
        at_risk = sum(other >= time for other, _ in ordered)
        events = sum(has_passed and other == time for other, has_passed in ordered)
        left *= 1 - events / at_risk
        steps.append(Step(time, at_risk, events, left))
    return steps


def median_time(steps: Sequence[Step]) -> float | None:
    """The time after which at most half have not passed; None if that was never reached."""
    return next((step.time for step in steps if step.left <= 0.5 + 1e-12), None)
