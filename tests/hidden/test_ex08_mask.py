"""Grades 08 · masks: who sees whom, in boolean masks of the right shape, at training, in chunks and at decoding."""

import contextlib

import pytest
import torch

from grader.suite import (
    LearnerError,
    assert_arguments_unchanged,
    assert_equal,
    assert_shape,
    assert_value_error,
    choice,
    fail,
    noncontiguous,
    points,
    rand_bool,
)

DTYPES = [
    torch.bool,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
]
SIDES = ["right", "left", "scattered"]


def check_mask(mask: object, shape: list[int], name: str) -> None:
    """A boolean tensor of this shape, whatever its values."""
    assert_shape(mask, shape, what=f"the result of {name}")
    if mask.dtype != torch.bool:
        fail(f"{name} returned a mask of {mask.dtype}; masks are torch.bool, True = may attend")


def real_tokens(side: str, k_len: int = 7) -> torch.Tensor:
    """[3, S] bool, three rows with different pads; every scattered row has a pad between real tokens."""
    if side == "scattered":
        real = rand_bool(3, k_len)
        real[:, 0] = torch.tensor([True, False, True])
        real[:, 1:4] = torch.tensor([True, False, True])
        real[1, 4:] = torch.tensor([False] * (k_len - 5) + [True])
        return real
    lengths = torch.tensor(choice([(4, 2, 6), (3, 6, 1), (5, 1, 4)]))[:, None]  # [3, 1]
    keys = torch.arange(k_len)
    return keys < lengths if side == "right" else keys >= k_len - lengths


def visible(causal: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
    """The specification as a loop: [B, 1, T, S], True where the rule of positions and the padding both allow it."""
    B, (T, S) = len(real), causal.shape
    both = torch.zeros(B, 1, T, S, dtype=torch.bool)
    for b in range(B):
        for i in range(T):
            for j in range(S):
                both[b, 0, i, j] = bool(causal[i, j]) and bool(real[b, j])
    return both


# ---- shape -----------------------------------------------------------------------------------------------------------


@points(0.75, "shape")
@pytest.mark.parametrize(("q_len", "k_len"), [(3, 5), (2, 7), (4, 4), (1, 6), (1, 1)])
def test_a_causal_mask_has_a_row_a_query_and_a_column_a_key(learner, q_len, k_len):
    """causal_mask gives [T, S] booleans, also for a single query."""
    check_mask(learner.causal_mask(q_len, k_len), [q_len, k_len], "causal_mask")


@points(0.5, "shape")
@pytest.mark.parametrize("shape", [(3, 7), (2, 5), (1, 6), (4, 1)], ids=str)
def test_a_padding_mask_broadcasts_over_heads_and_queries(learner, shape):
    """padding_mask turns [B, S] numbers into [B, 1, 1, S] booleans."""
    real = rand_bool(*shape, blunt="one row and one key are among the cases")
    for attention_mask in (real.long(), real, torch.ones_like(real)):
        mask = learner.padding_mask(attention_mask)
        check_mask(mask, [shape[0], 1, 1, shape[1]], "padding_mask")


@points(0.75, "shape")
@pytest.mark.parametrize("q_len", [4, 1])
@pytest.mark.parametrize("case", ["both", "one row", "nothing padded", "causal alone", "padding alone"])
def test_combined_masks_have_four_axes(learner, reference, case, q_len):
    """Both masks give [B, 1, T, S], causal alone [1, 1, T, S], padding alone [B, 1, 1, S]: whatever their values."""
    causal = reference.causal_mask(q_len, 7)
    padding = reference.padding_mask(real_tokens("left"))
    if case == "one row":
        padding = padding[1:2]
    elif case == "nothing padded":
        padding = torch.ones_like(padding)
    masks = {"causal alone": (causal, None), "padding alone": (None, padding)}.get(case, (causal, padding))
    rows = {"one row": 1, "causal alone": 1}.get(case, 3)
    check_mask(learner.combine_masks(*masks), [rows, 1, 1 if case == "padding alone" else q_len, 7], "combine_masks")


# ---- numerics: causal_mask -------------------------------------------------------------------------------------------


@points(0.5, "numerics")
@pytest.mark.parametrize("length", [5, 2, 1, 12])
def test_without_a_past_every_token_sees_itself_and_those_before(learner, reference, length):
    """causal_mask(T, T): visible on the diagonal and below it, hidden above."""
    assert_equal(learner.causal_mask(length, length), reference.causal_mask(length, length))


@points(1, "numerics")
@pytest.mark.parametrize(("q_len", "k_len"), [(3, 5), (2, 7), (4, 5), (3, 11), (1, 6)])
def test_with_a_past_the_last_query_sees_every_key(learner, q_len, k_len):
    """Query i of T stands at position S - T + i: it sees the keys up to there, and none after it."""
    mask = learner.causal_mask(q_len, k_len)
    check_mask(mask, [q_len, k_len], "causal_mask")
    for i in range(q_len):
        position = k_len - q_len + i
        for j in range(k_len):
            if bool(mask[i, j]) != (j <= position):
                fail(
                    f"in causal_mask({q_len}, {k_len}) query {i} stands at position {position}, "
                    f"and key {j} is {'visible' if j > position else 'hidden'}"
                )


@points(0.25, "numerics")
def test_all_small_sizes(learner, reference):
    """causal_mask(T, S) is right for every T <= S up to 6."""
    for k_len in range(6, 0, -1):
        for q_len in range(1, k_len + 1):
            mask = learner.causal_mask(q_len, k_len)
            assert_equal(mask, reference.causal_mask(q_len, k_len), what=f"causal_mask({q_len}, {k_len})")


@points(0.5, "numerics")
def test_a_prompt_in_chunks_sees_what_it_sees_at_once(learner):
    """Chunks of 2, 3 and 1 tokens see exactly what the same six tokens see when they are read at once."""
    past = 0
    whole = learner.causal_mask(6, 6)
    check_mask(whole, [6, 6], "causal_mask")
    for chunk in (2, 3, 1):
        mask = learner.causal_mask(chunk, past + chunk)
        what = f"the mask of {chunk} tokens after a past of {past}"
        assert_equal(mask, torch.ones(6, 6, dtype=torch.bool).tril()[past : past + chunk, : past + chunk], what=what)
        past += chunk


# ---- numerics: padding_mask ------------------------------------------------------------------------------------------


@points(0.75, "numerics")
@pytest.mark.parametrize("side", SIDES)
def test_pads_are_hidden_wherever_they_stand(learner, side):
    """Pads on the right, on the left or scattered: 1 is visible, 0 hidden, in each row on its own."""
    real = real_tokens(side)
    assert_equal(learner.padding_mask(real.long()), real[:, None, None, :])


@points(0.25, "numerics")
def test_rows_without_pads_and_rows_of_pads(learner):
    """A row without pads is all visible, a row of nothing but pads all hidden."""
    real = rand_bool(4, 6)
    real[1], real[2] = True, False
    for some in (real, real[1:2], real[2:3]):  # among others, and alone
        assert_equal(learner.padding_mask(some.long()), some[:, None, None, :])


# ---- numerics: combine_masks -----------------------------------------------------------------------------------------


@points(1, "numerics")
@pytest.mark.parametrize("q_len", [4, 7, 1])
@pytest.mark.parametrize("side", SIDES)
def test_a_key_is_visible_if_both_masks_allow_it(learner, reference, side, q_len):
    """combine_masks(causal, padding): never the future, never a pad, everything else."""
    real = real_tokens(side)
    causal = reference.causal_mask(q_len, 7)
    assert_equal(learner.combine_masks(causal, reference.padding_mask(real)), visible(causal, real))


@points(0.25, "numerics")
def test_the_first_mask_may_be_any_rule_of_positions(learner, reference):
    """A window, a rule that shows later keys or one that hides nothing combine like a causal mask, with padding or alone."""
    real = real_tokens("scattered")
    for q_len in (4, 1):
        window = reference.causal_mask(q_len, 7).triu(7 - q_len - 2)  # each query, and the two tokens before it
        assert_equal(learner.combine_masks(window, reference.padding_mask(real)), visible(window, real))
        assert_equal(learner.combine_masks(window, None), window[None, None])
        rule = rand_bool(q_len, 7, blunt="a single query is among the cases")
        rule[0, 6] = True  # the newest key, for the oldest query; row 1 has a real token there
        for any_rule in (rule, torch.ones_like(rule)):
            assert_equal(learner.combine_masks(any_rule, reference.padding_mask(real)), visible(any_rule, real))
            assert_equal(learner.combine_masks(any_rule, None), any_rule[None, None])


@points(0.25, "numerics")
def test_a_query_with_nothing_to_see_stays_so(learner, reference):
    """With pads on the left the first queries see no key at all, and combine_masks leaves it at that."""
    real = torch.arange(7) >= torch.tensor([[3], [0], [7]])  # three pads, none, nothing but pads
    causal = reference.causal_mask(5, 7)
    assert_equal(learner.combine_masks(causal, reference.padding_mask(real)), visible(causal, real))


@points(0.5, "numerics")
def test_one_mask_alone_keeps_its_values(learner, reference):
    """Without padding the causal mask decides, without a causal mask padding does; without both there is None."""
    causal = reference.causal_mask(4, 7)
    padding = reference.padding_mask(real_tokens(choice(SIDES)))
    assert_equal(learner.combine_masks(causal, None), reference.combine_masks(causal, None))
    assert_equal(learner.combine_masks(None, padding), reference.combine_masks(None, padding))
    if learner.combine_masks(None, None) is not None:
        fail("combine_masks(None, None) returned something: without any mask it is None")


# ---- numerics: show_mask ---------------------------------------------------------------------------------------------


@points(0.5, "numerics")
@pytest.mark.parametrize("shape", [(3, 7), (5, 2), (4, 1), (1, 6), (1, 1), (40, 40), (31, 81), (70, 70)], ids=str)
def test_the_picture_shows_every_key_of_every_query(learner, reference, shape):
    """A line a query, a character a key: `#` visible, `.` hidden, and nothing else but newlines between lines."""
    mask = rand_bool(*shape, blunt="one query, one key and squares are among the cases")
    if mask.numel() > 1:
        mask[0, 0], mask[-1, -1] = False, True
    assert_equal(learner.show_mask(mask), reference.show_mask(mask), what="the picture")


@points(0.25, "numerics")
def test_the_picture_of_a_causal_mask(learner, reference):
    """Three new tokens after a past of two, drawn."""
    assert_equal(learner.show_mask(reference.causal_mask(3, 5)), "###..\n####.\n#####", what="the picture")


# ---- robustness ------------------------------------------------------------------------------------------------------


@points(0.5, "robustness")
@pytest.mark.parametrize(("q_len", "k_len"), [(5, 3), (4, 3), (2, 1), (9, 2)])
def test_more_queries_than_keys_are_refused(learner, reference, q_len, k_len):
    """q_len > k_len raises ValueError and names q_len and both values; q_len = k_len is fine."""
    assert_equal(learner.causal_mask(k_len, k_len), reference.causal_mask(k_len, k_len))
    assert_value_error(learner.causal_mask, q_len, k_len, naming="q_len")


@points(0.5, "robustness")
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: str(dtype).removeprefix("torch."))
def test_padding_comes_in_every_dtype(learner, dtype):
    """bool, integers or floats: 1 is a real token, 0 a pad."""
    real = real_tokens("scattered")
    for attention_mask in (real.long(), real.to(dtype)):
        assert_equal(learner.padding_mask(attention_mask), real[:, None, None, :])


@points(0.25, "robustness")
def test_the_mask_is_made_where_device_says(learner, device):
    """causal_mask(..., device=...) makes the mask on that device, given as a name or as a torch.device."""
    for q_len in (3, 1):
        for where in (device, torch.device(device)):
            assert_equal(learner.causal_mask(q_len, 5, device=where), torch.ones(q_len, 5, dtype=torch.bool).tril(5 - q_len))
    for q_len in (2, 1):
        try:  # a kind of device that hardly any machine has: code that passes it on to torch fails there, and is right
            made_on = learner.causal_mask.keep(q_len, 7, device="xpu").get("device")
        except LearnerError:
            continue
        if str(made_on).partition(":")[0] != "xpu":
            fail("`device` is ignored: asked for another kind of device, causal_mask still made its mask on this one")


@points(0.25, "robustness")
@pytest.mark.parametrize("case", ["a few new tokens", "two new tokens", "a prompt"])
def test_long_contexts(learner, reference, case):
    """A few new tokens after a past of thousands, and a prompt of more than 64."""
    few = choice([3, 4, 5]), choice([2500, 4100, 5001])
    q_len, k_len = {"two new tokens": (2, 5000), "a prompt": (65, 65)}.get(case, few)
    assert_equal(learner.causal_mask(q_len, k_len), reference.causal_mask(q_len, k_len))


@points(0.25, "robustness")
def test_the_arguments_are_left_as_they_were(learner, reference):
    """No function writes into a mask that it is given, and all of them take non-contiguous ones."""
    real = real_tokens("scattered")
    for attention_mask in (real.long(), real.float(), real, noncontiguous(real)):
        mask = assert_arguments_unchanged(learner.padding_mask, attention_mask)
        assert_equal(mask, real[:, None, None, :])
    for q_len in (4, 1):
        window = reference.causal_mask(q_len, 7).triu(7 - q_len - 1)  # each query and the token before it
        for causal in (window, noncontiguous(window)):
            for rows in (real, real[1:2]):
                mask = assert_arguments_unchanged(learner.combine_masks, causal, reference.padding_mask(rows))
                assert_equal(mask, visible(window, rows))
            picture = assert_arguments_unchanged(learner.show_mask, causal)
            assert_equal(picture, reference.show_mask(window), what="the picture")


@points(0.25, "robustness")
def test_calls_know_nothing_of_each_other(fresh_learner, reference):
    """Every call answers for itself: after one with other sizes, or when an earlier result or the same mask has changed."""
    for q_len, k_len in [(13, 17), (13, 23), (14, 23), (13, 17)]:
        what = f"causal_mask({q_len}, {k_len})"
        assert_equal(fresh_learner.causal_mask(q_len, k_len), reference.causal_mask(q_len, k_len), what=what)
    for side in SIDES:
        real = real_tokens(side)
        assert_equal(fresh_learner.padding_mask(real.long()), real[:, None, None, :])
    earlier = fresh_learner.causal_mask.keep(3, 4)
    with contextlib.suppress(LearnerError):  # not every tensor can be written to
        earlier.fill_.keep(False)
    assert_equal(fresh_learner.causal_mask(3, 4), reference.causal_mask(3, 4), what="causal_mask(3, 4), called again")
    one, other = real_tokens("left"), real_tokens("scattered")
    (held,) = fresh_learner.padding_mask.hold(one.long())
    for real in (one, other):  # the same tensor, with the values of one and then of the other
        held.copy_.keep(real.long())
        assert_equal(fresh_learner.padding_mask(held), real[:, None, None, :], what="padding_mask of a tensor that has changed")
    causal, window = reference.causal_mask(4, 7), reference.causal_mask(4, 7).triu(2)
    masks = fresh_learner.combine_masks.hold(causal, reference.padding_mask(one))
    for rule, real in [(causal, one), (window, one), (window, other)]:
        for mask, values in zip(masks, (rule, reference.padding_mask(real)), strict=True):
            mask.copy_.keep(values)
        assert_equal(fresh_learner.combine_masks(*masks), visible(rule, real), what="combine_masks of masks that have changed")
