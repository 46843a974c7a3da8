"""Worked examples for 10 · multi-head attention. They give no points; the grading suite looks at much more."""

import math

import torch

from grader.suite import assert_close, assert_shape, fail, points


def build(learner, **sizes):
    """An `Attention` of small sizes."""
    return learner.Attention(learner.file("config").ModelConfig(**sizes))


def still(count, head_dim):
    """cos and sin of `count` tokens that all stand at position 0, where nothing is turned."""
    return torch.ones(count, head_dim), torch.zeros(count, head_dim)


def two_heads(learner):
    """The example of the lesson: C = 3, two query heads on one key/value head, D = 2."""
    module = build(learner, hidden_size=3, num_heads=2, num_kv_heads=1, head_dim=2)
    module.load_state_dict(
        {
            "q_proj.weight": torch.zeros(4, 3),  # queries of 0: every visible key gets the same weight
            "k_proj.weight": torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]),
            "v_proj.weight": torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]),  # the first two channels
            "q_norm.weight": torch.ones(2),
            "k_norm.weight": torch.ones(2),
            "o_proj.weight": torch.tensor([[1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0], [0.0, 1.0, 1.0, 0.0]]),
        }
    )
    return module


X = torch.tensor([[[8.0, 0.0, 5.0], [0.0, 4.0, 5.0]]])  # [B=1, T=2, C=3]


@points(0, "numerics")
def test_two_tokens_and_two_heads(learner):
    """The example of the lesson: token 0 keeps its value [8, 0], token 1 averages [8, 0] and [0, 4]."""
    expected = torch.tensor([[[8.0, 0.0, 8.0], [4.0, 2.0, 6.0]]])
    assert_close(two_heads(learner)(X, still(2, 2)), expected)


@points(0, "numerics")
def test_a_pad_in_front(learner):
    """With token 0 a pad, token 1 has only itself: its value [0, 4]. The pad sees nothing and gets zeros."""
    expected = torch.tensor([[[0.0, 0.0, 0.0], [0.0, 4.0, 4.0]]])
    assert_close(two_heads(learner)(X, still(2, 2), attention_mask=torch.tensor([[0, 1]])), expected)


@points(0, "numerics")
def test_one_token_after_the_other(learner):
    """The same two tokens, one at a time on a cache, give the same output; the cache gets keys of one head, not of two."""
    module, cache = two_heads(learner), learner.file("props").RecordingCache()
    first = module(X[:, :1], still(1, 2), cache=cache)
    second = module(X[:, 1:], still(1, 2), cache=cache)
    assert_close(first, torch.tensor([[[8.0, 0.0, 8.0]]]), what="the output for the first token")
    assert_close(second, torch.tensor([[[4.0, 2.0, 6.0]]]), what="the output for the second token")
    updates = cache.get("updates")
    if len(updates) != 2:
        fail(f"two calls, but the cache was updated {len(updates)} times")
    _, k, v = updates[1]
    assert_close(k, torch.tensor([[[[0.0, math.sqrt(2.0)]]]]), what="the k that the cache is given")
    assert_close(v, torch.tensor([[[[0.0, 4.0]]]]), what="the v that the cache is given")


def one_head(learner):
    """One head whose four maps leave everything as it is."""
    module = build(learner, hidden_size=2, num_heads=1, num_kv_heads=1, head_dim=2)
    names = ("q_proj", "k_proj", "v_proj", "o_proj")
    norms = {"q_norm.weight": torch.ones(2), "k_norm.weight": torch.ones(2)}
    module.load_state_dict({**{f"{name}.weight": torch.eye(2) for name in names}, **norms})
    return module


@points(0, "numerics")
def test_positions_turn_queries_and_keys(learner):
    """One quarter turn between two tokens makes their scores 0 where they were 2; values are not turned."""
    module = one_head(learner)
    x = torch.tensor([[[3.0, 0.0], [5.0, 0.0]]])  # both are normed to [sqrt 2, 0]
    cos, sin = torch.tensor([[1.0, 1.0], [0.0, 0.0]]), torch.tensor([[0.0, 0.0], [1.0, 1.0]])
    alike = 1 / (1 + math.exp(2 / math.sqrt(2)))  # the weight of a score of 0 beside one of 2 / sqrt 2
    expected = torch.tensor([[[3.0, 0.0], [3 * alike + 5 * (1 - alike), 0.0]]])
    assert_close(module(x, (cos, sin)), expected)
    assert_close(module(x, still(2, 2)), torch.tensor([[[3.0, 0.0], [4.0, 0.0]]]), what="the output without a turn")


@points(0, "numerics")
def test_the_cache_is_given_turned_keys(learner):
    """The same two tokens on a cache: the second one's key, [1.4142, 0] after its norm, goes in turned, as [0, 1.4142]."""
    module, cache = one_head(learner), learner.file("props").RecordingCache()
    x = torch.tensor([[[3.0, 0.0], [5.0, 0.0]]])
    cos, sin = torch.tensor([[1.0, 1.0], [0.0, 0.0]]), torch.tensor([[0.0, 0.0], [1.0, 1.0]])
    first = module(x[:, :1], (cos[:1], sin[:1]), cache=cache)
    second = module(x[:, 1:], (cos[1:], sin[1:]), cache=cache)
    assert_close(first, torch.tensor([[[3.0, 0.0]]]), what="the output for the first token")
    assert_close(second, torch.tensor([[[4.6089, 0.0]]]), what="the output for the second token", tolerance=1e-3)
    updates = cache.get("updates")
    if len(updates) != 2:
        fail(f"two calls, but the cache was updated {len(updates)} times")
    assert_close(updates[0][1], torch.tensor([[[[1.4142, 0.0]]]]), what="the k that the cache is given first", tolerance=1e-3)
    assert_close(updates[1][1], torch.tensor([[[[0.0, 1.4142]]]]), what="the k that the cache is given next", tolerance=1e-3)


@points(0, "shape")
def test_minimind_shapes(learner):
    """MiniMind's sizes: 1 769 664 weights, and [1, 100, 768] goes in and comes out."""
    module = build(learner)
    shapes = {name: list(info.shape) for name, info in module.parameters().items()}
    expected = {
        "q_proj.weight": [768, 768],
        "k_proj.weight": [384, 768],
        "v_proj.weight": [384, 768],
        "q_norm.weight": [96],
        "k_norm.weight": [96],
        "o_proj.weight": [768, 768],
    }
    if shapes != expected:
        fail(f"the parameters are {shapes}")
    assert_shape(module(torch.zeros(1, 100, 768), still(100, 96)), (1, 100, 768))


@points(0, "robustness")
def test_dropout_rests_in_evaluation(learner):
    """With dropout 0.5 two calls in eval mode agree, and the module stays in the mode that it was in."""
    module = build(learner, hidden_size=3, num_heads=2, num_kv_heads=1, head_dim=2, dropout=0.5).eval()
    x = torch.tensor([[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]])
    first, second = module(x, still(2, 2)), module(x, still(2, 2))
    assert_shape(first, (1, 2, 3))
    assert_close(second, first)
    if module.training:
        fail("the module is in training mode after its forward pass")
