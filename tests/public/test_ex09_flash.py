"""Worked examples for 09 · flash. They give no points; the grading suite looks at much more."""

import math

import torch

from grader.suite import assert_close, assert_equal, assert_value_error, fail, points

# The example of the lesson: one query, three keys, D = 4. The scores are 0, ln 3 and ln 12; their exps 1, 3 and 12.
Q = torch.tensor([[[[2.0, 0.0, 0.0, 0.0]]]])  # [B=1, H=1, T=1, D=4]
K = torch.zeros(1, 1, 3, 4)  # [B=1, H=1, S=3, D=4]
K[0, 0, :, 0] = torch.tensor([1.0, 3.0, 12.0]).log()
V = torch.tensor([[[[8.0, 0.0], [0.0, 4.0], [4.0, 4.0]]]])  # [B=1, H=1, S=3, E=2]


@points(0, "numerics")
def test_three_keys_in_blocks_of_one(learner):
    """The example of the lesson: weights 1/16, 3/16 and 12/16, whatever the blocks are, so the output is [3.5, 3.75]."""
    expected = torch.tensor([[[[3.5, 3.75]]]])
    for block_size in (1, 2, 3, 100):
        output = learner.online_softmax_attention(Q, K, V, block_size)
        assert_close(output, expected, what=f"the output in blocks of {block_size}")


@points(0, "numerics")
def test_a_score_of_a_thousand(learner):
    """exp(1000) is more than any float can hold, and still the answer is the last value, or the first two alone."""
    k = K * 1000 / math.log(12.0)  # scores 0, 442 and 1000
    expected = torch.tensor([[[[4.0, 4.0]]]])
    assert_close(learner.online_softmax_attention(Q, k, V, 1), expected)
    assert_close(learner.online_softmax_attention(Q, k.flip(2), V.flip(2), 1), expected, what="the output, largest score first")


@points(0, "numerics")
def test_two_queries_see_their_past(learner):
    """Two new tokens after one old one, all scores 0: the first averages two values, the second all three."""
    q = torch.zeros(1, 1, 2, 4)
    expected = torch.tensor([[[[4.0, 2.0], [4.0, 8 / 3]]]])
    for block_size in (1, 2, 3):
        output = learner.online_softmax_attention(q, K, V, block_size, is_causal=True)
        assert_close(output, expected, what=f"the output in blocks of {block_size}")
    assert_close(learner.attention(q, K, torch.cat([V, V], dim=-1))[..., :2], expected)


@points(0, "numerics")
def test_which_backend(learner):
    """The contract's examples: equal lengths and a mask of ones are "flash", a single token or a pad is "manual"."""
    ones = torch.ones(2, 6)
    assert_equal(learner.select_backend(6, 6, ones), "flash")
    assert_equal(learner.select_backend(1, 1), "manual")
    assert_equal(learner.select_backend(2, 6), "manual")
    assert_equal(learner.select_backend(6, 6, flash_available=False), "manual")
    ones[1, 0] = 0
    assert_equal(learner.select_backend(6, 6, ones), "manual")


@points(0, "numerics")
def test_attention_with_and_without_a_pad(learner):
    """All scores 0: the second token averages both values, and takes only its own if the first is a pad."""
    q = k = torch.zeros(1, 1, 2, 4)
    v = torch.tensor([[[[8.0, 0.0, 1.0, 2.0], [0.0, 4.0, 1.0, 4.0]]]])
    expected = torch.tensor([[[[8.0, 0.0, 1.0, 2.0], [4.0, 2.0, 1.0, 3.0]]]])
    assert_close(learner.attention(q, k, v), expected)
    assert_close(learner.attention(q, k, v, use_flash=False), expected, what="the output with use_flash=False")
    behind_a_pad = torch.tensor([[[[0.0, 0.0, 0.0, 0.0], [0.0, 4.0, 1.0, 4.0]]]])
    assert_close(learner.attention(q, k, v, attention_mask=torch.tensor([[0, 1]])), behind_a_pad, what="the output behind a pad")


@points(0, "robustness")
def test_the_kernel_is_used_when_it_may_be(learner):
    """The fused kernel is called for two tokens without padding, and not for a single one, nor with use_flash=False."""
    fused = ["torch.nn.functional.scaled_dot_product_attention"]
    x = torch.ones(1, 1, 2, 4)
    for q, use_flash in ((x, True), (x[:, :, 1:], True), (x, False)):
        output, used = learner.attention.using(fused, q, x, x, use_flash=use_flash)
        assert_close(output, q)
        wanted = use_flash and q.shape[2] == 2
        if wanted and not used:
            fail("two tokens, no padding: the fused kernel is not called")
        if used and not wanted:
            fail(f"{q.shape[2]} of 2 tokens are new and use_flash is {use_flash}: the fused kernel is called")


@points(0, "robustness")
def test_dropout_in_training_only(learner):
    """Half of the weights are dropped and the others doubled, in training; otherwise nothing is."""
    q = k = torch.zeros(1, 8, 1, 4)
    v = torch.ones(1, 8, 1, 4)
    assert_close(learner.attention(q, k, v, dropout_p=0.5), v)
    output = learner.attention(q, k, v, dropout_p=0.5, training=True)  # one key: its weight is 1, or 0, or 2
    assert_close(output, torch.where(output == 0, 0.0, 2.0).to(v.dtype) if isinstance(output, torch.Tensor) else v)


@points(0, "robustness")
def test_blocks_of_nothing(learner):
    """A block_size of 2 is used; 0 raises ValueError that names it and gives the value."""
    assert_close(learner.online_softmax_attention(Q, K, V, 2), torch.tensor([[[[3.5, 3.75]]]]))
    assert_value_error(learner.online_softmax_attention, Q, K, V, 0, naming="block_size")
