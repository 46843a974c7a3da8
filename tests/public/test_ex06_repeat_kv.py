"""Worked examples for 06 · repeat_kv. They give no points; the grading suite looks at much more."""

import torch

from grader.suite import assert_close, assert_equal, assert_value_error, points


@points(0, "numerics")
def test_two_heads_twice(learner):
    """The example of the lesson: heads 1, 2 with n_rep = 2 are 1, 1, 2, 2."""
    x = torch.tensor([[[[1], [2]]]])  # [B=1, T=1, K=2, D=1]
    assert_equal(learner.repeat_kv(x, 2), torch.tensor([[[[1], [1], [2], [2]]]]))


@points(0, "numerics")
def test_three_heads_of_two_channels(learner):
    """Two tokens, three heads of two channels: whole heads are repeated, token by token."""
    x = torch.tensor([[[[0.0, 0.5], [1.0, 1.5], [2.0, 2.5]], [[10.0, 10.5], [11.0, 11.5], [12.0, 12.5]]]])
    expected = torch.tensor(
        [
            [
                [[0.0, 0.5], [0.0, 0.5], [1.0, 1.5], [1.0, 1.5], [2.0, 2.5], [2.0, 2.5]],
                [[10.0, 10.5], [10.0, 10.5], [11.0, 11.5], [11.0, 11.5], [12.0, 12.5], [12.0, 12.5]],
            ]
        ]
    )
    assert_equal(learner.repeat_kv(x, 2), expected)


@points(0, "shape")
def test_minimind_shapes(learner):
    """MiniMind's 4 key/value heads become 8: [1, 100, 4, 96] -> [1, 100, 8, 96]."""
    result = learner.repeat_kv(torch.zeros(1, 100, 4, 96), 2)
    assert_equal(result, torch.zeros(1, 100, 8, 96))


@points(0, "gradients")
def test_gradients_add_up(learner):
    """Gradients 1, 2, 3, 4 of the four copies come back as 1 + 2 and 3 + 4."""
    x = torch.tensor([[[[5.0], [6.0]]]])
    g = torch.tensor([[[[1.0], [2.0], [3.0], [4.0]]]])
    result = learner.repeat_kv.vjp(x, 2, cotangent=g)
    assert_equal(result.output, torch.tensor([[[[5.0], [5.0], [6.0], [6.0]]]]))
    assert_close(result.inputs[0], torch.tensor([[[[3.0], [7.0]]]]), what="the gradient of x")


@points(0, "robustness")
def test_no_copies_at_all_is_a_mistake(learner):
    """n_rep = 0 raises ValueError; n_rep = 1 returns the heads as they are."""
    x = torch.tensor([[[[1], [2]]]])
    assert_equal(learner.repeat_kv(x, 1), x)
    assert_value_error(learner.repeat_kv, x, 0, naming="n_rep")
