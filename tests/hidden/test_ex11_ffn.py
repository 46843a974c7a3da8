"""The grading suite of 11 · feed-forward: two activations by hand, and the two networks that are built on them."""

import itertools

import pytest
import torch

from grader.suite import (
    assert_arguments_unchanged,
    assert_close,
    assert_equal,
    assert_module_close,
    assert_shape,
    fail,
    noncontiguous,
    points,
    randint,
    randn,
)

# Batch, tokens, hidden size, intermediate size: all different.
B, T, C, F = 2, 5, 6, 14
ACTIVATIONS = ("gelu", "silu")
NETWORKS = pytest.mark.parametrize("name", ["GELUMLP", "SwiGLU"])
HALF_PRECISION = pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["float16", "bfloat16"])
EVERY_DTYPE = pytest.mark.parametrize(
    "dtype",
    [torch.float64, torch.float32, torch.float16, torch.bfloat16],
    ids=["float64", "float32", "float16", "bfloat16"],
)
MODULE_TOLERANCE = 1e-4  # of whole networks: many products are added up
DROPOUT = 0.3  # not a half: then keeping and dropping could be mistaken for each other


def parameter_shapes(name, hidden, inner):
    """What the contract names, and the shapes."""
    if name == "GELUMLP":
        return {
            "fc_in.weight": (inner, hidden),
            "fc_in.bias": (inner,),
            "fc_out.weight": (hidden, inner),
            "fc_out.bias": (hidden,),
        }
    return {"gate_proj.weight": (inner, hidden), "up_proj.weight": (inner, hidden), "down_proj.weight": (hidden, inner)}


def both(learner, reference, name, hidden=C, inner=F, *dropout, dtype=torch.float32, **keywords):
    """The learner's network and the reference's, with the same new weights of size about 1."""
    mine = getattr(learner, name)(hidden, inner, *dropout, **keywords)
    right = getattr(reference, name)(hidden, inner, *dropout, **keywords)
    weights = {key: randn(*shape, dtype=dtype) for key, shape in parameter_shapes(name, hidden, inner).items()}
    for network in (mine, right):
        if dtype != torch.float32:
            network.to(dtype)
        network.load_state_dict(weights)
    return mine, right


def assert_activations(learner, reference, x):
    """Both functions give the reference's numbers on x."""
    for name in ACTIVATIONS:
        assert_close(getattr(learner, name)(x), getattr(reference, name)(x), what=f"{name}(x)")


def far_out(size, dtype):
    """Numbers from 0.9 to 1 times `size`; of both signs, but each sign in a tensor of its own, so that 0 is told apart."""
    positive = (size * (1.0 - randint(0, 100, 3, 5) / 1000.0)).to(dtype)
    return positive, -positive


def assert_gradients(mine, right, x, what, tolerance=None):
    """The learner's gradients, of the input and of every parameter, are the reference's."""
    expected_output = right(x)
    cotangent = randn(*expected_output.shape, dtype=x.dtype, blunt="the shape of the output")
    actual, expected = mine.vjp(x, cotangent=cotangent), right.vjp(x, cotangent=cotangent)
    assert_close(actual.output, expected.output, what=what, tolerance=tolerance)
    pairs = [("x", actual.inputs[0], expected.inputs[0])]
    pairs += [(f"`{name}`", actual.parameters.get(name), gradient) for name, gradient in expected.parameters.items()]
    for name, gradient, correct in pairs:
        assert_close(gradient, correct, what=f"the gradient of {what} for {name}", tolerance=tolerance)


# --- between calls: in a process of its own, before any other call can be remembered ---


@points(0.5, "robustness")
def test_a_call_knows_nothing_of_the_calls_before(fresh_learner, reference):
    """Other numbers, other sizes, a second network: each call stands alone, and results that were kept stay as they are."""
    for name in ACTIVATIONS:
        first, second = randn(B, T, C), randn(B, T, C)
        kept = getattr(fresh_learner, name).keep(first)
        assert_close(getattr(fresh_learner, name)(second), getattr(reference, name)(second), what=f"{name}(x)")
        assert_close(kept.fetch(), getattr(reference, name)(first), what=f"a result of {name} that was kept")
        longer = randn(B, T + 2, C)
        assert_close(getattr(fresh_learner, name)(longer), getattr(reference, name)(longer), what=f"{name}(x)")
    for name in ("GELUMLP", "SwiGLU"):
        one, right_one = both(fresh_learner, reference, name)
        other, right_other = both(fresh_learner, reference, name)
        x = randn(B, T, C)
        kept = one.keep(x)
        assert_module_close(other, right_other, x)
        assert_module_close(one, right_one, randn(B, T, C))
        assert_close(kept.fetch(), right_one(x), what="an output that was kept", tolerance=MODULE_TOLERANCE)
        assert_module_close(one, right_one, randn(B + 1, T + 2, C, blunt="more sequences, and longer ones"))


# --- shape ---


@points(0.5, "shape")
@EVERY_DTYPE
def test_activations_keep_shape_and_dtype(learner, reference, dtype):
    """gelu and silu work element by element: any shape, any float dtype, and the same comes out."""
    for shape in ((), (7,), (3, 5), (2, 3, 4, 5), (0, 3)):
        assert_activations(learner, reference, randn(*shape, dtype=dtype))


@points(0.75, "shape")
@NETWORKS
@pytest.mark.parametrize("sizes", [(C, F), (9, 4)], ids=["wider", "narrower"])
def test_a_network_has_these_parameters_and_no_others(learner, reference, name, sizes):
    """Names and shapes are the contract's, the width inside is the given one, and a checkpoint fits without remainder."""
    network = getattr(learner, name)(*sizes)
    expected = parameter_shapes(name, *sizes)
    found = {key: info.shape for key, info in network.parameters().items()}
    missing, more = sorted(expected.keys() - found.keys()), sorted(found.keys() - expected.keys())
    if missing or more:
        fail(f"Among the parameters {missing or 'none'} are missing, and {more or 'none'} are more than there should be.")
    for key, shape in expected.items():
        if found[key] != shape:
            fail(f"{key} has shape {list(found[key])}, but for sizes {sizes} it should be {list(shape)}.")
    if network.state_dict().keys() != expected.keys():
        fail("The state dict has other entries than the parameters.")
    if not all(info.requires_grad for info in network.parameters().values()):
        fail("Some parameter does not ask for gradients.")
    mine, right = both(learner, reference, name, *sizes)
    assert_module_close(mine, right, randn(B, T, sizes[0]))


@points(0.25, "shape")
@NETWORKS
def test_one_sequence_or_one_token_will_do(learner, reference, name):
    """Axes of length 1 stay: one sequence, one token, or both."""
    mine, right = both(learner, reference, name)
    for batch, tokens in ((1, T), (B, 1), (1, 1)):
        assert_module_close(mine, right, randn(batch, tokens, C, blunt="axes of length 1 are the point"))


# --- numerics ---


@points(0.75, "numerics")
def test_gelu_is_exact(learner, reference):
    """x times the share of a standard normal distribution below x: the erf form, right to the fifth decimal."""
    for dtype in (torch.float32, torch.float64):
        for x in (
            torch.linspace(-5.0, 5.0, 81, dtype=dtype),
            torch.tensor([-2.7, 2.7, 0.0], dtype=dtype),
            randn(B, T, C, dtype=dtype),
        ):
            assert_close(learner.gelu(x), reference.gelu(x), what="gelu(x)")


@points(0.75, "numerics")
def test_silu_is_x_times_its_sigmoid(learner, reference):
    """x / (1 + exp(-x)), on both sides of 0."""
    for dtype in (torch.float32, torch.float64):
        for x in (torch.linspace(-12.0, 12.0, 97, dtype=dtype), randn(B, T, C, dtype=dtype)):
            assert_close(learner.silu(x), reference.silu(x), what="silu(x)")


@points(0.5, "numerics")
@EVERY_DTYPE
def test_activations_are_right_far_from_zero(learner, reference, dtype):
    """At 20, 100 and 1000 an activation is x itself, at -20, -100 and -1000 it is 0: never NaN or infinite."""
    for size in (20, 100, 1000):
        for x in far_out(size, dtype):
            assert_activations(learner, reference, x)
    for far in (-1000.0, 1000.0):  # a far one beside near ones
        assert_activations(learner, reference, torch.cat([far * torch.ones(1), randn(7)]).to(dtype))


@points(0.75, "numerics")
def test_gelumlp_widens_bends_and_comes_back(learner, reference):
    """fc_out(gelu(fc_in(x))), with both biases, token by token."""
    mine, right = both(learner, reference, "GELUMLP")
    assert_module_close(mine, right, randn(B, T, C))
    mine, right = both(learner, reference, "GELUMLP", 12, 5)
    assert_module_close(mine, right, randn(3, T, 12, scale=3.0))


@points(0.75, "numerics")
def test_swiglu_lets_the_gate_decide(learner, reference):
    """down_proj(silu(gate_proj(x)) * up_proj(x)), token by token."""
    mine, right = both(learner, reference, "SwiGLU")
    assert_module_close(mine, right, randn(B, T, C))
    mine, right = both(learner, reference, "SwiGLU", 12, 5)
    assert_module_close(mine, right, randn(3, T, 12, scale=0.3))


@points(0.25, "numerics")
@NETWORKS
@HALF_PRECISION
def test_networks_work_in_half_precision(learner, reference, name, dtype):
    """With float16 or bfloat16 weights and tokens, the output has that dtype and is right to its precision."""
    mine, right = both(learner, reference, name, dtype=dtype)
    x = randn(B, T, C, dtype=dtype)
    # An error of the last place inside grows with the width, so the output's own rounding is not the whole of it.
    assert_module_close(mine, right, x, tolerance=1e-2 if dtype == torch.float16 else 6e-2)


@points(0.5, "numerics")
def test_dropout_thins_out_the_output_in_training(learner, reference):
    """In training each element of GELUMLP's output is 0 with probability p, or divided by 1 - p, by a new draw every time."""
    x = randn(16, 9, C)
    for given in ((), (DROPOUT,)):
        mine, right = both(learner, reference, "GELUMLP", C, F, *given, **({} if given else {"dropout": DROPOUT}))
        learner.file("props").seed(7)
        full = right.eval()(x)
        mine.train()
        thinned = mine(x)
        assert_shape(thinned, full.shape)
        kept = thinned != 0
        assert_close(thinned, torch.where(kept, full / (1 - DROPOUT), 0.0), tolerance=MODULE_TOLERANCE)
        share = 1.0 - kept.float().mean().item()
        # First the axes: elements that share their fate are fewer draws, and leave the share to chance. All or nothing has no axis.
        for axis in range(kept.dim()) if 0 < share < 1 else ():
            if (kept == kept.narrow(axis, 0, 1)).all():
                fail(f"Everything along axis {axis} is dropped together; each element should be drawn for itself.")
        if abs(share - DROPOUT) > 0.08:
            fail(f"With dropout = {DROPOUT}, {share:.0%} of the output's elements were dropped.")
        if torch.equal(mine(x) != 0, kept):
            fail("Two calls dropped the very same elements.")
        if not mine.training:
            fail("A call has switched the network's training mode off.")
    mine, _ = both(learner, reference, "GELUMLP", C, F, 1.0)
    assert_equal(mine.train()(x) == 0, torch.ones(x.shape, dtype=torch.bool), what="(output == 0) with dropout = 1")
    of_x = mine.vjp(x, cotangent=randn(*x.shape)).inputs[0]
    if of_x is not None:  # zeros that depend on nothing are an answer, too
        assert_close(of_x, torch.zeros_like(x), what="the gradient of x through elements that were dropped")


@points(0.25, "numerics")
def test_dropout_is_off_outside_of_training(learner, reference):
    """In eval mode, and with dropout = 0, nothing is dropped and nothing is rescaled."""
    mine, right = both(learner, reference, "GELUMLP", dropout=DROPOUT)
    learner.file("props").seed(7)
    mine.eval()
    assert_module_close(mine, right.eval(), randn(B, T, C))
    if mine.training:
        fail("A call has switched the network back to training mode.")
    mine, right = both(learner, reference, "GELUMLP")
    assert_module_close(mine.train(), right, randn(B, T, C))


# --- gradients ---


@points(0.5, "gradients")
def test_gradients_flow_through_the_activations(learner, reference):
    """The slope of gelu and silu is right on both sides of 0 and at 0 itself, where it is one half."""
    for dtype in (torch.float32, torch.float64):
        x = torch.cat([torch.linspace(-6.0, 6.0, 49, dtype=dtype), randn(17, dtype=dtype)])
        for name in ACTIVATIONS:
            assert_gradients(getattr(learner, name), getattr(reference, name), x, f"{name}(x)")


@points(0.5, "gradients")
@EVERY_DTYPE
def test_gradients_are_right_far_from_zero(learner, reference, dtype):
    """The slope is 1 at 20, 100 and 1000, and 0 at -20, -100 and -1000: backward must not divide infinity by infinity."""
    for size in (20, 100, 1000):
        for x in far_out(size, dtype):
            for name in ACTIVATIONS:
                assert_gradients(getattr(learner, name), getattr(reference, name), x, f"{name}(x)")


@points(1, "gradients")
@NETWORKS
@pytest.mark.parametrize("scale", [1.0, 100.0], ids=["ordinary", "large"])
def test_gradients_reach_the_tokens_and_every_parameter(learner, reference, name, scale):
    """x and each weight and bias get the right gradient, also when the numbers inside are in the hundreds."""
    mine, right = both(learner, reference, name)
    for training in (True, False):
        mine.train(training)
        assert_gradients(mine, right, randn(B, T, C, scale=scale), "the output", tolerance=MODULE_TOLERANCE)


# --- robustness ---


@points(0.5, "robustness")
def test_inputs_need_not_be_contiguous(learner, reference):
    """Transposed and expanded tensors are tensors like any other."""
    x = noncontiguous(randn(B, T, C))
    assert_activations(learner, reference, x)
    assert_activations(learner, reference, randn(T, C).expand(B, T, C))
    for name in ("GELUMLP", "SwiGLU"):
        mine, right = both(learner, reference, name)
        assert_module_close(mine, right, x)
        assert_module_close(mine, right, randn(B, C, T).transpose(1, 2))


@points(0.25, "robustness")
def test_the_input_is_left_as_it_was(learner, reference):
    """x holds the same numbers after the call as before."""
    x = randn(B, T, C)
    for name in ACTIVATIONS:
        y = assert_arguments_unchanged(getattr(learner, name), x)
        assert_close(y, getattr(reference, name)(x), what=f"{name}(x)")
    for name in ("GELUMLP", "SwiGLU"):
        mine, right = both(learner, reference, name)
        y = assert_arguments_unchanged(mine.forward, x)
        assert_close(y, right(x), tolerance=MODULE_TOLERANCE)


@points(0.25, "robustness")
def test_new_weights_are_used_at_once(learner, reference):
    """Loading other weights, or changing one in place, changes the next output: nothing is worked out ahead."""
    x = randn(B, T, C)
    for name, training in itertools.product(("GELUMLP", "SwiGLU"), (True, False)):
        mine, right = both(learner, reference, name)
        mine.train(training)
        assert_module_close(mine, right, x)
        weights = {key: randn(*shape) for key, shape in parameter_shapes(name, C, F).items()}
        for network in (mine, right):
            network.load_state_dict(weights)
        assert_module_close(mine, right, x)


# --- by hand ---


@points(0.5, "by_hand")
def test_the_activations_are_written_by_hand(learner, reference, by_hand):
    """The right answer, without torch's own GELU and SiLU under any name."""
    assert_activations(learner, reference, randn(B, T, C))
    for name in ("GELUMLP", "SwiGLU"):
        mine, right = both(learner, reference, name)
        assert_module_close(mine, right, randn(B, T, C))
    by_hand.assert_clean()
