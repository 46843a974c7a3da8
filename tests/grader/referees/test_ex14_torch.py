"""The loss of 14 against torch's own cross entropy."""

import pytest
import torch
from torch.nn import functional as F

from solutions.ex14_model import causal_lm_loss


@pytest.mark.parametrize("ignore_index", [-100, -1, 3])
@pytest.mark.parametrize("sizes", [(3, 8, 7), (4, 9, 9), (1, 5, 11), (6, 2, 5)])
@pytest.mark.parametrize("scale", [1.0, 1000.0])
def test_the_loss_is_cross_entropy_of_the_shifted(sizes, ignore_index, scale):
    generator = torch.Generator().manual_seed(sum(sizes))
    ours = (scale * torch.randn(sizes, generator=generator)).requires_grad_()
    theirs = ours.detach().clone().requires_grad_()
    labels = torch.randint(sizes[2], sizes[:2], generator=generator)
    labels[0, 1::2] = ignore_index
    found = causal_lm_loss(ours, labels, ignore_index)
    shifted = theirs[:, :-1].reshape(-1, sizes[2]), labels[:, 1:].reshape(-1)
    right = F.cross_entropy(*shifted, ignore_index=ignore_index)
    if right.isnan():  # torch's mean over nothing
        right = shifted[0].sum() * 0.0
    torch.testing.assert_close(found, right, rtol=1e-6, atol=1e-6)
    found.backward()
    right.backward()
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(dtype):
    logits = torch.randn(3, 8, 500, generator=torch.Generator().manual_seed(0)).to(dtype)
    labels = torch.randint(500, (3, 8), generator=torch.Generator().manual_seed(1))
    right = F.cross_entropy(logits[:, :-1].float().reshape(-1, 500), labels[:, 1:].reshape(-1))
    torch.testing.assert_close(causal_lm_loss(logits, labels), right)


def test_nothing_is_counted():
    logits = torch.randn(2, 5, 7, requires_grad=True)
    for scores, labels in ((logits, torch.full((2, 5), -100)), (logits[:, :1], torch.zeros(2, 1, dtype=torch.int64))):
        loss = causal_lm_loss(scores, labels)
        (gradient,) = torch.autograd.grad(loss, logits)
        assert loss.item() == 0.0 and not gradient.any()
