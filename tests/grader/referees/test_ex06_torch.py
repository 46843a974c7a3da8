"""`repeat_kv` against torch's own ways to repeat."""

from __future__ import annotations

import pytest
import torch

from solutions.ex06_repeat_kv import repeat_kv


@pytest.mark.parametrize("n_rep", [1, 2, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool])
def test_repeat_interleave(n_rep, dtype):
    x = torch.randint(0, 2, (2, 5, 3, 4), generator=torch.Generator().manual_seed(n_rep)).to(dtype)
    assert torch.equal(repeat_kv(x, n_rep), x.repeat_interleave(n_rep, dim=2))
