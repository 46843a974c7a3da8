"""Worked examples for 11 · feed-forward. They give no points; the grading suite looks at much more."""

import torch

from grader.suite import assert_close, assert_equal, points


@points(0, "numerics")
def test_gelu_at_a_few_places(learner):
    """gelu(2.7) = 2.69064: the tanh form gives 2.69111, and that is another function."""
    x = torch.tensor([-2.7, -1.0, 0.0, 1.0, 2.7])
    assert_close(learner.gelu(x), torch.tensor([-0.00936, -0.15866, 0.0, 0.84134, 2.69064]), what="gelu(x)")


@points(0, "numerics")
def test_silu_at_a_few_places(learner):
    """silu(2) = 2 / (1 + exp(-2)) = 1.76159, and silu(0) = 0."""
    x = torch.tensor([-2.0, -1.0, 0.0, 1.0, 2.0])
    assert_close(learner.silu(x), torch.tensor([-0.23841, -0.26894, 0.0, 0.73106, 1.76159]), what="silu(x)")


@points(0, "numerics")
def test_a_swiglu_of_one_channel(learner):
    """gate 1, up 3, down 2: the token 2 becomes 2 * silu(2) * 6 = 21.13912, and the token 0 stays 0."""
    network = learner.SwiGLU(1, 1)
    weights = {"gate_proj.weight": 1.0, "up_proj.weight": 3.0, "down_proj.weight": 2.0}
    network.load_state_dict({name: torch.tensor([[value]]) for name, value in weights.items()})
    x = torch.tensor([[[2.0], [0.0]]])  # [B=1, T=2, C=1]
    assert_close(network(x), torch.tensor([[[21.13912], [0.0]]]))


@points(0, "numerics")
def test_a_gelumlp_that_is_half_a_gelu(learner):
    """C = 1, F = 2: fc_in gives x and x - 1, fc_out half of the first plus 3, so 2.7 becomes 0.5 * 2.69064 + 3."""
    network = learner.GELUMLP(1, 2)
    network.load_state_dict(
        {
            "fc_in.weight": torch.tensor([[1.0], [1.0]]),
            "fc_in.bias": torch.tensor([0.0, -1.0]),
            "fc_out.weight": torch.tensor([[0.5, 0.0]]),
            "fc_out.bias": torch.tensor([3.0]),
        }
    )
    assert_close(network(torch.tensor([[[2.7]]])), torch.tensor([[[4.34532]]]))


@points(0, "shape")
def test_minimind_shapes(learner):
    """In MiniMind a token of 768 channels is widened to 2432 and comes back as 768."""
    network = learner.SwiGLU(768, 2432)
    shapes = {name: info.shape for name, info in network.parameters().items()}
    expected = {"gate_proj.weight": (2432, 768), "up_proj.weight": (2432, 768), "down_proj.weight": (768, 2432)}
    assert_equal(shapes, expected, what="the shapes of the parameters")
    assert_close(network(torch.zeros(1, 100, 768)), torch.zeros(1, 100, 768))


@points(0, "gradients")
def test_slopes(learner):
    """At 0 both slopes are one half, far out they are 1 and 0, and never NaN."""
    x = torch.tensor([-1000.0, 0.0, 1000.0])
    for name in ("gelu", "silu"):
        result = getattr(learner, name).vjp(x, cotangent=torch.ones(3))
        assert_close(result.inputs[0], torch.tensor([0.0, 0.5, 1.0]), what=f"the slope of {name}")


@points(0, "robustness")
def test_dropout_one(learner):
    """With dropout = 1.0 nothing is left in training, and everything in eval mode."""
    network = learner.GELUMLP(1, 1, dropout=1.0)
    one, zero = torch.tensor([[1.0]]), torch.tensor([0.0])
    network.load_state_dict({"fc_in.weight": one, "fc_in.bias": zero, "fc_out.weight": one, "fc_out.bias": zero})
    x = torch.tensor([[[2.7]]])
    assert_close(network.train()(x), torch.tensor([[[0.0]]]))
    assert_close(network.eval()(x), torch.tensor([[[2.69064]]]))
