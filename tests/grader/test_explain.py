"""What a wrong tensor has to do with the right one."""

from __future__ import annotations

import pytest
import torch

from grader.suite.explain import explain_nan, explain_shape, explain_values

X = torch.randn(3, 4, 5, 6, generator=torch.Generator().manual_seed(1))


def changed(place, value) -> torch.Tensor:
    wrong = X.clone()
    wrong[place] = value
    return wrong


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (2 * X, "every value is about 2 times what it should be: a constant factor"),
        (X / 9.798, "every value is about 0.1 times what it should be: a constant factor"),
        (-X, "every value has the wrong sign"),
        (X - 0.5, "every value is too small by the same amount: a constant was added"),
        (X * 0, "every value is 0"),
        (X.flip(2), "the values are right, but axis 2 runs backwards"),
        (X[:, [2, 0, 3, 1]], "the slices along axis 1 are right, but in another order"),
        (torch.cat([X[..., 1:], X[..., :1] + 9], -1), "along axis 3 everything comes one position too early"),
        (torch.cat([X[..., :1] + 9, X[..., :-1]], -1), "along axis 3 everything comes one position too late"),
        (changed((slice(None), slice(None), 0), 7.0), "everything is right except at the first position of axis 2"),
        (changed((slice(None), -1), 7.0), "everything is right except at the last position of axis 1"),
        (changed((slice(None), 1), 7.0), None),
        (changed((0, 1, 2, 3), 7.0), None),
        (X + torch.randn(X.shape, generator=torch.Generator().manual_seed(2)), None),
    ],
)
def test_values(wrong, sentence):
    assert explain_values(wrong, X, 1e-5) == sentence


def test_square_axes_that_are_swapped():
    square = X[:, :3, :3]
    assert explain_values(square.transpose(0, 2), square, 1e-5) == "the values are right, but axes 0 and 2 are swapped"


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (X.transpose(1, 2), "the values are right, but axes 1 and 2 are swapped"),
        (X.permute(1, 2, 3, 0), "the values are right, but the axes are in another order"),
        (X.reshape(3, 4, 30), "the values are right, in another shape"),
        (X.reshape(3, 5, 4, 6), "the values are right, in another shape"),
        (X[:2], None),
        (X.transpose(1, 2) + X.mean(), None),
    ],
)
def test_shapes(wrong, sentence):
    assert explain_shape(wrong, X, 1e-5) == sentence


def test_masks():
    mask = torch.ones(4, 6, dtype=torch.bool).tril(1)
    assert explain_values(~mask, mask, 0.0) == "every value is the opposite"
    assert explain_values(torch.ones(4, 6, dtype=torch.bool), mask, 0.0) is None


def test_expected_values_cannot_be_read_from_it():
    """A constant tensor would be known from one's own value and the difference."""
    assert explain_values(torch.zeros(2, 3) + 1, torch.full((2, 3), 41.5), 1e-5) is None


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        ((...,), "all of it is"),
        ((slice(None), slice(None), slice(None), -1), "everything is a number except at the last position of axis 3"),
        ((0, 1, 2), "always whole rows of the last axis"),
        ((0, 1, 2, 3), None),
    ],
)
def test_nan(bad, sentence):
    assert explain_nan(changed(bad, float("nan")).isnan()) == sentence


@pytest.mark.parametrize("dtype", [torch.complex64, torch.int64, torch.float16, torch.bool])
def test_any_dtype_and_size(dtype):
    for shape in [(), (1,), (0, 3), (2,), (2, 2, 2, 2, 2, 2)]:
        one, other = torch.zeros(shape, dtype=dtype), torch.ones(shape, dtype=dtype)
        explain_values(one, other, 1e-5)
        explain_shape(one, other.reshape(-1), 1e-5)
    wild = torch.tensor([float("inf"), 1.0, 2.0]).to(dtype)
    explain_values(wild, torch.tensor([1, 2, 3]).to(dtype), 1e-5)


def test_long_slices_are_looked_at_whole_before_anything_is_said():
    long = torch.randn(6, 500, generator=torch.Generator().manual_seed(2))
    moved = long[[3, 0, 5, 1, 4, 2]]
    assert explain_values(moved, long, 1e-5) == "the slices along axis 0 are right, but in another order"
    late = torch.cat([long[:1] + 9, long[:-1]])
    assert explain_values(late, long, 1e-5) == "along axis 0 everything comes one position too late"
    for column in (0, 1, 250, 499):
        moved = long[[3, 0, 5, 1, 4, 2]]
        moved[2, column] += 1
        assert explain_values(moved, long, 1e-5) is None
