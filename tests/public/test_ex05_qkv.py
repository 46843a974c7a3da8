"""Worked examples for 05 · qkv. They give no points; the grading suite looks at much more."""

import torch

from grader.suite import assert_close, assert_value_error, points

# The example of the lesson: C = 4 channels, H = 2 query heads, K = 1 key/value head, D = 2.
X = torch.tensor([[[1.0, 2.0, 3.0, 4.0], [6.0, 8.0, 0.0, 0.0]]])  # [B=1, T=2, C=4]
STATE = {
    "q_proj.weight": torch.eye(4),  # head 0 is channels 0 and 1, head 1 is channels 2 and 3
    "k_proj.weight": torch.tensor([[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]]),
    "v_proj.weight": torch.tensor([[0.0, 0.0, 1.0, 0.0], [1.0, 0.0, 0.0, 0.0]]),
    "q_norm.weight": torch.tensor([1.0, 1.0]),
    "k_norm.weight": torch.tensor([5.0, 10.0]),
}
ROOT = 0.5**0.5


def small(learner, **changes):
    """The layer of the lesson."""
    layer = learner.QKVProjection(4, 2, 1, 2)
    layer.load_state_dict({**STATE, **changes})
    return layer


@points(0, "shape")
def test_minimind_shapes(learner):
    """MiniMind: 100 tokens of 768 channels become 8 query heads and 4 key and value heads of 96 channels."""
    layer = learner.QKVProjection(768, 8, 4, 96)
    q, k, v = layer(torch.zeros(1, 100, 768))
    assert_close(q, torch.zeros(1, 100, 8, 96), what="q")
    assert_close(k, torch.zeros(1, 100, 4, 96), what="k")
    assert_close(v, torch.zeros(1, 100, 4, 96), what="v")


@points(0, "numerics")
def test_queries_of_the_lesson(learner):
    """The second token's head 0 is [6, 8], with mean square 50, so it becomes [6, 8] / sqrt(50)."""
    q, _, _ = small(learner)(X)
    first = [[1 / 2.5**0.5, 2 / 2.5**0.5], [3 / 12.5**0.5, 4 / 12.5**0.5]]
    second = [[6 / 50**0.5, 8 / 50**0.5], [0.0, 0.0]]
    assert_close(q, torch.tensor([[first, second]]), what="q")


@points(0, "numerics")
def test_keys_of_the_lesson(learner):
    """The second token's key is [6, 8] / sqrt(50), times k_norm's weights 5 and 10."""
    _, k, _ = small(learner)(X)
    expected = torch.tensor([[[[5 / 2.5**0.5, 20 / 2.5**0.5]], [[6 * ROOT, 16 * ROOT]]]])
    assert_close(k, expected, what="k")


@points(0, "numerics")
def test_values_of_the_lesson(learner):
    """v_proj takes channels 2 and 0, and no norm follows: [3, 1] and [0, 6]."""
    _, _, v = small(learner)(X)
    assert_close(v, torch.tensor([[[[3.0, 1.0]], [[0.0, 6.0]]]]), what="v")


@points(0, "gradients")
def test_a_gradient_for_the_values(learner):
    """The values are linear in x: a gradient of ones at v goes back to channels 2 and 0, and nowhere else."""
    layer = small(learner)
    cotangent = torch.zeros(1, 2, 2, 2), torch.zeros(1, 2, 1, 2), torch.ones(1, 2, 1, 2)
    (of_x,) = layer.vjp(X, cotangent=cotangent).inputs
    assert_close(of_x, torch.tensor([[[1.0, 0.0, 1.0, 0.0], [1.0, 0.0, 1.0, 0.0]]]), what="the gradient for x")


@points(0, "robustness")
def test_six_queries_cannot_share_four_keys(learner):
    """8 query heads share 4 key heads; 6 cannot, and 0 key heads serve nobody."""
    _, k, _ = learner.QKVProjection(16, 8, 4, 3)(torch.zeros(1, 2, 16))
    assert_close(k, torch.zeros(1, 2, 4, 3), what="k")
    assert_value_error(learner.QKVProjection, 16, 6, 4, 3, naming="num_kv_heads", values=[6, 4])
    assert_value_error(learner.QKVProjection, 16, 6, 0, 3, naming="num_kv_heads", values=[0])
