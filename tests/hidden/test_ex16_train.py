"""The grading suite of 16 · training: batches, AdamW, the schedule, clipping, the loop around them, and checkpoints."""

import itertools
import math

import pytest
import torch
from torch.nn import functional as F

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
    uniform,
)

V = 11  # ids of the bigram models
WHY = "a table of bigrams is square"
# What `train` is told in all tests that do not say otherwise. With data of T + 1 tokens there is one window only, so that every right
# `get_batch` draws the same batch.
T = 6
SETTINGS = {
    "batch_size": 3,
    "block_size": T,
    "max_lr": 0.9,
    "min_lr": 0.2,
    "warmup_steps": 2,
    "betas": (0.8, 0.95),
    "weight_decay": 0.6,
    "max_norm": 100.0,
}


def some_weights():
    """Values of parameters with one, two and three axes, and one with none."""
    shapes = {"vector": (5,), "matrix": (4, 3), "cube": (2, 3, 4), "scale": ()}
    return {name: randn(*shape) for name, shape in shapes.items()}


def gradients_for(values, scale=1.0):
    """One gradient for each."""
    return {name: randn(*value.shape, scale=scale) for name, value in values.items()}


def some_seed():
    """A number for a generator on the other side."""
    return randint(0, 10**6, 1, blunt="one number").item()


def hold(side, values):
    """A module of these parameters, where `side` computes."""
    return side.file("props").Weights(**values)


def parameters(side, module):
    """The parameters of a module, as an argument for `side`."""
    return side.file("props").parameter_list.keep(module)


def steps_of(side, values, gradients, **settings):
    """The parameters' values after each step, on one set of gradients after the other; None keeps the last ones."""
    module = hold(side, values)
    optimizer = side.AdamW(parameters(side, module), **settings)
    after = []
    for one in gradients:
        module.set_gradients(**one)
        optimizer.step()
        after.append(module.state_dict())
    return after


def assert_same_values(actual, expected, what):
    """Two dicts of tensors agree, name by name."""
    if type(actual) is not dict or actual.keys() != expected.keys():
        fail(f"{what}: there are other parameters than before")
    for name, value in expected.items():
        assert_close(actual[name], value, what=f"{what}: `{name}`")


def assert_same_steps(actual, expected):
    """The same values after every step."""
    for number, (one, other) in enumerate(zip(actual, expected, strict=True), start=1):
        assert_same_values(one, other, f"after step {number}")


def bigrams(side, table, bias, dropout=0.0):
    """A small model on one side."""
    return side.file("props").BigramModel(table, bias, dropout)


def train_plainly(side, table, bias, data, steps, *, dropout=0.0, mode=True, **settings):
    """Train a bigram model by plain descent: (losses, rates, norms of the gradients, the model)."""
    model = bigrams(side, table, bias, dropout).train(mode)
    optimizer = side.file("props").PlainDescent(model)
    losses = side.train(model, data, steps=steps, optimizer=optimizer, **{**SETTINGS, **settings})
    return losses, optimizer.get("rates"), optimizer.get("norms"), model


def assert_trained_alike(learner, reference, *arguments, **settings):
    """Losses, learning rates, gradients and the weights in the end are the reference's."""
    losses, rates, norms, model = train_plainly(learner, *arguments, **settings)
    right_losses, right_rates, right_norms, right_model = train_plainly(reference, *arguments, **settings)
    assert_close(losses, right_losses, what="the list of losses")
    assert_close(rates, right_rates, what="the list of learning rates at each step")
    assert_close(norms, right_norms, what="the list of the gradients' norms at each step", tolerance=1e-4)
    assert_same_values(model.state_dict(), right_model.state_dict(), "after training")


# --- get_batch ---


@points(0.5, "shape")
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8], ids=["int64", "int32", "uint8"])
def test_a_batch_is_windows_and_the_tokens_after_them(learner, dtype):
    """x and y are int64 [B, T], whatever integers the data is: x in the order of the data, y the token after each of x."""
    data = torch.randperm(97, generator=torch.Generator().manual_seed(some_seed()))
    place = data.argsort()  # every token occurs once, so a token tells where it stands
    batch = learner.get_batch(data.to(dtype), 7, 5, learner.file("props").generator(3))
    if type(batch) not in (tuple, list) or len(batch) != 2:
        fail("get_batch returns two tensors, x and y")
    for name, one in zip("xy", batch, strict=True):
        assert_shape(one, (7, 5), what=name)
        if one.dtype != torch.int64 or ((one < 0) | (one >= 97)).any():
            fail(f"{name} does not hold tokens of the data as int64")
    at = place[batch[0]]  # [B, T]
    assert_equal(at, at[:, :1] + torch.arange(5), what="the list of places in the data that x comes from")
    assert_equal(place[batch[1]], at + 1, what="the list of places in the data that y comes from")


@points(0.5, "numerics")
def test_data_of_one_window_gives_that_window(learner, reference):
    """T + 1 tokens hold one window of T and its next tokens: every row of the batch is that one."""
    data = randint(0, 50, 9)
    x, y = learner.get_batch(data, 3, 8)
    right_x, right_y = reference.get_batch(data, 3, 8)
    assert_equal(x, right_x, what="x")
    assert_equal(y, right_y, what="y")


@points(0.5, "numerics")
def test_every_start_is_drawn_equally_often(learner):
    """Windows start at 0, at N - T - 1, and everywhere between them, all equally often."""
    data = torch.arange(100, 111)  # N = 11, T = 6: five starts
    x, y = learner.get_batch(data, 2000, 6, learner.file("props").generator(some_seed()))
    assert_equal(y, x + 1, what="y")
    counts = torch.bincount((x[:, 0] - 100).clamp(0, 10), minlength=5)
    if counts[5:].any():
        fail("a window starts where its next tokens are no longer in the data")
    if ((counts - 400).abs() > 5 * math.sqrt(2000 * 0.2 * 0.8)).any():
        fail("the five possible windows of 11 tokens are not drawn equally often")


@points(0.5, "numerics")
def test_every_row_starts_at_a_place_of_its_own(learner):
    """The windows of a batch have nothing to do with each other, and the next batch has other ones."""
    data, generator = torch.arange(3000), learner.file("props").generator(some_seed())
    batches = [learner.get_batch(data, 9, 4, generator) for _ in range(3)]
    for x, y in batches:
        assert_equal(y, x + 1, what="y")
    starts = torch.stack([x[:, 0] for x, _ in batches])  # [3, 9]
    if torch.equal(starts[0], starts[1]) or torch.equal(starts[1], starts[2]):
        fail("one batch after the other holds the same windows")
    distances = starts.diff(dim=1)
    if (distances == distances[:, :1]).all(dim=1).any():
        fail("the windows of a batch start at regular distances")
    if min(len(row.unique()) for row in starts) < 5:
        fail("most windows of a batch are the same")


@points(0.5, "robustness")
def test_the_generator_decides_what_is_drawn(learner):
    """The same generator state gives the same batch, another one another; without a generator, the global one decides."""
    props, data = learner.file("props"), torch.arange(1000)
    props.seed(4)
    first = learner.get_batch(data, 8, 5, props.generator(1))
    assert_equal(first[1], first[0] + 1, what="y")
    props.seed(5)
    assert_equal(learner.get_batch(data, 8, 5, props.generator(1)), first, what="the batch of an equal generator")
    props.seed(4)
    if torch.equal(learner.get_batch(data, 8, 5, props.generator(2))[0], first[0]):
        fail("another generator draws the same windows")
    props.seed(5)
    from_global = learner.get_batch(data, 8, 5)
    assert_equal(from_global[1], from_global[0] + 1, what="y")
    following = learner.get_batch(data, 8, 5)
    props.seed(5)
    assert_equal(learner.get_batch(data, 8, 5), from_global, what="the batch after torch's global generator was seeded again")
    if torch.equal(following[0], from_global[0]):
        fail("without a generator, one batch after the other holds the same windows")


@points(0.25, "robustness")
def test_the_data_may_have_strides_and_stays_as_it_is(learner, reference):
    """Data that is not contiguous gives the same windows, and is not changed."""
    data = noncontiguous(randint(0, 50, 9))
    batch = assert_arguments_unchanged(learner.get_batch, data, 4, 8)
    assert_equal(batch, reference.get_batch(data, 4, 8), what="the batch")


@points(0.25, "robustness")
def test_too_little_data_is_refused(learner, reference):
    """N = T and N < T raise ValueError that names block_size and gives T and N; N = T + 1 is enough."""
    data = randint(0, 50, 54)
    assert_equal(learner.get_batch(data, 2, 53), reference.get_batch(data, 2, 53), what="the batch of N = T + 1")
    for block_size, length in ((53, 53), (53, 41), (17, 2)):
        values = (block_size, length)
        assert_value_error(learner.get_batch, data[:length], 2, block_size, naming="block_size", values=values)


# --- cosine_lr ---


@points(0.5, "numerics")
@pytest.mark.parametrize("warmup", [5, 1, 0], ids=["warm-up 5", "warm-up 1", "no warm-up"])
def test_the_rate_rises_in_a_line_and_falls_in_a_cosine(learner, reference, warmup):
    """Every step's rate: up to max_lr at the end of the warm-up, down to min_lr at total_steps, and no further."""
    settings = {"max_lr": uniform(0.5, 2.0), "min_lr": uniform(0.1, 0.4), "warmup_steps": warmup, "total_steps": 16}
    for step in range(20):
        rate, expected = learner.cosine_lr(step, **settings), reference.cosine_lr(step, **settings)
        assert_close(rate, expected, what=f"the rate of step {step}, with a warm-up of {warmup} and 16 steps in all,")
    assert_close(learner.cosine_lr(10**6, **settings), settings["min_lr"], what="the rate of a step long after the last one")


@points(0.25, "numerics")
def test_small_rates_are_right_too(learner, reference):
    """Rates as they are used, of 1e-4 and less, judged by their ratio to max_lr."""
    settings = {"max_lr": 3e-4, "min_lr": 3e-5, "warmup_steps": 20, "total_steps": 100}
    for step in (0, 7, 19, 20, 43, 99, 100):
        rate = learner.cosine_lr(step, **settings)
        if type(rate) is not float:
            fail("the rate is not a float")
        expected = reference.cosine_lr(step, **settings)
        assert_close(rate / 3e-4, expected / 3e-4, what=f"the rate of step {step}, divided by max_lr,")


# --- clip_grad_norm_ ---


def clip(side, gradients, max_norm, walk="parameter_list"):
    """(norm, gradients afterwards) of parameters with these gradients."""
    module = hold(side, {name: torch.zeros(5) if value is None else torch.zeros_like(value) for name, value in gradients.items()})
    module.set_gradients(**gradients)
    parameters = getattr(side.file("props"), walk).keep(module)
    norm = side.clip_grad_norm_(parameters, max_norm)
    return norm, module.gradients()


def as_number(norm):
    """A norm as a float: a tensor without axes is as good."""
    if isinstance(norm, torch.Tensor) and norm.dim() == 0:
        return norm.item()
    return norm


def assert_clipped_alike(learner, reference, gradients, max_norm, walk="parameter_list"):
    """The norm and all gradients are the reference's."""
    norm, after = clip(learner, gradients, max_norm, walk)
    right_norm, right_after = clip(reference, gradients, max_norm, walk)
    assert_close(as_number(norm), as_number(right_norm), what="the norm that is returned")
    if type(after) is not dict or after.keys() != right_after.keys():
        fail("the parameters are no longer the same")
    for name, expected in right_after.items():
        if expected is None and after[name] is not None:
            fail(f"`{name}` had no gradient, and now it has one")
        if expected is not None:
            assert_close(after[name], expected, what=f"the gradient of `{name}`", tolerance=3e-6)


@points(0.25, "robustness")
def test_gradients_are_clipped_in_place(learner, reference):
    """Whoever holds a gradient sees it shrink: no new tensor takes its place."""
    gradients = {"a": randn(5), "b": randn(4, 3)}
    assert_clipped_alike(learner, reference, gradients, 0.5)
    module = hold(learner, gradients)
    held = dict(zip(gradients, learner.clip_grad_norm_.hold(*gradients.values()), strict=True))
    module.set_gradients(**held)
    learner.clip_grad_norm_(parameters(learner, module), 0.5)
    after = module.gradients()
    for name, gradient in held.items():
        assert_close(gradient.fetch(), after[name], what=f"the tensor that was the gradient of `{name}` before")


@points(0.75, "numerics")
@pytest.mark.parametrize("walk", ["parameter_list", "parameter_iterator"], ids=["list", "iterator"])
def test_all_gradients_shrink_by_one_factor(learner, reference, walk):
    """The norm of all gradients together is returned, and each is multiplied by max_norm / norm: large ones and small ones."""
    gradients = {"a": randn(5, scale=0.3), "b": randn(4, 3, scale=3.0), "c": randn(2, 3, 4)}
    for max_norm in (0.7, 2.0):
        assert_clipped_alike(learner, reference, gradients, max_norm, walk)


@points(0.5, "numerics")
def test_small_gradients_stay_as_they_are(learner, reference):
    """Under max_norm nothing changes, not a bit; the norm is returned all the same."""
    gradients = {"a": randn(5, scale=0.3), "b": randn(4, 3)}
    norm = math.sqrt(sum((gradient**2).sum().item() for gradient in gradients.values()))
    for max_norm in (1.01 * norm, 100.0):
        assert_clipped_alike(learner, reference, gradients, max_norm)
        _, after = clip(learner, gradients, max_norm)
        for name, gradient in gradients.items():
            assert_equal(after[name], gradient, what=f"the gradient of `{name}`, whose norm is under max_norm,")


@points(0.5, "robustness")
def test_missing_and_zero_gradients_are_no_trouble(learner, reference):
    """Parameters without a gradient are skipped; with no gradient at all, or zeros alone, the norm is 0 and nothing is NaN."""
    assert_clipped_alike(learner, reference, {"a": None, "b": randn(4, 3), "c": None, "d": noncontiguous(randn(2, 3, 4))}, 0.5)
    assert_clipped_alike(learner, reference, {"a": None, "b": torch.zeros(4, 3)}, 0.5)
    assert_clipped_alike(learner, reference, {"a": None, "b": None}, 0.5)


# --- AdamW ---


@points(1.5, "numerics")
@pytest.mark.parametrize(
    "settings",
    [{"lr": 0.1}, {"lr": 0.3, "betas": (0.6, 0.9), "eps": 0.3, "weight_decay": 0.8}],
    ids=["defaults", "other settings"],
)
def test_each_step_moves_every_parameter_as_adamw_does(learner, reference, settings):
    """Five steps on changing gradients, with parameters of 0, 1, 2 and 3 axes; the gradients stay as they are."""
    values = some_weights()
    gradients = [gradients_for(values, scale) for scale in (1.0, 0.3, 3.0, 0.1, 1.0)]
    assert_same_steps(steps_of(learner, values, gradients, **settings), steps_of(reference, values, gradients, **settings))
    tiny = [gradients_for(values, 1e-7)]  # here eps decides
    assert_same_steps(steps_of(learner, values, tiny, **settings), steps_of(reference, values, tiny, **settings))
    module = hold(learner, values)
    module.set_gradients(**gradients[0])
    learner.AdamW(parameters(learner, module), **settings).step()
    assert_same_values(module.gradients(), gradients[0], "the gradients after a step")


@points(0.5, "numerics")
def test_only_weights_of_two_axes_or_more_decay(learner, reference):
    """With gradients of zero, matrices shrink by 1 - lr * weight_decay in each step, and vectors stay as they are."""
    values = some_weights()
    zeros = {name: torch.zeros_like(value) for name, value in values.items()}
    settings = {"lr": 0.2, "weight_decay": 0.7}
    after = steps_of(learner, values, [zeros, {}], **settings)
    assert_same_steps(after, steps_of(reference, values, [zeros, {}], **settings))


@points(0.5, "robustness")
def test_a_parameter_without_a_gradient_is_left_alone(learner, reference):
    """No step, no decay and no count for it: when its gradient comes later, that is its first step."""
    values = some_weights()
    missing = {"matrix": None, "vector": None}
    gradients = [{**gradients_for(values), **missing}, gradients_for(values), missing, gradients_for(values)]
    settings = {"lr": 0.2, "weight_decay": 0.7}
    after = steps_of(learner, values, gradients, **settings)
    assert_same_steps(after, steps_of(reference, values, gradients, **settings))
    for name in missing:
        assert_equal(after[0][name], values[name], what=f"`{name}`, which had no gradient,")


@points(0.5, "robustness")
def test_the_optimizer_keeps_its_parameters_and_takes_a_new_rate(learner, reference):
    """Made from an iterator it goes on for many steps; setting `lr` changes the steps that follow; zero_grad forgets."""
    values = some_weights()
    gradients = [gradients_for(values) for _ in range(3)]
    results = []
    for side in (learner, reference):
        props, module = side.file("props"), hold(side, values)
        optimizer = side.AdamW(props.parameter_iterator(module), 0.1)
        after = []
        for one, rate in zip(gradients, (0.1, 0.5, 0.02), strict=True):
            props.set_attribute(optimizer, "lr", rate)
            module.set_gradients(**one)
            optimizer.step()
            after.append(module.state_dict())
        optimizer.zero_grad()
        results.append((after, module.gradients()))
    assert_same_steps(results[0][0], results[1][0])
    if any(gradient is not None and gradient.any() for gradient in results[0][1].values()):
        fail("after zero_grad there are still gradients")


@points(0.5, "robustness")
def test_a_state_is_copied_into_another_optimizer(learner, reference):
    """An optimizer that loads the state of another goes on as that one would, counts included, and leaves it alone."""
    values = some_weights()
    early = [{**gradients_for(values), "vector": None}, gradients_for(values), gradients_for(values)]
    late = [gradients_for(values) for _ in range(2)]
    settings = {"lr": 0.1, "betas": (0.6, 0.9), "eps": 1e-3, "weight_decay": 0.5}
    results = []
    for side in (learner, reference):
        one, other = hold(side, values), hold(side, values)
        first, second = side.AdamW(parameters(side, one), **settings), side.AdamW(parameters(side, other), **settings)
        other.set_gradients(**late[1])
        second.step()  # it has a past of its own, which it has to forget
        for gradients in early:
            one.set_gradients(**gradients)
            first.step()
        state = first.state_dict.keep()
        third_one = hold(side, values)
        third = side.AdamW(parameters(side, third_one), **settings)
        third.load_state_dict(state)  # what becomes of one copy is nothing to the others
        third_one.set_gradients(**late[1])
        third.step()
        second.load_state_dict(state)
        other.load_state_dict(one.state_dict())
        after = []
        for gradients in late:
            for module, optimizer in ((one, first), (other, second)):
                module.set_gradients(**gradients)
                optimizer.step()
                after.append(module.state_dict())
        results.append(after)
    assert_same_steps(results[0], results[1])


# --- train ---


@points(0.75, "numerics")
@pytest.mark.parametrize("max_norm", [0.11, 100.0], ids=["clipped", "not clipped"])
def test_a_training_run_is_batch_loss_gradients_clip_rate_step(learner, reference, max_norm):
    """One float per step, its loss before the update; gradients of this step alone, clipped, then a step at its own rate."""
    table, bias, data = randn(V, V, blunt=WHY), randn(V), randint(0, V, T + 1)
    assert_trained_alike(learner, reference, table, bias, data, 6, total_steps=5, max_norm=max_norm)
    assert_trained_alike(learner, reference, table, bias, data, 3, max_norm=max_norm)


@points(0.5, "numerics")
def test_every_step_learns_from_a_new_batch(learner):
    """Each step draws a batch of its own, and its loss is the mean over all tokens of all its windows."""
    size = 40
    table, bias = randn(size, size, blunt=WHY), randn(size)
    data = torch.arange(size)  # the token after i is i + 1, so the windows that the model saw tell their targets
    seed = some_seed()
    settings = {"batch_size": 4, "max_lr": 3.0, "min_lr": 1.0, "total_steps": 6}
    props, seen = learner.file("props"), []
    for number in (1, 2):  # the global generator has no part in it
        props.seed(number)
        losses, _, _, model = train_plainly(learner, table, bias, data, 4, generator=props.generator(seed), **settings)
        seen, seen_before = model.get("seen"), seen
    if len(seen) != 4 or any(x.shape != (4, T) or x.dtype != torch.int64 for x in seen):
        fail("in 4 steps the model was not asked 4 times about a batch of int64 [B, T]")
    if any(torch.equal(one, other) for one, other in itertools.pairwise(seen)):
        fail("one step after the other learns from the same batch")
    assert_equal(seen, seen_before, what="the list of batches that an equal generator gives")
    expected, weights = [], [table.clone().requires_grad_(), bias.clone().requires_grad_()]
    for x, rate in zip(seen, (1.5, 3.0, 3.0, 2.0 + math.cos(math.pi / 4)), strict=True):
        logits = weights[0][x] + weights[1]
        loss = F.cross_entropy(logits.flatten(0, 1), x.flatten() + 1)
        expected.append(loss.item())
        gradients = torch.autograd.grad(loss, weights)
        weights = [(p - rate * g).detach().requires_grad_() for p, g in zip(weights, gradients, strict=True)]
    assert_close(losses, expected, what="the list of losses", tolerance=1e-4)
    assert_close(model.state_dict()["table"], weights[0].detach(), what="the model's table after training", tolerance=1e-4)


@points(0.5, "numerics")
def test_without_an_optimizer_a_new_adamw_is_made(learner, reference):
    """It has the betas and the weight decay that train is given, and all parameters of the model."""
    table, bias, data = randn(V, V, blunt=WHY), randn(V), randint(0, V, T + 1)
    results = []
    for side in (learner, reference):
        model = bigrams(side, table, bias)
        losses = side.train(model, data, steps=5, **{**SETTINGS, "max_lr": 0.4})
        results.append((losses, model.state_dict()))
    assert_close(results[0][0], results[1][0], what="the list of losses", tolerance=1e-4)
    assert_same_values(results[0][1], results[1][1], "after training")


@points(0.5, "numerics")
def test_training_goes_on_where_it_stopped(learner, reference):
    """With start_step and the same optimizer, two runs are one: the rates go on, and so do the optimizer's means."""
    table, bias, data = randn(V, V, blunt=WHY), randn(V), randint(0, V, T + 1)
    # The schedule ends with the run if no other end is given.
    assert_trained_alike(learner, reference, table, bias, data, 4, start_step=3)
    results = []
    for side in (learner, reference):
        model = bigrams(side, table, bias)
        optimizer = side.AdamW(parameters(side, model), 0.1, betas=(0.6, 0.9))
        losses = []
        for start in (0, 3):
            more = side.train(model, data, steps=3, start_step=start, total_steps=8, optimizer=optimizer, **SETTINGS)
            if not isinstance(more, list):
                fail("train returns a list of losses")
            losses += more
        results.append((losses, model.state_dict()))
    assert_close(results[0][0], results[1][0], what="the list of losses of both runs", tolerance=1e-4)
    assert_same_values(results[0][1], results[1][1], "after both runs")
    data, seed, runs = randint(0, V, 60), some_seed(), []
    for parts in ((4,), (1, 3)):
        model, generator = bigrams(learner, table, bias), learner.file("props").generator(seed)
        optimizer, losses, start = learner.AdamW(parameters(learner, model), 0.1), [], 0
        for steps in parts:
            where = {"start_step": start, "total_steps": 4, "optimizer": optimizer, "generator": generator}
            losses += learner.train(model, data, steps=steps, **where, **SETTINGS)
            start += steps
        runs.append(losses)
    assert_close(
        runs[1], runs[0], what="the list of losses of 1 + 3 steps, next to 4 steps with an equal generator,", tolerance=1e-4
    )


@points(0.5, "robustness")
def test_gradients_of_before_have_no_part_in_a_run(learner, reference):
    """Parameters that come with gradients of something else are trained as if they had none."""
    table, bias, data = randn(V, V, blunt=WHY), randn(V), randint(0, V, T + 1)
    results = []
    for side in (learner, reference):
        model = bigrams(side, table, bias)
        side.file("props").leave_gradients(model, 3.0)
        optimizer = side.file("props").PlainDescent(model)
        losses = side.train(model, data, steps=2, optimizer=optimizer, **SETTINGS)
        results.append((losses, model.state_dict()))
    assert_close(results[0][0], results[1][0], what="the list of losses")
    assert_same_values(results[0][1], results[1][1], "after training")


@points(0.5, "robustness")
def test_the_model_is_trained_in_training_mode(learner, reference):
    """A model that comes in evaluation mode is trained with its dropout all the same."""
    table, bias, data = randn(V, V, blunt=WHY), randn(V), randint(0, V, T + 1)
    for mode in (False, True):  # all rows of the table are dropped, so that only the bias is left
        assert_trained_alike(learner, reference, table, bias, data, 3, dropout=1.0, mode=mode)


# --- checkpoints ---


def interrupted(side, *, with_generator):
    """Train, save, go on; then load into a new model and go on from there: (step, both rests' losses, both models' weights)."""
    props, data, dropout = side.file("props"), torch.arange(40) % V, 0.4
    table, bias = randn(V, V, blunt=WHY), randn(V)
    stop = randint(2, 5, 1, blunt="one number").item()

    def run(model, optimizer, generator, steps, start_step):
        where = {"start_step": start_step, "total_steps": 9, "optimizer": optimizer, "generator": generator}
        return side.train(model, data, steps=steps, **where, **{**SETTINGS, "max_lr": 0.3})

    props.seed(11)
    model, generator = bigrams(side, table, bias, dropout), props.generator(5) if with_generator else None
    optimizer = side.AdamW(parameters(side, model), 0.1, betas=(0.6, 0.9))
    run(model, optimizer, generator, stop, 0)
    folder = props.Folder()
    path = folder.path.keep("step.100")  # it stays there: every process has a folder of another name
    side.save_checkpoint(path, model, optimizer, 1)  # the file is there already ...
    side.save_checkpoint(path, model, optimizer, stop, generator)  # ... and is replaced
    rest = run(model, optimizer, generator, 4, stop)
    # Another day: other weights, another past, other random numbers; and the file lies elsewhere.
    props.seed(12)
    other = bigrams(side, randn(V, V, blunt=WHY), randn(V), dropout)
    other_optimizer = side.AdamW(parameters(side, other), 0.1, betas=(0.6, 0.9))
    other_generator = props.generator(6) if with_generator else None
    run(other, other_optimizer, other_generator, 1, 0)
    path = folder.rename.keep("step.100", "moved")
    step = side.load_checkpoint(path, other, other_optimizer, other_generator)
    rest_again = run(other, other_optimizer, other_generator, 4, stop)
    return (step, stop), (rest_again, rest), (other.state_dict(), model.state_dict())


@points(1, "robustness")
@pytest.mark.parametrize("with_generator", [True, False], ids=["with a generator", "without"])
def test_a_checkpoint_resumes_training_bit_for_bit(learner, with_generator):
    """Saved, moved and loaded into a new model and optimizer, training goes on exactly as it would have, dropout included."""
    steps, losses, weights = interrupted(learner, with_generator=with_generator)
    assert_equal(*steps, what="the step that load_checkpoint returns")
    if type(losses[1]) is not list or len(losses[1]) != 4 or len(set(losses[1])) == 1:
        fail("training does not give a loss of its own for every step")
    assert_equal(*losses, what="the list of losses after the break")
    if type(weights[0]) is not dict or weights[0].keys() != {"table", "bias"}:
        fail("the model has other parameters after the break")
    for name, expected in weights[1].items():
        assert_equal(weights[0][name], expected, what=f"`{name}` after the break")


# --- all of it together ---


@points(1, "numerics")
def test_a_small_model_learns_english(learner, reference, training):
    """A CausalLM of one layer falls under the loss of course.toml on real text, within the steps given there."""
    steps, limit = training
    text = torch.tensor(list(reference.file("text").english_text().encode()))
    sizes = {"hidden_size": 128, "intermediate_size": 64, "num_layers": 1, "num_heads": 2, "num_kv_heads": 1, "head_dim": 16}
    config = learner.file("config").ModelConfig(vocab_size=256, max_position_embeddings=64, tie_word_embeddings=False, **sizes)
    learner.file("props").seed(some_seed())
    model = learner.file("ex14_model").CausalLM(config)
    settings = {"batch_size": 64, "block_size": 6, "max_lr": 1e-2, "min_lr": 1e-3, "warmup_steps": 8, "max_norm": 1.0}
    losses = learner.train(model, text, steps=steps, betas=(0.9, 0.95), weight_decay=0.1, **settings)
    if type(losses) is not list or len(losses) != steps or any(type(loss) is not float for loss in losses):
        fail(f"train does not return {steps} floats for {steps} steps")
    starts = randint(0, len(text) - 6, 512, 1, blunt="one start per window")
    windows = text[starts + torch.arange(7)]  # [512, 7]
    logits = model.eval()(windows[:, :-1])
    if not isinstance(logits, torch.Tensor) or logits.shape != (512, 6, 256):
        fail("the trained model no longer gives logits [B, T, V]")
    loss = F.cross_entropy(logits.flatten(0, 1).float(), windows[:, 1:].flatten()).item()
    average = sum(losses[-10:]) / 10
    if not (loss < limit and average < limit):
        fail(f"after {steps} steps the loss is {loss:.2f}, and the last ten steps had {average:.2f}; the limit is {limit:g}")


# --- by hand ---


@points(0.5, "by_hand")
def test_training_is_written_by_hand(learner, reference, by_hand):
    """The right steps and the right clipping, without torch's optimizers and torch's clipping under any name."""
    values = some_weights()
    gradients = [gradients_for(values), gradients_for(values)]
    settings = {"lr": 0.2, "weight_decay": 0.7}
    assert_same_steps(steps_of(learner, values, gradients, **settings), steps_of(reference, values, gradients, **settings))
    assert_clipped_alike(learner, reference, gradients[0], 0.5)
    by_hand.assert_clean()


# --- speed ---


@points(1, "speed")
def test_a_step_takes_no_longer_on_more_data(learner, judge):
    """A training step takes its batch's time: to draw a few windows, not all that the data holds are cut out."""

    def one_run():
        table, bias = randn(32, 32, blunt=WHY), randn(32)
        return randn(32).argsort()[:16], judge.size // 16, table, bias, 4

    judge(learner.file("props").train_on, one_run, lambda losses, right: check_losses(losses, right))


def check_losses(losses, right):
    """A list of the reference's floats."""
    assert_close(losses, right, what="the list of losses", tolerance=1e-3)
