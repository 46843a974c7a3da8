"""The grading suite of 15 · generation: the filters, the draw, and the loop that asks a model for one token after the other.

Most tests use `TableModel` of tests/props.py, whose logits are known beforehand, depend on the whole history, and are read back from
the cache; a few use the learner's own `CausalLM`. Drawn ids are never compared with the reference's: what is looked at is
which ids can be drawn, how often, and that the same seed draws them again.
"""

import pytest
import torch

from grader.sandbox.remote import RemoteIterator
from grader.suite import (
    LearnerError,
    assert_arguments_unchanged,
    assert_close,
    assert_equal,
    assert_shape,
    assert_value_error,
    choice,
    fail,
    noncontiguous,
    points,
    randint,
    randn,
    uniform,
)

# Rows, prompt tokens, ids, and the period of the table models' memory: all different.
B, T, V, P = 3, 4, 11, 5
NEW = 6  # tokens to be added
MANY, SOME, ROWS, FEW = 20_000, 2_000, 600, 70  # rows of draws that are counted; the last two in loops, which may go row by row
CACHE = pytest.mark.parametrize("use_cache", [True, False], ids=["cache", "no cache"])
PENALTY = 1.37  # brings no two logits of `table()` closer than 0.01 to each other


def table():
    """Logits [P, V, V] for a `TableModel`: in each row the same numbers, half of them negative, 0.5 apart, in random order."""
    order = randn(P, V, V, blunt="ids follow ids").argsort(dim=-1)
    return (order - V // 2) * 0.5 + 0.11


def counting_table(size):
    """Logits [1, V, V] of a `TableModel` that counts: n + 1 always follows n, and 0 the last id."""
    ids = torch.arange(size)
    logits = torch.full((1, size, size), -4.0)
    logits[0, ids, (ids + 1) % size] = 4.0
    return logits


def model_of(side, logits, **keywords):
    """A `TableModel` on one side; it is in training mode."""
    return side.file("props").TableModel(logits, **keywords)


def prompt(low=0):
    """Ids [B, T]."""
    return randint(low, V, B, T)


def left_padding():
    """A mask [B, T] of int64: every row has another number of pads, one has none."""
    pads = torch.tensor([2, 0, 1]).roll(choice(range(B)))
    return (torch.arange(T) >= pads[:, None]).long()


def opened(side, *arguments, **keywords):
    """The iterator that `stream` gives."""
    steps = side.stream(*arguments, **keywords)
    if not isinstance(steps, RemoteIterator):
        fail("stream gives nothing that can be asked for one token after the other: does it `yield`?")
    return steps


def first_token(side):
    """`stream`, as a function that asks for the first token only."""

    def call(*arguments, **keywords):
        return next(iter(opened(side, *arguments, **keywords)), None)

    call.what = "stream"
    return call


def generator(side, seed):
    """A random generator on one side."""
    return side.file("props").generator(seed)


def some_seed():
    """A seed, another one in every run."""
    return choice(range(1_000_000))


def assert_continues(learner, reference, logits, ids, new_tokens, *, what="the output", **keywords):
    """`generate` and `stream` both give the reference's tokens on a table model."""
    expected = reference.generate(model_of(reference, logits), ids, new_tokens, **keywords)
    assert_equal(learner.generate(model_of(learner, logits), ids, new_tokens, **keywords), expected, what=what)
    steps = list(opened(learner, model_of(learner, logits), ids, new_tokens, **keywords))
    wanted = list(expected[:, ids.shape[1] :].unbind(dim=1))
    if len(steps) != len(wanted):
        fail(f"stream yields {len(steps)} times, but generate is right with another number of tokens")
    for number, (step, right) in enumerate(zip(steps, wanted, strict=True), start=1):
        assert_equal(step, right, what=f"step {number} of stream")


def shares(reference, logits, temperature=1.0, top_k=None, top_p=None):
    """The probabilities [V] that logits [V] are to be drawn with."""
    filtered = reference.filter_top_k(logits[None].double() / temperature, top_k)
    return reference.filter_top_p(filtered, top_p).softmax(dim=-1)[0]


def assert_drawn_as(ids, expected, rows, what="an id"):
    """Ids [rows] are spread as that many draws with these probabilities [V]: within 5 standard deviations, none that is impossible,
    and none left out that is as good as certain to come."""
    assert_shape(ids, [rows], what="what is drawn")
    if ids.dtype != torch.int64 or (ids < 0).any() or (ids >= len(expected)).any():
        fail("The drawn ids are not int64 numbers of the vocabulary.")
    counts = torch.bincount(ids, minlength=len(expected)).double()
    if (counts[expected == 0] > 0).any():
        fail(f"{what} is drawn that must not be possible here.")
    mean, deviation = rows * expected, (rows * expected * (1 - expected)).sqrt()
    for index, difference in enumerate(((counts - mean).abs() > 5 * deviation + 1).tolist()):
        if difference:
            often = "often" if counts[index] > mean[index] else "seldom"
            fail(f"{what} is drawn too {often}: {int(counts[index])} times in {rows} rows that are all alike.")
    likely = expected > 0
    if (counts[likely] == 0).any() and (-mean[likely]).exp().sum() < 1e-6:
        fail(f"{what} is never drawn in {rows} rows that are all alike, although it is possible.")


# --- between calls: in a process of its own, before any other call can be remembered ---


@points(0.25, "robustness")
def test_a_call_knows_nothing_of_the_calls_before(fresh_learner, reference):
    """A second call with another prompt or batch is right, and two streams on one model do not disturb each other."""
    logits = table()
    model, right = model_of(fresh_learner, logits).eval(), model_of(reference, logits).eval()
    prompts = [prompt(), prompt(), randint(0, V, 2, 7)]
    for ids in prompts:
        expected = reference.generate(right, ids, NEW, temperature=0)
        assert_equal(fresh_learner.generate(model, ids, NEW, temperature=0), expected)
    pair = [iter(opened(fresh_learner, model, ids, 2, temperature=0)) for ids in prompts[:2]]
    expected = [reference.generate(right, ids, 2, temperature=0)[:, T:] for ids in prompts[:2]]
    for step in range(2):
        for steps, wanted in zip(pair, expected, strict=True):
            assert_equal(next(steps, None), wanted[:, step], what="a token of one of two streams that take turns")


# --- repetition penalty ---


@points(0.5, "numerics")
@pytest.mark.parametrize("penalty", [1.5, 0.8, 1.0])
def test_the_penalty_makes_a_seen_id_less_likely(learner, reference, penalty):
    """A positive logit of a seen id is divided by the penalty, any other multiplied; the rest stays as it is."""
    logits = randn(B, V, scale=3.0)
    logits[:, 0] = 0.0
    ids = torch.stack([torch.arange(1, V)[randn(V - 1).argsort()] for _ in range(B)])[:, :T]  # no id twice
    ids[:, 0] = 0
    logits[0, ids[0, 1]], logits[0, ids[0, 2]] = 2.0, -2.0
    logits[1, ids[1, 3]] = -torch.inf
    expected = reference.apply_repetition_penalty(logits, ids, penalty)
    assert_close(learner.apply_repetition_penalty(logits, ids, penalty), expected)


@points(0.5, "numerics")
def test_the_penalty_counts_an_id_of_its_own_row_once(learner, reference):
    """An id that occurs three times is punished once, and only in the row that holds it."""
    logits = randn(B, V, scale=3.0)
    ids = torch.stack([torch.arange(V)[randn(V).argsort()] for _ in range(B)])[:, :2]
    assert_close(learner.apply_repetition_penalty(logits, ids, 1.5), reference.apply_repetition_penalty(logits, ids, 1.5))
    for copies in (2, 3):
        again = ids.repeat(1, copies)
        expected = reference.apply_repetition_penalty(logits, again, 1.5)
        assert_close(learner.apply_repetition_penalty(logits, again, 1.5), expected, what="the output for repeated ids")


# --- top-k ---


@points(0.5, "numerics")
@pytest.mark.parametrize("top_k", [1, 2, 5, V - 1])
def test_top_k_keeps_the_k_largest(learner, reference, top_k):
    """The k largest logits of each row stay as they are, wherever they stand; all others become -inf."""
    for logits in (randn(B, V, scale=3.0), -4.0 - randn(B, V).abs(), 4.0 + randn(B, V).abs()):
        assert_equal(learner.filter_top_k(logits, top_k), reference.filter_top_k(logits, top_k))


@points(0.5, "numerics")
def test_top_k_keeps_the_lowest_ids_of_equal_logits(learner, reference):
    """With ties at the k-th value exactly k entries stay, those with the lowest ids."""
    logits = randint(0, 3, B, V).float()
    for top_k in (1, 3, 4, 7):
        expected = reference.filter_top_k(logits, top_k)
        assert_equal(learner.filter_top_k(logits, top_k), expected, what="the output for logits with ties")
    many = randint(0, 2, B, 300).float()
    assert_equal(learner.filter_top_k(many, 40), reference.filter_top_k(many, 40), what="the output for logits with ties")


@points(0.25, "numerics")
def test_a_filter_that_asks_for_everything_changes_nothing(learner, reference):
    """None switches a filter off, and top_k may be the size of the vocabulary or more."""
    logits = randn(B, V, scale=3.0)
    assert_equal(learner.filter_top_k(logits, 2), reference.filter_top_k(logits, 2))
    for top_k in (V, V + 5, None):
        assert_equal(learner.filter_top_k(logits, top_k), logits)
    assert_equal(learner.filter_top_p(logits, None), logits)
    best = logits.argmax(dim=-1)
    assert_equal(learner.sample_next(logits, 1e-6, V + 5, None), best, what="the drawn ids at temperature 1e-6")


# --- top-p ---


@points(0.5, "numerics")
@pytest.mark.parametrize("around", [0.15, 0.5, 0.9])
def test_top_p_keeps_the_fewest_ids_that_reach_p(learner, reference, around):
    """The likeliest ids stay until their mass reaches p, the one that reaches it too, wherever they stand in the row."""
    logits = randn(B, V, scale=1.5)
    masses = logits.double().softmax(dim=-1).sort(dim=-1, descending=True).values.cumsum(dim=-1)
    top_p = around
    while (masses - top_p).abs().min() < 1e-3:  # no row may be a matter of rounding
        top_p = uniform(around - 0.1, around + 0.08)
    for shift in (0.0, -30.0, 30.0):
        assert_equal(learner.filter_top_p(logits + shift, top_p), reference.filter_top_p(logits + shift, top_p))
    probabilities = torch.tensor([[0.1, 0.4, 0.2, 0.3], [0.05, 0.8, 0.05, 0.1]]).log()
    for top_p in (0.3, 0.55, 0.75, 0.999):
        assert_equal(learner.filter_top_p(probabilities, top_p), reference.filter_top_p(probabilities, top_p))


@points(0.5, "numerics")
def test_top_p_at_its_limits(learner, reference):
    """p = 0 keeps the likeliest id, p = 1 all of them, and a mass that is exactly p has reached it."""
    logits = randn(B, V)
    assert_equal(learner.filter_top_p(logits, 0.6), reference.filter_top_p(logits, 0.6))
    for top_p in (0.0, 0):
        expected = reference.filter_top_k(logits, 1)
        assert_equal(learner.filter_top_p(logits, top_p), expected, what="the output for p = 0")
    for top_p in (1.0, 1):
        assert_equal(learner.filter_top_p(logits, top_p), logits, what="the output for p = 1")
    alike = torch.zeros(2, 4)  # four ids of exactly 1/4 each; which of them stay is open
    for top_p, count in ((0.25, 1), (0.5, 2), (0.75, 3)):
        kept = learner.filter_top_p(alike, top_p)
        assert_shape(kept, [2, 4])
        for row in kept:
            assert_equal(int(row.isfinite().sum()), count, what=f"the number of four equal ids that stay for p = {top_p}")


# --- sample_next ---


@points(0.5, "shape")
@pytest.mark.parametrize("rows", [1, B, V])
def test_a_draw_is_one_id_per_row(learner, reference, rows):
    """sample_next gives int64 ids [B]: greedy, drawn, and drawn where only one id is possible."""
    logits = randn(rows, V, scale=2.0, blunt="one row, and as many rows as ids, are the point")
    best = logits.argmax(dim=-1)
    assert_equal(learner.sample_next(logits, temperature=0), best)
    assert_equal(learner.sample_next(logits, top_k=1), best)
    assert_equal(learner.sample_next(logits, 1.0, None, 0.0), best)
    drawn = learner.sample_next(logits)
    assert_shape(drawn, [rows], what="what is drawn")
    assert_equal(drawn, drawn.to(torch.int64).clamp(0, V - 1), what="what is drawn")


@points(0.5, "numerics")
@pytest.mark.parametrize("temperature", [1.0, 0.5, 2.0])
def test_ids_are_drawn_as_the_softmax_says(learner, reference, temperature):
    """Logits are divided by the temperature, then every row is drawn for itself with the probabilities of a softmax."""
    logits = torch.tensor([0.35, 0.25, 0.2, 0.12, 0.08]).log()[randn(5).argsort()] + uniform(-3.0, 3.0)
    drawn = learner.sample_next(logits.repeat(MANY, 1), temperature, generator=generator(learner, some_seed()))
    assert_drawn_as(drawn, shares(reference, logits, temperature), MANY)


@points(0.25, "numerics")
def test_what_is_not_asked_for_is_not_done(learner, reference):
    """By default the temperature is 1, nothing is cut off, nothing is punished: the model's own probabilities are drawn from."""
    shares = torch.tensor([0.3, 0.2, *[0.5 / 52] * 52])
    drawn = learner.sample_next(shares.log().expand(SOME, 54), generator=generator(learner, some_seed()))
    assert_drawn_as(drawn, shares.double(), SOME)
    # In the loops with fewer rows: one likely id; ids that a top-k of 50 would hide; the least likely ones, which a top-p would hide.
    rare, size = 12, 200
    others = size - 1 - rare
    shares = torch.tensor([0.4, *[0.576 / others] * others, *[0.024 / rare] * rare])
    logits = (shares.log() + 20.0).expand(size, size)[None]  # all are positive: a penalty would divide them
    expected = torch.stack([shares[0], shares[1:-rare].sum(), shares[-rare:].sum()]).double()

    def assert_untouched(ids, what):
        assert_shape(ids, [ROWS], what="what is drawn")
        parts = torch.bucketize(ids.contiguous(), torch.tensor([0, others]))
        assert_drawn_as(parts, expected, ROWS, what=f"in {what}, an id of the likely ones, the others or the rare ones")

    ids = torch.zeros(ROWS, 1, dtype=torch.int64)  # the row holds the likeliest id
    drawn = learner.generate(model_of(learner, logits), ids, 1, generator=generator(learner, some_seed()))
    assert_shape(drawn, [ROWS, 2], what="what generate gives")
    assert_untouched(drawn[:, 1], "generate")
    drawn = first_token(learner)(model_of(learner, logits), ids, 1, generator=generator(learner, some_seed()))
    assert_untouched(drawn, "stream")


# Every order of the three steps, and every other k, leaves other ids of these.
UNEVEN = torch.tensor([0.34, 0.28, 0.14, 0.045, 0.043, 0.041, 0.039, 0.037, 0.035])


@points(0.5, "numerics")
@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p"),
    [(1.0, 3, None), (1.0, None, 0.7), (1.0, 3, 0.7), (0.5, None, 0.7), (2.0, None, 0.75), (2.0, 3, 0.7)],
    ids=["top-k", "top-p", "both", "cold top-p", "hot top-p", "all three"],
)
def test_temperature_comes_before_top_k_and_top_k_before_top_p(learner, reference, temperature, top_k, top_p):
    """Each step works on what the one before it left: temperature, top-k, top-p. What is removed is never drawn."""
    logits = UNEVEN.log()[randn(len(UNEVEN)).argsort()] + uniform(-3.0, 3.0)
    drawn = learner.sample_next(logits.repeat(SOME, 1), temperature, top_k, top_p, generator=generator(learner, some_seed()))
    assert_drawn_as(drawn, shares(reference, logits, temperature, top_k, top_p), SOME)


@points(0.5, "numerics")
def test_temperature_zero_takes_the_largest(learner, reference):
    """Temperature 0 is argmax, whatever the filters and however large the logits; a tiny temperature comes to the same."""
    for logits in (randn(B, V), randn(B, V, scale=1000.0), -5.0 - randn(B, V).abs()):
        best = logits.argmax(dim=-1)
        for temperature in (0, 0.0, 1e-6):
            close = logits * 100 if temperature else logits
            assert_equal(learner.sample_next(close, temperature), best, what="the ids")
            assert_equal(learner.sample_next(close, temperature, 3, 0.5), best, what="the ids with both filters on")


@points(0.5, "robustness")
def test_a_generator_repeats_and_moves_on(learner, reference):
    """The same generator seed draws the same ids again, whatever torch's global seed is; one generator draws new ones each time."""
    props, rows = learner.file("props"), 20
    logits = torch.zeros(rows, V)
    one, other = some_seed(), some_seed() + 1_000_000
    same = "the ids drawn again with the same seed"
    props.seed(1)
    first = learner.sample_next(logits, generator=generator(learner, one))
    assert_shape(first, [rows], what="what is drawn")
    props.seed(2)
    going = generator(learner, one)
    assert_equal(learner.sample_next(logits, generator=going), first, what=same)
    if torch.equal(learner.sample_next(logits, generator=going), first):
        fail("A second draw from the same generator gives the same ids as the first.")
    if torch.equal(learner.sample_next(logits, generator=generator(learner, other)), first):
        fail("Generators with different seeds give the same ids.")
    props.seed(one)
    first = learner.sample_next(logits)
    if torch.equal(learner.sample_next(logits), first):
        fail("Without a generator, a second draw gives the same ids as the first.")
    props.seed(one)
    assert_equal(learner.sample_next(logits), first, what="the ids drawn again with the same global seed, without a generator")
    (held,) = learner.sample_next.hold(logits)  # so that the answer, which is one of chance, is looked at in its place only
    props.seed(one)
    learner.sample_next(held, generator=going)
    if not torch.equal(learner.sample_next(held), first):
        fail("A draw with a generator of its own moves torch's global generator, too.")
    # The loop hands its generator on, to every step.
    model, ids = model_of(learner, torch.zeros(1, V, V)), torch.zeros(rows, 2, dtype=torch.int64)
    for use_cache in (True, False):
        props.seed(1)
        first = learner.generate(model, ids, 2, generator=generator(learner, one), use_cache=use_cache)
        assert_shape(first, [rows, 4], what="what generate gives")
        if torch.equal(first[:, 2], first[:, 3]):
            fail("Every step of generate draws the same ids.")
        props.seed(2)
        again = learner.generate(model, ids, 2, generator=generator(learner, one), use_cache=use_cache)
        assert_equal(again, first, what=same)
        steps = list(opened(learner, model, ids, 2, generator=generator(learner, one), use_cache=use_cache))
        if len(steps) == 2 and torch.equal(*steps):
            fail("Every step of stream draws the same ids.")
        props.seed(3)
        again = list(opened(learner, model, ids, 2, generator=generator(learner, one), use_cache=use_cache))
        assert_equal(again, steps, what="what stream yields again with the same seed")


# --- generate: which tokens ---


@points(0.75, "numerics")
@CACHE
def test_each_token_continues_the_whole_row(learner, reference, use_cache):
    """Greedy tokens follow from the last position's logits and the whole history, with the cache and without it."""
    assert_continues(learner, reference, table(), prompt(), NEW, temperature=0, use_cache=use_cache)
    assert_continues(learner, reference, table(), randint(0, V, 2, 1, blunt="a prompt of one token"), 5, temperature=0,
                     use_cache=use_cache)  # fmt: skip
    assert_continues(learner, reference, table(), randint(0, V, 1, 3, blunt="a single row"), 4, top_k=1, use_cache=use_cache)
    assert_continues(learner, reference, table(), prompt(), 3, top_p=0.0, use_cache=use_cache)


@points(0.5, "shape")
@pytest.mark.parametrize("new_tokens", [0, 1, 3], ids=["0 new", "1 new", "3 new"])
def test_the_result_is_the_prompt_and_the_new_tokens(learner, reference, new_tokens):
    """generate gives [B, T + n] int64, the prompt in front; stream gives n times [B]. No new tokens: the prompt."""
    logits, ids = table(), prompt()
    assert_continues(learner, reference, logits, ids, 2, temperature=0)
    assert_continues(learner, reference, logits, ids, new_tokens, temperature=0)


@points(0.5, "numerics")
def test_the_penalty_covers_prompt_and_new_tokens(learner, reference):
    """The repetition penalty is applied in every step, greedy too, to the ids of the row's prompt and of its new tokens."""
    for use_cache in (True, False):
        assert_continues(
            learner, reference, table(), prompt(), NEW, temperature=0, repetition_penalty=PENALTY, use_cache=use_cache
        )
    # Counting up from 3 with 0.9 for itself and 1 for the next id: the penalty alone decides where it goes.
    steep = counting_table(V)
    steep[0] = torch.linspace(1.0, 0.5, V).expand(V, V)
    assert_continues(learner, reference, steep, prompt(), NEW, temperature=0, repetition_penalty=10.0)


@points(0.5, "numerics")
def test_every_step_is_drawn_with_all_the_arguments(learner, reference):
    """In each step of generate: repetition penalty, then temperature, top-k and top-p, then the draw."""
    size, start = 7, choice(range(7))
    tempting = torch.tensor([2.9, 3.0, 2.6, 2.2, 1.8, 0.2, -1.0])  # itself, then the next id, ...
    logits = torch.stack([tempting.roll(last) for last in range(size)])[None]
    ids = torch.tensor([[(start + 1) % size, start]]).repeat(FEW, 1)
    for name, top_p, use_cache in [
        (name, *more) for name in ("generate", "stream") for more in ((0.53, True), (0.8, True), (0.8, False))
    ]:
        options = {"temperature": 0.8, "top_k": 3, "top_p": top_p}
        random = {**options, "repetition_penalty": 2.0, "generator": generator(learner, some_seed()), "use_cache": use_cache}
        if name == "generate":
            result = learner.generate(model_of(learner, logits), ids, 2, **random)
            assert_shape(result, [FEW, 4])
            first, second = result[:, 2], result[:, 3]
        else:
            steps = list(opened(learner, model_of(learner, logits), ids, 2, **random))
            assert_equal(len(steps), 2, what="how many times stream yields")
            first, second = steps
        punished = reference.apply_repetition_penalty(logits[0, [start]], ids[:1], 2.0)[0]
        assert_drawn_as(first, shares(reference, punished, **options), FEW, what="a first new id")
        for token in first.unique().tolist():
            row = torch.tensor([[*ids[0].tolist(), token]])
            punished = reference.apply_repetition_penalty(logits[0, [token]], row, 2.0)[0]
            these = first == token
            assert_shape(second, [FEW], what="what is drawn")
            assert_drawn_as(second[these], shares(reference, punished, **options), int(these.sum()), what="a second new id")


# --- generate: cache and mask ---


@points(0.25, "robustness")
def test_with_a_cache_a_step_costs_one_token(learner, reference):
    """With use_cache the model is given every token once; without it, all tokens so far in every step."""
    logits, ids = table(), prompt()
    assert_continues(learner, reference, logits, ids, NEW, temperature=0)
    for use_cache in (True, False):
        model = model_of(learner, logits)
        output = learner.generate(model, ids, NEW, temperature=0, use_cache=use_cache)
        expected = reference.generate(model_of(reference, logits), ids, NEW, temperature=0, use_cache=use_cache)
        assert_equal(output, expected)
        given = sum(call["tokens"] for call in model.get("calls"))
        if use_cache and given > B * (T + NEW):
            fail("With use_cache=True the model is given tokens again that the cache holds.")
        if not use_cache and given < B * sum(range(T, T + NEW)):
            fail("With use_cache=False the model is not given all the tokens so far in each step.")


def assert_given_no_more(model, tokens, steps, sentence):
    """Right code gives the model so many tokens in so many steps, or the prompt in more portions; `sentence` tells of needless steps."""
    calls = model.get("calls")
    given = sum(call["tokens"] for call in calls)
    if given > tokens:
        again = f"In {len(calls)} steps the model is given {given} tokens where {tokens} are enough: tokens that it knows are sent again."
        fail(sentence if len(calls) > steps else again)


@points(0.25, "robustness")
@CACHE
def test_the_model_is_asked_once_for_each_token(learner, reference, use_cache):
    """The model is asked once for each new token: not after the last one, and not at all if there is none to come."""
    logits, ids = table(), prompt()
    for new_tokens in (NEW, 1, 0):
        expected = reference.generate(model_of(reference, logits), ids, new_tokens, temperature=0)
        enough = B * (T + new_tokens - 1 if use_cache else sum(range(T, T + new_tokens))) if new_tokens else 0
        for name in ("generate", "stream"):
            model, keywords = model_of(learner, logits), {"temperature": 0, "use_cache": use_cache}
            if name == "generate":
                assert_equal(learner.generate(model, ids, new_tokens, **keywords), expected)
            else:
                steps = list(opened(learner, model, ids, new_tokens, **keywords))
                assert_equal(steps, list(expected[:, T:].unbind(dim=1)), what="what stream yields")
            often = f"For max_new_tokens={new_tokens}, {name} asks the model more often than it has tokens to choose."
            assert_given_no_more(model, enough, new_tokens, often)


@points(0.5, "robustness")
@CACHE
@pytest.mark.parametrize("dtype", [torch.int64, torch.bool], ids=["int64", "bool"])
def test_padding_on_the_left_has_no_influence(learner, reference, use_cache, dtype):
    """attention_mask hides the pads in every step, grows with the tokens, and each row goes on as if it stood alone."""
    logits, ids, mask = table(), prompt(), left_padding()
    keywords = {"temperature": 0, "use_cache": use_cache}
    assert_continues(learner, reference, logits, ids, NEW, attention_mask=mask.to(dtype), **keywords)
    padded = learner.generate(model_of(learner, logits), ids, NEW, attention_mask=mask.to(dtype), **keywords)
    for row in range(B):
        alone = ids[row : row + 1, mask[row].bool()]
        expected = reference.generate(model_of(reference, logits), alone, NEW, **keywords)
        assert_equal(padded[row : row + 1, -NEW:], expected[:, -NEW:], what="the continuation of a padded row")


# --- generate: the end of a row ---


@points(0.5, "robustness")
@CACHE
def test_finished_rows_are_filled_up(learner, reference, use_cache):
    """A row that has drawn the end token is filled up with it, while the others go on; the end token itself is returned."""
    end = 7
    ids = randint(0, end - 1, B, T)
    ids[:, -1] = torch.tensor([5, 2, 4])[randn(B).argsort()]  # 2, 5 and 3 steps from the end
    keywords = {"temperature": 0, "eos_token_id": end, "use_cache": use_cache}
    assert_continues(learner, reference, counting_table(V), ids, 4, **keywords)
    assert_continues(learner, reference, counting_table(V), ids, 9, **keywords)


@points(0.5, "robustness")
def test_generation_stops_when_every_row_has_ended(learner, reference):
    """It goes on until the last row has drawn the end token, then stops: no more tokens, and none without an end token set."""
    counting = counting_table(V)
    ids = torch.tensor([[9, 4], [1, 6], [0, 5]])
    for end in (8, 7, 10):
        assert_continues(learner, reference, counting, ids, 9, temperature=0, eos_token_id=end)
    assert_continues(learner, reference, counting, ids, 9, temperature=0)
    model = model_of(learner, counting)
    output = learner.generate(model, ids, 9, temperature=0, eos_token_id=8)
    steps = output.shape[1] - ids.shape[1]
    assert_given_no_more(model, output.numel() - len(output), steps, "The model is still asked after every row has ended.")


@points(0.25, "robustness")
def test_an_end_token_in_the_prompt_ends_nothing(learner, reference):
    """Only a new token can finish a row: the prompt may hold the end token anywhere, its last place and its pads included."""
    end = choice([3, 6])
    ids = torch.tensor([[end, 1, 0], [1, end, 8], [2, end - 2, end]])
    assert_continues(learner, reference, counting_table(V), ids, 5, temperature=0, eos_token_id=end)
    mask = torch.tensor([[0, 1, 1], [1, 1, 1], [1, 1, 1]])
    assert_continues(learner, reference, counting_table(V), ids, 5, temperature=0, eos_token_id=end, attention_mask=mask)


@points(0.25, "robustness")
def test_the_end_token_may_be_id_zero(learner, reference):
    """Id 0 is an id like any other, also as the end token."""
    ids = torch.tensor([[4, 9], [1, 7], [2, 8]])
    assert_continues(learner, reference, counting_table(V), ids, 7, temperature=0, eos_token_id=0)


# --- generate: what it leaves behind ---


@points(0.25, "robustness")
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_the_model_works_in_eval_mode_and_gets_its_mode_back(learner, reference, training):
    """Dropout is off while tokens are generated; afterwards the model is in the mode that it was in before."""
    logits, ids = table(), prompt()
    for new_tokens in (NEW, 0):
        model = model_of(learner, logits).train(training)
        expected = reference.generate(model_of(reference, logits), ids, new_tokens, temperature=0)
        assert_equal(learner.generate(model, ids, new_tokens, temperature=0), expected)
        assert_equal(model.training, training, what="model.training after generate")
        steps = list(opened(learner, model, ids, new_tokens, temperature=0))
        assert_equal(steps, list(expected[:, T:].unbind(dim=1)), what="what stream yields")
        assert_equal(model.training, training, what="model.training after the stream's last token")
        if any(call["training"] for call in model.get("calls")):
            fail("The model is in training mode when it is asked for logits.")


@points(0.5, "robustness")
def test_a_stream_that_is_closed_or_fails_gives_the_mode_back(learner, reference):
    """Closing a stream, before its first token too, and an error of the model restore the mode; the error is passed on."""
    logits, ids = table(), prompt()
    expected = reference.generate(model_of(reference, logits), ids, NEW, temperature=0)
    for training in (True, False):
        for pulled in (0, 1, 3):
            model = model_of(learner, logits).train(training)
            handle = opened(learner, model, ids, NEW, temperature=0)
            steps = iter(handle)
            for step in range(pulled):
                assert_equal(next(steps, None), expected[:, T + step], what="a token of the stream")
            handle.close()
            assert_equal(model.training, training, what=f"model.training after a stream was closed after {pulled} tokens")
        for name in ("stream", "generate"):
            model = model_of(learner, logits, fails_at=3).train(training)
            try:
                if name == "stream":
                    list(opened(learner, model, ids, NEW, temperature=0))
                else:
                    learner.generate(model, ids, NEW, temperature=0)
            except LearnerError as error:
                if not error.is_a("RuntimeError") or "call 3" not in error.message:
                    raise
            else:
                fail(f"{name} hides an error of the model.")
            assert_equal(model.training, training, what=f"model.training after {name} has failed")


@points(0.25, "robustness")
def test_no_gradients_are_recorded(learner, reference):
    """Generation needs no gradients: while the model works, none are recorded."""
    logits, ids = table(), prompt()
    assert_continues(learner, reference, logits, ids, NEW, temperature=0)
    for use_cache in (True, False):
        model = model_of(learner, logits)
        learner.generate(model, ids, 2, temperature=0, use_cache=use_cache)
        list(opened(learner, model, ids, 2, temperature=0, use_cache=use_cache))
        if any(call["grad"] for call in model.get("calls")):
            fail("The model records gradients while it generates, and every step keeps all the steps before it alive.")


@points(0.25, "robustness")
@pytest.mark.parametrize("name", ["generate", "stream"])
def test_gradients_stay_on_or_off_for_the_caller(learner, reference, name):
    """Whoever asks for tokens has gradients on or off as before: after each token, at the end, and after an error of the model."""
    logits, ids, props = table(), prompt(), learner.file("props")
    expected = reference.generate(model_of(reference, logits), ids, NEW, temperature=0)
    wanted = [expected] if name == "generate" else list(expected[:, T:].unbind(dim=1))
    function = props.named("ex15_generate", name)
    for enabled in (True, False):
        outputs, modes = props.gradient_modes(function, enabled, model_of(learner, logits), ids, NEW, temperature=0)
        assert_equal(outputs, wanted, what=f"what {name} gives")
        failing = model_of(learner, logits, fails_at=3)
        modes += props.gradient_modes(function, enabled, failing, ids, NEW, temperature=0)[1]
        if (not enabled) in modes:
            fail(
                f"{name} leaves gradients {'off' if enabled else 'on'} for its caller, who had them {'on' if enabled else 'off'}."
            )


@points(0.5, "robustness")
def test_a_stream_computes_what_is_asked_for(learner, reference):
    """Each token is computed when it is asked for: the model is given nothing before, and nothing ahead."""
    logits, ids = table(), prompt()
    expected = reference.generate(model_of(reference, logits), ids, NEW, temperature=0)
    model = model_of(learner, logits)
    steps = opened(learner, model, ids, NEW, temperature=0)
    if model.get("calls"):
        fail("The model is asked before the first token is.")
    for number, step in enumerate(steps):
        assert_equal(step, expected[:, T + number], what=f"step {number + 1} of stream")
        ahead = "The stream works ahead: the model was given tokens that the token just yielded does not need."
        assert_given_no_more(model, B * (T + number), number + 1, ahead)
    assert_equal(number, NEW - 1, what="how many times stream yields, less one,")


# --- bad arguments, strides, precision ---

BAD = {"temperature": [-0.5, -1], "top_k": [0, -3], "top_p": [-0.25, 1.5]}


def assert_refuses(call, naming, bad, *arguments, **keywords):
    """The call raises ValueError that names the argument and its value."""
    assert_value_error(call, *arguments, naming=naming, values=[bad], **{**keywords, naming: bad})


@points(0.5, "robustness")
@pytest.mark.parametrize("name", ["filters", "sample_next", "generate", "stream"])
def test_bad_arguments_are_refused(learner, reference, name):
    """Bad arguments raise ValueError that names them, also where they would not be used: with temperature 0, or without new tokens."""
    rows, logits, ids = randn(B, V), table(), prompt()
    if name == "filters":
        for filter_name, argument, good in (("filter_top_k", "top_k", 2), ("filter_top_p", "top_p", 0.6)):
            function = getattr(learner, filter_name)
            assert_equal(function(rows, good), getattr(reference, filter_name)(rows, good))
            for bad in BAD[argument]:
                assert_refuses(function, argument, bad, rows)
        return
    if name == "sample_next":
        assert_equal(learner.sample_next(rows, temperature=0, top_k=3, top_p=0.5), rows.argmax(dim=-1))
        for argument, values in BAD.items():
            for bad in values:
                for temperature in (1.0, 0, 0.0):
                    assert_refuses(learner.sample_next, argument, bad, rows, temperature=temperature)
        return
    call = learner.generate if name == "generate" else first_token(learner)
    assert_continues(learner, reference, logits, ids, 2, temperature=0, top_k=3, top_p=0.5)
    model = model_of(learner, logits)
    for argument, values in {**BAD, "max_new_tokens": [-1, -3]}.items():
        for bad in values:
            for new_tokens in (3, 0):
                for temperature in (1.0, 0):
                    arguments = {"max_new_tokens": new_tokens, "temperature": temperature}
                    assert_refuses(call, argument, bad, model, ids, **arguments)
    assert_equal(model.training, True, what="model.training after bad arguments were refused")


@points(0.25, "robustness")
def test_inputs_need_not_be_contiguous(learner, reference):
    """Logits, ids and masks may be views, such as the last position of a model's logits."""
    logits, ids, mask = noncontiguous(randn(B, V, scale=3.0)), noncontiguous(prompt()), noncontiguous(left_padding())
    last = randn(B, T, V)[:, -1]
    for view in (logits, last):
        expected = reference.apply_repetition_penalty(view, ids, 1.5)
        assert_close(learner.apply_repetition_penalty(view, ids, 1.5), expected)
        assert_equal(learner.filter_top_k(view, 3), reference.filter_top_k(view, 3))
        assert_equal(learner.filter_top_p(view, 0.5), reference.filter_top_p(view, 0.5))
        assert_equal(learner.sample_next(view, top_k=1), view.argmax(dim=-1))
    assert_continues(learner, reference, table(), ids, 3, temperature=0, attention_mask=mask)


@points(0.25, "robustness")
def test_the_arguments_are_left_as_they_were(learner, reference):
    """Logits, ids and masks hold the same numbers after the call as before."""
    rows, ids, mask = randn(B, V, scale=3.0), prompt(), left_padding()
    result = assert_arguments_unchanged(learner.apply_repetition_penalty, rows, ids, 1.5)
    assert_close(result, reference.apply_repetition_penalty(rows, ids, 1.5))
    assert_equal(assert_arguments_unchanged(learner.filter_top_k, rows, 3), reference.filter_top_k(rows, 3))
    assert_equal(assert_arguments_unchanged(learner.filter_top_p, rows, 0.5), reference.filter_top_p(rows, 0.5))
    assert_equal(assert_arguments_unchanged(learner.sample_next, rows, 0.7, 1), rows.argmax(dim=-1))
    logits = table()
    keywords = {"temperature": 0, "attention_mask": mask, "eos_token_id": 2}
    expected = reference.generate(model_of(reference, logits), ids, NEW, **keywords)
    result = assert_arguments_unchanged(learner.generate, model_of(learner, logits), ids, NEW, **keywords)
    assert_equal(result, expected)


@points(0.25, "robustness")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["float16", "bfloat16"])
def test_half_precision_logits_keep_their_dtype(learner, reference, dtype):
    """float16 and bfloat16 go in and come out, and the mass of top-p is summed in float32."""
    logits, ids = randn(B, V, dtype=dtype, scale=3.0), prompt()
    expected = reference.apply_repetition_penalty(logits, ids, 1.5)
    assert_close(learner.apply_repetition_penalty(logits, ids, 1.5), expected)
    distinct = (torch.stack([randn(V).argsort() for _ in range(B)]) * 0.5).to(dtype)  # exact in either dtype
    assert_equal(learner.filter_top_k(distinct, 4), reference.filter_top_k(distinct, 4))
    assert_equal(learner.filter_top_p(distinct, 0.7), reference.filter_top_p(distinct, 0.7))
    assert_equal(learner.sample_next(distinct, top_k=1), distinct.argmax(dim=-1))
    alike = torch.zeros(2, 600, dtype=dtype)
    for count in (91, 301, 421, 541):
        kept = learner.filter_top_p(alike, (count - 0.5) / 600)
        assert_shape(kept, [2, 600])
        for row in kept:
            assert_equal(
                int(row.isfinite().sum()), count, what=f"the number of 600 equal ids that stay for p = {count - 0.5:g}/600"
            )


# --- with the learner's own model and cache ---

WHY = "the shapes of a model's parameters"
SIZES = {"hidden_size": 24, "num_layers": 2, "num_heads": 4, "num_kv_heads": 2, "head_dim": 6, "intermediate_size": 40}
DROPOUT = 0.4  # must not be felt


def own_model(side, max_tokens, state=None):
    """A small `CausalLM`; its weights are those of `state`."""
    config = side.file("config").ModelConfig(**SIZES, vocab_size=37, max_position_embeddings=max_tokens, dropout=DROPOUT)
    model = side.file("ex14_model").CausalLM(config)
    if state is not None:
        model.load_state_dict(state)
    return model


def decided_model(reference, ids, new_tokens, mask=None):
    """Weights of size about 1 with which every greedy choice is clear (the best logit leads by 0.02), and the right output."""
    shapes = {name: value.shape for name, value in own_model(reference, ids.shape[1] + new_tokens).state_dict().items()}
    while True:
        state = {name: randn(*shape, blunt=WHY) / shape[-1] ** 0.5 * 1.5 for name, shape in shapes.items()}
        state |= {name: 1.0 + 0.3 * randn(*shape) for name, shape in shapes.items() if len(shape) == 1}
        state["lm_head.weight"] = state["model.embed_tokens.weight"] = randn(37, 24)
        model = own_model(reference, ids.shape[1] + new_tokens, state).eval()
        output = reference.generate(model, ids, new_tokens, temperature=0, attention_mask=mask, use_cache=False)
        wide = None if mask is None else torch.cat([mask, mask.new_ones(len(mask), new_tokens)], dim=1)
        logits = model(output, wide)[:, ids.shape[1] - 1 : -1]
        best = logits.topk(2, dim=-1).values
        if (best[..., 0] - best[..., 1]).min() > 0.02:
            return state, output


@points(0.5, "numerics")
def test_your_own_model_generates_the_same_with_and_without_a_cache(learner, reference):
    """CausalLM and DynamicCache give the same greedy tokens, cached and recomputed, up to the last position of the model."""
    ids, new_tokens = randint(0, 37, B, 5), 8
    state, expected = decided_model(reference, ids, new_tokens)
    model = own_model(learner, 5 + new_tokens - 1, state)  # nobody asks what follows the last token
    for use_cache in (True, False):
        output = learner.generate(model, ids, new_tokens, temperature=0, use_cache=use_cache)
        assert_equal(output, expected, what=f"the output with use_cache={use_cache}")
    for training in (True, False):
        model.train(training)
        steps = list(opened(learner, model, ids, new_tokens, temperature=0))
        assert_equal(steps, list(expected[:, 5:].unbind(dim=1)), what="what stream yields")
        if (not training) in learner.file("props").modes(model):
            fail("After stream, some parts of the model are in another mode than they were before.")


@points(0.5, "numerics")
def test_your_own_model_continues_a_padded_row_as_if_it_stood_alone(learner, reference):
    """A batch of prompts of different lengths, padded on the left, continues each as it would alone."""
    ids, mask, new_tokens = randint(0, 37, B, T), left_padding(), 5
    state, expected = decided_model(reference, ids, new_tokens, mask)
    model = own_model(learner, T + new_tokens, state)
    for use_cache in (True, False):
        output = learner.generate(model, ids, new_tokens, temperature=0, attention_mask=mask, use_cache=use_cache)
        assert_equal(output, expected, what=f"the output for a padded batch with use_cache={use_cache}")
    row = int(mask.sum(dim=-1).argmin())
    alone = learner.generate(model, ids[row : row + 1, mask[row].bool()], new_tokens, temperature=0)
    assert_equal(
        alone[:, -new_tokens:], expected[row : row + 1, -new_tokens:], what="the continuation of a row that stands alone"
    )


# ---- speed -----------------------------------------------------------------------------------------------------------


@points(1, "speed")
def test_the_cache_saves_time(learner, judge):
    """With the cache a new token takes one token's work, not that of all tokens before it."""

    def one_text():
        return table(), randn(192, 192, scale=0.3, blunt="a square"), prompt()[:1], judge.size

    judge(learner.file("props").continue_text, one_text)
