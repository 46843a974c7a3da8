"""Grades 14 · model: CausalLM as a whole, part by part where it goes wrong, with masks, caches and checkpoints; and its loss."""

import math
import re

import pytest
import torch

from grader.suite import (
    LearnerError,
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
    rand_bool,
    randint,
    randn,
)

# Every axis has a length of its own: V, C, H * D, K * D, F, D, and then B, T and the room for positions.
SIZES = {
    "vocab_size": 37, "hidden_size": 20, "num_layers": 2, "num_heads": 6, "num_kv_heads": 3, "head_dim": 10,
    "intermediate_size": 28, "max_position_embeddings": 24,
}  # fmt: skip
V = SIZES["vocab_size"]
B, T = 4, 7
EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"
TIED = pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])


def build(side, **changes):
    """A model of one side's, and of the sizes above unless told otherwise."""
    return side.CausalLM(side.file("config").ModelConfig(**{**SIZES, **changes}))


def draw_weights(reference, model):
    """A checkpoint for the reference's `model` that is nowhere near its start: norms and matrices have values of size about 1."""
    shapes = reference.file("props").state_shapes(model)
    drawn = randn(sum(math.prod(shape) for shape in shapes.values()), blunt="the numbers of all weights, drawn at once")
    state = {}
    for (name, shape), numbers in zip(shapes.items(), drawn.split([math.prod(x) for x in shapes.values()]), strict=True):
        values = numbers.reshape(shape)
        fan_in = 1 if name in (EMBEDDING, HEAD) else shape[-1]
        state[name] = 1.0 + 0.4 * values if len(shape) == 1 else 1.3 * fan_in**-0.5 * values
    return state


def twins(learner, reference, tied=True, **changes):
    """The learner's model and the reference's, with the same weights."""
    right = build(reference, tie_word_embeddings=tied, **changes)
    state = draw_weights(reference, right)
    if tied:
        state[HEAD] = state[EMBEDDING]
    module = build(learner, tie_word_embeddings=tied, **changes)
    for one in (module, right):
        one.load_state_dict(state)
    return module, right


def draw_ids(batch=B, length=T, dtype=torch.int64):
    """Random tokens."""
    return randint(0, V, batch, length, dtype=dtype, blunt="any number of texts and tokens")


def make_cache(side, kind, batch=B, room=12, layers=SIZES["num_layers"]):
    """An empty cache of one side's."""
    if kind == "StaticCache":
        sizes = layers, batch, room, SIZES["num_kv_heads"], SIZES["head_dim"], torch.float32, "cpu"
        return side.file("ex13_kv_cache").StaticCache(*sizes)
    return getattr(side.file("ex13_kv_cache" if kind == "DynamicCache" else "props"), kind)()


# ---- names, shapes, weights ------------------------------------------------------------------------------------------


@points(0.5, "shape")
@TIED
def test_the_state_dict_is_that_of_a_checkpoint(learner, reference, tied):
    """The state dict has Hugging Face's names with their shapes, the head's too, and nothing else: no RoPE tables, no shared blocks."""
    module, right = (build(side, tie_word_embeddings=tied) for side in (learner, reference))
    found, wanted = (side.file("props").state_shapes(one) for side, one in ((learner, module), (reference, right)))
    for name, shape in wanted.items():
        if name not in found:
            fail(f"the state dict has no {name}")
        if found[name] != shape:
            fail(f"{name} has shape {found[name]}, not {shape}")
    if set(found) != set(wanted):
        fail(f"the state dict holds {sorted(set(found) - set(wanted))[0]}, which no checkpoint has")
    numbers = sum(math.prod(info.shape) for info in module.parameters().values())
    if numbers != sum(math.prod(info.shape) for info in right.parameters().values()):
        why = "is the head's weight the embedding's?" if tied else "does the head have a table of its own?"
        fail(f"the model learns {numbers} numbers, which is not what it should be: {why}")


@points(0.25, "shape")
def test_ids_of_any_shape_give_logits_of_the_vocabulary(learner, reference):
    """Ids [B, T] give logits [B, T, V], for one text, one token and a full context too."""
    module, right = twins(learner, reference)
    for sizes in ((B, T), (1, T), (B, 1), (1, 1), (2, SIZES["max_position_embeddings"])):
        ids = draw_ids(*sizes)
        found = module(ids)
        assert_shape(found, [*sizes, V], what="the logits")
        assert_close(found, right(ids), what="the logits", tolerance=1e-4)


@points(1, "numerics")
@TIED
def test_the_logits_of_the_whole_model(learner, reference, tied):
    """Embedding, every block once and in order, the last norm, the head: the raw logits are the reference's."""
    module, right = twins(learner, reference, tied)
    for dtype in (torch.int64, torch.int32):
        assert_module_close(module, right, draw_ids(dtype=dtype), what="the logits")


@points(0.5, "numerics")
@pytest.mark.parametrize(
    "changes",
    [
        {"rms_norm_eps": 0.5, "num_layers": 1}, {"rope_theta": 3.0, "num_layers": 3}, {"num_kv_heads": 6, "use_flash": False},
        {"num_kv_heads": 1, "head_dim": 8, "hidden_size": 28, "intermediate_size": 33, "vocab_size": 50},
    ],
    ids=["eps and one layer", "theta and three layers", "MHA and no flash", "MQA and other widths"],
)  # fmt: skip
def test_every_field_of_the_config_counts(learner, reference, changes):
    """Layers, heads, widths, rms_norm_eps (of the last norm too) and rope_theta are those of the config."""
    module, right = twins(learner, reference, **changes)
    assert_module_close(module, right, draw_ids(), what="the logits")


@points(0.25, "numerics")
def test_a_bfloat16_model_gives_bfloat16_logits(learner, reference):
    """After model.bfloat16() the logits are bfloat16, and near those of float32."""
    module, right = twins(learner, reference)
    ids = draw_ids()
    expected = assert_module_close(module, right, ids, what="the logits").to(torch.bfloat16)
    half = module.bfloat16.keep()
    assert_close(half(ids), expected, what="the logits in bfloat16", tolerance=0.1)


@points(0.25, "numerics")
def test_the_start_loss_is_that_of_guessing(learner, reference):
    """A new model knows nothing: its loss on random tokens is near ln V."""
    module, right = twins(learner, reference)
    assert_module_close(module, right, draw_ids(), what="the logits of loaded weights")
    for tied in (True, False):
        learner.file("props").seed(int(randint(0, 1000, 1, blunt="one number")))
        module = build(learner, tie_word_embeddings=tied, vocab_size=600, hidden_size=96, num_layers=2)
        ids = randint(0, 600, 5, 22)
        loss = reference.causal_lm_loss(module(ids), ids).item()
        if not abs(loss - math.log(600)) < 0.5:
            fail(f"with V = 600 a new model's loss is {loss:.2f}, but guessing costs ln 600 = {math.log(600):.2f}")


# ---- the tie, and loading --------------------------------------------------------------------------------------------


@points(0.5, "robustness")
@pytest.mark.parametrize("assign", [False, True], ids=["copied", "assigned"])
def test_a_tied_head_stays_the_embedding(learner, reference, assign):
    """A checkpoint loads with or without the head's key, assign=True and strict=False included; head and embedding are one weight
    afterwards, and the checkpoint itself is not changed."""
    module, right = twins(learner, reference)
    ids = draw_ids()
    for with_head, strict in ((False, True), (True, True), (True, False)):
        state = draw_weights(reference, right)
        state[HEAD] = state[EMBEDDING]
        right.load_state_dict(state)
        if not with_head:
            del state[HEAD]
        props = learner.file("props")
        after = props.load_weights(module, state, strict, assign)
        if list(after) != list(state):
            fail("load_state_dict changed the names in the checkpoint that it was given")
        for name, weight in state.items():
            assert_equal(after[name], weight, what=f"{name} in the checkpoint itself, after loading")
        found = module.state_dict()
        assert_equal(found.get(HEAD), state[EMBEDDING], what=f"{HEAD} after loading")
        assert_close(module(ids), right(ids), what="the logits after loading", tolerance=1e-4)
        embedding = {name for name in (EMBEDDING, HEAD) if name in module.parameters()}
        if len(embedding) != 1:
            fail("after loading, embedding and head are two weights: training will pull them apart")


@points(0.25, "robustness")
def test_an_untied_head_has_a_table_of_its_own(learner, reference):
    """With tie_word_embeddings=False the head keeps its own weight through loading, and a checkpoint has to bring it."""
    module, right = twins(learner, reference, tied=False)
    assert_module_close(module, right, draw_ids(), what="the logits")
    state = draw_weights(reference, right)
    for one in (module, right):
        one.load_state_dict(state, assign=True)
    assert_module_close(module, right, draw_ids(), what="the logits after loading")
    del state[HEAD]
    try:
        module.load_state_dict(state)
    except LearnerError:
        return
    fail(f"a checkpoint without {HEAD} was loaded into an untied model: where did its head come from?")


@points(0.75, "gradients")
@TIED
def test_gradients_reach_every_weight(learner, reference, tied):
    """Backward reaches every parameter; a tied embedding gets the sum of both its uses."""
    module, right = twins(learner, reference, tied)
    ids = draw_ids()
    cotangent = randn(B, T, V)
    mine, expected = (one.vjp(ids, cotangent=cotangent) for one in (module, right))
    assert_close(mine.output, expected.output, what="the logits", tolerance=1e-4)
    for name, wanted in expected.parameters.items():
        found = mine.parameters.get(name, mine.parameters.get(HEAD) if tied and name == EMBEDDING else None)
        assert_close(found, wanted, what=f"the gradient of {name}", tolerance=1e-4)


# ---- masks -----------------------------------------------------------------------------------------------------------


@points(0.5, "numerics")
def test_pads_are_seen_by_nobody(learner, reference):
    """Whatever stands where attention_mask is 0, as bool or 0/1, the real tokens' logits are the same, and right."""
    module, right = twins(learner, reference)
    ids = draw_ids()
    lengths = torch.tensor([T, 3, 5, 1])[:, None]
    places = torch.arange(T)
    masks = {"left": places >= T - lengths, "right": places < lengths, "scattered": rand_bool(B, T) | (places == 2)}
    for side, mask in masks.items():
        first = module(ids, mask)
        assert_shape(first, [B, T, V], what="the logits")
        if side != "scattered":  # between real tokens, a pad may be counted as a position or not
            what = "the logits of the real tokens"
            assert_close(first[mask], right(ids, mask)[mask], what=what, tolerance=1e-4)
        for given in (mask.long(), mask.int(), mask):
            other = torch.where(mask, ids, draw_ids())
            what = "the logits of the real tokens, with other ids at the pads"
            assert_close(module(other, given)[mask], first[mask], what=what, tolerance=1e-4)
    assert_module_close(module, right, ids, torch.ones(B, T, dtype=torch.int64), what="the logits under a mask of ones")


@points(0.5, "numerics")
def test_left_padding_changes_nothing_for_real_tokens(learner, reference):
    """Behind pads on the left every real token gets the logits that it gets when its row stands alone."""
    module, right = twins(learner, reference)
    ids = draw_ids()
    lengths = [T, 3, 5, 1]
    mask = (torch.arange(T) >= T - torch.tensor(lengths)[:, None]).long()
    padded = module(ids, attention_mask=mask)
    assert_shape(padded, [B, T, V], what="the logits")
    for row, length in enumerate(lengths):
        alone = right(ids[row : row + 1, T - length :])
        what = f"the logits of the {length} real tokens of row {row}"
        assert_close(padded[row : row + 1, T - length :], alone, what=what, tolerance=1e-4)


# ---- caches ----------------------------------------------------------------------------------------------------------


def in_portions(side, model, ids, portions, cache, mask=None):
    """The logits of each portion of the ids, one call after the other on one cache."""
    outputs, start = [], 0
    for count in portions:
        end = start + count
        seen = () if mask is None else (mask[:, :end],)
        outputs.append(model(ids[:, start:end], *seen, cache=cache))
        start = end
    return outputs


@points(1, "numerics")
@pytest.mark.parametrize("kind", ["DynamicCache", "StaticCache", "RecordingCache"], ids=["dynamic", "static", "falsy"])
def test_with_a_cache_portions_give_what_the_whole_gives(learner, reference, kind):
    """In portions on a cache every token gets the logits that it gets in one go, also if an empty cache counts as false."""
    module, right = twins(learner, reference)
    ids = draw_ids(length=6)
    whole = right(ids)
    for portions in {"DynamicCache": ([2, 3, 1], [1] * 6), "StaticCache": ([2, 3, 1], [6])}.get(kind, ([2, 3, 1],)):
        cache = make_cache(learner, kind)
        found = in_portions(learner, module, ids, portions, cache)
        assert_chunks_close(found, list(whole.split(portions, dim=1)), what="the logits of portion")
        held = learner.file("props").get_attribute(cache, "length")
        assert_equal(held, 6, what="the cache's length afterwards")


@points(0.5, "numerics")
def test_a_cache_and_left_padding_together(learner, reference):
    """Rows of different lengths, padded on the left, continue on a cache as each does alone; the mask covers past and new."""
    module, right = twins(learner, reference)
    ids = draw_ids()
    lengths = [T, 5, 6, 3]
    mask = (torch.arange(T) >= T - torch.tensor(lengths)[:, None]).long()
    portions = [4, 2, 1]
    alone = [right(ids[row : row + 1, T - length :]) for row, length in enumerate(lengths)]
    for kind in ("DynamicCache", "StaticCache"):
        found = in_portions(learner, module, ids, portions, make_cache(learner, kind), mask)
        for index, (logits, count) in enumerate(zip(found, portions, strict=True)):
            assert_shape(logits, [B, count, V], what=f"the logits of portion {index + 1}")
        together = torch.cat(found, dim=1)
        for row, length in enumerate(lengths):
            what = f"the logits of the {length} real tokens of row {row}"
            assert_close(together[row : row + 1, T - length :], alone[row], what=what, tolerance=1e-4)


@points(0.25, "robustness")
def test_calls_know_nothing_of_each_other(fresh_learner, reference):
    """A call without a cache, or with a new one, gives the same whatever was called before, and ids and mask are left alone."""
    module, right = twins(fresh_learner, reference)
    for length in (5, 3, 6):
        ids = draw_ids(length=length)
        found = in_portions(fresh_learner, module, ids, [2, length - 2], make_cache(fresh_learner, "DynamicCache"))
        assert_chunks_close(found, list(right(ids).split([2, length - 2], dim=1)), what="the logits of portion")
        assert_module_close(module, right, ids, what="the logits without a cache")
    ids = noncontiguous(draw_ids())
    mask = noncontiguous(torch.ones(B, T, dtype=torch.int64))
    found = assert_arguments_unchanged(module.forward, ids, mask)
    assert_close(found, right(ids, mask), what="the logits", tolerance=1e-4)


# ---- what is refused, and dropout ------------------------------------------------------------------------------------


@points(0.25, "robustness")
def test_a_mask_of_another_length_is_refused(learner, reference):
    """An attention_mask that does not cover past and new tokens raises ValueError that names it; the cache stays as it was."""
    module, right = twins(learner, reference)
    ids = draw_ids(length=6)
    whole = right(ids)
    cache = make_cache(learner, "DynamicCache")
    ones = torch.ones(B, 30, dtype=torch.int64)
    assert_close(module(ids[:, :4], ones[:, :4], cache), whole[:, :4], what="the logits", tolerance=1e-4)
    for length in (2, 4, 5, 7, 12):
        assert_value_error(module.forward, ids[:, 4:], ones[:, :length], cache, naming="attention_mask", values=[length, 6])
        assert_value_error(module.forward, ids[:, :3], ones[:, :length], naming="attention_mask", values=[length, 3])
    found = module(ids[:, 4:], ones[:, :6], cache)
    assert_close(found, whole[:, 4:], what="the logits after refused calls", tolerance=1e-4)


@points(0.25, "robustness")
def test_more_tokens_than_positions_are_refused(learner, reference):
    """Exactly max_position_embeddings tokens work, past and new, pads counted; one more raises ValueError that names it and
    gives its value and theirs."""
    module, right = twins(learner, reference, max_position_embeddings=9)
    ids = draw_ids(length=11)
    assert_module_close(module, right, ids[:, :9], what="the logits of a full context")
    naming = {"naming": "max_position_embeddings", "values": [9]}
    assert_value_error(module.forward, ids[:, :10], naming="max_position_embeddings", values=[9, 10])
    pads = torch.ones(B, 11, dtype=torch.int64)
    pads[:, :3] = 0
    assert_value_error(module.forward, ids, pads, naming="max_position_embeddings", values=[9, 11])
    cache = make_cache(learner, "DynamicCache")
    whole = right(ids[:, :9])
    assert_close(module(ids[:, :7], cache=cache), whole[:, :7], what="the logits", tolerance=1e-4)
    assert_value_error(module.forward, ids[:, 7:10], cache=cache, **naming)
    found = module(ids[:, 7:9], cache=cache)
    assert_close(found, whole[:, 7:], what="the logits after a refused call", tolerance=1e-4)


@points(0.25, "robustness")
def test_dropout_works_in_training_only(learner, reference):
    """In eval mode config.dropout does nothing; in training with dropout 1 only embedding, last norm and head are left; no call
    changes the mode."""
    module, right = twins(learner, reference, dropout=0.5)
    ids = draw_ids()
    assert_module_close(module.eval(), right.eval(), ids, what="the logits in eval mode")
    module, right = twins(learner, reference, dropout=1.0)
    assert_module_close(module.train(), right.train(), ids, what="the logits in training, with all dropped")
    cached = module(ids, cache=make_cache(learner, "DynamicCache"))
    assert_close(cached, right(ids), what="the logits in training, with a cache", tolerance=1e-4)
    if not module.training:
        fail("after a forward pass with a cache the model is no longer in training mode")


# ---- the loss --------------------------------------------------------------------------------------------------------


def check_loss(learner, reference, logits, labels, **ignore):
    """The reference's loss and gradient for the logits."""
    one = torch.tensor(1.0)
    mine, right = (side.causal_lm_loss.vjp(logits, labels, cotangent=one, **ignore) for side in (learner, reference))
    assert_close(mine.output, right.output, what="the loss")
    # A gradient is about 1 / (number of tokens): it is compared as if it were about 1.
    found, expected = mine.inputs[0], right.inputs[0]
    assert_close(found, expected, what="the gradient of the logits")
    scale = labels.numel()
    assert_close(
        found.float() * scale, expected.float() * scale, what="the gradient of the logits, times the tokens", tolerance=1e-2
    )


@points(0.5, "numerics")
@pytest.mark.parametrize("sizes", [(3, 8, 7), (5, 6, 11), (4, 9, 9), (1, 5, 8), (6, 2, 5)], ids=str)
def test_each_token_is_scored_against_the_next(learner, reference, sizes):
    """The loss is the mean of -log p(next token), shifted inside each row: a float32 scalar."""
    blunt = "any sizes"
    logits, labels = randn(*sizes, blunt=blunt), randint(0, sizes[2], *sizes[:2], blunt=blunt)
    assert_close(learner.causal_lm_loss(logits, labels), reference.causal_lm_loss(logits, labels), what="the loss")
    sure = 50.0 * torch.nn.functional.one_hot(labels.roll(-1, 1), sizes[2]).float()  # knows every next token of its row
    assert_close(learner.causal_lm_loss(sure, labels), torch.tensor(0.0), what="the loss of a model that knows the text")
    sure[:, -1] = -sure[:, -1]  # the last position has no next token: it does not count
    assert_close(learner.causal_lm_loss(sure, labels), torch.tensor(0.0), what="the loss, with nonsense at the last position")


@points(0.5, "numerics")
@pytest.mark.parametrize("ignore", [-100, -1, 0, 3, 10, 999], ids=str)
def test_ignored_labels_do_not_count(learner, reference, ignore):
    """Labels equal to ignore_index, -100 or any other, are left out of the sum and of the number it is divided by."""
    logits, labels = randn(3, 8, 11), randint(0, 11, 3, 8)
    labels[0, 3:] = ignore
    labels[1, :5] = ignore
    labels[2, 6] = ignore
    given = {} if ignore == -100 else {"ignore_index": ignore}
    found = learner.causal_lm_loss(logits, labels, **given)
    assert_close(found, reference.causal_lm_loss(logits, labels, **given), what="the loss")


@points(0.25, "robustness")
def test_nothing_to_count_costs_nothing(learner, reference):
    """If all labels are ignored, or T = 1, the loss is 0, not NaN, and its gradient is 0."""
    logits, labels = randn(3, 8, 11), randint(0, 11, 3, 8)
    check_loss(learner, reference, logits, labels)
    ignored = torch.full_like(labels, -100)
    only_first = ignored.clone()
    only_first[:, 0] = labels[:, 0]
    short = randn(3, 1, 11, blunt="T = 1 is the point")
    for scores, marks in ((logits, ignored), (logits, only_first), (short, labels[:, :1])):
        result = learner.causal_lm_loss.vjp(scores, marks, cotangent=torch.tensor(1.0))
        assert_close(result.output, torch.tensor(0.0), what="the loss where nothing is counted")
        assert_close(result.inputs[0], torch.zeros_like(scores), what="the gradient where nothing is counted")


@points(0.25, "robustness")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64], ids=lambda x: str(x)[6:])
def test_large_logits_and_every_dtype(learner, reference, dtype):
    """Logits of 1000 stay finite, forward and backward, and the loss is float32, computed in at least float32, for every dtype."""
    labels = randint(0, 11, 3, 8)
    for scale in (1.0, 20.0, 1000.0):
        check_loss(learner, reference, randn(3, 8, 11, scale=scale, dtype=dtype), labels)
    wide = randn(3, 8, 3000, scale=0.1, dtype=dtype)  # a sum of 3000 shares, which half precision cannot hold
    assert_close(learner.causal_lm_loss(wide, labels), reference.causal_lm_loss(wide, labels), what="the loss for V = 3000")


@points(0.25, "gradients")
def test_gradients_of_the_loss(learner, reference):
    """The gradient is (share - 1 for the right token) / counted tokens; ignored and last positions get none."""
    logits, labels = randn(3, 8, 11), randint(0, 11, 3, 8)
    check_loss(learner, reference, logits, labels)
    labels[0, 3:], labels[2, 2] = -100, -100
    check_loss(learner, reference, noncontiguous(logits), noncontiguous(labels))
    found = assert_arguments_unchanged(learner.causal_lm_loss, logits, labels)
    assert_close(found, reference.causal_lm_loss(logits, labels), what="the loss")


@points(0.25, "robustness")
def test_labels_that_do_not_exist_are_refused(learner, reference):
    """A label < 0 or >= V that is not ignore_index raises ValueError that names labels, its value and V; the first label of a row
    takes no part, whatever it is."""
    logits, labels = randn(3, 8, 11), randint(0, 11, 3, 8)
    right = reference.causal_lm_loss(logits, labels)
    assert_close(learner.causal_lm_loss(logits, labels), right, what="the loss")
    for label, given in ((11, {}), (-1, {}), (-11, {}), (64, {}), (-100, {"ignore_index": -1}), (-1, {"ignore_index": 3})):
        wrong = labels.clone()
        wrong[1, 4] = label
        assert_value_error(learner.causal_lm_loss, logits, wrong, naming="labels", values=[label], **given)
    labels[:, 0] = torch.tensor([64, -1, 11])
    assert_close(learner.causal_lm_loss(logits, labels), right, what="the loss, with first labels that do not exist")
    labels[2, 3] = 64
    try:
        learner.causal_lm_loss(logits, labels)
    except LearnerError as error:
        if not re.search(r"(?<![\d-])1[01](?!\d)", error.message):  # V, or the ids up to V - 1
            fail(f"the ValueError gives the label, but not how many ids there are; it says: {error.message}")


# ---- by hand ---------------------------------------------------------------------------------------------------------


@points(0.25, "by_hand")
def test_the_loss_is_written_by_hand(learner, reference, by_hand):
    """The right loss, without torch's own cross entropy under any name."""
    logits, labels = randn(3, 8, 11), randint(0, 11, 3, 8)
    assert_close(learner.causal_lm_loss(logits, labels), reference.causal_lm_loss(logits, labels), what="the loss")
    by_hand.assert_clean()
