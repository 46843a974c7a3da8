"""Worked examples for 13 · kv_cache. They give no points; the grading suite looks at much more."""

import torch

from grader.suite import assert_equal, assert_value_error, points


def tokens(*letters):
    """Keys and values of tokens that are plain numbers, [B=1, T, K=1, D=1]; a value is its key's negative."""
    k = torch.tensor(letters, dtype=torch.float32)[None, :, None, None]
    return k, -k


@points(0, "numerics")
def test_past_first(learner):
    """Tokens 1 and 2 are the past, 3 is new: together 1, 2, 3, for keys and for values."""
    k, v = learner.append_kv(tokens(1, 2), *tokens(3))
    assert_equal(k, tokens(1, 2, 3)[0], what="k")
    assert_equal(v, tokens(1, 2, 3)[1], what="v")


@points(0, "numerics")
def test_no_past(learner):
    """Without a past there are only the new tokens."""
    assert_equal(learner.append_kv(None, *tokens(1, 2)), tokens(1, 2))


@points(0, "numerics")
def test_a_dynamic_cache_in_portions(learner):
    """Portions of 2, 3 and 1 tokens: every update returns all tokens so far."""
    cache = learner.DynamicCache()
    assert_equal(cache.update(*tokens(1, 2), 0), tokens(1, 2), what="the first answer")
    assert_equal(cache.update(*tokens(3, 4, 5), 0), tokens(1, 2, 3, 4, 5), what="the second answer")
    assert_equal(cache.update(*tokens(6), 0), tokens(1, 2, 3, 4, 5, 6), what="the third answer")
    assert_equal(cache.get("length"), 6, what="`length`")


@points(0, "numerics")
def test_the_lessons_two_layers(learner):
    """The table of the lesson: two layers of a StaticCache hold 2 and 0 tokens, 2 and 2, 5 and 2, 5 and 5."""
    cache = learner.StaticCache(2, 1, 6, 1, 1, torch.float32, "cpu")
    assert_equal(cache.get("length"), 0, what="`length` at first")
    assert_equal(cache.update(*tokens(1, 2), 0), tokens(1, 2), what="layer 0's first answer")
    assert_equal(cache.get("length"), 2, what="`length`")
    assert_equal(cache.update(*tokens(10, 20), 1), tokens(10, 20), what="layer 1's first answer")
    assert_equal(cache.update(*tokens(3, 4, 5), 0), tokens(1, 2, 3, 4, 5), what="layer 0's second answer")
    assert_equal(cache.get("length"), 5, what="`length`")
    assert_equal(cache.update(*tokens(30, 40, 50), 1), tokens(10, 20, 30, 40, 50), what="layer 1's second answer")


@points(0, "robustness")
def test_a_full_cache_and_a_new_text(learner):
    """Six tokens fill it; a seventh raises ValueError that names max_len; after reset() it takes a new text."""
    cache = learner.StaticCache(1, 1, 6, 1, 1, torch.float32, "cpu")
    assert_equal(cache.update(*tokens(1, 2, 3, 4, 5, 6), 0), tokens(1, 2, 3, 4, 5, 6))
    assert_value_error(cache.update, *tokens(7), 0, naming="max_len", values=[6])
    cache.reset()
    assert_equal(cache.get("length"), 0, what="`length` after reset()")
    assert_equal(cache.update(*tokens(8), 0), tokens(8), what="the answer after reset()")


@points(0, "robustness")
def test_the_wrong_number_of_heads(learner):
    """A cache of one head is given two: ValueError names heads, 1 and 2, and nothing has changed."""
    cache = learner.DynamicCache()
    assert_equal(cache.update(*tokens(1), 0), tokens(1))
    two_heads = torch.zeros(1, 1, 2, 1)
    assert_value_error(cache.update, two_heads, two_heads, 0, naming="heads", values=[1, 2])
    assert_equal(cache.update(*tokens(2), 0), tokens(1, 2), what="the next answer")


@points(0, "numerics")
def test_minimind_keeps_12_kib_a_token(learner):
    """2 tensors x 8 layers x 4 heads x 96 channels x 2 bytes = 12288; with 8 key/value heads it is twice as much."""
    config = learner.file("config").ModelConfig
    assert_equal(learner.kv_cache_bytes(config(), 1, 1, torch.bfloat16), 12288)
    assert_equal(learner.kv_cache_bytes(config(num_kv_heads=8), 1, 1, torch.bfloat16), 24576)
