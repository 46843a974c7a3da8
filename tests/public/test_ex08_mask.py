"""Worked examples for 08 · masks. They give no points; the grading suite looks at much more."""

import torch

from grader.suite import assert_equal, assert_value_error, points
from grader.suite.pictures import masks

FIGURE = """\
#...
##..
###.
####"""


@points(0, "numerics")
def test_a_square_mask(learner):
    """Four tokens, no past: each sees itself and those before it."""
    expected = torch.tensor(
        [
            [True, False, False, False],
            [True, True, False, False],
            [True, True, True, False],
            [True, True, True, True],
        ]
    )
    assert_equal(learner.causal_mask(4, 4), expected, picture=masks)


@points(0, "numerics")
def test_two_new_tokens_after_a_past_of_one(learner):
    """The two newest of three tokens stand at positions 1 and 2."""
    expected = torch.tensor([[True, True, False], [True, True, True]])
    assert_equal(learner.causal_mask(2, 3), expected, picture=masks)


@points(0, "robustness")
def test_more_queries_than_keys(learner):
    """Every query is a key too: three queries cannot have two keys."""
    assert_equal(learner.causal_mask(2, 2), torch.tensor([[True, False], [True, True]]))
    assert_value_error(learner.causal_mask, 3, 2, naming="q_len")


@points(0, "numerics")
def test_a_padded_batch(learner):
    """Two rows of 0 and 1 become [2, 1, 1, 3] booleans."""
    expected = torch.tensor([[[[False, True, True]]], [[[True, True, True]]]])
    assert_equal(learner.padding_mask(torch.tensor([[0, 1, 1], [1, 1, 1]])), expected)


@points(0, "numerics")
def test_both_masks_at_once(learner):
    """A key is visible where the causal mask and the padding mask both allow it."""
    causal = torch.tensor([[True, True, False], [True, True, True]])
    padding = torch.tensor([[[[False, True, True]]]])
    expected = torch.tensor([[[[False, True, False], [False, True, True]]]])
    assert_equal(learner.combine_masks(causal, padding), expected, picture=masks)


@points(0, "shape")
def test_one_mask_or_none(learner):
    """Causal alone is [1, 1, T, S], padding alone [B, 1, 1, S], and without masks there is None."""
    causal = torch.tensor([[True, True, False], [True, True, True]])
    padding = torch.tensor([[[[False, True, True]]]])
    expected = torch.tensor([[[[True, True, False], [True, True, True]]]])
    assert_equal(learner.combine_masks(causal, None), expected, picture=masks)
    assert_equal(learner.combine_masks(None, padding), padding, picture=masks)
    assert_equal(learner.combine_masks(None, None), None)


@points(0, "numerics")
def test_a_picture_of_a_mask(learner):
    """`#` is visible, `.` hidden; lines are joined by a newline."""
    assert_equal(learner.show_mask(torch.ones(4, 4, dtype=torch.bool).tril()), FIGURE, what="the picture")
    assert_equal(learner.show_mask(torch.tensor([[True, True, False], [True, True, True]])), "##.\n###")
