"""The grading suite of 12 · block: norms, branches and residuals in the right order, and nothing lost on the way."""

import pytest
import torch

from grader.suite import (
    assert_arguments_unchanged,
    assert_chunks_close,
    assert_close,
    assert_equal,
    assert_module_close,
    assert_shape,
    assert_value_error,
    fail,
    noncontiguous,
    points,
    randint,
    randn,
)

# Batch, tokens, hidden and intermediate size, heads, key/value heads, head_dim: all different, H * D is not C, and C is no
# multiple of H, which only GPTBlock has to mind.
B, T, C, F, H, K, D = 2, 5, 14, 18, 4, 2, 6
SIZES = {"hidden_size": C, "num_heads": H, "num_kv_heads": K, "head_dim": D, "intermediate_size": F}
WIDTH, HEADS = 12, 3  # of GPTBlock
PRE_NORM, POST_NORM = "GPTBlock, pre-norm", "GPTBlock, post-norm"
KINDS = ("TransformerBlock", PRE_NORM, POST_NORM)
EVERY_KIND = pytest.mark.parametrize("kind", KINDS)
BOTH_ORDERS = pytest.mark.parametrize("norm_first", [True, False], ids=["pre-norm", "post-norm"])
HALF_PRECISION = pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["float16", "bfloat16"])
MODULE_TOLERANCE = 1e-4  # of whole blocks: many products are added up
DROPOUT = 0.3  # not a half: then keeping and dropping could be mistaken for each other


# --- blocks with new weights, one for each side ---


def transformer_shapes(sizes):
    """The parameters of a TransformerBlock."""
    C, F = sizes["hidden_size"], sizes["intermediate_size"]
    D = sizes["head_dim"]
    q, kv = sizes["num_heads"] * D, sizes["num_kv_heads"] * D
    return {
        "input_layernorm.weight": (C,),
        "self_attn.q_proj.weight": (q, C),
        "self_attn.k_proj.weight": (kv, C),
        "self_attn.v_proj.weight": (kv, C),
        "self_attn.o_proj.weight": (C, q),
        "self_attn.q_norm.weight": (D,),
        "self_attn.k_norm.weight": (D,),
        "post_attention_layernorm.weight": (C,),
        "mlp.gate_proj.weight": (F, C),
        "mlp.up_proj.weight": (F, C),
        "mlp.down_proj.weight": (C, F),
    }


def gpt_shapes(width):
    """The parameters of a GPTBlock."""
    return {
        **{f"{norm}.{kind}": (width,) for norm in ("ln_1", "ln_2") for kind in ("weight", "bias")},
        "attn.qkv_proj.weight": (3 * width, width),
        "attn.qkv_proj.bias": (3 * width,),
        "attn.out_proj.weight": (width, width),
        "attn.out_proj.bias": (width,),
        "mlp.fc_in.weight": (4 * width, width),
        "mlp.fc_in.bias": (4 * width,),
        "mlp.fc_out.weight": (width, 4 * width),
        "mlp.fc_out.bias": (width,),
    }


def new_weights(shapes, dtype=torch.float32, zero=()):
    """Weights that are all different; branches come out about as large as x. Those whose name begins with one of `zero` are 0."""
    weights = {}
    for name, shape in shapes.items():
        scale = 0.4 if len(shape) > 1 else 1.0
        weights[name] = randn(*shape, dtype=dtype, scale=scale, blunt="the shape of a parameter")
        if name.startswith(tuple(zero)):
            weights[name].zero_()
    return weights


def load(blocks, weights):
    """The same weights, in their dtype, into both blocks."""
    for block in blocks:
        dtype = next(iter(weights.values())).dtype
        if dtype != torch.float32:
            block.to(dtype)
        block.load_state_dict(weights)
    return blocks


def transformer_blocks(learner, reference, layer_idx=(), *, zero=(), dtype=torch.float32, **changes):
    """The learner's TransformerBlock and the reference's."""
    sizes = {**SIZES, **changes}
    pair = [side.TransformerBlock(side.file("config").ModelConfig(**sizes), *layer_idx) for side in (learner, reference)]
    return load(pair, new_weights(transformer_shapes(sizes), dtype, zero))


def gpt_blocks(learner, reference, *arguments, width=WIDTH, heads=HEADS, zero=(), dtype=torch.float32, **keywords):
    """The learner's GPTBlock and the reference's."""
    pair = [side.GPTBlock(width, heads, *arguments, **keywords) for side in (learner, reference)]
    return load(pair, new_weights(gpt_shapes(width), dtype, zero))


def blocks(learner, reference, kind, **options):
    """A pair of blocks of one kind."""
    if kind == "TransformerBlock":
        return transformer_blocks(learner, reference, **options)
    return gpt_blocks(learner, reference, norm_first=kind == PRE_NORM, **options)


def last_layers(kind):
    """The last layer of each branch: zero, it silences the branch."""
    return ("self_attn.o_proj", "mlp.down_proj") if kind == "TransformerBlock" else ("attn.out_proj", "mlp.fc_out")


def inputs(kind, batch=B, tokens=T, scale=1.0, dtype=torch.float32, blunt=None):
    """The arguments of one call: x, and for a TransformerBlock the position embeddings, in float32."""
    x = randn(batch, tokens, C if kind == "TransformerBlock" else WIDTH, scale=scale, dtype=dtype, blunt=blunt)
    return (x, positions(tokens)) if kind == "TransformerBlock" else (x,)


def positions(tokens, *batch, head_dim=D):
    """Position embeddings (cos, sin) of `tokens` tokens: any angles, the same in both halves of a head."""
    angles = randn(*batch, tokens, head_dim // 2, scale=2.0, blunt="a table of angles")
    angles = torch.cat([angles, angles], dim=-1)
    return angles.cos(), angles.sin()


def assert_parameters(block, shapes):
    """These parameters, all of them to be trained, and nothing else in the state dict."""
    found = {name: info.shape for name, info in block.parameters().items()}
    missing, more = sorted(shapes.keys() - found.keys()), sorted(found.keys() - shapes.keys())
    if missing or more:
        fail(f"Among the parameters {missing or 'none'} are missing, and {more or 'none'} are more than there should be.")
    for name, shape in shapes.items():
        if found[name] != shape:
            fail(f"{name} has shape {list(found[name])}, but for these sizes it should be {list(shape)}.")
    if block.state_dict().keys() != shapes.keys():
        fail("The state dict has other entries than the parameters.")
    if not all(info.requires_grad for info in block.parameters().values()):
        fail("Some parameter does not ask for gradients.")


def assert_gradients(mine, right, *arguments):
    """The gradients of the output, for x and for every parameter, are the reference's."""
    x = arguments[0]
    cotangent = randn(*x.shape)
    actual, expected = mine.vjp(*arguments, cotangent=cotangent), right.vjp(*arguments, cotangent=cotangent)
    assert_close(actual.output, expected.output, tolerance=MODULE_TOLERANCE)
    pairs = [("x", actual.inputs[0], expected.inputs[0])]
    pairs += [(f"`{name}`", actual.parameters.get(name), gradient) for name, gradient in expected.parameters.items()]
    for name, gradient, correct in pairs:
        assert_close(gradient, correct, what=f"the gradient of the output for {name}", tolerance=MODULE_TOLERANCE)


def assert_thinned(block, arguments, branch, kept_factor):
    """In training a block returns x plus a branch of which each element is dropped, or kept and multiplied."""
    x = arguments[0]
    y, again = block(*arguments), block(*arguments)
    assert_shape(y, x.shape)
    kept = y != x
    assert_close(y, torch.where(kept, x + branch * kept_factor, x), tolerance=MODULE_TOLERANCE)
    for axis in range(kept.dim()):
        if kept.shape[axis] > 1 and (kept == kept.narrow(axis, 0, 1)).all():
            fail(f"Everything along axis {axis} is dropped together; each element should be drawn for itself.")
    kept = kept[kept.flatten(1).any(dim=1)]  # sequences of which anything is left
    share = 1.0 - kept.float().mean().item()
    if not abs(share - DROPOUT) < 0.1:
        fail(f"With dropout = {DROPOUT}, {share:.0%} of the elements of a branch were dropped.")
    if torch.equal(again, y):
        fail("Two calls dropped the very same elements.")


def post_norm_outputs(state, x, choices, of_attention):
    """What a post-norm GPTBlock gives for single tokens if a branch is multiplied by one of the choices; the other branch is 0."""
    functional = torch.nn.functional

    def linear(name, x, rows=slice(None)):
        return functional.linear(x, state[f"{name}.weight"][rows], state[f"{name}.bias"][rows])

    def norm(name, x):
        return functional.layer_norm(x, x.shape[-1:], state[f"{name}.weight"], state[f"{name}.bias"])

    if of_attention:
        branch = linear("attn.out_proj", linear("attn.qkv_proj", x, slice(2 * x.shape[-1], None)))
        return norm("ln_2", norm("ln_1", x + branch * choices))
    h = norm("ln_1", x)
    return norm("ln_2", h + linear("mlp.fc_out", functional.gelu(linear("mlp.fc_in", h))) * choices)


# --- shape ---


@points(0.75, "shape")
@pytest.mark.parametrize("name", ["TransformerBlock", "GPTBlock"])
def test_a_block_has_these_parameters_and_no_others(learner, reference, name):
    """Names and shapes are the contract's, so that a checkpoint fits without remainder."""
    if name == "GPTBlock":
        for width, heads in ((WIDTH, HEADS), (10, 5)):
            assert_parameters(learner.GPTBlock(width, heads), gpt_shapes(width))
            mine, right = gpt_blocks(learner, reference, width=width, heads=heads)
            assert_module_close(mine, right, randn(B, T, width))
        return
    for changes in ({}, {"hidden_size": 20, "intermediate_size": 16, "num_heads": 3, "num_kv_heads": 3, "head_dim": 4}):
        sizes = {**SIZES, **changes}
        block = learner.TransformerBlock(learner.file("config").ModelConfig(**sizes))
        assert_parameters(block, transformer_shapes(sizes))
        mine, right = transformer_blocks(learner, reference, **changes)
        x = randn(B, T, sizes["hidden_size"])
        assert_module_close(mine, right, x, positions(T, head_dim=sizes["head_dim"]))


@points(0.25, "shape")
@EVERY_KIND
def test_one_sequence_or_one_token_will_do(learner, reference, kind):
    """Axes of length 1 stay: one sequence, one token, or both."""
    mine, right = blocks(learner, reference, kind)
    for batch, tokens in ((1, T), (B, 1), (1, 1)):
        assert_module_close(mine, right, *inputs(kind, batch, tokens, blunt="axes of length 1 are the point"))


# --- numerics ---


@points(1, "numerics")
@pytest.mark.parametrize("eps", [1e-6, 0.3], ids=["eps=1e-6", "eps=0.3"])
def test_a_transformer_block_norms_each_branch_and_adds_it(learner, reference, eps):
    """h = x + attention(norm(x)), then h + mlp(norm(h)): each norm with its own weight and the config's eps."""
    mine, right = transformer_blocks(learner, reference, rms_norm_eps=eps)
    for scale in (1.0, 0.2):
        assert_module_close(mine, right, randn(B, T, C, scale=scale), positions(T))
    assert_module_close(mine, right, randn(B, T, C), position_embeddings=positions(T, B))  # a table for every sequence
    mine, right = transformer_blocks(learner, reference, rms_norm_eps=eps, use_flash=False, intermediate_size=9)
    assert_module_close(mine, right, randn(B, T, C, scale=3.0), positions(T))


@points(0.25, "numerics")
@EVERY_KIND
def test_without_its_branches_a_block_is_the_identity(learner, reference, kind):
    """With the last layer of each branch zero, a pre-norm block returns x itself, and a post-norm block normed tokens."""
    x, *where = inputs(kind, scale=5.0)
    x += 3.0
    mine, right = blocks(learner, reference, kind, zero=last_layers(kind))
    if kind == POST_NORM:
        assert_module_close(mine, right, x, *where)
    else:
        assert_equal(mine(x, *where), x)
    for zero in last_layers(kind):  # and with one branch, that one is added
        mine, right = blocks(learner, reference, kind, zero=(zero,))
        assert_module_close(mine, right, *inputs(kind))


@points(0.5, "numerics")
def test_the_attention_mask_reaches_attention(learner, reference):
    """Keys that are padding are seen by nobody, in training or not: on the left, on the right, scattered, as numbers or as bool."""
    mine, right = transformer_blocks(learner, reference)
    x, where = randn(B, T, C), positions(T)
    for mode in (True, False):
        for block in (mine, right):
            block.train(mode)
        assert_module_close(mine, right, x, where)
        for rows in ([[0, 0, 1, 1, 1], [1, 1, 1, 1, 0]], [[1, 0, 1, 1, 0], [0, 1, 1, 1, 1]]):
            mask = torch.tensor(rows)
            assert_module_close(mine, right, x, where, mask)
            assert_module_close(mine, right, x, where, attention_mask=mask.bool())


@points(0.25, "numerics")
def test_the_position_embeddings_reach_attention_as_they_are(learner, reference):
    """Attention is given cos and sin as the block was: in float32, also if the block itself is float16 or bfloat16."""
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        mine, right = transformer_blocks(learner, reference, dtype=dtype)
        x, (cos, sin) = randn(B, T, C, dtype=dtype), positions(T)
        output, given = learner.file("props").given_to("self_attn", mine, x, (cos, sin))
        assert_close(output, right(x, (cos, sin)), tolerance={torch.float32: 1e-4, torch.float16: 2e-2}.get(dtype, 1e-1))
        for name, right_one in (("cos", cos), ("sin", sin)):
            if given and not any(one.dtype == right_one.dtype and torch.equal(one, right_one) for one in given):
                fail(f"In a block of {str(dtype).removeprefix('torch.')}, attention is given another {name} than the block.")


@points(0.5, "numerics")
def test_the_cache_reaches_attention(learner, reference):
    """With a cache, chunks of 2, 3 and 1 tokens give what they should, each stored once, under this layer's number."""
    mine, right = transformer_blocks(learner, reference, (3,))
    sides = [(mine, learner.file("props").RecordingCache()), (right, reference.file("props").RecordingCache())]
    mask = torch.tensor([[0, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1]])
    chunks = [(randn(B, tokens, C, blunt="a chunk"), positions(tokens)) for tokens in (2, 3, 1)]
    outputs = []
    for block, cache in sides:
        first = block(*chunks[0], mask[:, :2], cache)
        second = block(*chunks[1], attention_mask=mask[:, :5], cache=cache)
        outputs.append([first, second, block(*chunks[2], mask, cache)])
    assert_chunks_close(*outputs)
    updates = sides[0][1].get("updates")
    if len(updates) != 3:
        fail(f"The cache was updated {len(updates)} times in 3 calls.")
    if any(update[0] != 3 for update in updates):
        fail(f"A block with layer_idx = 3 updates layer {updates[0][0]} of the cache.")
    # Without a number, it is layer 0.
    mine, right = transformer_blocks(learner, reference)
    cache = learner.file("props").RecordingCache()
    output = mine(*chunks[0], cache=cache)
    assert_close(output, right(*chunks[0]), tolerance=MODULE_TOLERANCE)
    if cache.get("updates")[0][0] != 0:
        fail("A block without layer_idx is not layer 0 of the cache.")


@points(1, "numerics")
@BOTH_ORDERS
def test_a_gpt_block_norms_before_or_after(learner, reference, norm_first):
    """Pre-norm: x + attn(ln_1(x)), then h + mlp(ln_2(h)). Post-norm: ln_1(x + attn(x)), then ln_2(h + mlp(h))."""
    mine, right = gpt_blocks(learner, reference, norm_first=norm_first)
    assert_module_close(mine, right, randn(B, T, WIDTH))
    assert_module_close(mine, right, randn(3, T + 2, WIDTH, scale=4.0) + 2.0)
    for heads in (1, 4, WIDTH):
        mine, right = gpt_blocks(learner, reference, 0.0, norm_first, heads=heads)
        assert_module_close(mine, right, randn(B, T, WIDTH))
    if norm_first:  # what it is unless asked otherwise
        mine, right = gpt_blocks(learner, reference)
        assert_module_close(mine, right, randn(B, T, WIDTH))


@points(0.25, "numerics")
@EVERY_KIND
def test_no_token_sees_the_ones_after_it(learner, reference, kind):
    """Changing the last two tokens changes nothing before them."""
    mine, right = blocks(learner, reference, kind)
    for mode, count in ((True, T), (False, 40)):
        for block in (mine, right):
            block.train(mode)
        x, *where = inputs(kind, tokens=count)
        before = assert_module_close(mine, right, x, *where)
        x[:, -2:] = randn(B, 2, x.shape[-1], blunt="two new tokens")
        after = assert_module_close(mine, right, x, *where)
        assert_close(after[:, :-2], before[:, :-2], what="what comes before the tokens that were changed")


@points(0.25, "numerics")
@BOTH_ORDERS
def test_layer_norms_eps_is_its_default(learner, reference, norm_first):
    """Tokens as small as sqrt(1e-5) show which eps the two LayerNorms of a GPTBlock have."""
    for zero in (("attn.out_proj", "mlp.fc_out.bias"), ("mlp.fc_out", "attn.out_proj.bias")):  # one branch at a time
        mine, right = gpt_blocks(learner, reference, norm_first=norm_first, zero=zero)
        assert_module_close(mine, right, randn(B, T, WIDTH, scale=3e-3))


@points(0.25, "numerics")
@EVERY_KIND
@HALF_PRECISION
def test_blocks_work_in_half_precision(learner, reference, kind, dtype):
    """With float16 or bfloat16 weights and tokens, the output has that dtype and is right to its precision."""
    mine, right = blocks(learner, reference, kind, dtype=dtype)
    # Roundings in the middle of a block grow on the way out, so the output's own rounding is not the whole of it.
    tolerance = 2e-2 if dtype == torch.float16 else 1e-1
    assert_module_close(mine, right, *inputs(kind, dtype=dtype), tolerance=tolerance)


@points(0.5, "numerics")
def test_a_transformer_block_drops_each_branch_once(learner, reference):
    """In training each branch's output is dropped once before it is added; with dropout 1 nothing but x is left."""
    keep = 1 - DROPOUT
    # Only the feed-forward branch.
    mine, right = transformer_blocks(learner, reference, zero=("self_attn.o_proj",), dropout=DROPOUT)
    x, where = randn(16, T, C), positions(T)
    right.eval()
    assert_module_close(mine.eval(), right, x, where, what="the output in eval mode")
    learner.file("props").seed(7)
    assert_thinned(mine.train(), (x, where), right(x, where) - x, 1 / keep)
    # Only the attention branch: with one head and one token, attention's own dropout takes a whole row, or keeps it.
    mine, right = transformer_blocks(learner, reference, zero=("mlp.down_proj",), dropout=DROPOUT, num_heads=1, num_kv_heads=1)
    x, where = randn(64, 1, C, blunt="one token"), positions(1)
    right.eval()
    assert_module_close(mine.eval(), right, x, where, what="the output in eval mode")
    learner.file("props").seed(7)
    assert_thinned(mine.train(), (x, where), right(x, where) - x, 1 / keep**2)
    if not mine.training:
        fail("A call has switched the block's training mode off.")
    mine, right = transformer_blocks(learner, reference, dropout=1.0)
    x, where = randn(B, T, C), positions(T)
    assert_equal(mine.train()(x, where), x, what="the output with dropout = 1")
    assert_module_close(mine.eval(), right.eval(), x, where, what="the output in eval mode")


@points(0.25, "numerics")
def test_a_pre_norm_gpt_block_drops_each_branch_once(learner, reference):
    """In training each branch's output is dropped once before it is added, and attention's weights never are."""
    for zero in last_layers(PRE_NORM):  # only the other branch
        mine, right = gpt_blocks(learner, reference, DROPOUT, zero=(zero,))
        x = randn(16, T, WIDTH)
        right.eval()
        assert_module_close(mine.eval(), right, x, what="the output in eval mode")
        learner.file("props").seed(7)
        assert_thinned(mine.train(), (x,), right(x) - x, 1 / (1 - DROPOUT))
        if not mine.training:
            fail("A call has switched the block's training mode off.")
    mine, _ = gpt_blocks(learner, reference, dropout=1.0)
    x = randn(B, T, WIDTH)
    assert_equal(mine.train()(x), x, what="the output with dropout = 1")


@points(0.25, "numerics")
def test_a_post_norm_gpt_block_drops_each_branch_once(learner, reference):
    """In training each branch's output is dropped once before it is added, and the sum is normed afterwards."""
    width = 4  # so few channels that every choice of dropped ones can be tried
    for zero in last_layers(POST_NORM):  # only the other branch
        mine, right = gpt_blocks(learner, reference, DROPOUT, False, width=width, heads=2, zero=(zero,))
        x = randn(16, 1, width, blunt="one token: its attention is its own value")
        assert_module_close(mine.eval(), right.eval(), x, what="the output in eval mode")
        learner.file("props").seed(7)
        y = mine.train()(x)
        assert_shape(y, x.shape)
        choices = torch.cartesian_prod(*[torch.tensor([0.0, 1.0])] * width) / (1 - DROPOUT)  # [16, width]
        expected = post_norm_outputs(right.state_dict(), x, choices, of_attention=zero == "mlp.fc_out")
        nearest = (expected - y).abs().amax(dim=-1).amin(dim=1)  # of all choices, for each token
        if not (nearest < 1e-3).all():
            fail(
                "No choice of dropped elements leads to the output: each is 0, or divided by 1 - dropout, and then comes the norm."
            )
    mine, right = gpt_blocks(learner, reference, dropout=1.0, norm_first=False)
    x = randn(B, T, WIDTH)
    assert_module_close(mine.train(), right.train(), x, what="the output with dropout = 1")  # only the norms are left


# --- gradients ---


@points(1.5, "gradients")
@EVERY_KIND
def test_gradients_flow_through_the_branches_and_around_them(learner, reference, kind):
    """x and every parameter get the right gradient; in a TransformerBlock also with a mask."""
    mine, right = blocks(learner, reference, kind)
    assert_gradients(mine, right, *inputs(kind))
    if kind == "TransformerBlock":
        mask = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 0, 1, 1]])
        assert_gradients(mine, right, *inputs(kind), mask)


# --- robustness ---


@points(0.25, "robustness")
@EVERY_KIND
def test_inputs_need_not_be_contiguous(learner, reference, kind):
    """x, the position embeddings and the mask may be transposed or expanded views."""
    mine, right = blocks(learner, reference, kind)
    x, *where = inputs(kind)
    assert_module_close(mine, right, x.transpose(0, 1).contiguous().transpose(0, 1), *where)
    assert_module_close(mine, right, x[:1].expand(B, -1, -1), *where)
    if kind == "TransformerBlock":
        where = tuple(noncontiguous(table) for table in where[0])
        mask = noncontiguous(torch.tensor([[0, 1, 1, 1, 1], [1, 1, 1, 1, 0]]))
        assert_module_close(mine, right, noncontiguous(x), where, mask)
    else:
        assert_module_close(mine, right, noncontiguous(x))


@points(0.5, "robustness")
@EVERY_KIND
def test_the_arguments_are_left_as_they_were(learner, reference, kind):
    """x, the position embeddings and the mask hold the same numbers after the call as before, in training and in eval mode."""
    mine, right = blocks(learner, reference, kind)
    arguments = inputs(kind)
    if kind == "TransformerBlock":
        arguments = (*arguments, torch.tensor([[0, 1, 1, 1, 1], [1, 1, 1, 1, 0]]))
    for block in (mine.train(), mine.eval()):
        output = assert_arguments_unchanged(block.forward, *arguments)
        assert_close(output, right(*arguments), tolerance=MODULE_TOLERANCE)


@points(0.5, "robustness")
def test_heads_must_share_the_width_evenly(learner, reference):
    """A GPTBlock whose hidden_size is no multiple of num_heads raises ValueError that names both and gives their values."""
    for norm_first in (True, False):
        mine, right = gpt_blocks(learner, reference, norm_first=norm_first)
        assert_module_close(mine, right, randn(B, T, WIDTH))
    bad = [(10, 3), (4, 8), (12 * randint(2, 9, blunt="any width").item() + 1, 12)]
    for hidden_size, num_heads in bad:
        for naming, value in (("hidden_size", hidden_size), ("num_heads", num_heads)):
            assert_value_error(learner.GPTBlock, hidden_size, num_heads, naming=naming, values=[value])
    assert_value_error(learner.GPTBlock, hidden_size=9, num_heads=2, norm_first=False, naming="hidden_size", values=[9])


# --- between calls: in a process of its own, before any other call can be remembered ---


@points(0.5, "robustness")
@pytest.mark.parametrize("kind", KINDS[:2])
def test_a_block_keeps_nothing_from_one_call_to_the_next(fresh_learner, reference, kind):
    """Other sequences, longer and shorter ones, two blocks side by side, new weights: each call stands alone."""
    one, right_one = blocks(fresh_learner, reference, kind)
    other, right_other = blocks(fresh_learner, reference, kind)
    first = inputs(kind)
    kept = one.keep(*first)
    assert_module_close(other, right_other, *first)
    for tokens in (T, T + 2, T - 2):
        assert_module_close(one, right_one, *inputs(kind, 3, tokens, blunt="other lengths"))
    assert_close(kept.fetch(), right_one(*first), what="an output that was kept", tolerance=MODULE_TOLERANCE)
    if kind == "TransformerBlock":  # a call with a cache and a mask, then one with a new cache alone, and one without
        for mask in (None, torch.tensor([[0, 0, 1, 1, 1], [1, 0, 1, 1, 1]]), None):
            cache, right_cache = (side.file("props").RecordingCache() for side in (fresh_learner, reference))
            output, expected = one(*first, mask, cache), right_one(*first, mask, right_cache)
            assert_close(output, expected, what="the output with a new cache", tolerance=MODULE_TOLERANCE)
        assert_module_close(one, right_one, *first)
    shapes = transformer_shapes(SIZES) if kind == "TransformerBlock" else gpt_shapes(WIDTH)
    load((one, right_one), new_weights(shapes))
    assert_module_close(one, right_one, *first, what="the output after new weights were loaded")


# --- by hand ---


@points(0.5, "by_hand")
def test_the_blocks_are_written_by_hand(learner, reference, by_hand):
    """The right answer, without torch's own Transformer layers under any name."""
    mine, right = transformer_blocks(learner, reference)
    assert_module_close(mine, right, randn(B, T, C), positions(T))
    for norm_first in (True, False):
        mine, right = gpt_blocks(learner, reference, norm_first=norm_first)
        assert_module_close(mine, right, randn(B, T, WIDTH))
    by_hand.assert_clean()
