"""The grading suite of 07 · attention: what scaled dot-product attention does when it is written by hand."""

import pytest
import torch

from grader.suite import (
    assert_arguments_unchanged,
    assert_close,
    assert_value_error,
    fail,
    noncontiguous,
    points,
    randint,
    randn,
)

# Batch, heads, queries, keys, head_dim: all different, and head_dim is neither a square nor a power of two.
B, H, T, S, D = 2, 3, 5, 7, 10
SOME_MASKS = pytest.mark.parametrize("shape", [(T, S), (B, H, T, S)], ids=["[T,S]", "[B,H,T,S]"])
HALF_PRECISION = pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["float16", "bfloat16"])


def inputs(dtype=torch.float32):
    """Queries, keys and values of size about 1. Values of another width have tests of their own."""
    return randn(B, H, T, D, dtype=dtype), randn(B, H, S, D, dtype=dtype), randn(B, H, S, D, dtype=dtype)


def mask_that_hides_some(*shape):
    """A random mask with at least one True and one False in every row of keys."""
    order = randn(*shape, blunt="a mask broadcasts over some axes").argsort(dim=-1)
    visible = randint(1, shape[-1], *shape[:-1], 1, blunt="one number of visible keys per row")
    return order.argsort(dim=-1) < visible


def hide_every_other_row(mask):
    """Hides all keys from the second, fourth, ... row of a mask, counted through its whole batch; changes the mask."""
    rows = torch.arange(mask[..., 0].numel()).reshape(mask.shape[:-1])
    mask[rows % 2 == 1] = False
    return mask


def large_scores_with_small_gaps(query, key, channels, dtype=torch.float32):
    """q and k of small integers whose dot products are near +-query * key and a few units apart.

    The sign changes from query to query. The integers and their products are exact in float32, in any order.
    """
    q = randint(-2, 3, B, H, T, channels).to(dtype)
    k = randint(-2, 3, B, H, S, channels).to(dtype)
    q[..., 0] = query * torch.tensor([1.0, -1.0, 1.0, -1.0, -1.0])
    k[..., 0] = key
    return q, k


def assert_attention(learner, reference, q, k, v, mask=None, tolerance=None, **scale):
    """Both functions give the reference's numbers on these inputs."""
    weights = learner.attention_weights(q, k, mask, **scale)
    expected = reference.attention_weights(q, k, mask, **scale)
    assert_close(weights, expected, what="the weight tensor", tolerance=tolerance)
    output = learner.scaled_dot_product_attention(q, k, v, mask, **scale)
    expected = reference.scaled_dot_product_attention(q, k, v, mask, **scale)
    assert_close(output, expected, what="the output", tolerance=tolerance)


def assert_gradient(actual, expected, name, of):
    """What came back for q, k or v is the reference's gradient; `of` says what was differentiated."""
    if actual is None:
        fail(f"No gradient reaches {name} from {of}. Is something detached on the way?")
    assert_close(actual, expected, what=f"the gradient of {of} for {name}")


def assert_gradients(learner, reference, q, k, v, mask=None, **scale):
    """Both functions send the reference's gradients back to q, k and v."""
    cotangent = randn(*q.shape[:3], k.shape[2], dtype=q.dtype)
    weights = learner.attention_weights.vjp(q, k, mask, cotangent=cotangent, **scale)
    expected = reference.attention_weights.vjp(q, k, mask, cotangent=cotangent, **scale)
    for name, actual, right in zip("qk", weights.inputs, expected.inputs, strict=False):
        assert_gradient(actual, right, name, "the weight tensor")
    cotangent = randn(*q.shape[:3], v.shape[-1], dtype=q.dtype)
    output = learner.scaled_dot_product_attention.vjp(q, k, v, mask, cotangent=cotangent, **scale)
    expected = reference.scaled_dot_product_attention.vjp(q, k, v, mask, cotangent=cotangent, **scale)
    for name, actual, right in zip("qkv", output.inputs, expected.inputs, strict=False):
        assert_gradient(actual, right, name, "the output")


# --- between calls: in a process of its own, before any other call can be remembered ---


@points(0.25, "robustness")
def test_a_call_knows_nothing_of_the_calls_before(fresh_learner, reference):
    """Another mask or head_dim gives another answer, also in the same tensor, and leaves earlier results alone."""
    q, k, v = inputs()
    masks = [mask_that_hides_some(T, S), mask_that_hides_some(T, S)]
    for mask, weights in zip(masks, [fresh_learner.attention_weights(q, k, mask) for mask in masks], strict=True):
        assert_close(weights, reference.attention_weights(q, k, mask), what="the weight tensor")
    assert_attention(fresh_learner, reference, randn(B, H, T, 6), randn(B, H, S, 6), randn(B, H, S, 6))
    assert_attention(fresh_learner, reference, q, k, v, masks[0])
    # A result that the caller keeps is not written over by the next one of the same shape.
    others = inputs()
    for name, first, second in (
        ("attention_weights", (q, k, masks[0]), (*others[:2], masks[1])),
        ("scaled_dot_product_attention", (q, k, v, masks[0]), (*others, masks[1])),
    ):
        kept = getattr(fresh_learner, name).keep(*first)
        assert_close(getattr(fresh_learner, name)(*second), getattr(reference, name)(*second))
        assert_close(kept.fetch(), getattr(reference, name)(*first), what="a result that was kept while another was made")
    # The same mask tensor, with other contents.
    q_there, k_there, mask_there = fresh_learner.attention_weights.hold(q, k, masks[0])
    weights = fresh_learner.attention_weights(q_there, k_there, mask_there)
    assert_close(weights, reference.attention_weights(q, k, masks[0]), what="the weight tensor")
    mask_there.logical_not_()
    weights = fresh_learner.attention_weights(q_there, k_there, mask_there)
    expected = reference.attention_weights(q, k, ~masks[0])
    assert_close(weights, expected, what="the weight tensor after the mask's contents changed")


# --- shape ---


@points(0.5, "shape")
@pytest.mark.parametrize("width", [4, 12], ids=["narrow", "wide"])
def test_the_output_takes_its_last_axis_from_v(learner, reference, width):
    """v may be narrower or wider than q and k; the output is as wide as v."""
    q, k, _ = inputs()
    v = randn(B, H, S, width)
    assert_attention(learner, reference, q, k, v, mask_that_hides_some(T, S))


@points(0.5, "shape")
@pytest.mark.parametrize(
    "sizes",
    [(1, H, T, S), (B, 1, T, S), (B, H, 1, S), (B, H, T, 1), (1, 1, 1, S)],
    ids=["B=1", "H=1", "T=1", "S=1", "B=H=T=1"],
)
def test_axes_of_one_stay(learner, reference, sizes):
    """An axis of length 1 (one sequence, one head, one query, one key) is an axis like any other."""
    batch, heads, queries, keys = sizes
    why = "axes of length 1 are the point"
    q = randn(batch, heads, queries, D, blunt=why)
    k, v = randn(batch, heads, keys, D, blunt=why), randn(batch, heads, keys, D, blunt=why)
    assert_attention(learner, reference, q, k, v)
    if keys == 1:  # the only key gets everything, or is hidden
        mask = hide_every_other_row(torch.ones(batch, 1, queries, keys, dtype=torch.bool))
        assert_attention(learner, reference, q, k, v, mask)


@points(0.5, "shape")
@pytest.mark.parametrize(
    "dtype",
    [torch.float64, torch.float32, torch.float16, torch.bfloat16],
    ids=["float64", "float32", "float16", "bfloat16"],
)
def test_the_result_has_the_dtype_of_the_inputs(learner, reference, dtype):
    """Whatever float dtype goes in comes out, with a mask and without."""
    q, k, v = inputs(dtype)
    assert_attention(learner, reference, q, k, v)
    assert_attention(learner, reference, q, k, v, mask_that_hides_some(T, S))


# --- numerics ---


@points(0.5, "numerics")
def test_every_query_takes_a_softmax_weighted_sum_of_the_values(learner, reference):
    """softmax(q k^T / sqrt(D)) over the keys, times v, with more keys than queries and no mask."""
    assert_attention(learner, reference, *inputs())


@points(0.25, "numerics")
@pytest.mark.parametrize("head_dim", [1, 12, 128, 160], ids=["D=1", "D=12", "D=128", "D=160"])
def test_the_default_scale_is_that_of_q_and_k(learner, reference, head_dim):
    """Without a scale it is 1/sqrt(D), D the last axis of q and k, whatever the width of v and of the whole model."""
    why = "head_dim may be 1, too" if head_dim == 1 else None
    q, k, v = randn(B, H, T, head_dim, blunt=why), randn(B, H, S, head_dim, blunt=why), randn(B, H, S, 4)
    assert_attention(learner, reference, q, k, v)


@points(0.25, "numerics")
@pytest.mark.parametrize("keys", [T, T - 1], ids=["S=T", "S<T"])
def test_without_a_mask_every_query_sees_every_key(learner, reference, keys):
    """With as many keys as queries, or fewer, nothing is hidden unless a mask hides it."""
    q, k, v = randn(B, H, T, D), randn(B, H, keys, D), randn(B, H, keys, D)
    assert_attention(learner, reference, q, k, v)
    assert_attention(learner, reference, q, k, v, torch.ones(T, keys, dtype=torch.bool))
    assert_attention(learner, reference, q, k, v, torch.tensor(True))  # no axes at all broadcast, too


@points(0.75, "numerics")
@pytest.mark.parametrize(
    "shape",
    [(S,), (T, S), (H, 1, S), (1, 1, T, S), (B, 1, 1, S), (1, H, 1, S), (B, 1, T, S), (B, H, T, S)],
    ids=["[S]", "[T,S]", "[H,1,S]", "[1,1,T,S]", "[B,1,1,S]", "[1,H,1,S]", "[B,1,T,S]", "[B,H,T,S]"],
)
def test_a_query_attends_only_where_its_mask_is_true(learner, reference, shape):
    """A bool mask of any shape that broadcasts to [B, H, T, S]: True keys share the weight, False keys get none."""
    q, k, v = inputs()
    mask = mask_that_hides_some(*shape)
    assert_attention(learner, reference, q, k, v, mask)
    weights = learner.attention_weights(q, k, mask)
    if (weights.masked_fill(mask, 0.0) != 0).any():
        fail("A hidden key has a weight that is not exactly 0.")
    assert_close(weights.sum(dim=-1), torch.ones(B, H, T), what="the sum of a row of weights")


@points(0.25, "numerics")
def test_a_mask_of_two_axes_is_queries_by_keys(learner, reference):
    """A mask [T, S] holds one row per query, also when there are as many sequences as queries."""
    assert_attention(learner, reference, *inputs(), mask_that_hides_some(T, S))
    why = "as many sequences as queries is the point"
    q, k, v = randn(T, H, T, D, blunt=why), randn(T, H, S, D), randn(T, H, S, D)
    assert_attention(learner, reference, q, k, v, mask_that_hides_some(T, S))


@points(0.25, "numerics")
def test_long_sequences_are_treated_like_short_ones(learner, reference):
    """70 queries and 130 keys, some of them padding; then 130 queries and 70 keys, all visible."""
    q, k, v = randn(B, H, 70, D), randn(B, H, 130, D), randn(B, H, 130, D)
    assert_attention(learner, reference, q, k, v, mask_that_hides_some(B, 1, 1, 130))
    assert_attention(learner, reference, k, q, v[:, :, :70])


@points(0.25, "numerics")
def test_a_single_query_respects_its_mask(learner, reference):
    """One new token looks at many keys, some of them padding: its mask counts too."""
    _, k, v = inputs()
    q = randn(B, H, 1, D, blunt="one query is the point")
    assert_attention(learner, reference, q, k, v, mask_that_hides_some(B, 1, 1, S))


@points(0.25, "numerics")
def test_a_query_of_zeros_averages_the_keys_it_sees(learner, reference):
    """Scores of exactly 0 are scores like any other: all allowed keys share alike."""
    q, k, v = inputs()
    q[:, :, 1:3] = 0.0
    assert_attention(learner, reference, q, k, v, mask_that_hides_some(T, S))


@points(0.25, "numerics")
@pytest.mark.parametrize("scale", [0.6, 3, -0.7, 0.0], ids=["0.6", "3", "-0.7", "0.0"])
def test_a_given_scale_replaces_the_default(learner, reference, scale):
    """scale=... is used instead of 1/sqrt(D): small, whole, negative, and also 0.0."""
    q, k, v = inputs()
    assert_attention(learner, reference, q, k, v, scale=scale)
    mask = mask_that_hides_some(B, 1, T, S)
    weights = learner.attention_weights(q, k, scale=scale, mask=mask)
    assert_close(weights, reference.attention_weights(q, k, mask, scale), what="the weight tensor")
    output = learner.scaled_dot_product_attention(q, k, v, mask, scale)
    assert_close(output, reference.scaled_dot_product_attention(q, k, v, mask, scale))
    assert_attention(learner, reference, q, k, v)  # and without one, the default is back


@points(0.5, "numerics")
def test_large_scores_are_still_told_apart(learner, reference):
    """Scores of +-7000, +-28800, +-230400 and beyond: the softmax stays finite and sees the small gaps between them."""
    # Near 230400 float32 numbers are 1/64 apart, and log-sum-exp may be rounded by half of that.
    for query, key, scale, tolerance in ((40, 700, None, 5e-3), (240, 480, None, 5e-3), (60, 3840, 1.0, 2e-2)):
        q, k = large_scores_with_small_gaps(query, key, channels=16)
        v = randn(B, H, S, 16)
        assert_attention(learner, reference, q, k, v, tolerance=tolerance, scale=scale)
        assert_attention(learner, reference, q, k, v, mask_that_hides_some(T, S), tolerance=tolerance, scale=scale)
    # Scores of +-2^40, one visible key per query: beyond any fill value but those of the dtype itself.
    q, k = large_scores_with_small_gaps(2**20, 2**20, channels=16)
    q[..., 1:] = 0.0
    only_one = randint(0, S, T, 1, blunt="one key per query") == torch.arange(S)
    assert_attention(learner, reference, q, k, v, only_one, scale=1.0)


@points(0.5, "numerics")
@HALF_PRECISION
def test_half_precision_scores_are_computed_in_float32(learner, reference, dtype):
    """float16 and bfloat16 q and k are converted before the product, so small gaps between large scores survive."""
    q, k = large_scores_with_small_gaps(60, 100, channels=12, dtype=dtype)
    # Two channels whose products cancel, but no longer do so once q was scaled and rounded.
    q[..., 1:3] = torch.tensor([60.0, 59.0])
    k[..., 1:3] = randint(-1, 2, B, H, S, 1, blunt="one factor per key") * torch.tensor([59.0, -60.0])
    v = randn(B, H, S, 12, dtype=dtype)
    assert_attention(learner, reference, q, k, v)
    assert_attention(learner, reference, q, k, v, mask_that_hides_some(T, S))
    # 64 channels of 60: a dot product of 230400, far above float16's 65504.
    q = torch.full((B, H, T, 64), 60.0, dtype=dtype)
    k = torch.full((B, H, S, 64), 60.0, dtype=dtype)
    v = randn(B, H, S, 64, dtype=dtype)
    assert_attention(learner, reference, q, k, v)
    k[..., :2] -= randint(0, 2, B, H, S, 2, blunt="two channels differ").to(dtype)
    assert_attention(learner, reference, q, k, v, mask_that_hides_some(B, 1, 1, S))


# --- gradients ---


@points(0.5, "gradients")
def test_gradients_reach_q_k_and_v(learner, reference):
    """Backward through softmax and both products gives the right gradients for all three inputs, with any scale."""
    assert_gradients(learner, reference, *inputs())
    assert_gradients(learner, reference, *inputs(torch.float64), scale=0.6)
    for scale in (-0.7, 0.0):
        assert_gradients(learner, reference, *inputs(), scale=scale)


@points(0.5, "gradients")
@SOME_MASKS
def test_gradients_pass_around_hidden_keys(learner, reference, shape):
    """Hidden keys and values get no gradient, and the others the same as if the hidden ones did not exist."""
    q, k, v = inputs()
    assert_gradients(learner, reference, q, k, v)
    assert_gradients(learner, reference, q, k, v, mask_that_hides_some(*shape))


@points(0.5, "gradients")
@SOME_MASKS
def test_gradients_stay_finite_when_a_query_sees_nothing(learner, reference, shape):
    """Queries with no allowed key leave every gradient finite, and do not disturb those of the others."""
    q, k, v = inputs()
    mask = hide_every_other_row(mask_that_hides_some(*shape))
    assert_attention(learner, reference, q, k, v, mask)
    assert_gradients(learner, reference, q, k, v, mask)
    everything_hidden = torch.zeros(shape, dtype=torch.bool)
    result = learner.scaled_dot_product_attention.vjp(q, k, v, everything_hidden, cotangent=randn(B, H, T, D))
    assert_close(result.output, torch.zeros(B, H, T, D))
    for name, gradient in zip("qkv", result.inputs, strict=False):
        if gradient is not None:  # zeros that depend on nothing are an answer, too
            assert_close(gradient, torch.zeros_like(gradient), what=f"the gradient of the output for {name}")


@points(0.5, "gradients")
@HALF_PRECISION
def test_gradients_stay_finite_for_large_scores_in_half_precision(learner, reference, dtype):
    """Backward has to survive the scores that forward survives: dot products of 230400 in float16."""
    q = torch.full((B, H, T, 64), 60.0, dtype=dtype)
    k = torch.full((B, H, S, 64), 60.0, dtype=dtype)
    v = randn(B, H, S, 64, dtype=dtype)
    mask = mask_that_hides_some(T, S)
    cotangent = randn(B, H, T, 64, dtype=dtype)
    actual = learner.scaled_dot_product_attention.vjp(q, k, v, mask, cotangent=cotangent)
    expected = reference.scaled_dot_product_attention.vjp(q, k, v, mask, cotangent=cotangent)
    assert_close(actual.output, expected.output)
    for name, gradient, right in zip("qkv", actual.inputs, expected.inputs, strict=False):
        if not isinstance(gradient, torch.Tensor):
            fail(f"No gradient reaches {name} from the output. Is something detached on the way?")
        if gradient.dtype != right.dtype or gradient.shape != right.shape or not gradient.isfinite().all():
            fail(f"The gradient for {name} is not a finite tensor with {name}'s shape and dtype.")


# --- robustness ---


@points(0.5, "robustness")
@pytest.mark.parametrize(
    "shape",
    [(T, S), (B, 1, 1, S), (B, 1, T, 1), (B, H, T, S)],
    ids=["[T,S]", "[B,1,1,S]", "[B,1,T,1]", "[B,H,T,S]"],
)
def test_a_query_that_sees_nothing_gets_zeros(learner, reference, shape):
    """No allowed key means weights and output of 0, not NaN and not an average; the other queries do not notice."""
    q, k, v = inputs()
    everything_hidden = torch.zeros(shape, dtype=torch.bool)
    some_rows_hidden = hide_every_other_row(mask_that_hides_some(*shape) if shape[-1] == S else ~everything_hidden)
    for mask in (everything_hidden, some_rows_hidden):
        weights = learner.attention_weights(q, k, mask)
        assert_close(weights, reference.attention_weights(q, k, mask), what="the weight tensor")
        output = learner.scaled_dot_product_attention(q, k, v, mask)
        assert_close(output, reference.scaled_dot_product_attention(q, k, v, mask))
        sees_nothing = ~mask.any(dim=-1, keepdim=True)
        if (weights.masked_fill(~sees_nothing, 0.0) != 0).any() or (output.masked_fill(~sees_nothing, 0.0) != 0).any():
            fail("A query with no allowed key gets something other than exactly 0.")


@points(0.5, "robustness")
def test_nothing_behind_the_mask_can_be_seen(learner, reference):
    """Keys and values behind the mask may be as large as they like: the result does not change."""
    q, k, v = inputs()
    mask = mask_that_hides_some(B, 1, 1, S)
    hidden = ~mask.transpose(-2, -1)  # [B, 1, S, 1]
    before = learner.scaled_dot_product_attention(q, k, v, mask)
    assert_close(before, reference.scaled_dot_product_attention(q, k, v, mask))
    for size in (20000.0, 1e15):
        loud_k = torch.where(hidden, randn(B, H, S, D, scale=size), k)
        loud_v = torch.where(hidden, randn(B, H, S, D, scale=size), v)
        weights = learner.attention_weights(q, loud_k, mask)
        assert_close(weights, reference.attention_weights(q, k, mask), what="the weight tensor")
        after = learner.scaled_dot_product_attention(q, loud_k, loud_v, mask)
        assert_close(after, before, what="the output after the hidden keys and values were changed")


@points(0.25, "robustness")
def test_inputs_need_not_be_contiguous(learner, reference):
    """q, k, v and the mask may be transposed or expanded views, as they are between projection and attention."""
    q, k, v = (noncontiguous(x) for x in inputs())
    mask = mask_that_hides_some(B, 1, T, S)
    assert_attention(learner, reference, q, k, v, noncontiguous(mask))
    assert_attention(learner, reference, q, k, v, mask.expand(B, H, T, S))


@points(0.25, "robustness")
def test_the_arguments_are_left_as_they_were(learner, reference):
    """q, k, v and the mask hold the same numbers after the call as before."""
    q, k, v = inputs()
    for mask in (None, mask_that_hides_some(B, H, T, S), mask_that_hides_some(B, 1, 1, S)):
        weights = assert_arguments_unchanged(learner.attention_weights, q, k, mask)
        assert_close(weights, reference.attention_weights(q, k, mask), what="the weight tensor")
        output = assert_arguments_unchanged(learner.scaled_dot_product_attention, q, k, v, mask)
        assert_close(output, reference.scaled_dot_product_attention(q, k, v, mask))


@points(0.25, "robustness")
def test_a_mask_that_is_not_bool_is_refused(learner, reference):
    """A mask of numbers raises ValueError that names the mask and its dtype, in both functions."""
    q, k, v = inputs()
    mask = mask_that_hides_some(T, S)
    assert_attention(learner, reference, q, k, v, mask)
    for dtype in (
        torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int16, torch.int8, torch.uint8
    ):  # fmt: skip
        numbers = mask.to(dtype)
        for naming in ("mask", str(dtype).removeprefix("torch.")):
            assert_value_error(learner.attention_weights, q, k, numbers, naming=naming)
            assert_value_error(learner.scaled_dot_product_attention, q, k, v, numbers, naming=naming)


# --- by hand ---


@points(0.5, "by_hand")
def test_attention_is_written_by_hand(learner, reference, by_hand):
    """The right answer, without torch's own attention under any name."""
    q, k, v = inputs()
    assert_attention(learner, reference, q, k, v, mask_that_hides_some(T, S))
    by_hand.assert_clean()
