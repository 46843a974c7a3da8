"""Grades 13 · kv_cache: joining, both caches in portions and layers, what they refuse, what they take of memory, what they cost."""

import pytest
import torch

from grader.suite import (
    LearnerError,
    Vjp,
    assert_arguments_unchanged,
    assert_close,
    assert_equal,
    assert_shape,
    assert_value_error,
    choice,
    fail,
    noncontiguous,
    points,
    randint,
    randn,
)

# Batch, key/value heads and head_dim: all different, and none of them the number of tokens of a portion or of a past.
B, K, D = 4, 5, 8
LAYERS, ROOM = 3, 6
PORTIONS = ([2, 3, 1], [1, 1, 1, 1, 1, 1], [6], [3, 3], [1, 3, 2])
FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
BOTH = pytest.mark.parametrize("kind", ["DynamicCache", "StaticCache"])


def tokens(count, dtype=torch.float32, batch=B, heads=K, width=D):
    """Keys and values of `count` new tokens."""
    why = "a portion of one token, or of as many as another axis has"
    shape = batch, count, heads, width
    return randn(*shape, dtype=dtype, blunt=why), randn(*shape, dtype=dtype, blunt=why)


def make(side, kind, dtype=torch.float32, room=ROOM):
    """An empty cache of LAYERS layers."""
    return side.DynamicCache() if kind == "DynamicCache" else side.StaticCache(LAYERS, B, room, K, D, dtype, "cpu")


def joined(portions):
    """(k, v) of all portions, in the order they came in."""
    return tuple(torch.cat(list(part), dim=1) for part in zip(*portions, strict=True))


def check_update(cache, portions, layer, what="what update returned"):
    """Give the last of `portions` to a cache that holds the others; it returns all of them."""
    result = cache.update(*portions[-1], layer)
    check_pair(result, joined(portions), what)


def check_pair(actual, expected, what):
    """A pair (k, v), bit for bit."""
    if not isinstance(actual, tuple) or len(actual) != 2:
        fail(f"{what} is not a tuple of two, (k, v)")
    assert_equal(actual[0], expected[0], what=f"k in {what}")
    assert_equal(actual[1], expected[1], what=f"v in {what}")


def length_of(learner, cache):
    """`cache.length` as code that uses it finds it: a method would come back as a method."""
    return learner.file("props").get_attribute(cache, "length")


def check_gradients(mine: Vjp, right: Vjp, names):
    """The reference's output and its gradients, for the named inputs."""
    assert_close(mine.output, right.output)
    for name, actual, expected in zip(names, mine.inputs, right.inputs, strict=True):
        if expected is not None:
            assert_close(actual, expected, what=f"the gradient of {name}")


# ---- between caches: in a process of its own, before any other cache can be remembered --------------------------------


@points(0.5, "robustness")
@BOTH
def test_two_caches_share_nothing(fresh_learner, kind):
    """Two caches in use at the same time do not see each other's tokens, nor does a cache that is made later."""
    first, second = make(fresh_learner, kind), make(fresh_learner, kind)
    ours, theirs = [], []
    for count in (2, 3, 1):
        ours.append(tokens(count))
        check_update(first, ours, 0)
        theirs.append(tokens(1))
        check_update(second, theirs, 0)
    third = make(fresh_learner, kind)
    assert_equal(length_of(fresh_learner, third), 0, what="`length` of a new cache")
    check_update(third, [tokens(3)], 0)
    first.reset()
    theirs.append(tokens(2))
    check_update(second, theirs, 0, "what update returned after another cache was reset")


# ---- append_kv -------------------------------------------------------------------------------------------------------


@points(0.75, "numerics")
def test_new_tokens_are_joined_behind_the_past(learner):
    """append_kv puts the new keys behind the past keys and the new values behind the past values, on axis 1."""
    for old, new in ((2, 3), (7, 1), (1, 6)):
        past, (k, v) = tokens(old), tokens(new)
        check_pair(learner.append_kv(past, k, v), joined([past, (k, v)]), "the result")


@points(0.25, "shape")
def test_without_a_past_there_are_only_the_new_tokens(learner):
    """append_kv(None, k, v) is (k, v), a tuple of two; and past tokens of any number only make axis 1 longer."""
    k, v = tokens(3)
    check_pair(learner.append_kv(None, k, v), (k, v), "the result")
    result = learner.append_kv(tokens(6), k, v)
    for x in result if isinstance(result, tuple) else (result,):
        assert_shape(x, [B, 9, K, D])


@points(0.25, "robustness")
@pytest.mark.parametrize("dtype", FLOATS, ids=lambda dtype: str(dtype).removeprefix("torch."))
def test_every_dtype_is_joined_exactly(learner, dtype):
    """append_kv keeps the dtype and every bit, for strided tensors too, and leaves its arguments as they were."""
    portions = [tokens(count, dtype) for count in (2, 3, 1)]
    past = None
    for index, (k, v) in enumerate(portions):
        past = assert_arguments_unchanged(learner.append_kv, past, noncontiguous(k), noncontiguous(v))
        check_pair(past, joined(portions[: index + 1]), "the result")
        past = (noncontiguous(past[0]), noncontiguous(past[1]))


@points(0.5, "gradients")
def test_gradients_reach_past_and_new_tokens(learner, reference):
    """What flows back into the joined keys and values reaches the new tokens and all the past ones."""
    parts = [x for count in (2, 3, 1) for x in tokens(count)]
    cotangent = (randn(B, 6, K, D), randn(B, 6, K, D))
    names = [f"{name} of portion {portion}" for portion in (1, 2, 3) for name in "kv"]
    mine, right = (
        side.file("props").append_all.vjp(side.file("props").named("ex13_kv_cache", "append_kv"), *parts, cotangent=cotangent)
        for side in (learner, reference)
    )
    check_gradients(mine, right, ["append_kv", *names])


@points(0.25, "robustness")
def test_a_past_that_does_not_fit_is_refused(learner):
    """append_kv raises ValueError if k or v has another batch, other heads or another head_dim than the past, naming both sizes."""
    past, (k, v) = tokens(2), tokens(3)
    check_pair(learner.append_kv(past, k, v), joined([past, (k, v)]), "the result")
    for naming, (wrong_k, wrong_v), values in misfits():
        assert_value_error(learner.append_kv, past, wrong_k, wrong_v, naming=naming, values=values)
    for naming, sizes, held in (("batch", {"batch": 1}, B), ("heads", {"heads": 1}, K), ("head_dim", {"width": 1}, D)):
        one = tokens(2, **sizes)
        both = tokens(3, **sizes)
        check_pair(learner.append_kv(one, *both), joined([one, both]), f"the result for a past and new tokens of {naming} 1")
        assert_value_error(learner.append_kv, one, k, v, naming=naming, values=[1, held])


def misfits():
    """(word, (k, v), sizes): k or v, or both, of a batch, heads or head_dim that the others do not have."""
    k, v = tokens(3)
    for naming, sizes, held in (
        ("batch", {"batch": 1}, B), ("batch", {"batch": 7}, B),
        ("heads", {"heads": 1}, K), ("heads", {"heads": 2 * K}, K),
        ("head_dim", {"width": 1}, D), ("head_dim", {"width": 9}, D),
    ):  # fmt: skip
        wrong_k, wrong_v = tokens(3, **sizes)
        values = (held, *sizes.values())
        yield naming, (wrong_k, wrong_v), values
        yield naming, (wrong_k, v), values
        yield naming, (k, wrong_v), values


# ---- shape and dtype of what caches return ---------------------------------------------------------------------------


@points(0.5, "shape")
@BOTH
def test_an_update_returns_the_tokens_so_far_and_no_more(learner, kind):
    """update returns (k, v) of [B, S, K, D] with S the tokens so far: K heads, and no place that is still unused."""
    cache = make(learner, kind, room=11)
    held = 0
    for count in (2, 3, 1):
        held += count
        for layer in range(LAYERS):
            result = cache.update(*tokens(count), layer)
            if not isinstance(result, tuple) or len(result) != 2:
                fail("what update returned is not a tuple of two, (k, v)")
            for x in result:
                assert_shape(x, [B, held, K, D], what="what update returned")


@points(0.5, "shape")
@pytest.mark.parametrize("dtype", FLOATS, ids=lambda dtype: str(dtype).removeprefix("torch."))
def test_a_dynamic_cache_takes_dtype_from_what_comes_in(learner, dtype):
    """What DynamicCache returns has the dtype of what it was given, and every bit of it."""
    cache = learner.DynamicCache()
    portions = [tokens(count, dtype) for count in (2, 3, 1)]
    for index in range(3):
        check_update(cache, portions[: index + 1], 0)


@points(0.5, "shape")
@pytest.mark.parametrize("dtype", FLOATS, ids=lambda dtype: str(dtype).removeprefix("torch."))
def test_a_static_cache_has_the_dtype_it_was_made_with(learner, dtype):
    """What StaticCache returns has the dtype of its argument, whatever comes in, and every bit that the dtype can hold."""
    why = "a portion of one token"
    cache = learner.StaticCache(LAYERS, B, ROOM, K, D, dtype=dtype, device=torch.device("cpu"))
    for given in (dtype, torch.float32):
        cache.reset()
        portions = [tuple(randn(B, count, K, D, dtype=given, blunt=why) for _ in "kv") for count in (2, 3, 1)]
        for index, portion in enumerate(portions):
            result = cache.update(*portion, 1)
            expected = tuple(x.to(dtype) for x in joined(portions[: index + 1]))
            check_pair(result, expected, "what update returned")


@points(0.25, "shape")
def test_a_static_cache_lies_where_device_says(learner):
    """StaticCache(..., device=...) keeps and returns its keys and values on that device."""
    k, v = tokens(3)
    cache = learner.StaticCache(num_layers=2, batch_size=B, max_len=ROOM, num_kv_heads=K, head_dim=D, dtype=k.dtype, device="cpu")
    check_update(cache, [(k, v)], 0)
    try:  # a kind of device that hardly any machine has: code that passes it on to torch fails there, and is right
        result = learner.StaticCache(2, B, ROOM, K, D, torch.float32, "xpu").update.keep(k, v, 0)
    except LearnerError:
        return
    if learner.file("props").device_of(result) != ["xpu", "xpu"]:
        fail("`device` is ignored: asked for another kind of device, StaticCache still keeps its tokens on this one")


# ---- portions and layers ---------------------------------------------------------------------------------------------


@points(1.5, "numerics")
@BOTH
@pytest.mark.parametrize("portions", PORTIONS, ids=lambda portions: "+".join(map(str, portions)))
def test_any_portions_give_what_one_prompt_gives(learner, kind, portions):
    """Whether 6 tokens come at once or as 2 + 3 + 1: every update returns all tokens of the layer so far, oldest first."""
    cache = make(learner, kind)
    layers = [[] for _ in range(LAYERS)]
    for count in portions:
        for layer, held in enumerate(layers):
            held.append(tokens(count))
            check_update(cache, held, layer)


@points(1, "numerics")
@BOTH
def test_every_layer_holds_its_own_tokens(learner, kind):
    """Layers know nothing of each other: one may be far ahead, and each returns its own tokens only."""
    cache = make(learner, kind, room=12)
    layers = [[] for _ in range(LAYERS)]
    for layer, count in ((0, 2), (0, 3), (2, 1), (0, 1), (2, 7), (1, 2), (2, 3), (1, 6), (0, 3)):
        layers[layer].append(tokens(count))
        check_update(cache, layers[layer], layer)


@points(0.5, "numerics")
def test_a_dynamic_cache_takes_layers_in_any_order(learner):
    """DynamicCache needs no layer 0 first: layer 7 may come before layer 2, and layers in between may never come."""
    cache = learner.DynamicCache()
    layers = {7: [], 2: [], 31: []}
    for count in (2, 3, 1):
        for layer, held in layers.items():
            held.append(tokens(count))
            check_update(cache, held, layer)
    assert_equal(length_of(learner, cache), 6, what="`length`")


@points(0.25, "robustness")
def test_layers_of_a_dynamic_cache_may_have_other_sizes(learner):
    """Layers know nothing of each other: in a DynamicCache each may have a batch, heads, a head_dim and a dtype of its own."""
    cache = learner.DynamicCache()
    layers = [[], [], [], []]
    sizes = ({}, {}, {"batch": 3, "heads": 2}, {"width": 6, "dtype": torch.float64})
    for count in (2, 3, 1):
        for layer, held in enumerate(layers):
            held.append(tokens(count, **sizes[layer]))
            check_update(cache, held, layer)


@points(1, "numerics")
@BOTH
def test_length_is_that_of_the_fullest_layer(learner, kind):
    """`length` is an int, not a method: 0 at first, 3 as soon as layer 0 holds 3 tokens, and always what the fullest layer holds."""
    cache = make(learner, kind, room=20)
    assert_equal(length_of(learner, cache), 0, what="`length` of an empty cache")
    held = [0] * LAYERS
    for layer, count in ((0, 3), (1, 3), (2, 3), (0, 1), (1, 1), (2, 1), (2, 6), (0, 2), (1, 11), (0, 1)):
        held[layer] += count
        k, _ = cache.update(*tokens(count), layer)
        assert_shape(k, [B, held[layer], K, D], what="what update returned")
        assert_equal(length_of(learner, cache), max(held), what=f"`length` when the layers hold {held}")


# ---- gradients -------------------------------------------------------------------------------------------------------


@points(0.75, "gradients")
def test_gradients_flow_through_a_dynamic_cache(learner, reference):
    """What flows back into what DynamicCache returned reaches the tokens of that portion and of all earlier ones."""
    parts = [x for count in (2, 3, 1) for x in tokens(count)]
    why = "as many tokens as there are so far"
    cotangent = tuple(randn(B, held, K, D, blunt=why) for held in (2, 5, 6) for _ in "kv")
    names = [f"{name} of portion {portion}" for portion in (1, 2, 3) for name in "kv"]
    mine, right = (
        side.file("props").update_all.vjp(side.DynamicCache(), 0, *parts, cotangent=cotangent) for side in (learner, reference)
    )
    check_gradients(mine, right, ["the cache", "layer_idx", *names])


# ---- robustness ------------------------------------------------------------------------------------------------------


@points(0.5, "robustness")
@BOTH
def test_a_result_stays_as_it_was_when_more_tokens_come(learner, kind):
    """What an update returned keeps its values while later updates, of this layer or another, add to the cache."""
    cache = make(learner, kind)
    props = learner.file("props")
    portions, kept = [], []
    for count in (2, 3, 1):
        portions.append(tokens(count))
        kept.append((cache.update.keep(*portions[-1], 0), joined(portions)))
        assert_equal(length_of(learner, cache), portions_length(portions), what="`length`")
        check_update(cache, [tokens(count)], 1) if len(portions) == 1 else cache.update(*tokens(count), 1)
    for index, (result, expected) in enumerate(kept):
        check_pair(props.same(result), expected, f"what update {index + 1} returned, looked at after update 3")


def portions_length(portions):
    """Tokens in all."""
    return sum(k.shape[1] for k, _ in portions)


@points(0.5, "robustness")
@BOTH
def test_after_reset_a_cache_is_as_new(learner, kind):
    """After reset() `length` is 0 and no token of the text before comes back; then the same room may be filled again."""
    cache = make(learner, kind)
    for text in ([2, 3, 1], [1, 2], [6], [4, 1, 1]):
        portions = []
        for count in text:
            portions.append(tokens(count))
            for layer in (0, 2):
                check_update(cache, portions, layer)
        assert_equal(length_of(learner, cache), sum(text), what="`length`")
        cache.reset()
        assert_equal(length_of(learner, cache), 0, what="`length` after reset()")


@points(0.25, "robustness")
def test_after_reset_a_dynamic_cache_takes_another_batch(learner):
    """After reset() a DynamicCache may be used for another number of texts, other heads, head_dim and dtype."""
    cache = learner.DynamicCache()
    for batch, heads, width, dtype in ((B, K, D, torch.float32), (3, 2, 6, torch.bfloat16), (7, K, 10, torch.float64)):
        portions = []
        for count in (2, 3, 1):
            portions.append(tokens(count, dtype, batch=batch, heads=heads, width=width))
            check_update(cache, portions, 0)
        cache.reset()


@points(0.25, "robustness")
@BOTH
def test_what_comes_in_is_left_as_it_was(learner, kind):
    """update takes strided keys and values, as they come from a transpose, and does not change them."""
    cache = make(learner, kind)
    portions = []
    for count in (2, 3, 1):
        portions.append(tokens(count))
        k, v = (noncontiguous(x) for x in portions[-1])
        check_pair(assert_arguments_unchanged(cache.update, k, v, 1), joined(portions), "what update returned")


@points(0.5, "robustness")
@BOTH
def test_tokens_that_do_not_fit_are_refused(learner, kind):
    """k or v of another batch, other heads or another head_dim raises ValueError that names it and both sizes; the cache stays as it
    was."""
    cache = make(learner, kind)
    portions = [tokens(2)]
    check_update(cache, portions, 0)
    for naming, (k, v), values in misfits():
        assert_value_error(cache.update, k, v, 0, naming=naming, values=values)
        assert_equal(length_of(learner, cache), 2, what="`length` after a refused update")
    portions.append(tokens(3))
    check_update(cache, portions, 0, "what update returned after others were refused")


@points(0.25, "robustness")
@BOTH
def test_a_layer_that_does_not_exist_is_refused(learner, kind):
    """layer_idx < 0, and for StaticCache num_layers and more, raises ValueError that names it; the cache stays as it was."""
    cache = make(learner, kind)
    layers = [[tokens(2)] for _ in range(LAYERS)]
    for layer, held in enumerate(layers):
        check_update(cache, held, layer)
    for layer in (-1, -LAYERS, -LAYERS - 4) + ((LAYERS, LAYERS + 4) if kind == "StaticCache" else ()):
        assert_value_error(cache.update, *tokens(4), layer, naming="layer_idx", values=[layer])
        assert_equal(length_of(learner, cache), 2, what="`length` after a refused update")
    for layer, held in enumerate(layers):
        held.append(tokens(1))
        check_update(cache, held, layer, "what update returned after others were refused")


@points(0.5, "robustness")
def test_a_static_cache_takes_max_len_tokens_and_not_one_more(learner):
    """Exactly max_len tokens fit into every layer; more raise ValueError that names max_len and its value, and change nothing."""
    for room, text in ((6, [2, 3, 1]), (9, [4, 3, 2]), (7, [7])):
        cache = make(learner, "StaticCache", room=room)
        for layer in (1, 0):
            portions = []
            for count in text:
                too_many = room - portions_length(portions) + 1
                for more in (too_many, too_many + choice([2, 9, 20])):
                    assert_value_error(cache.update, *tokens(more), layer, naming="max_len", values=[room])
                portions.append(tokens(count))
                check_update(cache, portions, layer)
            assert_value_error(cache.update, *tokens(1), layer, naming="max_len", values=[room])
            assert_equal(length_of(learner, cache), room, what="`length` of a full cache")


# ---- bytes -----------------------------------------------------------------------------------------------------------


@points(0.5, "numerics")
def test_the_bytes_of_a_cache(learner):
    """kv_cache_bytes counts keys and values of all layers, texts, tokens, key/value heads and channels: an int."""
    config = learner.file("config").ModelConfig
    assert_equal(learner.kv_cache_bytes(config(), 1, 1, torch.bfloat16), 12288, what="the bytes of one token of the defaults")
    for _ in range(4):
        layers, kv_heads, width = (int(randint(2, 60, 1, blunt="one number")) for _ in range(3))
        made = config(hidden_size=640, num_layers=layers, num_heads=8 * kv_heads, num_kv_heads=kv_heads, head_dim=2 * width)
        batch, length = int(randint(2, 40, 1, blunt="one number")), int(randint(100, 140000, 1, blunt="one number"))
        expected = 2 * layers * batch * length * kv_heads * 2 * width * 4
        assert_equal(learner.kv_cache_bytes(made, batch, length, torch.float32), expected, what="the number of bytes")


@points(0.25, "numerics")
@pytest.mark.parametrize(
    ("dtype", "size"),
    [(torch.float64, 8), (torch.float32, 4), (torch.float16, 2), (torch.bfloat16, 2), (torch.float8_e4m3fn, 1)],
    ids=["float64", "float32", "float16", "bfloat16", "float8_e4m3fn"],
)
def test_the_bytes_of_a_number_follow_the_dtype(learner, dtype, size):
    """8 bytes for float64, 4 for float32, 2 for the half precisions, 1 for the 8-bit ones."""
    made = learner.file("config").ModelConfig(num_layers=3, num_heads=10, num_kv_heads=5, head_dim=14)
    assert_equal(learner.kv_cache_bytes(made, 7, 11, dtype), 2 * 3 * 7 * 11 * 5 * 14 * size, what="the number of bytes")


@points(0.25, "numerics")
def test_half_the_heads_take_half_the_memory(learner):
    """With 4 key/value heads instead of 8 a cache takes half as much, with 1 an eighth; query heads cost nothing."""
    config = learner.file("config").ModelConfig
    sizes = {
        (heads, kv_heads): learner.kv_cache_bytes(config(num_heads=heads, num_kv_heads=kv_heads), 3, 32768, torch.float16)
        for heads, kv_heads in ((8, 8), (8, 4), (8, 1), (16, 4))
    }
    full = 2 * 8 * 3 * 32768 * 8 * 96 * 2
    for (heads, kv_heads), found in sizes.items():
        assert_equal(found, full * kv_heads // 8, what=f"the number of bytes for {heads} query and {kv_heads} key/value heads")


# ---- memory ----------------------------------------------------------------------------------------------------------

STEP, STEPS = 512, 16  # 8192 tokens in all
WIDE = 2, STEP, 4, 32  # batch, tokens, key/value heads, head_dim of a portion
ONE = 4 * 2 * STEP * STEPS * 4 * 32  # bytes of all keys, and as many of all values: 8 MiB
SLACK = 3 << 19  # 1.5 MiB


def fill_and_measure(learner, peak_memory, cache, kind, resets):
    """The bytes by which filling a cache with 8192 tokens, once more after each reset, made the memory grow; the result is checked."""
    small = make(learner, kind)
    portions = [tokens(2)]
    check_update(small, portions, 0)
    portions.append(tokens(3))
    check_update(small, portions, 0)
    k, v = randn(*WIDE), randn(*WIDE)
    grown = peak_memory(learner.file("props").fill, cache, k, v, STEPS, resets)
    check_pair(grown.result.fetch(), (k.repeat(1, STEPS, 1, 1), v.repeat(1, STEPS, 1, 1)), "what the last update returned")
    return grown


@points(1, "memory")
def test_a_static_cache_takes_its_memory_once(learner, peak_memory):
    """From the first token to the last, and after reset() again, StaticCache takes the bytes of its max_len tokens and copies nothing."""
    cache = learner.StaticCache(1, 2, STEP * STEPS, 4, 32, torch.float32, "cpu")
    grown = fill_and_measure(learner, peak_memory, cache, "StaticCache", resets=1)
    if grown > 2 * ONE + SLACK:
        fail(
            f"a StaticCache of {2 * ONE >> 20} MiB was filled, and memory grew by {grown >> 20} MiB: "
            "besides its own room, something of the past was copied or kept twice"
        )


@points(1, "memory")
def test_a_dynamic_cache_keeps_key_value_heads_only(learner, peak_memory):
    """DynamicCache holds K heads of every token once: while it grows, the old and the new keys and values, and nothing else."""
    grown = fill_and_measure(learner, peak_memory, learner.DynamicCache(), "DynamicCache", resets=0)
    if grown > 6.5 * ONE + SLACK:  # joining takes 4: the past and the result; doubling buffers up to 6
        fail(
            f"keys and values of {2 * ONE >> 20} MiB were added in {STEPS} portions, and memory grew by {grown >> 20} MiB: "
            "more is kept than every token's K heads once"
        )


# ---- speed -----------------------------------------------------------------------------------------------------------


@points(1, "speed")
def test_a_step_does_not_join_the_past_anew(learner, judge):
    """One more token takes one join, however many came before it: DynamicCache does not repeat its earlier joins at every update."""

    def one_text():
        shape = 1, judge.size, 2, 8
        looked_at = [choice(range(judge.size)), choice(range(judge.size)), judge.size - 1]
        return "DynamicCache", randn(*shape, blunt="one text"), randn(*shape, blunt="one text"), looked_at

    judge(learner.file("props").fill_one_by_one, one_text)
