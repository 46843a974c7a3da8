"""Grades 04 · positions: sinusoidal and learned tables, ALiBi's slopes and bias, and the rotation of queries and keys."""

import pytest
import torch

from grader.suite import (
    Vjp,
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

# Batch, tokens, query heads, key heads, head_dim: all different, D divisible by 2 only.
B, T, H, K, D = 2, 7, 6, 3, 10
HALF_PRECISION = pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["float16", "bfloat16"])
LONG = 1001  # positions 0 .. 1000
LONG_TOLERANCE = 1e-3  # an angle of 1000 in float32 is known to about 1e-4


def learned(side, weight):
    """`LearnedPositions` that holds this table."""
    module = side.LearnedPositions(*weight.shape)
    module.load_state_dict({"weight": weight})
    return module


def turns(*shape, blunt=None):
    """cos and sin [..., D] of random angles, both halves equal, as `precompute_rotary` lays them out."""
    angles = randn(*shape[:-1], shape[-1] // 2, scale=2.0, blunt=blunt)
    angles = torch.cat((angles, angles), dim=-1)
    return angles.cos(), angles.sin()


def assert_turned(learner, reference, q, k, cos, sin, **how):
    """The learner turns q and k as the reference does."""
    pair = learner.apply_rotary_pos_emb(q, k, cos, sin)
    assert_close(pair, reference.apply_rotary_pos_emb(q, k, cos, sin), what="(q, k)", **how)


def assert_gradients(mine: Vjp, right: Vjp, names: str) -> None:
    """The right output, and the right gradient for each of the first arguments."""
    assert_close(mine.output, right.output)
    for name, one, other in zip(names, mine.inputs, right.inputs, strict=False):
        assert_close(one, other, what=f"the gradient for {name}")


# ---- sinusoidal ------------------------------------------------------------------------------------------------------


@points(0.5, "numerics")
@pytest.mark.parametrize(("max_len", "dim"), [(13, 10), (9, 16)])
def test_sines_and_cosines_alternate(learner, reference, max_len, dim):
    """Channels 2i and 2i + 1 hold sine and cosine of p / 10000^(2i/dim), position after position from 0 on."""
    table = learner.sinusoidal_positions(max_len, dim)
    assert_close(table, reference.sinusoidal_positions(max_len, dim), what="the table")


@points(0.25, "shape")
@pytest.mark.parametrize(("max_len", "dim"), [(1, 8), (7, 2), (5, 66), (1, 2)])
def test_a_sinusoidal_table_of_any_size(learner, reference, max_len, dim):
    """[max_len, dim] float32 for a single position, a single pair of channels, or more channels than positions."""
    table = learner.sinusoidal_positions(max_len, dim)
    assert_close(table, reference.sinusoidal_positions(max_len, dim), what="the table")


@points(0.25, "numerics")
def test_sinusoidal_positions_up_to_a_thousand(learner, reference):
    """Far positions are as right as near ones: positions and frequencies are kept in at least float32."""
    table = learner.sinusoidal_positions(LONG, 12)
    assert_close(table, reference.sinusoidal_positions(LONG, 12), what="the table", tolerance=LONG_TOLERANCE)


# ---- learned ---------------------------------------------------------------------------------------------------------


@points(0.5, "numerics")
def test_every_token_gets_the_row_of_its_position(learner, reference):
    """x + weight[start : start + T], the same rows for every sequence of the batch."""
    weight, x = randn(19, 6), randn(3, 5, 6)
    module, right = learned(learner, weight), learned(reference, weight)
    assert_close(module(x), right(x))
    for start in (3, 11):
        assert_close(module(x, start), right(x, start), what=f"the output from position {start} on")
        assert_close(module(x, start=start), right(x, start=start), what=f"the output with start={start}")
    as_many = randn(5, 5, 6, blunt="as many sequences as tokens is the point")
    assert_close(module(as_many, 2), right(as_many, 2), what="the output for five sequences of five tokens")


@points(0.25, "shape")
@pytest.mark.parametrize(
    ("batch", "tokens", "start"), [(1, 4, 0), (3, 1, 0), (3, 1, 8), (2, 9, 0), (2, 4, 5)], ids=lambda value: str(value)
)
def test_one_token_or_as_many_as_the_table_has(learner, reference, batch, tokens, start):
    """One sequence, one token, the last position, or all of the table's: start + T may be equal to max_len."""
    weight, x = randn(9, 6), randn(batch, tokens, 6, blunt="one sequence and one token are among the cases")
    assert_close(learned(learner, weight)(x, start), learned(reference, weight)(x, start))


@points(0.25, "shape")
@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16], ids=["float64", "float16", "bfloat16"])
def test_learned_positions_keep_the_dtype_of_x(learner, reference, dtype):
    """The output has x's dtype, whether the weight is wider or narrower."""
    weight, x = randn(11, 6), randn(2, 5, 6)
    module, right = learned(learner, weight), learned(reference, weight)
    assert_close(module(x.to(dtype), 4), right(x.to(dtype), 4))
    module.to(dtype)
    right.to(dtype)
    assert_close(module(x, 4), right(x, 4), what=f"the output for float32 and a weight in {str(dtype).removeprefix('torch.')}")


@points(0.25, "numerics")
def test_a_new_table_is_normal_with_standard_deviation_002(learner, reference):
    """A new weight is drawn from a normal distribution with mean 0 and standard deviation 0.02."""
    learner.file("props").seed(randint(0, 10**6, 1, blunt="a seed").item())  # the same draw again when it is diagnosed
    module = learner.LearnedPositions(250, 80)
    weight = module.state_dict()["weight"]
    x = randn(2, 5, 80)
    assert_close(module(x), learned(reference, weight)(x))
    weight = weight.double()
    if not 0.0194 < weight.std().item() < 0.0206:
        fail(f"the standard deviation of a new weight is {weight.std().item():.3g}, not 0.02")
    if abs(weight.mean().item()) > 0.0008:
        fail(f"the mean of a new weight is {weight.mean().item():.2g}: too far from 0")
    if not 0.66 < (weight.abs() < 0.02).double().mean().item() < 0.705 or weight.abs().max() < 0.055:
        fail("a new weight has the right spread, but is not drawn from a normal distribution")


@points(0.5, "gradients")
@pytest.mark.parametrize("start", [0, 3])
def test_gradients_reach_x_and_the_rows_that_were_used(learner, reference, start):
    """x gets the gradient unchanged; a row of the weight gets the sum over the batch, and unused rows get 0, in bfloat16 too."""
    weight, x, g = randn(11, 6), randn(2, 5, 6), randn(2, 5, 6)
    mine = learned(learner, weight).vjp(x, start, cotangent=g)
    right = learned(reference, weight).vjp(x, start, cotangent=g)
    assert_gradients(mine, right, "x")
    assert_close(mine.parameters.get("weight"), right.parameters["weight"], what="the gradient for weight")
    x, g = x.bfloat16(), g.bfloat16()
    mine = learned(learner, weight).vjp(x, start, cotangent=g)
    right = learned(reference, weight).vjp(x, start, cotangent=g)
    assert_gradients(mine, right, "x")
    what = "the gradient for a float32 weight below bfloat16 tokens"
    assert_close(mine.parameters.get("weight"), right.parameters["weight"], what=what, tolerance=3e-2)


@points(0.25, "robustness")
def test_only_learned_positions_are_learned(learner, reference):
    """`weight` is LearnedPositions' only parameter and all of its state dict; the other tables need no gradient."""
    weight, x = randn(11, 6), randn(2, 5, 6)
    module = learned(learner, weight)
    assert_close(module(x), learned(reference, weight)(x))
    parameters = module.parameters()
    if list(parameters) != ["weight"] or parameters["weight"].shape != (11, 6) or not parameters["weight"].requires_grad:
        fail(f"the parameters of LearnedPositions are {sorted(parameters)}; one that learns is wanted, `weight` [max_len, dim]")
    if list(module.state_dict()) != ["weight"]:
        fail(f"the state dict of LearnedPositions holds {sorted(module.state_dict())}, not `weight` alone")
    table = learner.sinusoidal_positions.keep(11, 6)
    assert_close(table.fetch(), reference.sinusoidal_positions(11, 6), what="the sinusoidal table")
    if table.get("requires_grad"):
        fail("the sinusoidal table asks for a gradient, as if it were trained")
    bias = learner.alibi_bias.keep(6, 3, 5)
    assert_close(bias.fetch(), reference.alibi_bias(6, 3, 5), what="ALiBi's bias")
    if bias.get("requires_grad"):
        fail("ALiBi's bias asks for a gradient, as if it were trained")
    tables = learner.precompute_rotary.keep(6, 5)
    assert_close(tables.fetch(), reference.precompute_rotary(6, 5), what="(cos, sin)")
    if any(learner.file("props").want_gradients(tables)):
        fail("the rotary tables ask for a gradient, as if they were trained")


@points(0.25, "robustness")
def test_positions_beyond_the_table_are_refused(learner, reference):
    """start + T > max_len raises ValueError that names start and gives start, T and max_len."""
    weight = randn(11, 6)
    module, right = learned(learner, weight), learned(reference, weight)
    for tokens, start in ((4, 8), (1, 11), (12, 0), (5, 29)):
        x = randn(2, 3, 6)
        assert_close(module(x, 8), right(x, 8))
        x = randn(2, tokens, 6, blunt="any number of tokens")
        assert_value_error(module.forward, x, start, naming="start", values=[start, tokens, 11])


# ---- ALiBi -----------------------------------------------------------------------------------------------------------


@points(0.25, "numerics")
@pytest.mark.parametrize("num_heads", [1, 2, 4, 8, 16, 64])
def test_slopes_for_a_power_of_two(learner, reference, num_heads):
    """2^(-8/H), 2^(-16/H), ... down to 2^-8, as float32, also for one head."""
    assert_close(learner.alibi_slopes(num_heads), reference.alibi_slopes(num_heads), what="the slopes", tolerance=1e-6)


@points(0.5, "numerics")
@pytest.mark.parametrize("num_heads", [3, 5, 6, 7, 12, 20, 40])
def test_slopes_for_other_numbers_of_heads(learner, reference, num_heads):
    """The slopes of the next smaller power of two, then every second one, from the first, of the next larger."""
    assert_close(learner.alibi_slopes(num_heads), reference.alibi_slopes(num_heads), what="the slopes", tolerance=1e-6)


@points(0.5, "numerics")
@pytest.mark.parametrize(("q_len", "k_len"), [(5, 5), (4, 7), (2, 9)])
def test_the_bias_grows_with_the_distance_into_the_past(learner, reference, q_len, k_len):
    """-slope * distance for keys before their query, 0 for the query's own token and the future; queries are the newest."""
    for num_heads in (4, 6):
        bias, expected = learner.alibi_bias(num_heads, q_len, k_len), reference.alibi_bias(num_heads, q_len, k_len)
        assert_close(bias, expected, what="the bias")


@points(0.25, "numerics")
@pytest.mark.parametrize(("num_heads", "q_len", "k_len"), [(6, 1, 8), (3, 1, 1), (1, 3, 5), (3, 2, 2100)])
def test_the_bias_of_a_new_token_and_of_a_long_past(learner, reference, num_heads, q_len, k_len):
    """A single new token stands behind all the keys; one head, one key, or two thousand keys are no special cases."""
    bias, expected = learner.alibi_bias(num_heads, q_len, k_len), reference.alibi_bias(num_heads, q_len, k_len)
    assert_close(bias, expected, what="the bias", tolerance=1e-6)


@points(0.25, "robustness")
@pytest.mark.parametrize("case", ["no heads", "more queries than keys"])
def test_alibi_refuses_what_makes_no_sense(learner, reference, case):
    """num_heads < 1, in both functions, and q_len > k_len raise ValueError that names the argument and its value."""
    assert_close(learner.alibi_slopes(6), reference.alibi_slopes(6), what="the slopes")
    assert_close(learner.alibi_bias(6, 4, 4), reference.alibi_bias(6, 4, 4), what="the bias")
    if case == "no heads":
        for num_heads in (0, -1, -3, -8):
            assert_value_error(learner.alibi_slopes, num_heads, naming="num_heads")
            assert_value_error(learner.alibi_bias, num_heads, 4, 7, naming="num_heads", values=[num_heads])
    else:
        for q_len, k_len in ((5, 3), (4, 3), (9, 2)):
            assert_value_error(learner.alibi_bias, 6, q_len, k_len, naming="q_len", values=[q_len, k_len])


# ---- rotary: the tables ----------------------------------------------------------------------------------------------


@points(0.5, "numerics")
@pytest.mark.parametrize(("head_dim", "max_len"), [(10, 13), (16, 9)])
def test_pair_i_turns_by_p_over_theta_to_the_2i_over_d(learner, reference, head_dim, max_len):
    """cos and sin of p / theta^(2i/D), the same in both halves, for any theta, and for a million if none is given."""
    for theta in (150.0, 1e4):
        tables, expected = (
            learner.precompute_rotary(head_dim, max_len, theta),
            reference.precompute_rotary(head_dim, max_len, theta),
        )
        assert_close(tables, expected, what=f"(cos, sin) for theta = {theta:g}")
    tables, expected = learner.precompute_rotary(head_dim, max_len), reference.precompute_rotary(head_dim, max_len)
    assert_close(tables, expected, what="(cos, sin) for the default theta")


@points(0.25, "shape")
@pytest.mark.parametrize(("head_dim", "max_len"), [(2, 7), (8, 1), (96, 5), (2, 1)])
def test_rotary_tables_of_any_size(learner, reference, head_dim, max_len):
    """[max_len, head_dim] float32, twice: for a single pair of channels, a single position, or MiniMind's 96 channels."""
    tables, expected = (
        learner.precompute_rotary(head_dim, max_len, theta=100.0),
        reference.precompute_rotary(head_dim, max_len, 100.0),
    )
    assert_close(tables, expected, what="(cos, sin)")
    tables, expected = learner.precompute_rotary(head_dim, max_len), reference.precompute_rotary(head_dim, max_len)
    assert_close(tables, expected, what="(cos, sin) for the default theta")


@points(0.25, "numerics")
def test_rotary_tables_up_to_position_1000(learner, reference):
    """Far positions are as right as near ones: positions and frequencies are kept in at least float32."""
    for theta in (1e6, 1e4):
        tables, expected = learner.precompute_rotary(12, LONG, theta), reference.precompute_rotary(12, LONG, theta)
        assert_close(tables, expected, what="(cos, sin)", tolerance=LONG_TOLERANCE)


@points(0.25, "robustness")
@pytest.mark.parametrize("odd", [1, 7, 13])
def test_odd_numbers_of_channels_are_refused(learner, reference, odd):
    """An odd dim or head_dim raises ValueError that names it and gives its value; an odd number of positions is fine."""
    assert_close(learner.sinusoidal_positions(odd, 6), reference.sinusoidal_positions(odd, 6), what="the table")
    assert_close(learner.precompute_rotary(6, odd, 500.0), reference.precompute_rotary(6, odd, 500.0), what="(cos, sin)")
    assert_value_error(learner.sinusoidal_positions, 6, odd, naming="dim", values=[odd])
    assert_value_error(learner.precompute_rotary, odd, 6, naming="head_dim", values=[odd])


# ---- rotary: the rotation --------------------------------------------------------------------------------------------


@points(0.25, "numerics")
@pytest.mark.parametrize("shape", [(10,), (5, 6), (B, T, H, D)], ids=["[D]", "[T,D]", "[B,T,H,D]"])
def test_rotate_half_swaps_the_halves_and_turns_one_sign(learner, reference, shape):
    """The second half, negated, then the first half, on the last axis of any shape."""
    x = randn(*shape)
    assert_close(learner.rotate_half(x), reference.rotate_half(x))
    pair = randn(3, 2)
    assert_close(learner.rotate_half(pair), reference.rotate_half(pair), what="the output for D = 2")


@points(0.5, "numerics")
def test_queries_and_keys_are_turned_by_their_position(learner, reference):
    """q and k times cos plus their rotate_half times sin, token by token, every head of a token alike."""
    cos, sin = turns(T, D)
    assert_turned(learner, reference, randn(B, T, H, D), randn(B, T, K, D), cos, sin)
    cos, sin = reference.precompute_rotary(4, T, 100.0)
    assert_turned(learner, reference, randn(B, T, H, 4), randn(B, T, K, 4), cos, sin)


@points(0.5, "numerics")
def test_every_sequence_may_stand_at_its_own_positions(learner, reference):
    """cos and sin [B, T, D] hold other angles for every row of the batch."""
    q, k = randn(B, T, H, D), randn(B, T, K, D)
    assert_turned(learner, reference, q, k, *turns(T, D))
    assert_turned(learner, reference, q, k, *turns(B, T, D))
    # Rows that begin at positions 0 and 4, as with padding on the left, taken from the table by index.
    table_cos, table_sin = reference.precompute_rotary(D, 20, 1e4)
    rows = torch.arange(T) + torch.tensor([[0], [4]])
    assert_turned(learner, reference, q, k, table_cos[rows], table_sin[rows])


@points(0.25, "numerics")
@pytest.mark.parametrize("equal", ["B=T", "T=H", "T=K", "B=H", "all"])
def test_axes_of_one_length_are_not_mixed_up(learner, reference, equal):
    """The angles belong to the tokens, also when there are as many heads or sequences as tokens."""
    sizes = {"B=T": (5, 5, 4, 2), "T=H": (2, 4, 4, 3), "T=K": (2, 4, 8, 4), "B=H": (4, 5, 4, 2), "all": (4, 4, 4, 4)}
    batch, tokens, heads, kv_heads = sizes[equal]
    why = "axes of one length are the point"
    q, k = randn(batch, tokens, heads, 6, blunt=why), randn(batch, tokens, kv_heads, 6, blunt=why)
    assert_turned(learner, reference, q, k, *turns(tokens, 6))
    assert_turned(learner, reference, q, k, *turns(batch, tokens, 6, blunt=why))


@points(0.25, "shape")
@pytest.mark.parametrize(
    "sizes",
    [(1, T, H, K, D), (B, 1, H, K, D), (B, T, H, 1, D), (B, T, 1, 1, D), (B, T, H, K, 2), (1, 1, 1, 1, 2)],
    ids=["B=1", "T=1", "K=1", "H=K=1", "D=2", "one of everything"],
)
def test_axes_of_one_stay(learner, reference, sizes):
    """One sequence, one new token, one shared key head or one pair of channels: q and k keep their four axes."""
    batch, tokens, heads, kv_heads, head_dim = sizes
    why = "axes of length 1 are the point"
    q, k = randn(batch, tokens, heads, head_dim, blunt=why), randn(batch, tokens, kv_heads, head_dim, blunt=why)
    assert_turned(learner, reference, q, k, *turns(tokens, head_dim, blunt=why))
    assert_turned(learner, reference, q, k, *turns(batch, tokens, head_dim, blunt=why))


@points(0.25, "numerics")
def test_turned_scores_depend_on_the_distance_alone(learner, reference):
    """Rotation keeps every length, and q . k changes only if the distance of their positions does."""
    x = randn(T, D)
    assert_close(learner.rotate_half(x), reference.rotate_half(x), what="rotate_half's output")
    tables = learner.precompute_rotary(D, 40, 100.0)
    assert_close(tables, reference.precompute_rotary(D, 40, 100.0), what="(cos, sin)", tolerance=1e-4)
    cos, sin = tables
    q, k = randn(B, T, H, D, dtype=torch.float64), randn(B, T, H, D, dtype=torch.float64)
    scores = []
    for start in (0, int(uniform(1, 30))):
        here = cos[start : start + T].double(), sin[start : start + T].double()
        assert_turned(learner, reference, q, k, *here)
        turned_q, turned_k = learner.apply_rotary_pos_emb(q, k, *here)
        assert_close(turned_q.norm(dim=-1), q.norm(dim=-1), what="the length of the turned queries")
        scores.append(turned_q.transpose(1, 2) @ turned_k.permute(0, 2, 3, 1))
    assert_close(scores[1], scores[0], what="the product of q and k after both have moved by the same distance")


@points(0.25, "shape")
@pytest.mark.parametrize(
    "dtype",
    [torch.float64, torch.float32, torch.float16, torch.bfloat16],
    ids=["float64", "float32", "float16", "bfloat16"],
)
def test_queries_and_keys_keep_their_dtype(learner, reference, dtype):
    """q and k come back each in its own dtype, whatever the dtype of the other, or of cos and sin."""
    q, k = randn(B, T, H, D, dtype=dtype), randn(B, T, K, D, dtype=dtype)
    assert_close(learner.rotate_half(q), reference.rotate_half(q), what="rotate_half's output")
    for tables in dict.fromkeys([torch.float32, torch.float64, dtype]):
        cos, sin = (table.to(tables) for table in turns(T, D))
        assert_turned(learner, reference, q, k, cos, sin)
    k = k.to(torch.float32 if dtype == torch.float64 else torch.float64)
    assert_turned(learner, reference, q, k, *turns(T, D), tolerance=3e-2)  # as accurate as the narrower of the two


@points(0.25, "numerics")
@HALF_PRECISION
def test_half_precision_at_far_positions(learner, reference, dtype):
    """float16 and bfloat16 queries hundreds of tokens into a text are turned by the right angle."""
    tables, expected = learner.precompute_rotary(D, 700, 1e4), reference.precompute_rotary(D, 700, 1e4)
    assert_close(tables, expected, what="(cos, sin)", tolerance=LONG_TOLERANCE)
    start = choice([301, 511, 650])
    q, k = randn(B, T, H, D, dtype=dtype), randn(B, T, K, D, dtype=dtype)
    cos, sin = (table[start : start + T] for table in expected)
    assert_turned(learner, reference, q, k, cos, sin)


@points(0.5, "gradients")
@pytest.mark.parametrize("case", ["one table", "a table per sequence", "float64", "non-contiguous"])
def test_gradients_are_turned_back(learner, reference, case):
    """q and k get the gradients of their outputs, turned the other way."""
    dtype = torch.float64 if case == "float64" else torch.float32
    q, k = randn(B, T, H, D, dtype=dtype), randn(B, T, K, D, dtype=dtype)
    g = randn(B, T, H, D, dtype=dtype), randn(B, T, K, D, dtype=dtype)
    cos, sin = turns(B, T, D) if case == "a table per sequence" else turns(T, D)
    if case == "non-contiguous":
        q, k, g = noncontiguous(q), noncontiguous(k), (noncontiguous(g[0]), noncontiguous(g[1]))
    assert_turned(learner, reference, q, k, cos, sin)
    mine = learner.apply_rotary_pos_emb.vjp(q, k, cos, sin, cotangent=g)
    assert_gradients(mine, reference.apply_rotary_pos_emb.vjp(q, k, cos, sin, cotangent=g), "qk")
    mine = learner.rotate_half.vjp(q, cotangent=g[0])
    assert_gradients(mine, reference.rotate_half.vjp(q, cotangent=g[0]), "x")


# ---- robustness of all of them ---------------------------------------------------------------------------------------


@points(0.25, "robustness")
def test_inputs_need_not_be_contiguous(learner, reference):
    """x, q, k, cos and sin may be transposed, strided or expanded views."""
    q, k, x = randn(B, T, H, D), randn(B, T, K, D), noncontiguous(randn(B, T, 6))
    assert_turned(learner, reference, q, k, *turns(T, D))
    q, k = noncontiguous(q), k.transpose(1, 2).contiguous().transpose(1, 2)
    assert_close(learner.rotate_half(q), reference.rotate_half(q), what="rotate_half's output")
    for cos, sin in (turns(T, D), turns(B, T, D)):
        assert_turned(learner, reference, q, k, noncontiguous(cos), noncontiguous(sin))
    cos, sin = turns(T, D)
    assert_turned(learner, reference, q, k, cos.expand(B, T, D), sin.expand(B, T, D))
    weight = randn(11, 6)
    assert_close(learned(learner, weight)(x, 2), learned(reference, weight)(x, 2), what="LearnedPositions' output")


@points(0.25, "robustness")
def test_the_arguments_are_left_as_they_were(learner, reference):
    """x, q, k, cos and sin hold the same numbers after the call as before, and so does the weight."""
    q, k, x = randn(B, T, H, D), randn(B, T, K, D), randn(B, T, 6)
    for cos, sin in (turns(T, D), turns(B, T, D)):
        pair = assert_arguments_unchanged(learner.apply_rotary_pos_emb, q, k, cos, sin)
        assert_close(pair, reference.apply_rotary_pos_emb(q, k, cos, sin), what="(q, k)")
    result = assert_arguments_unchanged(learner.rotate_half, q)
    assert_close(result, reference.rotate_half(q), what="rotate_half's output")
    weight = randn(11, 6)
    module = learned(learner, weight)
    result = assert_arguments_unchanged(module.forward, x, 2)
    assert_close(result, learned(reference, weight)(x, 2), what="LearnedPositions' output")
    assert_equal(module.state_dict()["weight"], weight, what="the weight after a call")


@points(0.25, "robustness")
def test_calls_know_nothing_of_each_other(fresh_learner, reference):
    """A call with other sizes, theta, start or weight neither uses nor changes what an earlier one returned; results are the caller's."""
    for arguments in ((10, 13, 150.0), (10, 13, 1e6), (6, 13, 1e6), (6, 9, 1e6), (6, 21, 1e6), (6, 21, 50.0), (10, 13, 150.0)):
        tables = fresh_learner.precompute_rotary(*arguments)
        assert_close(tables, reference.precompute_rotary(*arguments), what=f"(cos, sin) for {arguments}")
    for arguments in ((7, 6), (7, 8), (12, 8), (7, 6)):
        table = fresh_learner.sinusoidal_positions(*arguments)
        assert_close(table, reference.sinusoidal_positions(*arguments), what=f"the sinusoidal table for {arguments}")
    for arguments in ((6, 3, 5), (3, 3, 5), (6, 2, 5), (6, 1, 5), (6, 1, 7)):
        bias = fresh_learner.alibi_bias(*arguments)
        assert_close(bias, reference.alibi_bias(*arguments), what=f"the bias for {arguments}")
    weight = randn(11, 6)
    module, right = learned(fresh_learner, weight), learned(reference, weight)
    for tokens, start in ((3, 0), (2, 3), (1, 5), (2, 0)):
        x = randn(2, tokens, 6, blunt="two sequences of two tokens, and one token, are among the cases")
        assert_close(module(x, start), right(x, start), what=f"the output for {tokens} tokens from position {start} on")
    x = randn(2, 5, 6)
    for dtype in (torch.float16, torch.float32):
        for weight in (randn(11, 6), randn(11, 6)):
            module.load_state_dict({"weight": weight})
            right.load_state_dict({"weight": weight})
            what = f"the output for {str(dtype).removeprefix('torch.')} after the weight has changed"
            assert_close(module(x.to(dtype), 4), right(x.to(dtype), 4), what=what)
    props = fresh_learner.file("props")
    for name, arguments in (("precompute_rotary", (10, 9)), ("sinusoidal_positions", (9, 10)), ("alibi_slopes", (6,))):
        again = props.called_again(props.named("ex04_positions", name), *arguments)
        what = f"the second result of {name}, the first having been changed by its receiver"
        assert_close(again, getattr(reference, name)(*arguments), what=what)
    first, second = (randn(B, T, H, D), randn(B, T, K, D), *turns(T, D)), (randn(B, T, H, D), randn(B, T, K, D), *turns(T, D))
    kept = fresh_learner.apply_rotary_pos_emb.keep(*first)
    assert_turned(fresh_learner, reference, *second)
    expected = reference.apply_rotary_pos_emb(*first)
    assert_close(kept.fetch(), expected, what="the first call's (q, k), looked at after a second call")
