"""Small drawings in plain text."""

from __future__ import annotations

import torch

from grader.suite import pictures

M = torch.tensor([[True, False, False], [True, True, False]])


def test_two_masks_side_by_side():
    assert pictures.masks(M, ~M) == "yours   expected\n#..     .##\n##.     ..#"
    assert pictures.mask(M[None, None]) == "#..\n##."


def test_a_large_mask_is_cut():
    lines = pictures.mask(torch.ones(50, 60, dtype=torch.bool)).split("\n")
    assert len(lines) == 41 and lines[0] == "#" * 40 + "…" and lines[-1] == "…"


def test_bars_are_as_long_as_the_shares():
    drawn = pictures.bars(torch.tensor([[0.25, 0.75]]), labels=["cat", "sat"]).split("\n")
    assert drawn == ["cat     0.250 ██████", "sat     0.750 ██████████████████"]
    both = pictures.bars(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.5, 0.5]]))
    assert both.split("\n")[0].split() == ["yours", "expected"]
    assert [pictures.bar(share) for share in (0.0, 1 / 24, 1 / 48, -3.0, 7.0, float("nan"))] == [
        *("", "█", "▌", "", "█" * 24, "nan"),
    ]


def test_many_rows_are_cut():
    assert pictures.bars(torch.rand(100, 200)).endswith("…")


def test_a_quarter_turn():
    drawn = pictures.rotation(torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])).split("\n")
    assert drawn[0].index("x") == 9 and drawn[4][18] == "o" and drawn[4][9] == "+"
    assert drawn[-1] == "o (1.00, 0.00)  x (0.00, 1.00): 90 degrees"


def test_a_rotation_to_nowhere_is_drawn_too():
    assert "x (nan" in pictures.rotation(torch.tensor([1.0, 0.0]), torch.tensor([float("nan"), 1.0]))
    pictures.rotation(torch.zeros(2), torch.zeros(2))


def test_merges_step_by_step():
    assert pictures.merges([[b"l", b"o", b"w"], [b"lo", b"w"]]) == "l·o·w\nlo·w"
    assert pictures.merges([[b"\xff", "é".encode()]]) == "\\xff·é"


def test_a_table():
    drawn = pictures.table(["part", "size"], [["q", 7], ["o_proj", 1200]]).split("\n")
    assert drawn == ["part     size", "──────   ────", "q           7", "o_proj   1200"]
