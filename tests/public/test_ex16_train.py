"""Worked examples for 16 · training. They give no points; the grading suite looks at much more."""

import math

import torch

from grader.suite import assert_close, assert_equal, assert_value_error, points

ONE_WINDOW = torch.tensor([3, 1, 2, 0])  # N = 4: with T = 3 there is one window only, 3, 1, 2 and then 0


@points(0, "shape")
def test_five_tokens_hold_one_window_of_four(learner):
    """arange(5) with T = 4: x is 0, 1, 2, 3, and y, the token after each, is 1, 2, 3, 4; in both rows."""
    x, y = learner.get_batch(torch.arange(5), 2, 4)
    assert_equal(x, torch.tensor([[0, 1, 2, 3], [0, 1, 2, 3]]), what="x")
    assert_equal(y, torch.tensor([[1, 2, 3, 4], [1, 2, 3, 4]]), what="y")


@points(0, "robustness")
def test_four_tokens_are_too_few_for_a_window_of_four(learner):
    """The last token of a window needs a next one, so N = T raises ValueError; N = T + 1 is enough."""
    assert_equal(learner.get_batch(torch.arange(5), 1, 4)[1], torch.tensor([[1, 2, 3, 4]]), what="y")
    assert_value_error(learner.get_batch, torch.arange(4), 1, 4, naming="block_size", values=(4,))


@points(0, "numerics")
def test_the_first_step_of_adamw(learner):
    """After one step m̂ / sqrt(v̂) is the gradient's sign: 1 becomes 0.9 at lr 0.1, and in a matrix 1 * 0.95 - 0.1."""
    props = learner.file("props")
    weights = props.Weights(vector=torch.tensor([1.0]), matrix=torch.tensor([[1.0]]), still=torch.tensor([[1.0]]))
    optimizer = learner.AdamW(props.parameter_list.keep(weights), 0.1, weight_decay=0.5)
    weights.set_gradients(vector=torch.tensor([2.0]), matrix=torch.tensor([[2.0]]), still=None)
    optimizer.step()
    after = weights.state_dict()
    assert_close(after["vector"], torch.tensor([0.9]), what="a vector after the step")
    assert_close(after["matrix"], torch.tensor([[0.85]]), what="a matrix, which decays, after the step")
    assert_close(after["still"], torch.tensor([[1.0]]), what="a matrix without a gradient after the step")


@points(0, "numerics")
def test_the_second_step_of_adamw(learner):
    """Gradients 2 and then 0, betas 0.5 and 0.75: m̂ = 2/3 and v̂ = 12/7, so the second step is 0.1 * 0.50918."""
    props = learner.file("props")
    weights = props.Weights(vector=torch.tensor([1.0]))
    optimizer = learner.AdamW(props.parameter_list.keep(weights), 0.1, betas=(0.5, 0.75))
    for gradient in (2.0, 0.0):
        weights.set_gradients(vector=torch.tensor([gradient]))
        optimizer.step()
    assert_close(weights.state_dict()["vector"], torch.tensor([0.9 - 0.1 * (2 / 3) / math.sqrt(12 / 7)]))


@points(0, "numerics")
def test_the_schedule_of_the_lesson(learner):
    """max 1, min 0.1, a warm-up of 4 and 12 in all: steps 0, 3, 4, 8, 12 and 99 have .25, 1, 1, .55, .1 and .1."""
    for step, expected in ((0, 0.25), (3, 1.0), (4, 1.0), (8, 0.55), (12, 0.1), (99, 0.1)):
        rate = learner.cosine_lr(step, max_lr=1.0, min_lr=0.1, warmup_steps=4, total_steps=12)
        assert_close(rate, expected, what=f"the rate of step {step}")


@points(0, "numerics")
def test_three_and_four_make_five(learner):
    """Gradients [3] and [[4, 0]] have the norm 5; clipped to 1 they are [0.6] and [[0.8, 0]]."""
    props = learner.file("props")
    weights = props.Weights(vector=torch.zeros(1), matrix=torch.zeros(1, 2))
    weights.set_gradients(vector=torch.tensor([3.0]), matrix=torch.tensor([[4.0, 0.0]]))
    norm = learner.clip_grad_norm_(props.parameter_list.keep(weights), 1.0)
    assert_close(norm.item() if isinstance(norm, torch.Tensor) else norm, 5.0, what="the norm before clipping")
    gradients = weights.gradients()
    assert_close(gradients["vector"], torch.tensor([0.6]), what="the gradient of the vector")
    assert_close(gradients["matrix"], torch.tensor([[0.8, 0.0]]), what="the gradient of the matrix")


@points(0, "numerics")
def test_two_steps_of_training(learner):
    """A model that knows nothing of 4 ids has a loss of ln 4; one step of 1 against the gradient later it is 1.0806."""
    props = learner.file("props")
    model = props.BigramModel(torch.zeros(4, 4), torch.zeros(4))
    optimizer = props.PlainDescent(model)  # p -= lr * gradient
    settings = {"batch_size": 2, "block_size": 3, "max_lr": 1.0, "min_lr": 0.0, "warmup_steps": 0, "max_norm": 100.0}
    losses = learner.train(model, ONE_WINDOW, steps=2, betas=(0.9, 0.99), weight_decay=0.0, optimizer=optimizer, **settings)
    # In each of the three rows the gradient is a third of softmax - one-hot, and the bias gets their sum. One step later the right
    # token's logit is 1/3, and the other three are 0, 0 and -1/3.
    second = math.log(math.exp(1 / 3) + 2 + math.exp(-1 / 3)) - 1 / 3  # 1.0806
    assert_close(losses, [math.log(4), second], what="the list of losses")
    assert_close(optimizer.get("rates"), [1.0, 0.5], what="the list of learning rates")


@points(0, "robustness")
def test_a_checkpoint_brings_everything_back(learner):
    """Three steps, a checkpoint and two more are the same as the two steps after loading it into another model."""
    props = learner.file("props")
    data = torch.arange(12)
    settings = {
        "batch_size": 2,
        "block_size": 3,
        "max_lr": 0.1,
        "min_lr": 0.0,
        "warmup_steps": 2,
        "total_steps": 5,
        "max_norm": 1.0,
    }
    model, generator = props.BigramModel(torch.eye(12), torch.zeros(12), 0.5), props.generator(1)
    optimizer = learner.AdamW(props.parameter_list.keep(model), 0.1)
    learner.train(model, data, steps=3, optimizer=optimizer, generator=generator, **settings)
    path = props.Folder().path.keep("checkpoint.pt")
    learner.save_checkpoint(path, model, optimizer, 3, generator)
    losses = learner.train(model, data, steps=2, start_step=3, optimizer=optimizer, generator=generator, **settings)
    other, other_generator = props.BigramModel(torch.zeros(12, 12), torch.ones(12), 0.5), props.generator(2)
    other_optimizer = learner.AdamW(props.parameter_list.keep(other), 0.1)
    step = learner.load_checkpoint(path, other, other_optimizer, other_generator)
    assert_equal(step, 3, what="the step")
    again = learner.train(other, data, steps=2, start_step=3, optimizer=other_optimizer, generator=other_generator, **settings)
    assert_equal(again, losses, what="the list of losses")


@points(0, "numerics")
def test_three_steps_by_hand(learner):
    """Two tokens, 0 then 1, plain descent at a rate of 1: the losses are ln 2, then 0.1269, then 0.0807."""
    props = learner.file("props")
    model = props.BigramModel(torch.zeros(2, 2), torch.zeros(2))
    settings = {"batch_size": 1, "block_size": 1, "max_lr": 1.0, "min_lr": 1.0, "max_norm": 100.0}
    losses = learner.train(model, torch.tensor([0, 1]), steps=3, optimizer=props.PlainDescent(model), **settings)
    # Logits 0, 0: both tokens have 1/2. A row and the bias move by 1/2 each: logits -1, 1, so 1 has 0.8808. Then by 0.1192 each.
    assert_close(losses, [0.6931472, 0.1269280, 0.0806677], what="the list of losses", tolerance=1e-4)
