"""Worked examples for 15 · generation. They give no points; the grading suite looks at much more."""

import math

import torch

from grader.suite import assert_close, assert_equal, assert_value_error, points

NO = -math.inf


def counting(learner):
    """A model with ten ids that counts: 4 always follows 3, and 0 follows 9."""
    logits = torch.full((1, 10, 10), -4.0)
    logits[0, torch.arange(10), (torch.arange(10) + 1) % 10] = 4.0
    return learner.file("props").TableModel(logits)


@points(0, "numerics")
def test_a_penalty(learner):
    """Ids 0 and 1 were seen: 2 / 1.5 and -2 * 1.5, also if id 1 occurs twice; id 2 was not."""
    output = learner.apply_repetition_penalty(torch.tensor([[2.0, -2.0, 1.0]]), torch.tensor([[0, 1, 1]]), 1.5)
    assert_close(output, torch.tensor([[2 / 1.5, -3.0, 1.0]]))


@points(0, "numerics")
def test_the_two_largest(learner):
    """Top-k keeps 4 and 3; of the three logits that are 1, one stays: that of the lowest id."""
    assert_equal(learner.filter_top_k(torch.tensor([[1.0, 4.0, -2.0, 3.0]]), 2), torch.tensor([[NO, 4.0, NO, 3.0]]))
    assert_equal(learner.filter_top_k(torch.tensor([[0.0, 1.0, 1.0, 1.0]]), 1), torch.tensor([[NO, 1.0, NO, NO]]))


@points(0, "numerics")
def test_the_nucleus(learner):
    """Probabilities of 0.1, 0.4, 0.2 and 0.3: for p = 0.5 it takes the 0.4 and the 0.3; of four quarters it takes two."""
    logits = torch.tensor([[0.1, 0.4, 0.2, 0.3]]).log()
    assert_close(learner.filter_top_p(logits, 0.5), torch.tensor([[NO, math.log(0.4), NO, math.log(0.3)]]))
    assert_equal(int(learner.filter_top_p(torch.zeros(1, 4), 0.5).isfinite().sum()), 2, what="how many of four equal ids stay")


@points(0, "shape")
def test_one_id_per_row(learner):
    """Temperature 0 takes the largest logit; with top_k = 1 there is nothing else to draw."""
    logits = torch.tensor([[1.0, 4.0, -2.0], [0.5, 0.1, 0.2]])
    assert_equal(learner.sample_next(logits, temperature=0), torch.tensor([1, 0]))
    assert_equal(learner.sample_next(logits, top_k=1), torch.tensor([1, 0]))


@points(0, "numerics")
def test_a_model_that_counts(learner):
    """The prompts end in 3 and 7; with id 9 as the end, the second row is finished two steps later and is filled up."""
    prompts = torch.tensor([[0, 3], [0, 7]])
    expected = torch.tensor([[0, 3, 4, 5, 6], [0, 7, 8, 9, 9]])
    output = learner.generate(counting(learner), prompts, 3, temperature=0, eos_token_id=9)
    assert_equal(output, expected)
    output = learner.generate(counting(learner), prompts, 3, temperature=0, eos_token_id=9, use_cache=False)
    assert_equal(output, expected, what="the output without a cache")


@points(0, "robustness")
def test_a_stream_of_tokens(learner):
    """The same token by token, each [B]; afterwards the model is in training mode again."""
    model = counting(learner)
    steps = list(learner.stream(model, torch.tensor([[3], [7]]), 2, temperature=0))
    assert_equal(steps, [torch.tensor([4, 8]), torch.tensor([5, 9])], what="what stream yields")
    assert_equal(model.training, True, what="model.training")


@points(0, "robustness")
def test_no_ids_to_keep(learner):
    """top_k = 0 would keep nothing and raises ValueError; None switches the filter off."""
    logits = torch.tensor([[1.0, 4.0, -2.0]])
    assert_equal(learner.filter_top_k(logits, None), logits)
    assert_value_error(learner.filter_top_k, logits, 0, naming="top_k")
