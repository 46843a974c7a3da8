"""The grading suite of 10 · multi-head attention: the eight steps in a row, with a cache or without, in training or not."""

import pytest
import torch

from grader.suite import (
    assert_arguments_unchanged,
    assert_chunks_close,
    assert_close,
    assert_equal,
    assert_module_close,
    fail,
    noncontiguous,
    points,
    rand_bool,
    randint,
    randn,
    uniform,
)

# Batch, tokens, and a model whose sizes are all different; all heads together are wider (H * D = 48) than the stream (C = 44).
B, T = 3, 5
SIZES = {"hidden_size": 44, "num_heads": 8, "num_kv_heads": 4, "head_dim": 6}
CHUNKS = [2, 3, 1]
FUSED = ["torch.nn.functional.scaled_dot_product_attention"]


def build(side, *layer_idx, **changes):
    """An `Attention` on one side."""
    return side.Attention(side.file("config").ModelConfig(**{**SIZES, **changes}), *layer_idx)


def random_weights(hidden_size, num_heads, num_kv_heads, head_dim, **_):
    """Weights of size about 1 in their effect, all different, under the contract's names."""
    why = "a weight's shape is what the sizes make it"
    wide, narrow = num_heads * head_dim, num_kv_heads * head_dim
    return {
        "q_proj.weight": randn(wide, hidden_size, scale=0.3, blunt=why),
        "k_proj.weight": randn(narrow, hidden_size, scale=0.3, blunt=why),
        "v_proj.weight": randn(narrow, hidden_size, scale=0.3, blunt=why),
        "o_proj.weight": randn(hidden_size, wide, scale=0.3, blunt=why),
        "q_norm.weight": 1.2 + randn(head_dim, scale=0.4),
        "k_norm.weight": 1.2 + randn(head_dim, scale=0.4),
    }


def pair(learner, reference, *layer_idx, **changes):
    """The learner's module and the reference's, with the same weights."""
    weights = random_weights(**{**SIZES, **changes})
    modules = [build(side, *layer_idx, **changes) for side in (learner, reference)]
    for module in modules:
        module.load_state_dict(weights)
    return modules


def tokens(count=T, batch=B, channels=SIZES["hidden_size"], **keywords):
    """A batch of hidden states."""
    return randn(batch, count, channels, **keywords)


def rotary(positions, head_dim=SIZES["head_dim"]):
    """cos and sin for tokens at these positions, each [..., D], as exercise 04 makes them for a small theta."""
    angles = positions[..., None].float() * 0.4 ** torch.arange(head_dim // 2)
    angles = torch.cat([angles, angles], dim=-1)
    return angles.cos(), angles.sin()


def some_positions(count=T):
    """Positions of `count` tokens in a row, the first of them not 0."""
    return torch.arange(count) + int(randint(1, 40, 1, blunt="one number"))


def recording_cache(side):
    """A keyword `cache` for `assert_module_close`: a new one that writes down what it is told, and that counts as false."""
    return {"cache": side.file("props").RecordingCache()}


def scattered_pads(keys):
    """An attention_mask [B, keys]: left padding, right padding, and holes."""
    mask = torch.ones(B, keys, dtype=torch.int64)
    mask[0, : int(randint(1, keys - 1, 1, blunt="one number"))] = 0
    mask[1, -int(randint(1, keys - 1, 1, blunt="one number")) :] = 0
    mask[2, int(randint(1, keys - 1, 1, blunt="one number"))] = 0
    return mask


def run_in_chunks(side, module, x, mask=None, sizes=CHUNKS):
    """The outputs of chunk after chunk on one cache, and the cache."""
    cos, sin = rotary(torch.arange(x.shape[1]))
    cache, outputs, start = side.file("props").RecordingCache(), [], 0
    for size in sizes:
        end = start + size
        keywords = {} if mask is None else {"attention_mask": mask[:, :end]}
        outputs.append(module(x[:, start:end], (cos[start:end], sin[start:end]), cache=cache, **keywords))
        start = end
    return outputs, cache


# --- between calls: in a process of its own, before any other call can be remembered ---


@points(0.75, "robustness")
def test_nothing_is_kept_from_call_to_call(fresh_learner, reference):
    """Two prompts one after the other, of other lengths, at other positions, with a cache and without: each as if alone."""
    module, right = pair(fresh_learner, reference)
    first, second = tokens(), tokens(7)
    start = some_positions(20)
    assert_module_close(module, right, first, rotary(start[:T]))
    apart = rotary(start[:T] * 3)  # three steps from token to token: only distances show in the output
    assert_module_close(module, right, first, apart, what="the output at other positions")
    assert_module_close(module, right, second, rotary(start[:7]), what="the output for a longer prompt")
    for x in (first, tokens()):
        assert_module_close(module, right, x, rotary(start[:T]), per_side=recording_cache, what="the output with a new cache")
    for mask in (scattered_pads(T), scattered_pads(T)):
        assert_module_close(module, right, first, rotary(start[:T]), mask, what="the output with padding")
    one = tokens(4, batch=2)
    assert_module_close(module, right, one, rotary(start[:4]), what="the output for a smaller batch, without a cache")
    kept = module.keep(first, rotary(start[:T]))
    module(tokens(), rotary(start[:T]))
    assert_close(kept.fetch(), right(first, rotary(start[:T])), what="a result that was kept", tolerance=1e-4)
    if fresh_learner.file("props").left_behind(module, [first, rotary(start[:T])], [tokens(), rotary(start[:T] + 1)]):
        fail("After a call, tensors that were made of its x or its positions stay behind in the layer.")


# --- shape ---


@points(1, "shape")
@pytest.mark.parametrize(
    ("num_heads", "num_kv_heads", "head_dim"),
    [(8, 4, 6), (6, 6, 10), (8, 1, 4)],
    ids=["K=H/2", "K=H", "K=1"],
)
def test_parameters_have_the_names_and_shapes_of_the_contract(learner, reference, num_heads, num_kv_heads, head_dim):
    """q_proj, k_proj, v_proj, o_proj, q_norm and k_norm, each one weight and no bias, and nothing else in the state dict."""
    sizes = {"num_heads": num_heads, "num_kv_heads": num_kv_heads, "head_dim": head_dim}
    module, right = pair(learner, reference, **sizes)
    actual, expected = module.parameters(), right.parameters()
    for name, info in expected.items():
        if name not in actual:
            fail(f"There is no parameter {name}.")
        if actual[name].shape != info.shape:
            fail(f"{name} has the shape {list(actual[name].shape)}.")
        if not actual[name].requires_grad or actual[name].dtype != info.dtype:
            fail(f"{name} is not a float32 parameter that learns.")
    for name in [*actual, *module.state_dict()]:
        if name not in expected:
            fail(f"{name} is more than the contract has.")
    assert_module_close(module, right, tokens(), rotary(some_positions(), head_dim))


@points(0.5, "shape")
@pytest.mark.parametrize(("batch", "count"), [(1, T), (B, 1), (1, 1)], ids=["B=1", "T=1", "B=T=1"])
def test_one_sequence_or_one_token_is_enough(learner, reference, batch, count):
    """The output is [B, T, C] like the input, also for one sequence, or one token."""
    module, right = pair(learner, reference)
    x = tokens(count, batch, blunt="axes of length 1 are the point")
    assert_module_close(module, right, x, rotary(some_positions(count)))
    assert_module_close(module, right, x, rotary(some_positions(count)), per_side=recording_cache)


@points(0.5, "shape")
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=["float64", "bfloat16"])
def test_a_module_of_another_dtype(learner, reference, dtype):
    """Converted to float64 or bfloat16 the module takes and gives that dtype, while cos and sin stay float32."""
    module, right = pair(learner, reference)
    for one in (module, right):
        one.to.keep(dtype)
    tolerance = 6e-2 if dtype == torch.bfloat16 else 1e-4
    for count, mask in ((T, None), (T, scattered_pads(T)), (1, None)):
        x = tokens(count, dtype=dtype, blunt="one token is a case of its own")
        assert_module_close(module, right, x, rotary(some_positions(count)), mask, tolerance=tolerance)
    assert_module_close(
        module, right, tokens(dtype=dtype), rotary(some_positions()), per_side=recording_cache, tolerance=tolerance
    )


# --- numerics ---


@points(1, "numerics")
def test_the_eight_steps(learner, reference):
    """Project, QK-Norm, RoPE, repeat_kv, attention, merge the heads in order, o_proj: the right numbers without a cache."""
    module, right = pair(learner, reference)
    assert_module_close(module, right, tokens(), rotary(some_positions()))
    assert_module_close(
        module, right, x=tokens(7), position_embeddings=rotary(some_positions(7)), attention_mask=None, cache=None
    )


@points(1, "numerics")
@pytest.mark.parametrize(("num_heads", "num_kv_heads"), [(6, 6), (6, 2), (6, 1), (9, 3)], ids=["MHA", "6 to 2", "MQA", "9 to 3"])
def test_any_number_of_heads_may_share_keys_and_values(learner, reference, num_heads, num_kv_heads):
    """Every query head has its own keys (MHA), groups share them (GQA), or all do (MQA)."""
    module, right = pair(learner, reference, num_heads=num_heads, num_kv_heads=num_kv_heads)
    assert_module_close(module, right, tokens(), rotary(some_positions()))
    assert_module_close(module, right, tokens(), rotary(some_positions()), per_side=recording_cache)


@points(0.5, "numerics")
@pytest.mark.parametrize(("hidden_size", "head_dim"), [(48, 6), (30, 6), (64, 2)], ids=["H*D=C", "H*D>C", "H*D<C"])
def test_head_dim_is_a_number_of_its_own(learner, reference, hidden_size, head_dim):
    """All heads together may be as wide as the residual stream, wider, or narrower."""
    module, right = pair(learner, reference, hidden_size=hidden_size, head_dim=head_dim)
    x = tokens(channels=hidden_size)
    assert_module_close(module, right, x, rotary(some_positions(), head_dim))


@points(0.5, "numerics")
def test_every_row_may_stand_at_positions_of_its_own(learner, reference):
    """cos and sin may be [T, D], the same for the whole batch, or [B, T, D]."""
    module, right = pair(learner, reference)
    positions = torch.stack([some_positions() for _ in range(B)]) * torch.tensor([[1], [2], [3]])
    assert_module_close(module, right, tokens(), rotary(positions))
    assert_module_close(module, right, tokens(), rotary(positions[1]), what="the output with the same positions for all rows")


@points(0.75, "numerics")
@pytest.mark.parametrize("eps", [1e-6, 1e-2, 0.5])
def test_the_eps_of_the_configuration_reaches_both_norms(learner, reference, eps):
    """rms_norm_eps is the eps of q_norm and k_norm; small inputs show which one is used."""
    size = 0.5 * eps**0.5  # the squares of q and k are about as large as eps
    weights = random_weights(**SIZES)
    weights["v_proj.weight"] /= size  # and the values stay large enough for differences to count
    module, right = build(learner, rms_norm_eps=eps), build(reference, rms_norm_eps=eps)
    for one in (module, right):
        one.load_state_dict(weights)
    assert_module_close(module, right, tokens(scale=size), rotary(some_positions()))


@points(0.5, "numerics")
@pytest.mark.parametrize("use_flash", [True, False], ids=["flash", "by hand"])
def test_no_token_sees_a_later_one(learner, reference, use_flash):
    """What a token gives out does not change when the tokens after it change."""
    module, right = pair(learner, reference, use_flash=use_flash)
    x, other = tokens(), tokens()
    where = rotary(some_positions())
    before = assert_module_close(module, right, x, where)
    for known in (1, 2, 4):
        mixed = torch.cat([x[:, :known], other[:, known:]], dim=1)
        after = assert_module_close(module, right, mixed, where)
        what = f"the output of the first {known} tokens after the others were changed"
        assert_close(after[:, :known], before[:, :known], what=what, tolerance=1e-4)


@points(1, "numerics")
@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.float32], ids=["bool", "int64", "float32"])
@pytest.mark.parametrize("use_flash", [True, False], ids=["flash", "by hand"])
def test_padding_is_seen_by_no_token(learner, reference, dtype, use_flash):
    """Pads on the left, on the right or in between, others in every row; a mask of ones is as good as none."""
    module, right = pair(learner, reference, use_flash=use_flash)
    x, where, mask = tokens(), rotary(some_positions()), scattered_pads(T)
    before = assert_module_close(module, right, x, where, mask.to(dtype))
    assert_module_close(module, right, x, where, attention_mask=torch.ones(B, T).to(dtype), what="the output for a mask of ones")
    loud = torch.where(mask[..., None] == 1, x, 9.0 * tokens())
    after = assert_module_close(module, right, loud, where, attention_mask=mask.to(dtype))
    real = mask[..., None] == 1
    what = "the output of real tokens after the pads were changed"
    assert_close(after.where(real, 0.0), before.where(real, 0.0), what=what, tolerance=1e-4)


@points(1, "numerics")
@pytest.mark.parametrize("num_kv_heads", [8, 4, 1], ids=["MHA", "GQA", "MQA"])
def test_chunks_on_a_cache_give_what_the_whole_prompt_gives(learner, reference, num_kv_heads):
    """Six tokens in chunks of 2, 3 and 1: each gets what it gets in one forward pass, because the cache holds its past."""
    module, right = pair(learner, reference, num_kv_heads=num_kv_heads)
    x = tokens(sum(CHUNKS))
    for mode in (True, False):  # in training mode, where nothing is dropped, and in evaluation
        for one in (module, right):
            one.train(mode)
        outputs, _ = run_in_chunks(learner, module, x)
        expected, _ = run_in_chunks(reference, right, x)
        assert_chunks_close(outputs, expected)
    whole = module(x, rotary(torch.arange(sum(CHUNKS))))
    assert_close(whole, torch.cat(outputs, dim=1), what="the output of the whole prompt, next to its chunks", tolerance=1e-4)


@points(0.75, "numerics")
def test_padding_and_a_cache_together(learner, reference):
    """attention_mask covers past and new tokens: pads of earlier chunks stay hidden, in every row its own."""
    module, right = pair(learner, reference)
    x = tokens(sum(CHUNKS))
    mask = torch.ones(B, sum(CHUNKS), dtype=torch.int64)
    mask[0, 0], mask[1, :3], mask[2, 2:4] = 0, 0, 0
    for marks in (mask, mask.bool(), torch.ones_like(mask)):
        for one in (module, right):
            one.train(marks is mask)
        outputs, _ = run_in_chunks(learner, module, x, marks)
        expected, _ = run_in_chunks(reference, right, x, marks)
        assert_chunks_close(outputs, expected)


@points(0.75, "numerics")
@pytest.mark.parametrize("layer_idx", [(), (0,), (3,)], ids=["default", "0", "3"])
def test_the_cache_is_told_once_and_in_time(learner, reference, layer_idx):
    """One update per call, also for a single first token: this layer's number, and k and v of K heads, rotated but not repeated."""
    module, right = pair(learner, reference, *layer_idx)
    for sizes in (CHUNKS, [1, 4, 1]):
        x = tokens(sum(sizes))
        outputs, cache = run_in_chunks(learner, module, x, sizes=sizes)
        expected, right_cache = run_in_chunks(reference, right, x, sizes=sizes)
        told, wanted = cache.get("updates"), right_cache.get("updates")
        if len(told) != len(wanted):
            fail(f"Over {len(sizes)} calls, with {sizes} new tokens, the cache was updated {len(told)} times.")
        for call, ((index, k, v), (right_index, right_k, right_v)) in enumerate(zip(told, wanted, strict=True)):
            assert_equal(index, right_index, what=f"the layer_idx that the cache is given in call {call + 1}")
            assert_close(k, right_k, what=f"the k that the cache is given in call {call + 1}", tolerance=1e-4)
            assert_close(v, right_v, what=f"the v that the cache is given in call {call + 1}", tolerance=1e-4)
        assert_chunks_close(outputs, expected)


@points(0.5, "numerics")
def test_what_the_cache_returns_is_attended_to(learner, reference):
    """Keys and values that were in the cache before are attended to as they are, those of another layer are not."""
    module, right = pair(learner, reference, 2)
    K, D = SIZES["num_kv_heads"], SIZES["head_dim"]
    past_k, past_v = randn(B, 7, K, D), randn(B, 7, K, D)
    other_k, other_v = randn(B, 9, K, D), randn(B, 9, K, D)

    def filled(side):
        cache = side.file("props").RecordingCache()
        cache.update.keep(other_k, other_v, 0)
        cache.update.keep(past_k, past_v, 2)
        return {"cache": cache}

    for count in (T, 1):
        x = tokens(count, blunt="one token is a case of its own")
        assert_module_close(module, right, x, rotary(torch.arange(count) + 7), per_side=filled)
        mask = rand_bool(B, 7 + count)
        mask[:, 7] = True
        assert_module_close(module, right, x, rotary(torch.arange(count) + 7), mask, per_side=filled)


# --- gradients ---


@points(1, "gradients")
@pytest.mark.parametrize("case", ["flash", "by hand", "padding"])
def test_gradients_reach_the_input_and_every_weight(learner, reference, case):
    """Backward gives the right gradients for x and all six weights, finite ones also if a token may see nothing."""
    module, right = pair(learner, reference, use_flash=case != "by hand")
    x, where, mask = tokens(), rotary(some_positions()), None
    if case == "padding":
        mask = scattered_pads(T)
        mask[0, :3] = 0
    cotangent = tokens()
    actual = module.vjp(x, where, mask, cotangent=cotangent)
    expected = right.vjp(x, where, mask, cotangent=cotangent)
    assert_close(actual.output, expected.output, tolerance=1e-4)
    assert_close(actual.inputs[0], expected.inputs[0], what="the gradient for x", tolerance=1e-4)
    for name, gradient in expected.parameters.items():
        assert_close(actual.parameters.get(name), gradient, what=f"the gradient for {name}", tolerance=1e-4)


# --- robustness ---


@points(0.25, "robustness")
def test_a_token_that_sees_nothing_gets_zeros(learner, reference):
    """Behind left padding the first tokens have no allowed key: their output is 0, not NaN."""
    module, right = pair(learner, reference)
    mask = torch.ones(B, T, dtype=torch.int64)
    mask[0, :3], mask[2] = 0, 0
    output = assert_module_close(module, right, tokens(), rotary(some_positions()), mask)
    if (output[0, :3] != 0).any() or (output[2] != 0).any():
        fail("A token that may see nothing gets something other than exactly 0.")


@points(0.5, "robustness")
@pytest.mark.parametrize("use_flash", [True, False], ids=["flash", "by hand"])
def test_use_flash_is_passed_on(learner, reference, use_flash):
    """With use_flash=False the fused kernel is never called; with True it is, for a prompt without padding."""
    module, right = pair(learner, reference, use_flash=use_flash)
    x, where = tokens(), rotary(some_positions())
    for keywords in ({}, {"attention_mask": torch.ones(B, T)}):
        output, used = module.using(FUSED, x, where, **keywords)
        assert_close(output, right(x, where, **keywords), tolerance=1e-4)
        if used and not use_flash:
            fail("The configuration says use_flash=False, but the fused kernel is called.")
        if not used and use_flash:
            fail("The configuration says use_flash=True, but for a prompt without padding the fused kernel is not called.")


@points(0.5, "robustness")
def test_nothing_is_dropped_in_evaluation(learner, reference):
    """In eval mode config.dropout does nothing, in training mode a dropout of 0 does nothing, and the mode stays as it is."""
    module, right = pair(learner, reference, dropout=0.5)
    learner.file("props").seed(int(uniform(0, 1e9)))
    for one in (module, right):
        one.eval()
    for mask in (None, scattered_pads(T)):
        assert_module_close(module, right, tokens(), rotary(some_positions()), mask, what="the output in eval mode")
    assert_module_close(module, right, tokens(), rotary(some_positions()), per_side=recording_cache)
    if module.training:
        fail("A module in eval mode is in training mode after its forward pass.")
    module, right = pair(learner, reference)
    for one in (module, right):
        one.train()
    assert_module_close(module, right, tokens(), rotary(some_positions()), what="the output in training mode without dropout")
    assert_module_close(module, right, tokens(), rotary(some_positions()), per_side=recording_cache)
    if not module.training:
        fail("A module in training mode is in eval mode after its forward pass.")


@points(0.75, "robustness")
@pytest.mark.parametrize("case", ["single token", "flash", "by hand", "padding", "cache"])
def test_config_dropout_drops_attention_weights(learner, reference, case):
    """In training whole weights are dropped with probability config.dropout, in every head its own, and the rest is scaled up."""
    H, D, p = SIZES["num_heads"], SIZES["head_dim"], 0.4
    count, batch = (1, 150) if case == "single token" else (6, 25)  # more than 1,000 weights, so that their share is known
    changes = {"hidden_size": H * D + 4, "dropout": p, "use_flash": case != "by hand"}
    weights = random_weights(**{**SIZES, **changes})
    weights["o_proj.weight"] = torch.eye(H * D + 4, H * D)  # so that the output shows the merged heads
    module, right = build(learner, **changes), build(reference, **changes)
    for one in (module, right):
        one.load_state_dict(weights)
    right.eval()
    # All tokens of a row are alike, at position 0: every visible key weighs the same, and all values are the same.
    x = tokens(1, batch, H * D + 4, blunt="tokens that are alike").expand(batch, count, H * D + 4)
    where, mask = rotary(torch.zeros(count)), None
    visible = torch.arange(1, count + 1)  # keys that a token may see
    if case == "padding":
        mask = torch.ones(batch, count, dtype=torch.int64)
        mask[:, 1] = 0
        visible = mask[0].cumsum(0)
    whole = right(x, where, mask)
    learner.file("props").seed(int(uniform(0, 1e9)))
    output = module(x, where, mask)
    check_dropped(output, whole, visible, p)
    if case in ("flash", "by hand") and torch.equal(module(x, where, mask), output):
        fail("A second call drops the same weights as the first.")
    if case == "cache":  # after the same without one: dropping nothing at all is another mistake
        output = module(x, where, mask, learner.file("props").RecordingCache())
        if not module.training:
            fail("A module in training mode is in eval mode after a forward pass with a cache.")
        check_dropped(output, whole, visible, p)


def check_dropped(output, whole, visible, p):
    """`output` shows the merged heads of `whole` after each of the `visible` weights was dropped with probability p."""
    H, D = SIZES["num_heads"], SIZES["head_dim"]
    if not (isinstance(output, torch.Tensor) and output.shape == whole.shape and output.dtype == whole.dtype):
        assert_close(output, whole)
    heads, whole = (one[..., : H * D].unflatten(-1, (H, D)) for one in (output, whole))  # [batch, count, H, D]
    share = (heads * whole).sum(-1) / (whole * whole).sum(-1)
    if not torch.isclose(heads, share[..., None] * whole, rtol=1e-3, atol=1e-4).all():
        fail("Single channels are dropped: dropout belongs to the weights of attention, and takes a key's whole value away.")
    kept = share * (1 - p) * visible[:, None]  # how many of the visible keys were kept
    if not ((kept - kept.round()).abs() < 1e-3).all():
        fail("A weight is neither dropped nor the weight without dropout, divided by 1 - config.dropout.")
    lost = 1 - kept.sum().item() / (visible.sum().item() * len(kept) * H)
    if abs(lost - p) > 0.06:
        fail(f"With config.dropout={p} a share of {lost:.3f} of the weights is dropped.")
    kept = kept.round()
    alike = (kept[..., None] == kept[..., None, :]).float().mean(dim=(0, 1))  # [H, H]; of independent heads about a half at most
    if (alike.fill_diagonal_(0) > 0.9).any():
        fail("Some heads lose the same weights: every weight has to be dropped for itself.")
    more = kept.diff(dim=1)  # a token sees one key more than the one before it, or the same
    if more.numel() and ((more == 0) | (more == 1)).all():
        fail("All tokens lose the same keys: every weight has to be dropped for itself.")


@points(0.25, "robustness")
def test_inputs_need_not_be_contiguous(learner, reference):
    """x, cos, sin and attention_mask may be views with any strides."""
    module, right = pair(learner, reference)
    x, (cos, sin), mask = noncontiguous(tokens()), rotary(some_positions()), noncontiguous(scattered_pads(T))
    where = (noncontiguous(cos), noncontiguous(sin))
    assert_module_close(module, right, x, where)
    assert_module_close(module, right, x, where, mask)
    assert_module_close(module, right, x, where, mask, per_side=recording_cache)


@points(0.25, "robustness")
def test_the_arguments_are_left_as_they_were(learner, reference):
    """x, cos, sin, attention_mask and what the cache returned hold the same numbers after the call as before."""
    module, right = pair(learner, reference)
    x, where, mask = tokens(), rotary(some_positions()), scattered_pads(T)
    for keywords in ({}, {"attention_mask": mask}):
        output = assert_arguments_unchanged(module.forward, x, where, **keywords)
        assert_close(output, right(x, where, **keywords), tolerance=1e-4)
    for marks in (None, mask):
        cache, right_cache = (side.file("props").RecordingCache() for side in (learner, reference))
        assert_close(module(x, where, marks, cache), right(x, where, marks, right_cache), tolerance=1e-4)
        for name, held, right_held in zip("kv", cache.held(0), right_cache.held(0), strict=True):
            assert_close(held, right_held, what=f"the {name} that the cache holds after the call", tolerance=1e-4)


# --- by hand ---


@points(0.5, "by_hand")
def test_attention_is_put_together_by_hand(learner, reference, by_hand):
    """The right answer, without nn.MultiheadAttention under any name."""
    module, right = pair(learner, reference)
    assert_module_close(module, right, tokens(), rotary(some_positions()))
    by_hand.assert_clean()
