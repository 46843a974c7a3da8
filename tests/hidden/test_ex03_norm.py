"""The grading suite of 03 · norm: RMSNorm and LayerNorm with weights, sizes and eps that tell mistakes apart."""

import pytest
import torch

from grader.suite import (
    assert_arguments_unchanged,
    assert_close,
    assert_equal,
    fail,
    noncontiguous,
    points,
    randn,
)

# Batch, tokens, heads, dim: all different. A token has few channels, so that dim and dim - 1 are not the same.
B, T, H, C = 2, 5, 3, 12
BOTH = pytest.mark.parametrize("name", ["RMSNorm", "LayerNorm"])
HALF_PRECISION = pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["float16", "bfloat16"])
# With these, a token of size 1 is neither left alone by eps nor ruled by it.
SOME_EPS = 0.3


def parameters_for(name, dim=C):
    """Random parameters of size about 1: ones and zeros would hide whether and how they are used."""
    names = ["weight"] if name == "RMSNorm" else ["weight", "bias"]
    return {one: randn(dim, blunt="one vector of dim numbers" if dim == 1 else None) for one in names}


def build(side, name, parameters, **eps):
    """One side's norm with these parameters."""
    norm = getattr(side, name)(len(parameters["weight"]), **eps)
    assert_names(norm, name, parameters)
    norm.load_state_dict(parameters)
    return norm


def assert_names(norm, name, wanted):
    """The norm has parameters of these names and no others."""
    found = norm.parameters()
    if set(found) != set(wanted):
        fail(f"The parameters of {name} are {sorted(found)}, not {sorted(wanted)}.")


def both(learner, reference, name, dim=C, **eps):
    """The learner's norm and the reference's, with the same random parameters."""
    parameters = parameters_for(name, dim)
    return build(learner, name, parameters, **eps), build(reference, name, parameters, **eps)


def tokens(*shape, dtype=torch.float32, scale=1.0, blunt=None):
    """Random tokens whose mean is three times their spread, which no norm may overlook."""
    return ((randn(*shape, dtype=torch.float64, blunt=blunt) + 3.0) * scale).to(dtype)


def with_zeros(x):
    """`x` with two of its tokens set to zeros; changes `x`."""
    x[0, 1] = x[-1, -1] = 0.0
    return x


# --- between calls: in a process of its own, before any other call can be remembered ---


@points(0.5, "robustness")
@BOTH
def test_a_call_knows_nothing_of_the_calls_before(fresh_learner, reference, name):
    """Two norms of different dim and eps take turns, on inputs of many sizes and dtypes: none disturbs another."""
    norm, right = both(fresh_learner, reference, name, eps=SOME_EPS)
    other, other_right = both(fresh_learner, reference, name, dim=7, eps=1e-4)
    x = tokens(B, T, C)
    assert_close(norm(x), right(x))
    y = tokens(H, T, 7)
    assert_close(other(y), other_right(y), what="the output of a second norm with another dim and eps")
    half = tokens(T, C, dtype=torch.bfloat16)
    assert_close(norm(half), right(half), what="the output for bfloat16 tokens")
    assert_close(norm(x), right(x), what="the output for float32 tokens after others in bfloat16")
    # A result that the caller keeps is not written over by the next one of the same shape.
    kept = norm.keep(x)
    larger = tokens(B, T, C, scale=20.0)
    assert_close(norm(larger), right(larger))
    assert_close(kept.fetch(), right(x), what="a result that was kept while another was made")


# --- shape ---


@points(0.5, "shape")
@pytest.mark.parametrize("name, start", [("RMSNorm", {"weight": 1.0}), ("LayerNorm", {"weight": 1.0, "bias": 0.0})])
def test_a_fresh_norm_has_its_parameters_and_no_others(learner, reference, name, start):
    """The state dict holds `weight` (ones) and, in LayerNorm, `bias` (zeros): float32 parameters of shape [dim]."""
    norm = getattr(learner, name)(C)
    state = norm.state_dict()
    if set(state) != set(start):
        fail(f"The state dict of {name} holds {sorted(state)}, not {sorted(start)}.")
    assert_names(norm, name, start)
    for one, value in start.items():
        assert_equal(state[one], torch.full((C,), value), what=f"the fresh {one}")
        if not norm.parameters()[one].requires_grad:
            fail(f"{one} does not ask for a gradient, so it can never be trained.")
    x = tokens(B, T, C)
    assert_close(norm(x), getattr(reference, name)(C)(x), what="the output of a fresh norm")


@points(0.5, "shape")
@BOTH
@pytest.mark.parametrize("shape", [(C,), (T, C), (B, T, C), (B, T, H, C)], ids=["[C]", "[T,C]", "[B,T,C]", "[B,T,H,C]"])
def test_any_axes_may_stand_in_front(learner, reference, name, shape):
    """One token alone, a row, a batch, or a batch of heads: the last axis is normed, the others stay."""
    norm, right = both(learner, reference, name, eps=SOME_EPS)
    x = tokens(*shape)
    assert_close(norm(x), right(x))


@points(0.25, "shape")
@BOTH
@pytest.mark.parametrize("shape", [(1, 1, C), (B, 1, C), (1, T, 1), (B, T, 2)], ids=["B=T=1", "T=1", "dim=1", "dim=2"])
def test_axes_of_one_stay(learner, reference, name, shape):
    """One sequence, one token, even one channel: an axis of length 1 is an axis like any other."""
    norm, right = both(learner, reference, name, dim=shape[-1], eps=SOME_EPS)
    x = tokens(*shape, blunt="axes of length 1 are the point")
    assert_close(norm(x), right(x))


@points(0.75, "shape")
@BOTH
@pytest.mark.parametrize(
    "dtype",
    [torch.float64, torch.float32, torch.float16, torch.bfloat16],
    ids=["float64", "float32", "float16", "bfloat16"],
)
def test_the_result_has_the_dtype_of_the_input(learner, reference, name, dtype):
    """Whatever float dtype goes in comes out, with parameters in float32, in the same dtype or in another."""
    norm, right = both(learner, reference, name, eps=SOME_EPS)
    x = tokens(B, T, C, dtype=dtype)
    assert_close(norm(x), right(x), what="the output, with parameters in float32,")
    for other in (torch.float64, torch.bfloat16, dtype):  # from the second on, every value of the parameters is bfloat16's
        norm.to(other)
        right.to(other)
        what = f"the output, with parameters in {str(other).removeprefix('torch.')},"
        assert_close(norm(x), right(x), what=what)


# --- numerics ---


@points(0.75, "numerics")
@BOTH
def test_every_token_is_brought_to_the_same_size(learner, reference, name):
    """Tokens of size 1e-4, 1e-3, 1, 30 and 1000, with random weights: each is divided by its own root."""
    norm, right = both(learner, reference, name, eps=1e-6)
    scale = torch.tensor([1e-4, 1e-3, 1.0, 30.0, 1000.0], dtype=torch.float64)
    x = tokens(B, T, C, scale=scale[:, None])
    assert_close(norm(x), right(x))
    again = x[:, [4, 2, 0, 3, 1]]  # no token's place matters
    assert_close(norm(again), right(again), what="the output for the same tokens in another order")


@points(0.25, "numerics")
@BOTH
def test_wide_tokens(learner, reference, name):
    """The 768 channels of a MiniMind token, in float32 and in float64."""
    norm, right = both(learner, reference, name, dim=768, eps=1e-5)
    for dtype in (torch.float32, torch.float64):
        x = tokens(B, T, 768, dtype=dtype)
        assert_close(norm(x), right(x))


@points(0.75, "numerics")
@BOTH
@pytest.mark.parametrize("eps", [1e-10, 1e-2, 0.5, 4.0], ids=["1e-10", "0.01", "0.5", "4"])
def test_eps_is_added_inside_the_root(learner, reference, name, eps):
    """Tokens whose mean square is near eps, so that it counts where and how eps is added."""
    parameters = parameters_for(name)
    norm, right = build(learner, name, parameters, eps=eps), build(reference, name, parameters, eps=eps)
    x = tokens(B, T, C, scale=0.5 * eps**0.5)
    assert_close(norm(x), right(x))
    smaller = tokens(B, T, C, scale=0.1 * eps**0.5)
    assert_close(norm(smaller), right(smaller))
    by_position = getattr(learner, name)(C, eps)
    by_position.load_state_dict(parameters)
    assert_close(by_position(x), right(x), what="the output when eps is given by position")


@points(0.25, "numerics")
@BOTH
def test_without_eps_the_default_counts(learner, reference, name):
    """The default eps is 1e-6 in RMSNorm and 1e-5 in LayerNorm: tokens of size 1e-3 tell them apart."""
    norm, right = both(learner, reference, name)
    x = tokens(B, T, C, scale=3e-4)
    assert_close(norm(x), right(x))


@points(0.5, "numerics")
@BOTH
@pytest.mark.parametrize("dim", [2, 3, 4])
def test_few_channels(learner, reference, name, dim):
    """With two, three or four channels a sum is no mean and dim - 1 is no dim; [1, 0, ..] is one of the tokens."""
    norm, right = both(
        learner, reference, name, dim=dim, eps=0.1
    )  # channels that are nearly alike lose digits, whatever the formula
    x = torch.cat([torch.eye(dim), randn(B, dim, blunt="may be as many tokens as channels"), -torch.eye(dim)])
    assert_close(norm(x), right(x))


@points(0.25, "numerics")
@BOTH
def test_a_token_is_normed_on_its_own(learner, reference, name):
    """One token is replaced by another: the results of all others stay what they were."""
    norm, right = both(learner, reference, name, eps=SOME_EPS)
    x = tokens(B, T, C)
    before = norm(x)
    assert_close(before, right(x))
    x[1, 2] = 50.0 * randn(C)
    after = norm(x)
    assert_close(after, right(x), what="the output after one token was replaced")
    before[1, 2] = after[1, 2]
    assert_close(after, before, what="the output of the tokens that were not replaced")


@points(0.5, "numerics")
@BOTH
@pytest.mark.parametrize("scale", [300.0, 1e-4], ids=["large", "small"])
def test_float16_neither_overflows_nor_vanishes(learner, reference, name, scale):
    """Elements near 1000 or near 0.0003 in float16: their squares fit into float32 only."""
    norm, right = both(learner, reference, name, eps=1e-8)
    x = tokens(B, T, C, dtype=torch.float16, scale=scale)
    assert_close(norm(x), right(x))
    norm.half()
    right.half()
    assert_close(norm(x), right(x), what="the output, with parameters in float16,")


@points(0.5, "numerics")
@BOTH
@HALF_PRECISION
def test_half_precision_is_computed_in_float32(learner, reference, name, dtype):
    """Tokens near 100 with small differences, in half precision: mean and squares have to be taken in float32."""
    norm, right = both(learner, reference, name, eps=1e-5)
    x = (100.0 + 0.7 * randn(B, T, C)).to(dtype)
    assert_close(norm(x), right(x))
    spike = 0.01 * randn(B, T, C)
    spike[..., 3] = 200.0
    assert_close(norm(spike.to(dtype)), right(spike.to(dtype)), what="the output for tokens with one large element")


# --- gradients ---


@points(0.75, "gradients")
@BOTH
def test_gradients_reach_the_input_and_every_parameter(learner, reference, name):
    """The size of a token depends on the token: its gradient goes through mean, root and product; eps 0.3 and 1e-6."""
    for eps in (SOME_EPS, 1e-6):
        norm, right = both(learner, reference, name, eps=eps)
        x, cotangent = tokens(B, T, H, C), randn(B, T, H, C)
        assert_gradients(norm.vjp(x, cotangent=cotangent), right.vjp(x, cotangent=cotangent))


@points(0.5, "gradients")
@BOTH
@HALF_PRECISION
def test_gradients_in_half_precision(learner, reference, name, dtype):
    """Backward survives what forward survives: elements near 1000, with parameters in float32."""
    norm, right = both(learner, reference, name, eps=1e-5)
    x, cotangent = tokens(B, T, C, dtype=dtype, scale=300.0), 300.0 * randn(B, T, C).to(dtype)
    actual, expected = norm.vjp(x, cotangent=cotangent), right.vjp(x, cotangent=cotangent)
    # What is added up for the parameters was rounded to half precision first, wherever that happens.
    assert_gradients(actual, expected, of_parameters=5e-3 if dtype == torch.float16 else 3e-2)


@points(0.75, "gradients")
@BOTH
@pytest.mark.parametrize("eps", [1e-6, 1e-2], ids=["1e-6", "0.01"])
def test_a_token_of_zeros_sends_back_finite_gradients(learner, reference, name, eps):
    """At a token of zeros the slope is weight / sqrt(eps): large, but finite, and the other tokens do not notice."""
    norm, right = both(learner, reference, name, eps=eps)
    x, cotangent = with_zeros(tokens(B, T, C)), randn(B, T, C)
    actual, expected = norm.vjp(x, cotangent=cotangent), right.vjp(x, cotangent=cotangent)
    assert_gradients(actual, expected)
    of_x = actual.inputs[0].clone()
    of_x[0, 1] = of_x[-1, -1] = 0.0  # the large ones, beside which the others would not be looked at closely
    assert_close(of_x, with_zeros(expected.inputs[0].clone()), what="the gradient of the tokens beside them")
    nothing_else = torch.zeros(B, T, C)
    assert_gradients(norm.vjp(nothing_else, cotangent=cotangent), right.vjp(nothing_else, cotangent=cotangent))


def assert_gradients(actual, expected, of_parameters=None):
    """Output and gradients are the reference's."""
    assert_close(actual.output, expected.output)
    assert_close(actual.inputs[0], expected.inputs[0], what="the gradient of x")
    for name, gradient in expected.parameters.items():
        assert_close(actual.parameters.get(name), gradient, what=f"the gradient of {name}", tolerance=of_parameters)


# --- robustness ---


@points(0.5, "robustness")
@BOTH
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=["float32", "float16"])
def test_a_token_of_zeros_gives_zeros(learner, reference, name, dtype):
    """A token of zeros, as padding may leave it, gives 0 (LayerNorm: the bias) and never NaN, with any eps."""
    for eps in (1e-6, 1e-2):
        parameters = parameters_for(name)
        norm, right = build(learner, name, parameters, eps=eps), build(reference, name, parameters, eps=eps)
        x = with_zeros(tokens(B, T, C, dtype=dtype))
        output = norm(x)
        assert_close(output, right(x))
        nothing = parameters.get("bias", torch.zeros(C)).to(dtype)
        assert_equal(output[0, 1], nothing, what="the output for a token of zeros")


@points(0.25, "robustness")
@BOTH
def test_inputs_need_not_be_contiguous(learner, reference, name):
    """x may be a transposed or expanded view."""
    norm, right = both(learner, reference, name, eps=SOME_EPS)
    for x in (noncontiguous(tokens(B, T, C)), tokens(C, T).transpose(0, 1), tokens(T, C).expand(B, T, C)):
        assert_close(norm(x), right(x))


@points(0.25, "robustness")
@BOTH
def test_nothing_is_changed_in_place(learner, reference, name):
    """x and the parameters hold the same numbers after the call as before, in every dtype of x."""
    parameters = parameters_for(name)
    norm, right = build(learner, name, parameters, eps=SOME_EPS), build(reference, name, parameters, eps=SOME_EPS)
    for dtype in (torch.float64, torch.float32, torch.float16):
        x = tokens(B, T, C, dtype=dtype)
        output = assert_arguments_unchanged(norm.forward, x)
        assert_close(output, right(x))
        state = norm.state_dict()
        for one, value in parameters.items():
            assert_equal(state.get(one), value, what=f"{one} after a call")


@points(0.25, "robustness")
@BOTH
def test_training_and_evaluation_give_the_same(learner, reference, name):
    """A norm learns nothing while it runs: train() and eval() make no difference."""
    norm, right = both(learner, reference, name, eps=SOME_EPS)
    for training in (True, False, True):
        norm.train(training)
        for scale in (5.0, 1.0):
            x = tokens(B, T, C, scale=scale)
            assert_close(norm(x), right(x), what=f"the output in {'training' if training else 'evaluation'}")
    norm.eval()
    assert_close(norm(x), right(x), what="the output in evaluation")
    parameters = parameters_for(name)
    for one in (norm, right):
        one.load_state_dict(parameters)
    cotangent = randn(B, T, C)
    assert_gradients(norm.vjp(x, cotangent=cotangent), right.vjp(x, cotangent=cotangent))


# --- by hand ---


@points(0.5, "by_hand")
@BOTH
def test_the_norms_are_written_by_hand(learner, reference, by_hand, name):
    """The right answer, without torch's own norms under any name."""
    norm, right = both(learner, reference, name, eps=SOME_EPS)
    x = tokens(B, T, C)
    assert_close(norm(x), right(x))
    by_hand.assert_clean()
