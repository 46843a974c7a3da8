"""The grading suite of 02 · embedding: a table looked up from both sides, and trained from both."""

import pytest
import torch

from grader.suite import (
    assert_arguments_unchanged,
    assert_close,
    assert_equal,
    assert_shape,
    assert_value_error,
    fail,
    noncontiguous,
    points,
    randint,
    randn,
)

# Vocabulary, channels, batch, tokens: all different.
V, C, B, T = 37, 12, 2, 5
IDS = pytest.mark.parametrize("dtype", [torch.int64, torch.int32], ids=["int64", "int32"])


def embed(side, weight):
    """One side's embedding with this table."""
    embedding = side.TokenEmbedding(*weight.shape)
    assert_name(embedding)
    embedding.load_state_dict({"weight": weight})
    return embedding


def assert_name(module):
    """The module has one parameter, `weight`."""
    if set(module.parameters()) != {"weight"}:
        fail(f"The names of the parameters are {sorted(module.parameters())}, not only `weight`.")


def tied(side, weight):
    """One side's embedding with this table, and the head on it."""
    embedding = embed(side, weight)
    side.file("props").seed(2)  # a head that draws numbers shall draw the same ones when the test is repeated
    return embedding, side.LMHead(embedding)


def some_ids(*shape, dtype=torch.int64, blunt=None):
    """Random ids, the first and the last of the vocabulary among them, and one of them twice."""
    ids = randint(0, V, *shape, dtype=dtype, blunt=blunt)
    ids.view(-1)[: 4 if ids.numel() >= 4 else 0] = torch.tensor([0, V - 1, 5, 5], dtype=dtype)[: ids.numel()]
    return ids


# --- between calls: in a process of its own, before any other call can be remembered ---


@points(0.5, "robustness")
def test_a_call_knows_nothing_of_the_calls_before(fresh_learner, reference):
    """Two tables of different sizes take turns, with heads on both, in training and out: none disturbs another."""
    weights = [randn(V, C), randn(11, 7)]
    mine = [tied(fresh_learner, weight) for weight in weights]
    right = [tied(reference, weight) for weight in weights]
    for turn in range(2):
        for (embedding, head), (right_embedding, right_head), weight in zip(mine, right, weights, strict=True):
            embedding.train(turn == 0)
            ids, hidden = randint(0, len(weight), B, T + turn), randn(B, T + turn, weight.shape[1])
            assert_close(embedding(ids), right_embedding(ids))
            assert_close(head(hidden), right_head(hidden), what="the logits")
    # A result that the caller keeps is not written over by the next one of the same shape.
    (embedding, head), (right_embedding, right_head) = mine[0], right[0]
    ids, hidden = some_ids(B, T), randn(B, T, C)
    kept = embedding.keep(ids), head.keep(hidden)
    embedding(some_ids(B, T)), head(randn(B, T, C))
    assert_close(kept[0].fetch(), right_embedding(ids), what="rows that were kept while others were looked up")
    assert_close(kept[1].fetch(), right_head(hidden), what="logits that were kept while others were made")


# --- shape ---


@points(0.5, "shape")
def test_a_fresh_embedding_has_one_parameter(learner):
    """The state dict holds `weight` and nothing else: a float32 parameter [V, C], whose rows the ids look up."""
    embedding = learner.TokenEmbedding(V, C)
    state = embedding.state_dict()
    assert_only_weight(embedding, state)
    ids = some_ids(B, T)
    assert_equal(embedding(ids), state["weight"][ids])


@points(0.5, "shape")
def test_the_head_has_the_same_parameter_and_no_other(learner, reference):
    """The head's state dict holds `weight` [V, C], which the embedding's table is, and nothing else: no bias."""
    weight, hidden = randn(V, C), randn(B, T, C)
    _, head = tied(learner, weight)
    state = head.state_dict()
    assert_only_weight(head, state)
    assert_equal(state["weight"], weight, what="the head's weight")
    assert_close(head(hidden), tied(reference, weight)[1](hidden), what="the logits")


def assert_only_weight(module, state):
    """`weight` [V, C] in float32, to be trained, is all that there is."""
    assert_name(module)
    if set(state) != {"weight"}:
        fail(f"The state dict holds {sorted(state)}, not only `weight`.")
    assert_shape(state["weight"], (V, C), what="weight")
    if state["weight"].dtype != torch.float32 or not module.parameters()["weight"].requires_grad:
        fail("A fresh weight must be in float32 and ask for a gradient.")


@points(0.5, "shape")
@IDS
@pytest.mark.parametrize(
    "shape", [(), (1,), (7,), (B, T), (B, 3, T), (1, 1)], ids=["[]", "[1]", "[7]", "[B,T]", "[B,3,T]", "[1,1]"]
)
def test_ids_of_any_shape_give_rows(learner, reference, shape, dtype):
    """A single id, a row, a batch, or more axes, in int64 or int32: every id becomes a row of C numbers."""
    weight = randn(V, C)
    embedding = embed(learner, weight)
    ids = some_ids(*shape, dtype=dtype, blunt="axes of length 1 are axes, too")
    assert_equal(embedding(ids), weight[ids.long()])


@points(0.25, "shape")
@IDS
@pytest.mark.parametrize("shape", [(0,), (B, 0), (0, T)], ids=["[0]", "[B,0]", "[0,T]"])
def test_no_ids_give_no_rows(learner, shape, dtype):
    """Ids without any element give [..., C] without any element, and no error."""
    weight = randn(V, C)
    embedding = embed(learner, weight)
    ids = torch.zeros(shape, dtype=dtype)
    assert_equal(embedding(ids), weight[ids.long()])
    assert_equal(embedding(some_ids(T)).shape, torch.Size([T, C]), what="the shape of other rows")


@points(0.25, "shape")
@pytest.mark.parametrize("sizes", [(B, T), (1, T), (B, 1), (1, 1)], ids=["[B,T]", "B=1", "T=1", "B=T=1"])
def test_the_logits_are_tokens_by_ids(learner, reference, sizes):
    """[B, T, C] gives [B, T, V], with one sequence and with one token, too."""
    weight, hidden = randn(V, C), randn(*sizes, C, blunt="axes of length 1 are the point")
    assert_close(tied(learner, weight)[1](hidden), tied(reference, weight)[1](hidden), what="the logits")


# --- numerics ---


@points(0.5, "numerics")
def test_every_id_gets_its_row_as_it_is(learner):
    """Each id of the vocabulary, in a shuffled order: the numbers are moved, not computed with."""
    weight = 3.0 * randn(V, C)
    embedding = embed(learner, weight)
    ids = randn(V).argsort()
    assert_equal(embedding(ids), weight[ids])
    for one in (0, 1, V - 1):
        ids = torch.full((B, T), one)
        assert_equal(embedding(ids), weight[ids], what=f"the output for nothing but the id {one}")


@points(0.5, "numerics")
@pytest.mark.parametrize("channels", [C, V, 50], ids=["C<V", "C=V", "C>V"])
def test_a_logit_is_the_product_of_token_and_row(learner, reference, channels):
    """Logit v of a token is its dot product with row v: nothing is scaled, and no softmax taken."""
    weight, hidden = randn(V, channels, blunt="as many channels as ids, too"), 2.0 * randn(B, T, channels)
    assert_close(tied(learner, weight)[1](hidden), tied(reference, weight)[1](hidden), what="the logits")


@points(0.75, "numerics")
@pytest.mark.parametrize("sizes", [(400, 64), (128, 200)], ids=["[400,64]", "[128,200]"])
def test_a_fresh_table_is_normal_with_deviation_0_02(learner, sizes):
    """A fresh table: mean 0, standard deviation 0.02, normally distributed, every row and every table its own."""
    learner.file("props").seed(randint(0, 1 << 30, 2)[0].item())
    embedding = learner.TokenEmbedding(*sizes)
    weight = embedding.state_dict()["weight"]
    assert_shape(weight, sizes, what="the fresh weight")
    weight = weight.double() / 0.02
    # Six standard errors of each figure: a right table fails once in many millions of runs.
    error = weight.numel() ** -0.5
    mean, deviation = weight.mean().item(), weight.std().item()
    if not abs(mean) < 6 * error:
        fail(f"The mean of a fresh table is {mean * 0.02:.4f}.")
    if not abs(deviation - 1) < 6 * error / 2**0.5:
        fail(f"The standard deviation of a fresh table is {deviation * 0.02:.4f}.")
    for reach, share in ((0.5, 0.38292), (1.0, 0.68269), (2.0, 0.95450)):
        found = (weight.abs() < reach).double().mean().item()
        if not abs(found - share) < 6 * error * (share * (1 - share)) ** 0.5:
            fail(f"{found:.1%} of a fresh table's numbers are smaller than {reach * 0.02:g}: not a normal distribution.")
    for axis, name in ((1, "row"), (0, "column")):
        spread = weight.std(dim=axis)
        if not ((spread - 1).abs() < 8 * (2 * weight.shape[axis]) ** -0.5).all():
            fail(f"Not every {name} of a fresh table has the same spread as the others.")
    if weight.unique().numel() < 0.99 * weight.numel():
        fail("The numbers of a fresh table repeat themselves.")
    if torch.equal(learner.TokenEmbedding(*sizes).state_dict()["weight"].double() / 0.02, weight):
        fail("A second table holds the very same numbers as the first: each has to be drawn for itself.")
    ids = torch.tensor([0, sizes[0] - 1])
    assert_close(embedding(ids).double() / 0.02, weight[ids], what="the rows of a fresh table, divided by 0.02,")


@points(0.5, "numerics")
@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16], ids=["float64", "float16", "bfloat16"])
def test_other_dtypes(learner, reference, dtype):
    """After .to(dtype) rows and logits are in that dtype, and embedding and head still share one parameter."""
    weight, ids, hidden = randn(V, C), some_ids(B, T), randn(B, T, C, dtype=dtype)
    results = []
    for side in (learner, reference):
        embedding, head = tied(side, weight)
        model = side.file("props").chain(embedding, head)
        model.to(dtype)
        results.append((embedding(ids), head(hidden), model(ids)))
    for actual, expected, what in zip(*results, ("the rows", "the logits", "the logits of ids"), strict=True):
        assert_close(actual, expected, what=what)


@points(0.75, "numerics")
def test_what_is_loaded_into_one_is_in_both(learner, reference):
    """New weights for the embedding, loaded after the head was built, change the head; and the other way round."""
    for into in (0, 1):
        weights, ids, hidden = (randn(V, C), randn(V, C)), some_ids(B, T), randn(B, T, C)
        pair = tied(learner, weights[0])
        for module in pair:
            module.train(into == 0)  # whatever is computed ahead outside of training is old news after loading
        assert_equal(pair[0](ids), weights[0][ids])
        assert_close(pair[1](hidden), tied(reference, weights[0])[1](hidden), what="the logits")
        pair[into].load_state_dict({"weight": weights[1]})
        embedding, head = tied(reference, weights[1])
        where = ("the embedding", "the head")[into]
        assert_close(pair[0](ids), embedding(ids), what=f"the rows after new weights came into {where}")
        assert_close(pair[1](hidden), head(hidden), what=f"the logits after new weights came into {where}")
        for module, name in zip(pair, ("embedding", "head"), strict=True):
            assert_equal(module.state_dict()["weight"], weights[1], what=f"the weight of the {name} after loading")


# --- gradients ---


@points(0.5, "gradients")
@IDS
def test_gradients_of_the_lookup_add_up(learner, reference, dtype):
    """The gradient of each row is the sum over the places where its id stands, and 0 where it stands nowhere."""
    weight, cotangent = randn(V, C), randn(B, 3, T, C)
    ids = some_ids(B, 3, T, dtype=dtype)
    ids[1, 2] = ids[0, 0, 3]
    embedding, right = embed(learner, weight), embed(reference, weight)
    for training in (True, False):
        actual = embedding.train(training).vjp(ids, cotangent=cotangent)
        expected = right.vjp(ids, cotangent=cotangent)
        assert_close(actual.output, expected.output)
        assert_close(actual.parameters.get("weight"), expected.parameters["weight"], what="the gradient of weight")


@points(0.5, "gradients")
def test_gradients_of_the_head(learner, reference):
    """Gradients reach the hidden states and the table."""
    weight, hidden, cotangent = randn(V, C), randn(B, T, C), randn(B, T, V)
    head, right = tied(learner, weight)[1], tied(reference, weight)[1]
    for training in (True, False):
        actual = head.train(training).vjp(hidden, cotangent=cotangent)
        expected = right.vjp(hidden, cotangent=cotangent)
        assert_close(actual.output, expected.output, what="the logits")
        assert_close(actual.inputs[0], expected.inputs[0], what="the gradient of the hidden states")
        assert_close(actual.parameters.get("weight"), expected.parameters["weight"], what="the gradient of weight")


@points(0.5, "gradients")
def test_gradients_of_both_uses_add_up(learner, reference):
    """Embedding and head in one model: one parameter, whose gradient is the sum of both uses."""
    weight, ids, cotangent = randn(V, C), some_ids(B, T), randn(B, T, V)
    models = []
    for side in (learner, reference):
        embedding, head = tied(side, torch.ones(V, C))
        embedding.load_state_dict({"weight": weight})
        models.append(side.file("props").chain(embedding, head))
    assert_close(models[0](ids), models[1](ids), what="the logits")
    if len(models[0].parameters()) != 1:
        fail(f"Embedding and head have {len(models[0].parameters())} parameters together: it has to be a single one.")
    actual, expected = (model.vjp(ids, cotangent=cotangent) for model in models)
    assert_close(actual.output, expected.output, what="the logits")
    (gradient,), (right,) = actual.parameters.values(), expected.parameters.values()
    assert_close(gradient, right, what="the gradient of the shared weight")


@points(0.5, "gradients")
def test_one_step_of_training_changes_both(learner, reference):
    """A step of gradient descent on one of the two, or on both in one model, is seen by both."""
    weight, ids, hidden = randn(V, C), some_ids(B, T), randn(B, T, C)
    arguments = {"embedding": (randn(B, T, C), ids), "head": (randn(B, T, V), hidden), "model": (randn(B, T, V), ids)}
    for trained in arguments:
        results = []
        for side in (learner, reference):
            embedding, head = tied(side, weight)
            props = side.file("props")
            module = {"embedding": embedding, "head": head}.get(trained) or props.chain(embedding, head)
            props.descend(module, 0.1, *arguments[trained])
            results.append((embedding.state_dict()["weight"], embedding(ids), head(hidden)))
        for actual, expected, what in zip(*results, ("the weight", "the rows", "the logits"), strict=True):
            assert_close(actual, expected, what=f"{what} after a step of the {trained}")


# --- robustness ---


@points(0.5, "robustness")
@IDS
def test_an_id_beyond_the_last_one_is_refused(learner, dtype):
    """Ids from V on raise ValueError that names input_ids and the bad id, wherever it stands."""
    assert_refused(learner, dtype, [V + 100, 70_000, V])


@points(0.75, "robustness")
@IDS
def test_a_negative_id_is_refused(learner, dtype):
    """Ids below 0 raise ValueError that names input_ids and the bad id: -1 is not the last row."""
    assert_refused(learner, dtype, [V + 100, -6, -V, -1, -V - 3])


def assert_refused(learner, dtype, bad_ids):
    """Each of these ids is refused in any place, alone too; good ids before and after it are looked up."""
    weight, ids = randn(V, C), some_ids(B, T, dtype=dtype)
    embedding = embed(learner, weight)
    assert_equal(embedding(ids), weight[ids.long()])
    for index, bad in enumerate(bad_ids):
        embedding.train(index % 2 == 0)  # in training and out all is the same
        for place in ((0, 0), (1, 2), (B - 1, T - 1)):
            wrong = ids.clone()
            wrong[place] = bad
            for naming in ("input_ids", str(bad)):
                assert_value_error(embedding.forward, wrong, naming=naming)
        for shape in ((), (1,)):
            assert_value_error(embedding.forward, torch.full(shape, bad, dtype=dtype), naming="input_ids")
    assert_equal(embedding(ids), weight[ids.long()], what="the output after ids were refused")


@points(0.25, "robustness")
def test_inputs_need_not_be_contiguous(learner, reference):
    """Ids and hidden states may be transposed or expanded views."""
    weight = randn(V, C)
    embedding, head = tied(learner, weight)
    for ids in (noncontiguous(some_ids(B, 3, T)), some_ids(T, B).T, some_ids(T).expand(B, T)):
        assert_equal(embedding(ids), weight[ids])
    right = tied(reference, weight)[1]
    for hidden in (noncontiguous(randn(B, T, C)), randn(T, B, C).transpose(0, 1), randn(T, C).expand(B, T, C)):
        assert_close(head(hidden), right(hidden), what="the logits")


@points(0.25, "robustness")
def test_nothing_is_changed_in_place(learner, reference):
    """Ids, hidden states and the table hold the same numbers after the call as before; so does the table when a head is built."""
    weight, ids, hidden = 3.0 * randn(V, C), some_ids(B, T), randn(B, T, C)
    embedding, head = tied(learner, weight)
    assert_equal(assert_arguments_unchanged(embedding.forward, ids), weight[ids])
    logits = assert_arguments_unchanged(head.forward, hidden)
    assert_close(logits, tied(reference, weight)[1](hidden), what="the logits")
    learner.LMHead(embedding)
    assert_equal(embedding.state_dict()["weight"], weight, what="the table after all that")


@points(0.25, "robustness")
def test_several_heads_on_one_embedding(learner, reference):
    """Two heads on the same embedding, and an embedding without a head: each works with the table that it was given."""
    weight, other, hidden, ids = randn(V, C), randn(V, C), randn(B, T, C), some_ids(B, T)
    embedding, head = tied(learner, weight)
    second, alone = learner.LMHead(embedding), embed(learner, other)
    right = tied(reference, weight)[1](hidden)
    assert_close(head(hidden), right, what="the logits of the first head")
    assert_close(second(hidden), right, what="the logits of the second head")
    assert_equal(alone(ids), other[ids], what="the rows of an embedding without a head")
    assert_equal(embedding(ids), weight[ids], what="the rows of the embedding with two heads")


# --- by hand ---


@points(0.5, "by_hand")
def test_the_table_is_written_by_hand(learner, by_hand):
    """The right rows, without torch's own embedding under any name."""
    weight, ids = randn(V, C), some_ids(B, T)
    embedding = embed(learner, weight)
    assert_equal(embedding(ids), weight[ids])
    by_hand.assert_clean()
