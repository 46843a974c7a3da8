"""Grades 05 · qkv: three projections cut into heads, and a norm for queries and keys."""

import math

import pytest
import torch

from grader.suite import (
    assert_arguments_unchanged,
    assert_close,
    assert_equal,
    assert_module_close,
    assert_value_error,
    fail,
    noncontiguous,
    points,
    randint,
    randn,
)

# Batch, tokens, channels, query heads, key/value heads, head_dim: all different, and H * D is not C.
B, T, C, H, K, D = 2, 5, 48, 6, 3, 10
NAMES = ["k_norm.weight", "k_proj.weight", "q_norm.weight", "q_proj.weight", "v_proj.weight"]
GROUPS = {
    "a key head for every query head": (48, 4, 4, 10),
    "one key head for all": (20, 6, 1, 14),
    "six query heads a key head": (32, 12, 2, 9),
    "narrower than x": (50, 4, 2, 7),
    "as wide as x": (24, 4, 2, 6),
}


def weights(hidden_size, num_heads, num_kv_heads, head_dim, dtype=torch.float32):
    """Five weights of size about 1, each unlike the others; those of the norms are between 0.5 and 2, with both signs."""
    why = "one head and one channel are among the cases"
    state = {
        "q_proj.weight": randn(num_heads * head_dim, hidden_size, blunt=why),
        "k_proj.weight": randn(num_kv_heads * head_dim, hidden_size, blunt=why),
        "v_proj.weight": randn(num_kv_heads * head_dim, hidden_size, blunt=why),
        "q_norm.weight": randn(head_dim, blunt=why),
        "k_norm.weight": randn(head_dim, blunt=why),
    }
    for name in ("q_norm.weight", "k_norm.weight"):
        state[name] = state[name].sign() * (0.5 + state[name].abs()).clamp(max=2.0)
    for name in ("q_proj.weight", "k_proj.weight", "v_proj.weight"):
        state[name] = state[name] / math.sqrt(hidden_size)
    return {name: weight.to(dtype) for name, weight in state.items()}


def some_x(batch=B, tokens=T, hidden_size=C, dtype=torch.float32):
    """Tokens of different size, whose channels do not average to 0."""
    why = "one sequence, one token and equal axes are among the cases"
    x = randn(batch, tokens, hidden_size, blunt=why) + 0.5
    return (x * torch.linspace(0.5, 2.0, tokens)[:, None]).to(dtype)


def build(side, state, sizes, **eps):
    """`QKVProjection` of these sizes that holds these weights, all of them and no others."""
    module = side.QKVProjection(*sizes, **eps)
    shapes = {name: info.shape for name, info in module.parameters().items()}
    for name in sorted(state.keys() - shapes.keys()):
        if name in module.state_dict():
            fail(f"{name} is no parameter of its own: another name stands for the same weight")
        fail(f"there is no parameter {name}; found: {', '.join(sorted(shapes)) or 'none'}")
    for name in sorted(shapes.keys() - state.keys()):
        fail(f"there is a parameter too many: {name}")
    for name, weight in state.items():
        if shapes[name] != tuple(weight.shape):
            given = ", ".join(f"{letter} = {size}" for letter, size in zip("CHKD", sizes, strict=False))
            fail(f"{name} has shape {list(shapes[name])}, which does not follow from {given}")
    module.to(state["q_proj.weight"].dtype)
    module.load_state_dict(state)
    return module


def both(learner, reference, sizes=(C, H, K, D), dtype=torch.float32, **eps):
    """The learner's module and the reference's, on the same weights."""
    state = weights(*sizes, dtype=dtype)
    return build(learner, state, sizes, **eps), build(reference, state, sizes, **eps)


def check_one(learner, reference, index, name):
    """One of the three outputs, whatever the other two are."""
    module, right = both(learner, reference)
    x = some_x()
    output = module(x)
    if not isinstance(output, tuple | list) or len(output) != 3:
        fail("forward does not return three tensors, (q, k, v)")
    assert_close(output[index], right(x)[index], what=name, tolerance=1e-4)


# ---- shape -----------------------------------------------------------------------------------------------------------


@points(0.5, "shape")
@pytest.mark.parametrize("sizes", GROUPS.values(), ids=GROUPS)
def test_any_grouping_and_any_width(learner, reference, sizes):
    """q is [B, T, H, D], k and v are [B, T, K, D], for K = H, for K = 1, and whether H * D is more or less than C."""
    module, right = both(learner, reference, sizes)
    assert_module_close(module, right, some_x(2, 5, sizes[0]), what="(q, k, v)")


@points(0.5, "shape")
@pytest.mark.parametrize(
    ("batch", "tokens", "sizes"),
    [(1, T, (C, H, K, D)), (B, 1, (C, H, K, D)), (B, T, (20, 1, 1, 12)), (B, T, (20, 4, 2, 1)), (1, 1, (8, 1, 1, 6)), (B, T, (1, 4, 2, 6))],
    ids=["B=1", "T=1", "H=K=1", "D=1", "B=T=H=K=1", "C=1"],
)  # fmt: skip
def test_axes_of_one_stay(learner, reference, batch, tokens, sizes):
    """One sequence, one new token, one head or one channel: q, k and v still have four axes."""
    module, right = both(learner, reference, sizes)
    assert_module_close(module, right, some_x(batch, tokens, sizes[0]), what="(q, k, v)")


@points(0.5, "shape")
@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16], ids=["float64", "float16", "bfloat16"])
def test_the_dtype_of_x_is_kept(learner, reference, dtype):
    """In a module of another dtype, q, k and v have that dtype, too."""
    module, right = both(learner, reference, dtype=dtype)
    tolerance = {torch.float64: 1e-4, torch.float16: 1e-2, torch.bfloat16: 5e-2}[dtype]
    assert_module_close(module, right, some_x(dtype=dtype), what="(q, k, v)", tolerance=tolerance)


# ---- numerics --------------------------------------------------------------------------------------------------------


@points(0.75, "numerics")
def test_queries_are_projected_split_and_normed(learner, reference):
    """Head h of q is the block of D channels from h * D on of q_proj's output, after q_norm."""
    check_one(learner, reference, 0, "q")


@points(0.75, "numerics")
def test_keys_are_projected_split_and_normed(learner, reference):
    """Head h of k is the block of D channels from h * D on of k_proj's output, after k_norm."""
    check_one(learner, reference, 1, "k")


@points(0.75, "numerics")
def test_values_are_projected_and_split_and_nothing_else(learner, reference):
    """Head h of v is the block of D channels from h * D on of v_proj's output, and no norm changes it."""
    check_one(learner, reference, 2, "v")


@points(0.25, "numerics")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["float16", "bfloat16"])
def test_loud_heads_in_half_precision(learner, reference, dtype):
    """The norms compute in at least float32: queries and keys whose squares float16 cannot hold come out right."""
    module, right = both(learner, reference, dtype=dtype)
    tolerance = {torch.float16: 1e-2, torch.bfloat16: 5e-2}[dtype]
    x = (some_x() * 400).to(dtype)
    assert_module_close(module, right, x, what="(q, k, v)", tolerance=tolerance)


@points(0.25, "numerics")
def test_every_head_is_normed_by_itself(learner, reference):
    """The mean square is taken over the D channels of one head of one token: loud and quiet heads come out alike."""
    state = weights(C, H, K, D)
    loudness = torch.tensor([10.0, 1.0, 0.1])
    for name, heads in (("q_proj.weight", H), ("k_proj.weight", K)):
        state[name] = state[name] * loudness.repeat(heads // 3).repeat_interleave(D)[:, None]
    module, right = build(learner, state, (C, H, K, D)), build(reference, state, (C, H, K, D))
    x = some_x() * torch.tensor([[1.0], [100.0], [3.0], [0.3], [20.0]])
    assert_module_close(module, right, x, what="(q, k, v)")


@points(0.5, "numerics")
@pytest.mark.parametrize("size", [1e-3, 0.1, 1.0, 1000.0])
def test_small_and_large_tokens_with_the_default_eps(learner, reference, size):
    """Without one given, eps is 1e-6: it tells for tokens of size 0.001, and no longer for large ones."""
    module, right = both(learner, reference)
    assert_module_close(module, right, some_x() * size, what="(q, k, v)")


@points(0.75, "numerics")
@pytest.mark.parametrize("eps", [1e-2, 1e-5, 3.0])
def test_eps_goes_to_both_norms(learner, reference, eps):
    """q_norm and k_norm use the eps that the module was made with."""
    module, right = both(learner, reference, eps=eps)
    assert_module_close(module, right, some_x() * math.sqrt(eps), what="(q, k, v)")
    state = weights(C, H, K, D)
    module, right = build(learner, state, (C, H, K, D, eps)), build(reference, state, (C, H, K, D, eps))
    assert_module_close(module, right, torch.zeros(B, T, C), what="(q, k, v) of zeros")
    assert_module_close(module, right, some_x() * math.sqrt(eps), what="(q, k, v), eps being the fifth argument")


@points(0.5, "numerics")
def test_a_new_layer_norms_with_weights_of_one(learner, reference):
    """Before any training q_norm and k_norm only bring their vectors to a mean square of 1."""
    learner.file("props").seed(randint(0, 10**6, 1, blunt="a seed").item())  # the same draw again when it is diagnosed
    sizes = {"hidden_size": C, "num_heads": H, "num_kv_heads": K, "head_dim": D}
    module, right = learner.QKVProjection(**sizes), reference.QKVProjection(**sizes)
    state = module.state_dict()
    right.load_state_dict(state)
    assert_module_close(module, right, some_x(), what="(q, k, v)")
    for name in ("q_norm.weight", "k_norm.weight"):
        assert_equal(state[name], torch.ones(D), what=f"{name} of a new module")


# ---- gradients -------------------------------------------------------------------------------------------------------


@points(0.5, "gradients")
def test_gradients_reach_x(learner, reference):
    """x gets the sum of what comes back through queries, keys and values."""
    module, right = both(learner, reference)
    x, g = some_x(), (randn(B, T, H, D), randn(B, T, K, D), randn(B, T, K, D))
    mine, expected = module.vjp(x, cotangent=g), right.vjp(x, cotangent=g)
    assert_close(mine.output, expected.output, what="(q, k, v)", tolerance=1e-4)
    assert_close(mine.inputs[0], expected.inputs[0], what="the gradient for x", tolerance=1e-4)


@points(1, "gradients")
@pytest.mark.parametrize("name", NAMES)
def test_gradients_reach_every_weight(learner, reference, name):
    """All five weights learn."""
    module, right = both(learner, reference)
    x, g = some_x(), (randn(B, T, H, D), randn(B, T, K, D), randn(B, T, K, D))
    mine, expected = module.vjp(x, cotangent=g), right.vjp(x, cotangent=g)
    assert_close(mine.output, expected.output, what="(q, k, v)", tolerance=1e-4)
    assert_close(mine.parameters.get(name), expected.parameters[name], what=f"the gradient for {name}", tolerance=1e-4)


# ---- robustness ------------------------------------------------------------------------------------------------------


@points(0.5, "robustness")
def test_five_weights_and_nothing_else(learner, reference):
    """q_proj, k_proj, v_proj (no biases), q_norm and k_norm have a weight each, and the state dict holds no more."""
    state = weights(C, H, K, D)
    module = build(learner, state, (C, H, K, D))
    if sorted(module.state_dict()) != NAMES:
        fail(f"the state dict holds {', '.join(sorted(module.state_dict()))}")
    if not all(info.requires_grad for info in module.parameters().values()):
        fail("one of the five weights does not learn: it needs no gradient")
    assert_module_close(module, build(reference, state, (C, H, K, D)), some_x(), what="(q, k, v)")


@points(0.5, "robustness")
@pytest.mark.parametrize(("num_heads", "num_kv_heads"), [(6, 4), (8, 3), (7, 2), (3, 6), (4, 5)])
def test_groups_must_come_out_even(learner, reference, num_heads, num_kv_heads):
    """H not a multiple of K raises ValueError that names num_kv_heads and gives both numbers."""
    module, right = both(learner, reference, (20, 6, 2, 5))
    assert_module_close(module, right, some_x(2, 4, 20), what="(q, k, v)")
    given = (20, num_heads, num_kv_heads, 9)
    assert_value_error(learner.QKVProjection, *given, naming="num_kv_heads", values=[num_heads, num_kv_heads])


@points(0.5, "robustness")
@pytest.mark.parametrize("num_kv_heads", [0, -1, -3])
def test_there_is_at_least_one_key_head(learner, reference, num_kv_heads):
    """num_kv_heads < 1 raises ValueError that names it and gives its value; one key head is fine."""
    module, right = both(learner, reference, (20, 6, 1, 5))
    assert_module_close(module, right, some_x(2, 4, 20), what="(q, k, v)")
    assert_value_error(learner.QKVProjection, 20, 6, num_kv_heads, 5, naming="num_kv_heads", values=[num_kv_heads])


@points(0.25, "robustness")
def test_tokens_do_not_look_at_each_other(learner, reference):
    """Another token, or another sequence, changes nothing for the rest: all exchange is left to attention."""
    module, right = both(learner, reference)
    x = some_x()
    before = assert_module_close(module, right, x, what="(q, k, v)")
    x[1, 3] += 5.0 * randn(C)
    after = assert_module_close(module, right, x, what="(q, k, v)")
    others = torch.ones(B, T, dtype=torch.bool)
    others[1, 3] = False
    for name, one, other in zip(("q", "k", "v"), before, after, strict=True):
        assert_close(other[others], one[others], what=f"{name} of the other tokens after one token has changed")


@points(0.25, "robustness")
def test_x_need_not_be_contiguous(learner, reference):
    """x may be a transposed, strided or expanded view."""
    module, right = both(learner, reference)
    x = some_x()
    for view in (noncontiguous(x), x.transpose(0, 1).contiguous().transpose(0, 1), x[:1].expand(B, T, C)):
        assert_module_close(module, right, view, what="(q, k, v)")


@points(0.25, "robustness")
def test_x_and_the_weights_are_left_as_they_were(learner, reference):
    """A call changes neither x nor a weight."""
    state = weights(C, H, K, D)
    module, right = build(learner, state, (C, H, K, D)), build(reference, state, (C, H, K, D))
    x = some_x()
    output = assert_arguments_unchanged(module.forward, x)
    assert_close(output, right(x), what="(q, k, v)", tolerance=1e-4)
    for name, weight in module.state_dict().items():
        assert_equal(weight, state[name], what=f"{name} after a call")


@points(0.25, "robustness")
def test_calls_know_nothing_of_each_other(fresh_learner, reference):
    """Other tokens, other lengths, other weights, evaluation or training: every call answers for itself."""
    module, right = both(fresh_learner, reference)
    first = some_x()
    kept = module.keep(first)
    for x in (some_x(), some_x(3, 7), some_x(1, 1), first):
        assert_module_close(module, right, x, what="(q, k, v)")
    assert_close(kept.fetch(), right(first), what="the first call's (q, k, v), looked at after other calls", tolerance=1e-4)
    other, other_right = both(fresh_learner, reference, (20, 4, 2, 6))
    assert_module_close(other, other_right, some_x(2, 5, 20), what="(q, k, v) of a second module")
    state = weights(C, H, K, D)
    module.load_state_dict(state)
    right.load_state_dict(state)
    assert_module_close(module.eval(), right.eval(), first, what="(q, k, v) in evaluation, with new weights")
    assert_module_close(module.train(), right.train(), first, what="(q, k, v) in training")
    (held,) = fresh_learner.QKVProjection.hold(first)
    for what in ("(q, k, v)", "(q, k, v) of the very same x, with new weights"):
        state = weights(C, H, K, D)
        module.load_state_dict(state)
        right.load_state_dict(state)
        assert_close(module(held), right(first), what=what, tolerance=1e-4)
    if fresh_learner.file("props").left_behind(module, [first], [some_x()]):
        fail("After a call, tensors that were made of its x stay behind in the layer.")
