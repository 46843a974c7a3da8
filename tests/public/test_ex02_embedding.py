"""Worked examples for 02 · embedding. They give no points; the grading suite looks at much more."""

import torch

from grader.suite import assert_close, assert_equal, assert_value_error, fail, points

# The table of the lesson: three ids, two channels.
WEIGHT = torch.tensor([[1.0, 0.0], [0.0, 1.0], [4.0, 5.0]])


def tied(learner):
    """An embedding with that table, and the head on it."""
    embedding = learner.TokenEmbedding(3, 2)
    embedding.load_state_dict({"weight": WEIGHT})
    return embedding, learner.LMHead(embedding)


@points(0, "numerics")
def test_three_ids_are_looked_up(learner):
    """The example of the lesson: ids 2, 0, 2 give their rows, in a row of ids and in a batch."""
    embedding, _ = tied(learner)
    assert_equal(embedding(torch.tensor([2, 0, 2])), torch.tensor([[4.0, 5.0], [1.0, 0.0], [4.0, 5.0]]))
    assert_equal(embedding(torch.tensor([[1], [2]], dtype=torch.int32)), torch.tensor([[[0.0, 1.0]], [[4.0, 5.0]]]))


@points(0, "numerics")
def test_the_logits_of_one_token(learner):
    """The example of the lesson: the hidden state [2, 3] gives the logits 2, 3 and 23."""
    _, head = tied(learner)
    assert_close(head(torch.tensor([[[2.0, 3.0]]])), torch.tensor([[[2.0, 3.0, 23.0]]]), what="the logits")


@points(0, "shape")
def test_minimind_shapes(learner):
    """Ids [1, 100] become [1, 100, 768] and logits [1, 100, 6400]; no ids at all become [0, 768]."""
    embedding = learner.TokenEmbedding(6400, 768)
    head = learner.LMHead(embedding)
    rows = embedding(torch.zeros(1, 100, dtype=torch.int64))
    assert_equal(list(rows.shape), [1, 100, 768], what="the shape of the rows")
    assert_equal(list(head(rows).shape), [1, 100, 6400], what="the shape of the logits")
    assert_equal(embedding(torch.zeros(0, dtype=torch.int64)), torch.zeros(0, 768))


@points(0, "numerics")
def test_a_fresh_table(learner):
    """Normal, mean 0, standard deviation 0.02: about 68 % of 30 000 numbers are smaller than 0.02."""
    weight = learner.TokenEmbedding(300, 100).state_dict()["weight"]
    share = (weight.abs() < 0.02).float().mean().item()
    if abs(weight.mean()) > 0.001 or abs(weight.std() - 0.02) > 0.001 or abs(share - 0.683) > 0.02:
        fail(f"mean {weight.mean():.4f}, standard deviation {weight.std():.4f}, smaller than 0.02: {share:.0%}")


@points(0, "numerics")
def test_new_weights_arrive_in_the_head(learner):
    """Weights that are loaded into the embedding after the head was built are the head's weights, too."""
    embedding, head = tied(learner)
    embedding.load_state_dict({"weight": 10.0 * WEIGHT})
    assert_close(head(torch.tensor([[[2.0, 3.0]]])), torch.tensor([[[20.0, 30.0, 230.0]]]), what="the logits")
    assert_equal(head.state_dict(), {"weight": 10.0 * WEIGHT}, what="the head's state dict")


@points(0, "gradients")
def test_gradients_of_the_lookup(learner):
    """Row 2 was used twice and gets both gradients, row 1 was not used and gets zeros."""
    embedding, _ = tied(learner)
    result = embedding.vjp(torch.tensor([2, 0, 2]), cotangent=torch.ones(3, 2))
    expected = torch.tensor([[1.0, 1.0], [0.0, 0.0], [2.0, 2.0]])
    assert_close(result.parameters["weight"], expected, what="the gradient of weight")


@points(0, "gradients")
def test_gradients_of_both_uses(learner):
    """The example of the lesson: id 2 goes straight into the head, and the first of the logits 4, 5, 41 sends back 1."""
    model = learner.file("props").chain(*tied(learner))
    result = model.vjp(torch.tensor([[2]]), cotangent=torch.tensor([[[1.0, 0.0, 0.0]]]))
    assert_close(result.output, torch.tensor([[[4.0, 5.0, 41.0]]]), what="the logits")
    assert_equal(len(result.parameters), 1, what="the number of parameters of embedding and head together")
    expected = torch.tensor([[4.0, 5.0], [0.0, 0.0], [1.0, 0.0]])
    assert_close(*result.parameters.values(), expected, what="the gradient of the shared weight")


@points(0, "robustness")
def test_ids_outside_the_vocabulary(learner):
    """The last id is 2: both 3 and -1 raise ValueError that names input_ids and the bad id."""
    embedding, _ = tied(learner)
    assert_equal(embedding(torch.tensor([2])), torch.tensor([[4.0, 5.0]]))
    for bad in (3, -1):
        for naming in ("input_ids", str(bad)):
            assert_value_error(embedding.forward, torch.tensor([0, bad]), naming=naming)
