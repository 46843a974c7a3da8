"""Worked examples for 07 · attention. They give no points; the grading suite looks at much more."""

import math

import torch

from grader.suite import assert_close, assert_value_error, points
from grader.suite.pictures import bars

# The example of the lesson: one query, two keys, D = 4. The scores are 0 and 2 * ln 3 / sqrt(4) = ln 3.
Q = torch.tensor([[[[2.0, 0.0, 0.0, 0.0]]]])  # [B=1, H=1, T=1, D=4]
K = torch.tensor([[[[0.0, 0.0, 0.0, 0.0], [math.log(3.0), 0.0, 0.0, 0.0]]]])  # [B=1, H=1, S=2, D=4]
V = torch.tensor([[[[8.0, 0.0], [0.0, 4.0]]]])  # [B=1, H=1, S=2, E=2]


@points(0, "numerics")
def test_one_query_two_keys(learner):
    """The example of the lesson: weights 1/4 and 3/4, so the values [8, 0] and [0, 4] give [2, 3]."""
    assert_close(learner.attention_weights(Q, K), torch.tensor([[[[0.25, 0.75]]]]), what="the weights", picture=bars)
    assert_close(learner.scaled_dot_product_attention(Q, K, V), torch.tensor([[[[2.0, 3.0]]]]))


@points(0, "numerics")
def test_the_second_key_is_hidden(learner):
    """With the second key hidden, the first gets all the weight: True = may attend."""
    mask = torch.tensor([[True, False]])  # [T=1, S=2]
    assert_close(learner.attention_weights(Q, K, mask), torch.tensor([[[[1.0, 0.0]]]]), what="the weights", picture=bars)
    assert_close(learner.scaled_dot_product_attention(Q, K, V, mask), torch.tensor([[[[8.0, 0.0]]]]))


@points(0, "numerics")
def test_a_given_scale(learner):
    """scale = 1 gives scores 0 and 2 ln 3, so 1/10 and 9/10; scale = 0.0 gives both keys one half."""
    assert_close(learner.attention_weights(Q, K, scale=1.0), torch.tensor([[[[0.1, 0.9]]]]), what="the weights", picture=bars)
    assert_close(learner.attention_weights(Q, K, scale=0.0), torch.tensor([[[[0.5, 0.5]]]]), what="the weights", picture=bars)


@points(0, "numerics")
def test_float16_overflows_if_you_let_it(learner):
    """D = 64, q and k all 60: a dot product of 230400, more than float16 can hold. Both weights are one half."""
    q = torch.full((1, 1, 1, 64), 60.0, dtype=torch.float16)
    k = torch.full((1, 1, 2, 64), 60.0, dtype=torch.float16)
    expected = torch.tensor([[[[0.5, 0.5]]]], dtype=torch.float16)
    assert_close(learner.attention_weights(q, k), expected, what="the weights", picture=bars)


@points(0, "shape")
def test_minimind_shapes(learner):
    """In MiniMind, 8 heads of 100 tokens: weights [1, 8, 100, 100]; q of zeros gives every key one hundredth."""
    zeros, ones = torch.zeros(1, 8, 100, 96), torch.ones(1, 8, 100, 96)
    assert_close(learner.attention_weights(zeros, ones), torch.full((1, 8, 100, 100), 0.01), what="the weights")
    assert_close(learner.scaled_dot_product_attention(zeros, ones, ones), ones)


@points(0, "gradients")
def test_gradients_of_the_example(learner):
    """A gradient of [1, 0] at the output reaches v as the two weights, and q and k through the softmax."""
    result = learner.scaled_dot_product_attention.vjp(Q, K, V, cotangent=torch.tensor([[[[1.0, 0.0]]]]))
    of_q, of_k, of_v = result.inputs
    # d output / d score 2 = 1/4 * 3/4 * (0 - 8) = -1.5; scores are q . k / 2.
    assert_close(of_v, torch.tensor([[[[0.25, 0.0], [0.75, 0.0]]]]), what="the gradient for v")
    assert_close(of_q, torch.tensor([[[[-0.75 * math.log(3.0), 0.0, 0.0, 0.0]]]]), what="the gradient for q")
    expected = torch.tensor([[[[1.5, 0.0, 0.0, 0.0], [-1.5, 0.0, 0.0, 0.0]]]])
    assert_close(of_k, expected, what="the gradient for k")


@points(0, "robustness")
def test_a_query_that_sees_nothing(learner):
    """Two queries, the first with no allowed key: it gets zeros, the second is as ever."""
    q = torch.cat([Q, Q], dim=2)  # [B=1, H=1, T=2, D=4]
    mask = torch.tensor([[False, False], [True, True]])  # [T=2, S=2]
    weights = torch.tensor([[[[0.0, 0.0], [0.25, 0.75]]]])
    assert_close(learner.attention_weights(q, K, mask), weights, what="the weights", picture=bars)
    assert_close(learner.scaled_dot_product_attention(q, K, V, mask), torch.tensor([[[[0.0, 0.0], [2.0, 3.0]]]]))


@points(0, "robustness")
def test_a_mask_of_numbers(learner):
    """A bool mask is used; the same mask as float numbers raises ValueError that names it."""
    mask = torch.tensor([[True, False]])
    assert_close(learner.attention_weights(Q, K, mask), torch.tensor([[[[1.0, 0.0]]]]), what="the weights", picture=bars)
    assert_value_error(learner.attention_weights, Q, K, mask.float(), naming="mask")
    assert_value_error(learner.scaled_dot_product_attention, Q, K, V, mask.float(), naming="mask")
