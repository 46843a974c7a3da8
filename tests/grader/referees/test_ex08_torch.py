"""Masks against torch's: `is_causal` where T = S, and `causal_lower_right` where there is a past."""

from __future__ import annotations

import pytest
import torch
from torch.nn.attention.bias import causal_lower_right
from torch.nn.functional import scaled_dot_product_attention

from solutions.ex08_mask import causal_mask, combine_masks, padding_mask


def qkv(t: int, s: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(7)
    return tuple(torch.randn(2, 3, length, 8, generator=generator) for length in (t, s, s))


@pytest.mark.parametrize(("t", "s"), [(4, 4), (1, 6), (3, 7)])
def test_causal(t, s):
    q, k, v = qkv(t, s)
    ours = scaled_dot_product_attention(q, k, v, attn_mask=causal_mask(t, s))
    torch.testing.assert_close(ours, scaled_dot_product_attention(q, k, v, attn_mask=causal_lower_right(t, s)))
    if t == s:
        torch.testing.assert_close(ours, scaled_dot_product_attention(q, k, v, is_causal=True))


def test_a_padded_row_is_the_row_alone():
    q, k, v = qkv(6, 6)
    real = torch.tensor([[0, 0, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1]])
    both = scaled_dot_product_attention(q, k, v, attn_mask=combine_masks(causal_mask(6, 6), padding_mask(real)))
    alone = scaled_dot_product_attention(q[:1, :, 2:], k[:1, :, 2:], v[:1, :, 2:], is_causal=True)
    torch.testing.assert_close(both[:1, :, 2:], alone)
