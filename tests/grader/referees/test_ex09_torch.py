"""The reference of 09 against `F.scaled_dot_product_attention`, which no line of the online softmax and of the hand-written backend uses."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from solutions.ex09_flash import attention, online_softmax_attention, select_backend


def random_inputs(seed, dtype=torch.float32, past=True):
    """q, k, v of random sizes with S >= T, and the causal mask by positions; scores up to about 40."""
    generator = torch.Generator().manual_seed(seed)
    B, H, T, more, D, E = torch.randint(1, 9, (6,), generator=generator).tolist()
    S = T + more if past else T
    q = 4 * torch.randn(B, H, T, D, generator=generator, dtype=torch.float64)
    k = 4 * torch.randn(B, H, S, D, generator=generator, dtype=torch.float64)
    v = torch.randn(B, H, S, E, generator=generator, dtype=torch.float64)
    causal = torch.arange(S) <= torch.arange(S - T, S)[:, None]
    return q.to(dtype), k.to(dtype), v.to(dtype), causal, generator


TOLERANCE = {torch.float64: 1e-9, torch.float32: 2e-5, torch.float16: 5e-3, torch.bfloat16: 3e-2}


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("seed", range(10))
def test_online_softmax(seed, dtype):
    q, k, v, causal, _ = random_inputs(seed, dtype)
    wide = torch.promote_types(dtype, torch.float32)
    for mask in (None, causal):
        theirs = F.scaled_dot_product_attention(q.to(wide), k.to(wide), v.to(wide), attn_mask=mask).to(dtype)
        for block_size in (1, 2, 3, 5, 100):
            ours = online_softmax_attention(q, k, v, block_size, is_causal=mask is not None)
            torch.testing.assert_close(ours, theirs, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@pytest.mark.parametrize("seed", range(20))
def test_attention_with_past_and_pads(seed):
    q, k, v, causal, generator = random_inputs(seed, past=bool(seed % 4))
    v = v[..., :1].expand(*v.shape[:3], q.shape[-1]).contiguous()
    real = torch.rand(q.shape[0], k.shape[2], generator=generator) < 0.7
    real[:, 0] = True  # what torch makes of rows that see nothing differs from version to version
    for pads in (None, torch.ones_like(real), real):
        for is_causal in (True, False):
            mask = (causal if is_causal else torch.ones_like(causal)) & (True if pads is None else pads[:, None, None, :])
            theirs = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
            for use_flash in (True, False):
                ours = attention(q, k, v, is_causal=is_causal, attention_mask=pads, use_flash=use_flash)
                torch.testing.assert_close(ours, theirs, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("seed", range(5))
def test_gradients_of_the_hand_written_backend(seed):
    q, k, v, causal, _ = random_inputs(seed, torch.float64)
    v = v[..., :1].expand(*v.shape[:3], q.shape[-1]).contiguous()
    results = []
    for fused in (True, False):
        leaves = [one.clone().requires_grad_() for one in (q, k, v)]
        if fused:
            output = F.scaled_dot_product_attention(*leaves, attn_mask=causal)
        else:
            output = attention(*leaves, use_flash=False)
        results.append(torch.autograd.grad((output * output).sum(), leaves))
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other)


def test_why_a_past_asks_for_manual():
    """torch's own causal mask is aligned at the top left: with past keys it is another one than ours."""
    q, k, v, causal, _ = random_inputs(3)
    assert q.shape[2] < k.shape[2] and select_backend(q.shape[2], k.shape[2]) == "manual"
    theirs = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    assert not torch.allclose(theirs, F.scaled_dot_product_attention(q, k, v, attn_mask=causal))
    torch.testing.assert_close(theirs, F.scaled_dot_product_attention(q, k, v, attn_mask=torch.ones_like(causal).tril()))
