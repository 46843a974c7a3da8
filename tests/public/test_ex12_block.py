"""Worked examples for 12 · block. They give no points; the grading suite looks at much more."""

from math import prod

import torch

from grader.suite import assert_close, assert_equal, assert_value_error, points

X = torch.tensor([[[1.0, 7.0], [3.0, 1.0]]])  # [B=1, T=2, C=2]
HERE = torch.ones(2, 2), torch.zeros(2, 2)  # cos and sin [T, D] of tokens that are not rotated
IDENTITY = torch.tensor([[1.0, 0.0], [0.0, 1.0]])


def small_block(side):
    """A TransformerBlock with C = D = F = 2 and one head, without eps worth mentioning, and all its weights zero or one."""
    config = side.file("config").ModelConfig(
        hidden_size=2, num_heads=1, num_kv_heads=1, head_dim=2, intermediate_size=2, rms_norm_eps=1e-12
    )
    block = side.TransformerBlock(config)
    return block, {name: torch.ones(info.shape) * (len(info.shape) == 1) for name, info in block.parameters().items()}


def gpt_weights(block):
    """A GPTBlock's weights: norms that change nothing afterwards, all else zero."""
    zeros = {name: torch.zeros(info.shape) for name, info in block.parameters().items()}
    return {name: zero + (name in ("ln_1.weight", "ln_2.weight")) for name, zero in zeros.items()}


@points(0, "numerics")
def test_silent_branches(learner):
    """With all matrices zero a pre-norm block returns x itself."""
    block, weights = small_block(learner)
    block.load_state_dict(weights)
    assert_equal(block(X, HERE), X)
    gpt = learner.GPTBlock(2, 1)
    gpt.load_state_dict(gpt_weights(gpt))
    assert_equal(gpt(X), X)


@points(0, "numerics")
def test_only_attention(learner):
    """Zero queries, values and output the identity: each token gets the mean of the normed tokens so far, added to it."""
    block, weights = small_block(learner)
    weights |= {"self_attn.v_proj.weight": IDENTITY, "self_attn.o_proj.weight": IDENTITY}
    block.load_state_dict(weights)
    # norm([1, 7]) = [0.2, 1.4]; norm([3, 1]) = [3, 1] / sqrt(5) = [1.34164, 0.44721]
    assert_close(block(X, HERE), torch.tensor([[[1.2, 8.4], [3.77082, 1.92361]]]))


@points(0, "numerics")
def test_only_the_feed_forward_network(learner):
    """Gate, up and down the identity: silu(n) * n of the normed token n is added."""
    block, weights = small_block(learner)
    weights |= {f"mlp.{name}_proj.weight": IDENTITY for name in ("gate", "up", "down")}
    block.load_state_dict(weights)
    # n = [0.2, 1.4]: silu(0.2) * 0.2 = 0.02199, silu(1.4) * 1.4 = 1.57228
    assert_close(block(X, HERE)[:, :1], torch.tensor([[[1.02199, 8.57228]]]))


@points(0, "numerics")
def test_before_or_after(learner):
    """Silent branches again: post-norm norms all the same, twice."""
    block = learner.GPTBlock(2, 1, norm_first=False)
    block.load_state_dict(gpt_weights(block) | {"ln_2.bias": torch.tensor([10.0, 20.0])})
    # [1, 7] has mean 4 and standard deviation 3: [-1, 1], which a second norm leaves alone, but for its bias.
    assert_close(block(X), torch.tensor([[[9.0, 21.0], [11.0, 19.0]]]), tolerance=1e-5)


@points(0, "shape")
def test_minimind_shapes(learner):
    """In MiniMind a block maps [1, 100, 768] to [1, 100, 768] with 7374528 parameters; GPT-2's has 7087872."""
    block = learner.TransformerBlock(learner.file("config").ModelConfig())
    x = torch.zeros(1, 100, 768)
    assert_close(block(x, (torch.ones(100, 96), torch.zeros(100, 96))), x)
    for one, count in ((block, 7374528), (learner.GPTBlock(768, 12), 7087872)):
        assert_equal(sum(prod(info.shape) for info in one.parameters().values()), count, what="the number of parameters")


@points(0, "gradients")
def test_the_highway(learner):
    """With silent branches the gradient comes back as it was sent."""
    block, weights = small_block(learner)
    block.load_state_dict(weights)
    gradient = torch.tensor([[[1.0, -2.0], [0.5, 3.0]]])
    assert_close(block.vjp(X, HERE, cotangent=gradient).inputs[0], gradient, what="the gradient for x")


@points(0, "robustness")
def test_heads_that_do_not_fit(learner):
    """12 channels are 3 heads of 4; 10 channels and 3 heads raise ValueError that names both."""
    block = learner.GPTBlock(12, 3)
    block.load_state_dict(gpt_weights(block))
    x = torch.arange(24.0).reshape(1, 2, 12)
    assert_equal(block(x), x)
    assert_value_error(learner.GPTBlock, 10, 3, naming="num_heads", values=[3])
    assert_value_error(learner.GPTBlock, 10, 3, naming="hidden_size", values=[10])
