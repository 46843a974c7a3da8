"""The grading suite of 09 · flash: online softmax over blocks of keys, the choice of a backend, and attention on either."""

import pytest
import torch

from grader.suite import (
    assert_arguments_unchanged,
    assert_close,
    assert_equal,
    assert_value_error,
    choice,
    fail,
    noncontiguous,
    points,
    randint,
    randn,
    uniform,
)

# Batch, heads, queries, keys, head_dim: all different. S - T past keys.
B, H, T, S, D = 2, 3, 5, 7, 10
FUSED = ["torch.nn.functional.scaled_dot_product_attention", "torch.nn.functional.multi_head_attention_forward"]
MASK_DTYPES = [
    *(torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64),
]


def inputs(queries=T, keys=S, dtype=torch.float32, blunt=None):
    """Queries, keys and values of size about 1."""
    q = randn(B, H, queries, D, dtype=dtype, blunt=blunt)
    return q, randn(B, H, keys, D, dtype=dtype, blunt=blunt), randn(B, H, keys, D, dtype=dtype, blunt=blunt)


def padding(keys):
    """An attention_mask [B, keys] with one pad at least in every row, at places of its own; key 0 is real in the first row only."""
    mask = torch.ones(B, keys, dtype=torch.int64)
    mask[0, randint(1, keys, 2, blunt="two places")] = 0
    mask[1, : int(randint(1, keys, 1, blunt="one number"))] = 0
    return mask


def assert_online(learner, reference, q, k, v, block_size, tolerance=None, **causal):
    """online_softmax_attention gives the reference's numbers."""
    output = learner.online_softmax_attention(q, k, v, block_size, **causal)
    expected = reference.online_softmax_attention(q, k, v, block_size, **causal)
    what = f"the output for {k.shape[2]} keys in blocks of {block_size}"
    assert_close(output, expected, what=what, tolerance=tolerance)


def assert_attention(learner, reference, q, k, v, **keywords):
    """attention gives the reference's numbers, whether the fused kernel may be used or not."""
    for use_flash in (True, False):
        output = learner.attention(q, k, v, use_flash=use_flash, **keywords)
        expected = reference.attention(q, k, v, use_flash=use_flash, **keywords)
        assert_close(output, expected, what=f"the output with use_flash={use_flash}")


# --- between calls: in a process of its own, before any other call can be remembered ---


@points(0.25, "robustness")
def test_a_call_knows_nothing_of_the_calls_before(fresh_learner, reference):
    """Other lengths, blocks or padding give another answer, and a result that was kept stays as it was."""
    q, k, v = inputs()
    for keys in (S, S + 1, T):
        _, k, v = inputs(keys=keys)
        for block_size in (3, 2):
            assert_online(fresh_learner, reference, q, k, v, block_size, is_causal=True)
        assert_attention(fresh_learner, reference, q, k, v)
        for mask in (padding(keys), padding(keys)):
            assert_attention(fresh_learner, reference, q, k, v, attention_mask=mask)
    kept = fresh_learner.online_softmax_attention.keep(q, k, v, 2)
    others = inputs(keys=T)
    assert_online(fresh_learner, reference, *others, 2)
    assert_close(kept.fetch(), reference.online_softmax_attention(q, k, v, 2), what="a result that was kept")
    kept = fresh_learner.attention.keep(q, k, v)
    assert_attention(fresh_learner, reference, *others)
    assert_close(kept.fetch(), reference.attention(q, k, v), what="a result that was kept")


# --- shape ---


@points(0.25, "shape")
@pytest.mark.parametrize("width", [4, 12], ids=["narrow", "wide"])
def test_the_online_output_takes_its_last_axis_from_v(learner, reference, width):
    """In online_softmax_attention v may be narrower or wider than q and k; the output is as wide as v."""
    q, k, _ = inputs()
    v = randn(B, H, S, width)
    assert_online(learner, reference, q, k, v, 3)
    assert_online(learner, reference, q, k, v, 3, is_causal=True)


@points(0.5, "shape")
@pytest.mark.parametrize(
    "dtype",
    [torch.float64, torch.float32, torch.float16, torch.bfloat16],
    ids=["float64", "float32", "float16", "bfloat16"],
)
def test_the_result_has_the_dtype_of_the_inputs(learner, reference, dtype):
    """Whatever float dtype goes in comes out: of the online softmax, of the fused kernel and of the hand-written attention."""
    q, k, v = inputs(dtype=dtype)
    assert_online(learner, reference, q, k, v, 3, is_causal=True)
    assert_attention(learner, reference, q, k, v)
    q, k, v = inputs(keys=T, dtype=dtype)
    assert_attention(learner, reference, q, k, v)
    assert_attention(learner, reference, q, k, v, attention_mask=padding(T))


@points(0.25, "shape")
@pytest.mark.parametrize("sizes", [(1, H, T, S), (B, 1, T, S), (B, H, 1, S), (1, 1, 1, 1)], ids=["B=1", "H=1", "T=1", "all 1"])
def test_axes_of_one_stay(learner, reference, sizes):
    """One sequence, one head, one query or one key is an axis like any other, also in blocks of one key."""
    batch, heads, queries, keys = sizes
    why = "axes of length 1 are the point"
    q = randn(batch, heads, queries, D, blunt=why)
    k, v = randn(batch, heads, keys, D, blunt=why), randn(batch, heads, keys, D, blunt=why)
    for block_size in (1, 2):
        assert_online(learner, reference, q, k, v, block_size, is_causal=True)
    assert_attention(learner, reference, q, k, v)


# --- numerics: the online softmax ---


@points(0.75, "numerics")
@pytest.mark.parametrize("keys", [S, T, 4], ids=["S>T", "S=T", "S<T"])
def test_blocks_of_any_size_give_the_same_answer(learner, reference, keys):
    """Every block size from 1 on, one that leaves a shorter last block and one larger than S too: softmax(q k^T / sqrt(D)) v."""
    q, k, v = inputs(keys=keys)
    for block_size in (1, 2, 3, 4, keys - 1, keys, keys + 1, 100):
        assert_online(learner, reference, q, k, v, block_size)


@points(0.75, "numerics")
@pytest.mark.parametrize("keys", [T, S, 17], ids=["S=T", "S=T+2", "S=T+12"])
def test_the_future_stays_hidden_across_blocks(learner, reference, keys):
    """With is_causal query i stands at position S - T + i and sees the keys up to its own, whatever the blocks are."""
    q, k, v = inputs(keys=keys)
    for block_size in (1, 2, 3, T, keys - 1, keys, 100):
        assert_online(learner, reference, q, k, v, block_size, is_causal=True)
    output = learner.online_softmax_attention(q, k, v, 3, True)
    loud_k, loud_v = k.clone(), v.clone()
    loud_k[:, :, -1], loud_v[:, :, -1] = 50.0, 50.0  # only the last query may see the last key
    after = learner.online_softmax_attention(q, loud_k, loud_v, 3, True)
    assert_close(after[:, :, :-1], output[:, :, :-1], what="the output of the earlier queries after the last key was changed")


@points(0.5, "numerics")
@pytest.mark.parametrize("order", ["rising", "falling", "up and down", "all far below zero"])
def test_large_scores_in_every_order(learner, reference, order):
    """Scores of thousands and of hundreds of billions, rising, falling or jumping from block to block: nothing overflows, small gaps count."""
    sign = torch.tensor([1.0, 1.0, 1.0, -1.0, 1.0]) if order == "up and down" else torch.ones(T)
    level = {
        "rising": [-700, -350, -350, 0, 350, 700, 700],
        "falling": [700, 700, 350, 0, 0, -350, -700],
        "up and down": [0, 700, -700, 700, -700, 700, 0],
        "all far below zero": [-700] * S,
    }[order]
    # Small integers, so that all products and their sums are exact in float32, in any order.
    q, k = randint(-2, 3, B, H, T, 16).float(), randint(-2, 3, B, H, S, 16).float()
    q[..., 0], k[..., 0] = 40 * sign, torch.tensor(level).float()
    v = randn(B, H, S, 16)
    for block_size in (1, 2, 3, S):
        for is_causal in (False, True):
            assert_online(learner, reference, q, k, v, block_size, tolerance=5e-3, is_causal=is_causal)
    # Scores of -2^38, all alike: every visible key gets the same share.
    q, k = torch.zeros(B, H, T, 16), torch.zeros(B, H, S, 16)
    q[..., 0], k[..., 0] = 2.0**20, -(2.0**20)
    for is_causal in (False, True):
        assert_online(learner, reference, q, k, v, S, is_causal=is_causal)


@points(0.25, "numerics")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["float16", "bfloat16"])
def test_half_precision_is_computed_in_float32(learner, reference, dtype):
    """float16 and bfloat16 inputs are converted before the product, and the sums are kept in float32."""
    q, k = randint(-2, 3, B, H, T, 12).to(dtype), randint(-2, 3, B, H, S, 12).to(dtype)
    q[..., 0], k[..., 0] = 60.0, torch.tensor([-100.0, 100, 100, 99, 100, 0, 100])
    q[..., 1:3] = torch.tensor([60.0, 59.0])  # two channels whose products cancel, unless q was scaled and rounded
    k[..., 1:3] = randint(-1, 2, B, H, S, 1, blunt="one factor per key") * torch.tensor([59.0, -60.0])
    v = randn(B, H, S, 12, dtype=dtype)
    for block_size in (1, 3):
        assert_online(learner, reference, q, k, v, block_size)
    # 64 channels of 60: a dot product of 230400, far above float16's 65504.
    q, k = torch.full((B, H, T, 64), 60.0, dtype=dtype), torch.full((B, H, S, 64), 60.0, dtype=dtype)
    assert_online(learner, reference, q, k, randn(B, H, S, 64, dtype=dtype), 3, is_causal=True)
    # Keys alike, one by one: a sum kept in bfloat16 gets stuck at 256.
    q, k = torch.zeros(1, 2, 3, 4, dtype=dtype), torch.zeros(1, 2, 350, 4, dtype=dtype)
    v = torch.ones(1, 2, 350, 4, dtype=dtype)
    v[:, :, 175:] = -1.0
    assert_online(learner, reference, q, k, v, 1 if dtype == torch.bfloat16 else 50)
    # The sum of one block's values, 105000, has no float16.
    assert_online(learner, reference, q, k, torch.full_like(v, 300.0), 350)


# --- numerics: the choice ---


@points(0.25, "numerics")
def test_flash_is_chosen_for_equal_lengths_above_one(learner, reference):
    """No mask: "flash" if there are as many queries as keys and more than one, else "manual"."""
    for q_len, k_len in ((6, 6), (2, 2), (3000, 3000), (1, 1), (1, 6), (2, 6), (5, 6), (7, 6), (6, 12)):
        expected = reference.select_backend(q_len, k_len)
        assert_equal(learner.select_backend(q_len, k_len), expected, what=f"the backend for {q_len} queries and {k_len} keys")
        assert_equal(learner.select_backend(q_len=q_len, k_len=k_len), expected, what="the backend")


@points(0.5, "numerics")
def test_a_zero_anywhere_in_the_mask_asks_for_manual(learner, reference):
    """A mask of ones changes nothing; one zero in it, in any row, at any place and in any dtype, means "manual"."""
    assert_equal(learner.select_backend(6, 6, torch.zeros(3, 6)), "manual", what="the backend for a mask of zeros")
    ones = torch.ones(3, 6, dtype=torch.int64)
    places = [(2, 5), (0, 0), (2, 0), (0, 5), (1, 3)]
    for dtype in MASK_DTYPES:
        for place in [None, *places]:
            mask = ones.clone()
            if place:
                mask[place] = 0
            expected = reference.select_backend(6, 6, mask.to(dtype))
            what = f"the backend for a mask of {str(dtype).removeprefix('torch.')} {'with a zero' if place else 'of ones'}"
            assert_equal(learner.select_backend(6, 6, mask.to(dtype)), expected, what=what)
    for dtype in MASK_DTYPES:  # 297 tokens: a sum of ones in bfloat16 would not come out even
        mask = torch.ones(3, 99, dtype=torch.int64)
        assert_equal(learner.select_backend(99, 99, mask.to(dtype)), "flash", what="the backend for a longer mask of ones")
        mask[int(randint(0, 3, 1, blunt="a row")), int(randint(0, 99, 1, blunt="a place"))] = 0
        assert_equal(learner.select_backend(99, 99, mask.to(dtype)), "manual", what="the backend for a longer mask with a zero")
        mask = torch.ones(4, 256, dtype=torch.int64)  # its mean, 1023 / 1024, is 1 in bfloat16
        mask[2, 77] = 0
        assert_equal(learner.select_backend(256, 256, mask.to(dtype)), "manual", what="the backend for a longer mask with a zero")
    alone = torch.tensor([[1, 1, 0, 1, 1, 1]])  # a batch of one
    assert_equal(learner.select_backend(6, 6, alone), "manual", what="the backend for a mask of one text with a zero")
    for q_len, k_len in ((2, 6), (1, 6)):
        assert_equal(learner.select_backend(q_len, k_len, attention_mask=ones), "manual", what="the backend with past keys")
    assert_equal(learner.select_backend(1, 1, torch.ones(3, 1)), "manual", what="the backend for a single token")


@points(0.25, "numerics")
def test_without_a_kernel_everything_is_manual(learner, reference):
    """flash_available=False means "manual" for all lengths and masks; True leaves the choice to them."""
    for q_len, k_len, mask in ((6, 6, None), (6, 6, torch.ones(3, 6)), (2, 6, None), (1, 1, None)):
        for available in (True, False):
            expected = reference.select_backend(q_len, k_len, mask, available)
            what = f"the backend with flash_available={available}"
            assert_equal(learner.select_backend(q_len, k_len, mask, flash_available=available), expected, what=what)


# --- numerics: attention ---


@points(0.25, "numerics")
@pytest.mark.parametrize("is_causal", [True, False], ids=["causal", "not causal"])
def test_attention_gives_the_same_numbers_on_both_backends(learner, reference, is_causal):
    """As many keys as queries, no padding: the fused kernel and the hand-written attention agree."""
    q, k, v = inputs(keys=T)
    assert_attention(learner, reference, q, k, v, is_causal=is_causal)
    assert_attention(learner, reference, q, k, v, is_causal=is_causal, attention_mask=torch.ones(B, T))


@points(0.25, "numerics")
def test_attention_is_causal_unless_told_otherwise(learner, reference):
    """Without is_causal the future is hidden, on both backends; an attention_mask of ones hides nothing more."""
    q, k, v = inputs(keys=T)
    output = learner.attention(q, k, v)
    assert_close(output, reference.attention(q, k, v))
    assert_attention(learner, reference, q, k, v)
    assert_attention(learner, reference, q, k, v, attention_mask=torch.ones(B, T, dtype=torch.bool))


@points(0.5, "numerics")
@pytest.mark.parametrize("queries", [T, 2, 1], ids=["T=5", "T=2", "T=1"])
def test_new_tokens_see_all_past_keys(learner, reference, queries):
    """More keys than queries: query i stands at position S - T + i, so a single new token sees everything."""
    q, k, v = inputs(queries=queries, blunt="one query is a case of its own")
    assert_attention(learner, reference, q, k, v)
    assert_attention(learner, reference, q, k, v, is_causal=False)
    assert_attention(learner, reference, q, k, v, attention_mask=torch.ones(B, S))


@points(0.5, "numerics")
@pytest.mark.parametrize("queries", [S, T, 1], ids=["T=S", "T<S", "T=1"])
def test_pads_are_seen_by_nobody(learner, reference, queries):
    """attention_mask hides its zeros as keys, row by row, on top of the causal rule or without it, in every dtype."""
    q, k, v = inputs(queries=queries, blunt="one query is a case of its own")
    mask = padding(S)
    for is_causal in (True, False):
        assert_attention(learner, reference, q, k, v, is_causal=is_causal, attention_mask=mask)
    for dtype in MASK_DTYPES:
        expected = reference.attention(q, k, v, attention_mask=mask)
        what = f"the output for a mask of {str(dtype).removeprefix('torch.')}"
        assert_close(learner.attention(q, k, v, attention_mask=mask.to(dtype)), expected, what=what)
    right = torch.ones(B, S, dtype=torch.int64)
    right[0, -2:] = 0
    assert_attention(learner, reference, q, k, v, attention_mask=right)


# --- gradients ---


def assert_gradients(learner, reference, q, k, v, **keywords):
    """attention sends the reference's gradients back to q, k and v, on both backends."""
    cotangent = randn(*q.shape, blunt="of q's shape")
    for use_flash in (True, False):
        actual = learner.attention.vjp(q, k, v, cotangent=cotangent, use_flash=use_flash, **keywords)
        expected = reference.attention.vjp(q, k, v, cotangent=cotangent, use_flash=use_flash, **keywords)
        assert_close(actual.output, expected.output)
        for name, gradient, right in zip("qkv", actual.inputs, expected.inputs, strict=True):
            if gradient is None:
                backend = reference.select_backend(q.shape[2], k.shape[2], keywords.get("attention_mask"), use_flash)
                fail(
                    f'No gradient reaches {name} on the backend "{backend}" (use_flash={use_flash}). Is something detached on the way?'
                )
            assert_close(gradient, right, what=f"the gradient for {name} with use_flash={use_flash}")


@points(0.5, "gradients")
@pytest.mark.parametrize("case", ["same length", "past keys", "padding"])
def test_gradients_reach_q_k_and_v(learner, reference, case):
    """attention trains on either backend: q, k and v get their gradients, finite ones also if a query sees nothing."""
    q, k, v = inputs(keys=T if case == "same length" else S)
    mask = None
    if case == "padding":
        mask = padding(S)
        mask[1, :-1] = 0  # the first queries of the second row see nothing
    assert_gradients(learner, reference, q, k, v, attention_mask=mask)


# --- robustness ---


@points(0.25, "robustness")
def test_a_query_that_sees_nothing_gets_zeros(learner, reference):
    """Behind left padding the first queries have no allowed key: exactly 0, not NaN and not an average."""
    q, k, v = inputs(keys=T)
    mask = torch.ones(B, T, dtype=torch.int64)
    mask[0, :3], mask[1] = 0, 0
    for is_causal in (True, False):
        assert_attention(learner, reference, q, k, v, is_causal=is_causal, attention_mask=mask)
    output = learner.attention(q, k, v, attention_mask=mask)
    if (output[0, :, :3] != 0).any() or (output[1] != 0).any():
        fail("A query with no allowed key gets something other than exactly 0.")


@points(0.25, "robustness")
def test_the_fused_kernel_is_called_only_where_flash_is_chosen(learner, reference):
    """On "flash" attention calls F.scaled_dot_product_attention; on "manual" it does not, whatever the reason."""
    q, k, v = inputs(keys=T)
    past = inputs()
    single = inputs(queries=1, keys=1, blunt="a single token")
    ones, zero = torch.ones(B, T), torch.ones(B, T)
    zero[choice([0, 1]), choice([0, 2, 4])] = 0
    cases = [
        ("as many keys as queries", (q, k, v), {}),
        ("a mask of ones", (q, k, v), {"attention_mask": ones}),
        ("is_causal=False", (q, k, v), {"is_causal": False}),
        ("past keys", past, {}),
        ("past keys and is_causal=False", past, {"is_causal": False}),
        ("past keys and a mask of ones", past, {"attention_mask": torch.ones(B, S)}),
        ("a zero in the mask", (q, k, v), {"attention_mask": zero}),
        ("a zero in the mask and is_causal=False", (q, k, v), {"attention_mask": zero, "is_causal": False}),
        ("a single token", single, {}),
        ("a single token with a past", (past[0][:, :, :1], *past[1:]), {}),
        ("use_flash=False", (q, k, v), {"use_flash": False}),
        ("use_flash=False and is_causal=False", (q, k, v), {"use_flash": False, "is_causal": False}),
        ("use_flash=False and a mask of ones", (q, k, v), {"use_flash": False, "attention_mask": ones}),
    ]
    for name, arguments, keywords in cases:
        output, used = learner.attention.using(FUSED, *arguments, **keywords)
        expected, wanted = reference.attention.using(FUSED, *arguments, **keywords)
        assert_close(output, expected, what=f"the output for {name}")
        if wanted and not used:
            fail(f"For {name} select_backend says flash, but F.scaled_dot_product_attention is not called.")
        if used and not wanted:
            fail(f"For {name} select_backend says manual, but the fused kernel is called.")


@points(0.25, "robustness")
@pytest.mark.parametrize("keys", [T, S], ids=["S=T", "S>T"])
def test_nothing_is_dropped_outside_training(learner, reference, keys):
    """A dropout_p without training=True, and training=True without a dropout_p, leave every weight as it is."""
    q, k, v = inputs(keys=keys)
    mask = padding(keys)
    learner.file("props").seed(int(uniform(0, 1e9)))
    held = learner.attention.hold(q, k, v)
    for use_flash in (True, False):
        for more in ({"dropout_p": 0.6}, {"training": True}, {"dropout_p": 0.6, "training": False, "attention_mask": mask}):
            output = learner.attention(*held, use_flash=use_flash, **more)
            expected = reference.attention(q, k, v, use_flash=use_flash, **more)
            assert_close(output, expected, what=f"the output with {', '.join(more)} and use_flash={use_flash}")


@points(0.5, "robustness")
@pytest.mark.parametrize("backend", ["flash", "use_flash=False", "past keys", "padding", "not causal"])
def test_dropout_takes_single_weights_and_scales_the_others(learner, reference, backend):
    """In training each weight is 0 with probability dropout_p, each for itself; the others are divided by 1 - dropout_p."""
    keys = 20
    why = "unit vectors as values show the weights, each of them twice"
    q, k = randn(4, 6, keys - 3 * (backend == "past keys"), 2 * keys, blunt=why), randn(4, 6, keys, 2 * keys, blunt=why)
    v = torch.eye(keys).repeat(1, 2).expand(4, 6, keys, 2 * keys)
    keywords = {"use_flash": backend != "use_flash=False", "is_causal": backend != "not causal"}
    if backend == "padding":
        keywords["attention_mask"] = torch.ones(4, keys, dtype=torch.int64)
        keywords["attention_mask"][1, -4:] = 0
        keywords["attention_mask"][2, :3] = 0
    weights = reference.attention(q, k, v, **keywords)
    held = learner.attention.hold(q, k, v)
    for p in (0.4, 0.1):
        learner.file("props").seed(int(uniform(0, 1e9)))
        first = learner.attention(*held, dropout_p=p, training=True, **keywords)
        second = learner.attention(*held, dropout_p=p, training=True, **keywords)
        check_dropped(first, weights, p)
        check_dropped(second, weights, p)
        if torch.equal(first, second):
            fail("Two calls in training drop the very same weights.")


def check_dropped(dropped, weights, p):
    """`dropped` is `weights` (each of them twice, side by side) after dropout with probability p."""
    if not same_kind(dropped, weights):
        assert_close(dropped, weights)
    (weights, _), (dropped, again) = weights.chunk(2, dim=-1), dropped.chunk(2, dim=-1)
    if not torch.isclose(dropped, again, rtol=1e-4, atol=1e-6).all():
        fail("A key's values are dropped one by one: dropout takes whole weights, before they meet the values.")
    visible, kept = weights != 0, dropped != 0
    scaled = torch.where(kept, weights / (1 - p), 0.0)
    if not torch.isclose(dropped, scaled, rtol=1e-4, atol=1e-6).all():
        fail("A weight is neither dropped nor the weight without dropout, divided by 1 - dropout_p.")
    lost = (visible & ~kept).sum().item() / visible.sum().item()
    if abs(lost - p) > 6 * (p * (1 - p) / visible.sum().item()) ** 0.5:
        fail(f"With dropout_p={p} a share of {lost:.3f} of the weights is dropped.")
    by_chance = p * p + (1 - p) * (1 - p)  # how often two independent weights share their fate
    for axis, name in enumerate(("sequences", "heads", "queries")):
        size = weights.shape[axis] - 1
        both = visible.narrow(axis, 0, size) & visible.narrow(axis, 1, size)
        alike = (kept.narrow(axis, 0, size) == kept.narrow(axis, 1, size))[both].float().mean().item()
        if alike > by_chance + 6 * (by_chance * (1 - by_chance) / both.sum().item()) ** 0.5:
            fail(f"Neighbouring {name} lose the same weights: every weight has to be dropped for itself.")


def same_kind(one, other):
    """Whether both are tensors of one shape and dtype."""
    return isinstance(one, torch.Tensor) and one.shape == other.shape and one.dtype == other.dtype


@points(0.25, "robustness")
def test_inputs_need_not_be_contiguous(learner, reference):
    """q, k, v and attention_mask may be transposed or expanded views, as they are between projection and attention."""
    for keys in (T, S):
        q, k, v = (noncontiguous(x) for x in inputs(keys=keys))
        for block_size in (1, 3, 100):
            assert_online(learner, reference, q, k, v, block_size, is_causal=True)
        assert_attention(learner, reference, q, k, v)
        assert_attention(learner, reference, q, k, v, attention_mask=noncontiguous(padding(keys)))
        q, k, v = (x.transpose(1, 2).contiguous().transpose(1, 2) for x in inputs(keys=keys))
        assert_online(learner, reference, q, k, v, 2)
        assert_attention(learner, reference, q, k, v)


@points(0.25, "robustness")
def test_the_arguments_are_left_as_they_were(learner, reference):
    """q, k, v and attention_mask hold the same numbers after the call as before."""
    for keys in (T, S):
        q, k, v = inputs(keys=keys)
        output = assert_arguments_unchanged(learner.online_softmax_attention, q, k, v, 3, is_causal=True)
        assert_close(output, reference.online_softmax_attention(q, k, v, 3, is_causal=True))
        for mask in (None, padding(keys)):
            output = assert_arguments_unchanged(learner.attention, q, k, v, attention_mask=mask)
            assert_close(output, reference.attention(q, k, v, attention_mask=mask))
        assert_equal(assert_arguments_unchanged(learner.select_backend, keys, keys, mask), "manual", what="the backend")


@points(0.25, "robustness")
def test_a_block_size_below_one_is_refused(learner, reference):
    """block_size < 1 raises ValueError that names block_size and its value; 1 is fine."""
    q, k, v = inputs()
    assert_online(learner, reference, q, k, v, 1)
    for block_size in (-1, 0, -3):  # -1 first: range refuses 0 by itself, with a ValueError of its own
        assert_value_error(learner.online_softmax_attention, q, k, v, block_size, naming="block_size")
        assert_value_error(learner.online_softmax_attention, q, k, v, block_size, naming="block_size", is_causal=True)


# --- memory ---


@points(0.5, "memory")
@pytest.mark.parametrize("is_causal", [True, False], ids=["causal", "not causal"])
def test_no_matrix_of_queries_by_keys(learner, reference, peak_memory, is_causal):
    """1024 queries in blocks of 16 keys: memory for some blocks, never for a matrix of 1024 x 4096."""
    q, k, v = inputs()
    assert_online(learner, reference, q, k, v, 3, is_causal=is_causal)
    why = "one sequence and one head, so that a mask of T x S would show"
    queries, keys, block_size = 1024, 4096, 16
    q, k, v = randn(1, 1, queries, 8, blunt=why), randn(1, 1, keys, 8, blunt=why), randn(1, 1, keys, 8, blunt=why)
    grown = peak_memory(learner.online_softmax_attention, q, k, v, block_size, is_causal)
    block = queries * block_size * 4  # 64 KiB of float32 scores; a T x S mask of booleans takes 4 MiB, scores 16
    if grown > 3 << 20:
        fail(
            f"With T = {queries}, S = {keys} and block_size = {block_size} a block of scores takes {block >> 10} KiB, "
            f"but memory grew by {grown >> 20} MiB: something as large as T x S, or a much larger block, is held."
        )
    sample = [0, 1, 15, 16, 1000, queries - 1]
    output = grown.result.fetch()
    if not same_kind(output, q):
        assert_close(output, q)
    seen = torch.arange(keys) <= torch.tensor(sample)[:, None] + (keys - queries)
    expected = torch.nn.functional.scaled_dot_product_attention(q[:, :, sample], k, v, attn_mask=seen if is_causal else None)
    assert_close(output[:, :, sample], expected, what="the output for thousands of keys")


@points(0.5, "memory")
@pytest.mark.parametrize("name", ["online_softmax_attention", "attention"])
def test_twice_the_tokens_take_twice_the_memory(learner, reference, peak_memory, name):
    """Memory grows like T, not like T x T: in online_softmax_attention with blocks of 32, and in attention on "flash"."""
    more = (32,) if name == "online_softmax_attention" else ()
    q, k, v = inputs(keys=T)
    function, right = getattr(learner, name), getattr(reference, name)
    assert_close(function(q, k, v, *more), right(q, k, v, *more))
    peaks, tokens = [], (1024, 2048)
    for length in tokens:
        q, k, v = (randn(1, 2, length, 16, blunt="as many keys as queries") for _ in range(3))
        peaks.append(peak_memory(function, q, k, v, *more))
        assert_close(peaks[-1].result.fetch(), right(q, k, v, *more), what=f"the output for {length} tokens")
    # Twice as much is right. A matrix of 1024 x 1024 takes 8 MiB, one of 2048 x 2048 takes 32; some MiB are the allocator's affair.
    if peaks[1] > 2**1.5 * peaks[0] + (4 << 20):
        fail(
            f"{tokens[0]} tokens made memory grow by {peaks[0] / 2**20:.1f} MiB, {tokens[1]} by {peaks[1] / 2**20:.1f} MiB: "
            "that is more like the square of the tokens"
        )


# --- by hand ---


@points(0.5, "by_hand")
def test_the_online_softmax_is_written_by_hand(learner, reference, by_hand):
    """online_softmax_attention gives the right answer without torch's fused attention, under any name."""
    q, k, v = inputs()
    for is_causal in (False, True):
        assert_online(learner, reference, q, k, v, 3, is_causal=is_causal)
    by_hand.assert_clean()


# --- speed ---


@points(1, "speed")
def test_flash_is_faster_than_by_hand(learner, judge, device):
    """On "flash", attention over 1024 tokens and more takes the fused kernel's time, not that of a table of all scores."""
    heads, times = (8, 20) if device == "cuda" else (1, 1)

    def inputs_of_a_round():
        q, k, v = (randn(1, heads, judge.size, 32, blunt="one sequence, or one head, is enough work") for _ in range(3))
        return q, k, v, times, device

    judge(learner.file("props").attend, inputs_of_a_round, lambda actual, expected: check_rows(actual, expected, device))


def check_rows(actual, expected, device):
    """The same rows, up to the rounding of the dtype that was used."""
    assert_close(actual, expected, what="the last rows of the output", tolerance=5e-2 if device == "cuda" else None)
