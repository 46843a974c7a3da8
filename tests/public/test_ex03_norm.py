"""Worked examples for 03 · norm. They give no points; the grading suite looks at much more."""

import torch

from grader.suite import assert_close, assert_equal, points

# The token of the lesson: its mean is 4, its variance 9, its mean square 25.
TOKEN = torch.tensor([1.0, 3.0, 3.0, 9.0])


@points(0, "numerics")
def test_rms_norm_of_the_token(learner):
    """The example of the lesson: [1, 3, 3, 9] has the root mean square 5."""
    assert_close(learner.RMSNorm(4)(TOKEN), torch.tensor([0.2, 0.6, 0.6, 1.8]))


@points(0, "numerics")
def test_layer_norm_of_the_token(learner):
    """The example of the lesson: [1, 3, 3, 9] has the mean 4 and the standard deviation 3."""
    assert_close(learner.LayerNorm(4)(TOKEN), torch.tensor([-1.0, -1 / 3, -1 / 3, 5 / 3]))


@points(0, "numerics")
def test_a_large_eps(learner):
    """eps stands inside the root: 25 + 11 makes 6, and 9 + 16 makes 5."""
    assert_close(learner.RMSNorm(4, eps=11.0)(TOKEN), torch.tensor([1 / 6, 0.5, 0.5, 1.5]))
    assert_close(learner.LayerNorm(4, eps=16.0)(TOKEN), torch.tensor([-0.6, -0.2, -0.2, 1.0]))


@points(0, "numerics")
def test_weight_and_bias(learner):
    """Every channel has a factor of its own, and in LayerNorm a summand, which comes last."""
    weight, bias = torch.tensor([10.0, -1.0, 0.0, 5.0]), torch.tensor([1.0, 2.0, 3.0, 4.0])
    norm = learner.RMSNorm(4)
    norm.load_state_dict({"weight": weight})
    assert_close(norm(TOKEN), torch.tensor([2.0, -0.6, 0.0, 9.0]))
    norm = learner.LayerNorm(4, eps=16.0)
    norm.load_state_dict({"weight": weight, "bias": bias})
    assert_close(norm(TOKEN), torch.tensor([-5.0, 2.2, 3.0, 9.0]))


@points(0, "shape")
def test_minimind_shapes(learner):
    """The stream [1, 100, 768] and the queries of QK-Norm [1, 100, 8, 96], all ones: size 1 already, mean 1."""
    for shape in ((1, 100, 768), (1, 100, 8, 96)):
        ones = torch.ones(shape)
        assert_close(learner.RMSNorm(shape[-1])(ones), ones)
        assert_close(learner.LayerNorm(shape[-1])(ones), torch.zeros(shape))


@points(0, "shape")
def test_parameters_of_a_fresh_norm(learner):
    """`weight` are ones, `bias` are zeros."""
    assert_equal(learner.RMSNorm(3).state_dict(), {"weight": torch.ones(3)})
    assert_equal(learner.LayerNorm(3).state_dict(), {"weight": torch.ones(3), "bias": torch.zeros(3)})


@points(0, "numerics")
def test_float16_overflows_if_you_let_it(learner):
    """300 times the token: its squares are beyond float16. The result is the same, in float16."""
    large = (300 * TOKEN).half()
    assert_close(learner.RMSNorm(4)(large), torch.tensor([0.2, 0.6, 0.6, 1.8], dtype=torch.float16))
    assert_close(learner.LayerNorm(4)(large), torch.tensor([-1.0, -1 / 3, -1 / 3, 5 / 3], dtype=torch.float16))


@points(0, "gradients")
def test_gradients_of_the_token(learner):
    """A gradient of [1, 0, 0, 0] at the output reaches all four channels, through the divisor."""
    cotangent = torch.tensor([1.0, 0.0, 0.0, 0.0])
    result = learner.RMSNorm(4).vjp(TOKEN, cotangent=cotangent)
    # y0 = x0 / r: d y0 / d x_j = (j == 0) / r - x0 x_j / (4 r^3), with r = 5.
    assert_close(result.inputs[0], torch.tensor([0.198, -0.006, -0.006, -0.018]), what="the gradient of x")
    assert_close(result.parameters["weight"], torch.tensor([0.2, 0.0, 0.0, 0.0]), what="the gradient of weight")
    result = learner.LayerNorm(4).vjp(TOKEN, cotangent=cotangent)
    expected = torch.tensor([1 / 6, -1 / 9, -1 / 9, 1 / 18])
    assert_close(result.inputs[0], expected, what="the gradient of x")


@points(0, "robustness")
def test_a_token_of_zeros(learner):
    """Zeros stay zeros: 0 divided by the root of eps. In LayerNorm they become the bias."""
    x = torch.stack([TOKEN, torch.zeros(4)])
    assert_close(learner.RMSNorm(4)(x), torch.tensor([[0.2, 0.6, 0.6, 1.8], [0.0, 0.0, 0.0, 0.0]]))
    norm = learner.LayerNorm(4, eps=16.0)
    norm.load_state_dict({"weight": torch.ones(4), "bias": torch.tensor([1.0, 2.0, 3.0, 4.0])})
    assert_close(norm(x), torch.tensor([[0.4, 1.8, 2.8, 5.0], [1.0, 2.0, 3.0, 4.0]]))
