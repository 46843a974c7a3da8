"""Worked examples for 04 · positions. They give no points; the grading suite looks at much more."""

import math

import torch

from grader.suite import assert_close, assert_value_error, points
from grader.suite.pictures import rotation

COS, SIN = math.cos(1.0), math.sin(1.0)  # 0.5403 and 0.8415: an angle of 1 radian


def the_pair(yours, expected):
    """Draws channels 0 and 2 of a vector that was e0 before it was turned."""
    before = torch.tensor([1.0, 0.0])
    drawn = (rotation(before, vector.flatten()[[0, 2]], 7) for vector in (yours, expected))
    return "\n".join(f"{title}\n{picture}" for title, picture in zip(("yours", "expected"), drawn, strict=True))


@points(0, "numerics")
def test_two_rows_of_the_sinusoidal_table(learner):
    """dim = 4: position 0 is 0, 1, 0, 1; at position 1 the angles are 1 and 1/100, sine before cosine."""
    row = [SIN, COS, math.sin(0.01), math.cos(0.01)]
    assert_close(learner.sinusoidal_positions(2, 4), torch.tensor([[0.0, 1.0, 0.0, 1.0], row]))


@points(0, "numerics")
def test_learned_positions_from_position_two_on(learner):
    """Two sequences of two tokens, after two past tokens: both get the rows 2 and 3 of the table."""
    module = learner.LearnedPositions(5, 2)
    module.load_state_dict({"weight": torch.tensor([[0.0, 1.0], [10.0, 11.0], [20.0, 21.0], [30.0, 31.0], [40.0, 41.0]])})
    x = torch.tensor([[[0.0, 0.0], [0.0, 0.0]], [[1.0, 2.0], [3.0, 4.0]]])  # [B=2, T=2, dim=2]
    expected = torch.tensor([[[20.0, 21.0], [30.0, 31.0]], [[21.0, 23.0], [33.0, 35.0]]])
    assert_close(module(x, start=2), expected)


@points(0, "numerics")
def test_slopes_of_eight_and_of_six_heads(learner):
    """8 heads: 1/2, 1/4, ..., 1/256. 6 heads: those of 4 heads, then the first and the third of 8."""
    assert_close(learner.alibi_slopes(8), torch.tensor([1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256]))
    assert_close(learner.alibi_slopes(6), torch.tensor([1 / 4, 1 / 16, 1 / 64, 1 / 256, 1 / 2, 1 / 8]))


@points(0, "numerics")
def test_the_bias_of_two_new_tokens_after_two(learner):
    """Two heads with slopes 1/16 and 1/256; the queries stand at positions 2 and 3; keys in the future get 0."""
    steps = torch.tensor([[-2.0, -1.0, 0.0, 0.0], [-3.0, -2.0, -1.0, 0.0]])  # [q_len=2, k_len=4]
    assert_close(learner.alibi_bias(2, 2, 4), torch.stack([steps / 16, steps / 256]))


@points(0, "numerics")
def test_rotary_tables_with_a_base_of_a_hundred(learner):
    """D = 4, theta = 100: at position 1 the angles are 1 and 1/10, once in each half of the row."""
    cos = torch.tensor([[1.0, 1.0, 1.0, 1.0], [COS, math.cos(0.1), COS, math.cos(0.1)]])
    sin = torch.tensor([[0.0, 0.0, 0.0, 0.0], [SIN, math.sin(0.1), SIN, math.sin(0.1)]])
    assert_close(learner.precompute_rotary(4, 2, theta=100.0), (cos, sin), what="(cos, sin)")


@points(0, "numerics")
def test_e0_at_position_one(learner):
    """The pair of channels 0 and 2 turns by 1 radian: e0 becomes cos 1 e0 + sin 1 e2. o is e0, x is what came out."""
    angles = torch.tensor([[1.0, 0.001, 1.0, 0.001]])  # [T=1, D=4]: position 1 for theta = 1e6
    e0 = torch.tensor([[[[1.0, 0.0, 0.0, 0.0]]]])  # [B=1, T=1, H=K=1, D=4]
    turned = torch.tensor([[[[COS, 0.0, SIN, 0.0]]]])
    result = learner.apply_rotary_pos_emb(e0, e0, angles.cos(), angles.sin())
    assert_close(result, (turned, turned), what="(q, k)", picture=the_pair)


@points(0, "numerics")
def test_rotate_half_of_one_two_three_four(learner):
    """[1, 2, 3, 4] becomes [-3, -4, 1, 2]."""
    assert_close(learner.rotate_half(torch.tensor([1.0, 2.0, 3.0, 4.0])), torch.tensor([-3.0, -4.0, 1.0, 2.0]))


@points(0, "shape")
def test_minimind_shapes(learner):
    """100 tokens, 8 query heads and 4 key heads of 96 channels, all at position 0: nothing turns."""
    q, k = torch.ones(1, 100, 8, 96), torch.ones(1, 100, 4, 96)
    cos, sin = torch.ones(100, 96), torch.zeros(100, 96)
    assert_close(learner.apply_rotary_pos_emb(q, k, cos, sin), (q, k), what="(q, k)")


@points(0, "robustness")
def test_odd_channels_and_places_beyond_the_table(learner):
    """dim = 3 raises ValueError that names dim; three tokens from position 3 on do not fit into a table of 5."""
    assert_close(learner.sinusoidal_positions(1, 2), torch.tensor([[0.0, 1.0]]))
    assert_value_error(learner.sinusoidal_positions, 4, 3, naming="dim", values=[3])
    assert_value_error(learner.LearnedPositions(5, 2).forward, torch.zeros(1, 3, 2), 3, naming="start", values=[3, 5])
