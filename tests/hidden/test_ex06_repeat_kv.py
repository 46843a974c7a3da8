"""Grades 06 · repeat_kv: order of the heads, exact copies, summed gradients, no byte more than the result."""

import math

import pytest
import torch

from grader.suite import (
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
    rand_bool,
    randint,
    randn,
)

DTYPES = [
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
]
EVERYDAY = {
    "one row": (1, 5, 3, 8),
    "one new token": (2, 1, 3, 8),
    "one shared head": (2, 5, 1, 8),
    "one channel": (2, 5, 3, 1),
    "one of everything": (1, 1, 1, 1),
}


def exact(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    """Values that fill the dtype: a detour through a narrower one would round or wrap them."""
    if dtype == torch.bool:
        return rand_bool(*shape)
    if dtype.is_floating_point:
        return randn(*shape, dtype=dtype) / 3
    limits = torch.iinfo(dtype)
    return randint(limits.min, limits.max, *shape, dtype=dtype)


def check_gradient(mine: Vjp, right: Vjp) -> None:
    """The right output, and the right gradient for x."""
    assert_equal(mine.output, right.output)
    if mine.inputs[0] is None:
        fail("no gradient comes back to x: between x and the result the autograd graph is cut")
    assert_close(mine.inputs[0], right.inputs[0], what="the gradient of x")


# ---- shape -----------------------------------------------------------------------------------------------------------


@points(1, "shape")
@pytest.mark.parametrize(
    ("shape", "n_rep"),
    [((2, 5, 3, 8), 2), ((2, 7, 4, 5), 9), ((4, 3, 2, 6), 5), ((3, 4, 2, 5), 16)],
    ids=["2 a head", "9 a head", "5 a head", "16 a head"],
)
def test_the_head_axis_grows_n_rep_times(learner, shape, n_rep):
    """[B, T, K, D] becomes [B, T, K * n_rep, D]."""
    B, T, K, D = shape
    assert_shape(learner.repeat_kv(randn(B, T, K, D), n_rep), [B, T, K * n_rep, D])


@points(0.5, "shape")
@pytest.mark.parametrize("shape", EVERYDAY.values(), ids=EVERYDAY)
def test_axes_of_length_one_are_kept(learner, shape):
    """One row, one new token, one shared head or one channel: the result still has four axes."""
    B, T, K, D = shape
    x = randn(B, T, K, D, blunt="axes of length one are the point")
    assert_shape(learner.repeat_kv(x, 6), [B, T, K * 6, D])


@points(0.5, "shape")
def test_n_rep_of_one_changes_nothing(learner, reference):
    """With n_rep = 1 (as many key/value heads as query heads) the result is x, shape and values."""
    x = randn(2, 5, 3, 8)
    result = learner.repeat_kv(x, 1)
    assert_shape(result, [2, 5, 3, 8])
    assert_equal(result, reference.repeat_kv(x, 1))


# ---- numerics --------------------------------------------------------------------------------------------------------


@points(1, "numerics")
def test_heads_are_repeated_next_to_themselves(learner, reference):
    """Every copy of a head stands right next to its original, with all its values."""
    x = randn(3, 5, 4, 7)
    assert_equal(learner.repeat_kv(x, 2), reference.repeat_kv(x, 2))
    x = randn(2, 6, 3, 5)
    assert_equal(learner.repeat_kv(x, 7), reference.repeat_kv(x, 7))


@points(0.75, "numerics")
def test_query_head_j_reads_key_value_head_j_over_n_rep(learner):
    """Head j of the result is head j // n_rep of x, for every token and channel of every row."""
    B, T, K, D, n_rep = 2, 7, 3, 4, 6
    x = randint(-99, 100, B, T, K, D)
    result = learner.repeat_kv(x, n_rep)
    assert_shape(result, [B, T, K * n_rep, D])
    for j in range(K * n_rep):
        if not torch.equal(result[:, :, j], x[:, :, j // n_rep]):
            fail(f"with K = {K} and n_rep = {n_rep}, query head {j} does not hold key/value head {j // n_rep}")


@points(0.75, "numerics")
@pytest.mark.parametrize(
    ("K", "n_rep"), [(7, 2), (7, 3), (7, 4), (7, 5), (3, 6), (3, 7), (3, 8), (3, 12), (3, 32), (3, 33), (2, 41), (16, 20)]
)
def test_any_number_of_copies(learner, reference, K, n_rep):
    """From 2 to 41 query heads a group, powers of two or not, and up to 320 in all."""
    x = randn(9, choice([4, 5, 8]), K, 10)
    assert_equal(learner.repeat_kv(x, n_rep), reference.repeat_kv(x, n_rep))


@points(0.5, "numerics")
@pytest.mark.parametrize("shape", EVERYDAY.values(), ids=EVERYDAY)
def test_values_with_an_axis_of_length_one(learner, reference, shape):
    """One row, one new token, one shared head or one channel: the values are right as well."""
    x = randn(*shape, blunt="axes of length one are the point")
    assert_equal(learner.repeat_kv(x, 10), reference.repeat_kv(x, 10))


# ---- gradients -------------------------------------------------------------------------------------------------------


@points(1, "gradients")
@pytest.mark.parametrize("n_rep", [2, 6])
def test_a_head_gets_the_sum_of_its_copies_gradients(learner, reference, n_rep):
    """What flows back into a head is the sum over its n_rep copies."""
    x = randn(2, 4, 3, 7)
    g = randn(2, 4, 3 * n_rep, 7)
    check_gradient(learner.repeat_kv.vjp(x, n_rep, cotangent=g), reference.repeat_kv.vjp(x, n_rep, cotangent=g))


@points(0.5, "gradients")
@pytest.mark.parametrize(
    "case", ["nothing to repeat", "one shared head", "non-contiguous x", "non-contiguous gradient", "float64"]
)
def test_gradients_in_special_cases(learner, reference, case):
    """The gradient is also right for n_rep = 1, for K = 1, in float64, and if x or what flows in is non-contiguous."""
    K = 1 if case == "one shared head" else 4
    n_rep = 1 if case == "nothing to repeat" else 2
    blunt = "one shared head is the point" if K == 1 else None
    x = randn(2, 5, K, 6, dtype=torch.float64 if case == "float64" else torch.float32, blunt=blunt)
    g = randn(2, 5, K * n_rep, 6, dtype=x.dtype, blunt=blunt)
    if case == "non-contiguous x":
        x = noncontiguous(x)
    elif case == "non-contiguous gradient":  # as it comes back from code that went on in [B, H, T, D]
        g = noncontiguous(g)
    check_gradient(learner.repeat_kv.vjp(x, n_rep, cotangent=g), reference.repeat_kv.vjp(x, n_rep, cotangent=g))


# ---- robustness ------------------------------------------------------------------------------------------------------


@points(0.75, "robustness")
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: str(dtype).removeprefix("torch."))
def test_every_dtype_is_copied_exactly(learner, reference, dtype):
    """Floats, integers and bool keep their dtype and every bit of their values."""
    x = exact(dtype, 2, 5, 3, 7)
    assert_equal(learner.repeat_kv(x, 6), reference.repeat_kv(x, 6))


@points(0.25, "robustness")
def test_values_are_moved_and_not_computed(learner, reference):
    """Copies are no arithmetic: inf and nan in one head leave every other head alone, and -0.0 stays -0.0."""
    x = randn(2, 5, 3, 7)
    head = choice([0, 1, 2])
    x[1, 3, head, 2], x[0, 4, head, 5], x[1, 2, head, 6] = math.inf, -math.inf, math.nan
    assert_equal(learner.repeat_kv(x, 2), reference.repeat_kv(x, 2))
    x = -randn(2, 5, 3, 7).relu()  # about half of its values are -0.0
    result, expected = learner.repeat_kv(x, 2), reference.repeat_kv(x, 2)
    assert_equal(result, expected)
    if not torch.equal(result.view(torch.int32), expected.view(torch.int32)):
        fail("a -0.0 in x is 0.0 in the result: equal as numbers, but not bit for bit")


@points(0.5, "robustness")
@pytest.mark.parametrize("layout", ["strided", "transposed", "sliced", "part of a larger tensor"])
def test_non_contiguous_tensors_are_welcome(learner, reference, layout):
    """A transposed or sliced x, or a part of a larger tensor, gives the same result as a fresh copy of it."""
    if layout == "part of a larger tensor":  # cut out on the other side: a view that does not begin where its memory does
        whole = randn(4, 9, 6, 7)
        (held,) = learner.repeat_kv.hold(whole)
        for axis, start, length in [(1, 3, 5), (2, 2, 3), (0, 1, 2)]:
            part = held.narrow.keep(axis, start, length)
            what = f"the output for {length} of {whole.shape[axis]} indices of axis {axis}"
            expected = reference.repeat_kv(whole.narrow(axis, start, length), 6)
            assert_equal(learner.repeat_kv(part, 6), expected, what=what)
        return
    if layout == "strided":
        x = noncontiguous(randn(2, 5, 3, 7))
    elif layout == "transposed":
        x = randn(2, 3, 5, 7).transpose(1, 2)  # as it comes from code that keeps [B, K, T, D]
    else:
        x = randn(2, 9, 6, 7)[:, 2:7, 3:]  # the last three heads, as cut out of a fused projection
    assert_equal(learner.repeat_kv(x, 6), reference.repeat_kv(x, 6))


@points(0.25, "robustness")
def test_calls_know_nothing_of_each_other(fresh_learner, reference):
    """A second call, with other sizes or the same, even with the same x, neither uses nor changes what the first returned."""
    x, y, z = randn(2, 4, 7, 3), randn(2, 3, 5, 6), randn(2, 3, 5, 6)
    assert_equal(fresh_learner.repeat_kv(x, 5), reference.repeat_kv(x, 5))  # 35 heads from 7
    first = fresh_learner.repeat_kv.keep(y, 7)  # 35 heads from 5
    assert_equal(first.fetch(), reference.repeat_kv(y, 7), what="the output of the second call")
    assert_equal(fresh_learner.repeat_kv(z, 7), reference.repeat_kv(z, 7), what="the output of the third call")
    assert_equal(first.fetch(), reference.repeat_kv(y, 7), what="the second call's result, looked at after the third")
    (held,) = fresh_learner.repeat_kv.hold(x)
    assert_equal(fresh_learner.repeat_kv(held, 2), reference.repeat_kv(x, 2), what="the output of the fourth call")
    held.copy_.keep(x + 1)  # the same tensor, other values
    what = "the output after x was given other values"
    assert_equal(fresh_learner.repeat_kv(held, 2), reference.repeat_kv(x + 1, 2), what=what)


@points(0.25, "robustness")
def test_x_is_left_as_it_was(learner, reference):
    """The call changes neither the values nor the shape of x, nor how it lies in memory or whether it learns."""
    x = randn(2, 5, 3, 7)
    for n_rep in (2, 1):
        result = assert_arguments_unchanged(learner.repeat_kv, x, n_rep)
        assert_equal(result, reference.repeat_kv(x, n_rep))
    (held,) = learner.repeat_kv.hold(noncontiguous(x))
    strides = held.get("stride")
    assert_equal(learner.repeat_kv(held, 2), reference.repeat_kv(x, 2))
    if held.get("requires_grad"):
        fail("the call switched on `requires_grad` of the caller's x")
    if held.get("stride") != strides:
        fail("after the call the caller's x has other strides")


@points(0.5, "robustness")
def test_n_rep_below_one_is_refused(learner, reference):
    """n_rep < 1 raises ValueError and says so; n_rep = 1 is fine."""
    x = randn(2, 5, 3, 7)
    assert_equal(learner.repeat_kv(x, 1), reference.repeat_kv(x, 1))
    for n_rep in (0, -1, -3):
        assert_value_error(learner.repeat_kv, x, n_rep, naming="n_rep")


# ---- memory ----------------------------------------------------------------------------------------------------------


@points(1, "memory")
@pytest.mark.parametrize(("layout", "n_rep"), [("contiguous", 2), ("non-contiguous", 3)], ids=["contiguous", "non-contiguous"])
def test_no_more_memory_than_the_result(learner, reference, peak_memory, layout, n_rep):
    """The call takes the memory of its result and no more: no second copy of x or of the result."""
    small = randn(2, 5, 3, 7)
    assert_equal(learner.repeat_kv(small, 2), reference.repeat_kv(small, 2))
    assert_equal(learner.repeat_kv(noncontiguous(small), 2), reference.repeat_kv(small, 2))
    x = randn(2, 4096, 4, 16)  # 2 MiB
    if layout == "non-contiguous":
        x = noncontiguous(x)
    grown = peak_memory(learner.repeat_kv, x, n_rep)
    assert_equal(grown.result.fetch(), reference.repeat_kv(x, n_rep), what="the output for a large x")
    size = x.numel() * x.element_size()
    result, slack = n_rep * size, size // 2 + (512 << 10)
    if grown > result + slack:
        fail(
            f"for an x of {size >> 20} MiB ({layout}) and n_rep = {n_rep} the result takes {result >> 20} MiB, "
            f"but memory grew by {grown >> 20} MiB: something is copied more than once"
        )
