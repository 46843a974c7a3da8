"""Worked examples for 14 · model. They give no points; the grading suite looks at much more."""

import math

import torch

from grader.suite import assert_close, assert_shape, assert_value_error, fail, points

# The example of the lesson: three tokens, three ids. Shares of the next token: 1/2 at position 0, 1/4 at position 1.
IDS = torch.tensor([[0, 2, 1]])
LOGITS = torch.tensor([[[0.0, 0.0, math.log(2)], [math.log(2), 0.0, 0.0], [7.0, 7.0, 7.0]]])
SIZES = {
    "vocab_size": 5,
    "hidden_size": 8,
    "num_layers": 2,
    "num_heads": 2,
    "num_kv_heads": 1,
    "head_dim": 4,
    "intermediate_size": 6,
}


def model_that_copies(learner):
    """Both blocks add nothing (their last maps are 0), and the embedding is the identity: the model sees each token alone."""
    model = learner.CausalLM(learner.file("config").ModelConfig(**SIZES, max_position_embeddings=6))
    state = {}
    for name, start in model.state_dict().items():
        if name.endswith(("o_proj.weight", "down_proj.weight")):
            state[name] = torch.zeros_like(start)
        else:
            state[name] = torch.ones_like(start) if start.dim() == 1 else torch.eye(*start.shape)
    model.load_state_dict(state)
    return model


@points(0, "numerics")
def test_a_model_that_copies(learner):
    """A token's embedding has one 1 among 8 channels; the last norm makes √8 of it, and the head finds it under its own id."""
    expected = math.sqrt(8) * torch.nn.functional.one_hot(torch.tensor([[3, 0, 4]]), 5).float()
    assert_close(model_that_copies(learner)(torch.tensor([[3, 0, 4]])), expected, what="the logits", tolerance=1e-3)


@points(0, "shape")
def test_names_of_a_checkpoint(learner):
    """Two blocks: their weights, the embedding [5, 8], the last norm [8] and the tied head [5, 8] are in the state dict."""
    state = model_that_copies(learner).state_dict()
    for name, shape in {
        "model.embed_tokens.weight": [5, 8],
        "model.layers.0.input_layernorm.weight": [8],
        "model.layers.1.self_attn.k_proj.weight": [4, 8],
        "model.layers.1.mlp.down_proj.weight": [8, 6],
        "model.norm.weight": [8],
        "lm_head.weight": [5, 8],
    }.items():
        assert_shape(state.get(name), shape, what=name)
    if len(state) != 25:
        fail(f"the state dict holds {len(state)} tensors, not 25: 11 for each of 2 blocks, and 3 others")


def model_with_waves(learner):
    """Every weight is known: matrices hold sin 0, sin 1, ..., each beginning one further on, and norms 1, 1.125, 1.25, ..."""
    model = learner.CausalLM(learner.file("config").ModelConfig(**SIZES))
    state = {}
    for number, (name, start) in enumerate(sorted(model.state_dict().items())):
        places = torch.arange(start.numel()).reshape(start.shape)
        state[name] = torch.sin(places + number) if start.dim() > 1 else 1 + places / 8
    state["lm_head.weight"] = state["model.embed_tokens.weight"]
    model.load_state_dict(state)
    return model


@points(0, "numerics")
def test_positions_go_on_where_the_cache_ends(learner):
    """Three tokens, in one go and in portions of 1 and 2 on a cache: the same logits, at positions 0, 1 and 2 in this order."""
    model = model_with_waves(learner)
    expected = torch.tensor(
        [
            [
                [-0.2525, -0.2840, 0.3352, 0.1864, -0.3894],
                [0.5440, -0.2603, -0.4682, 0.3965, 0.3528],
                [0.8607, -0.4018, -0.7437, 0.6183, 0.5638],
            ]
        ]
    )
    assert_close(model(torch.tensor([[3, 0, 4]])), expected, what="the logits in one go", tolerance=1e-3)
    cache = learner.file("ex13_kv_cache").DynamicCache()
    first = model(torch.tensor([[3]]), cache=cache)
    second = model(torch.tensor([[0, 4]]), cache=cache)
    assert_close(first, expected[:, :1], what="the logits of the first portion", tolerance=1e-3)
    assert_close(second, expected[:, 1:], what="the logits of the second portion", tolerance=1e-3)


@points(0, "robustness")
def test_a_mask_that_forgets_the_past(learner):
    """Three tokens need a mask of three: one of two raises ValueError that names attention_mask, 2 and 3."""
    model = model_that_copies(learner)
    ids = torch.tensor([[3, 0, 4]])
    assert_close(model(ids, torch.ones(1, 3, dtype=torch.int64)), model(ids), what="the logits", tolerance=1e-4)
    assert_value_error(model.forward, ids, torch.ones(1, 2, dtype=torch.int64), naming="attention_mask", values=[2, 3])


@points(0, "numerics")
def test_the_lessons_loss(learner):
    """-ln(1/2) and -ln(1/4): 0.693 and 1.386, 1.040 on average; the last logits and the first label do not count."""
    assert_close(learner.causal_lm_loss(LOGITS, IDS), torch.tensor(1.5 * math.log(2)), what="the loss")


@points(0, "numerics")
def test_an_ignored_label(learner):
    """With the last label ignored only -ln(1/2) is left, divided by 1."""
    loss = learner.causal_lm_loss(LOGITS, torch.tensor([[0, 2, -100]]))
    assert_close(loss, torch.tensor(math.log(2)), what="the loss")
    loss = learner.causal_lm_loss(LOGITS, torch.tensor([[0, 2, 1]]), ignore_index=2)
    assert_close(loss, torch.tensor(2 * math.log(2)), what="the loss with ignore_index=2")


@points(0, "robustness")
def test_nothing_to_count(learner):
    """All labels ignored: the loss is 0 and so is its gradient, not NaN."""
    result = learner.causal_lm_loss.vjp(LOGITS, torch.full((1, 3), -100), cotangent=torch.tensor(1.0))
    assert_close(result.output, torch.tensor(0.0), what="the loss")
    assert_close(result.inputs[0], torch.zeros(1, 3, 3), what="the gradient")
    assert_value_error(learner.causal_lm_loss, LOGITS, torch.tensor([[0, 2, 3]]), naming="labels", values=[3])
