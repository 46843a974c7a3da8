"""The reference of 03 against the RMSNorm of Qwen3 in transformers, whose checkpoints the course's model loads."""

from __future__ import annotations

import pytest
import torch

from solutions.ex03_norm import RMSNorm

modeling = pytest.importorskip("transformers.models.qwen3.modeling_qwen3")


@pytest.mark.parametrize("dim", [7, 96])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.float16, 4e-3), (torch.bfloat16, 3e-2)])
def test_qwen3(dim, dtype, tolerance):
    generator = torch.Generator().manual_seed(dim)
    ours, theirs = RMSNorm(dim, eps=1e-6).to(dtype), modeling.Qwen3RMSNorm(dim, eps=1e-6).to(dtype)
    state = {"weight": torch.randn(dim, generator=generator)}
    ours.load_state_dict(state)
    theirs.load_state_dict(state)
    x = (torch.randn(3, 5, dim, generator=generator) * 20 + 10).to(dtype)
    torch.testing.assert_close(ours(x), theirs(x), rtol=tolerance, atol=tolerance)
