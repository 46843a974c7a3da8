"""What exercise 08's own code draws: who sees whom, with a past and with padding."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from grader.suite.pictures import mask


def look(learner: Any) -> Iterator[str]:
    """Masks as pictures."""
    causal = learner.causal_mask(4, 4)
    yield "causal_mask(4, 4), drawn by your show_mask:\n" + learner.show_mask(causal)
    yield "causal_mask(3, 8): three new tokens after a past of five\n" + mask(learner.causal_mask(3, 8))
    real = torch.tensor([[0, 0, 1, 1, 1, 1], [1, 1, 1, 1, 1, 0]])
    both = learner.combine_masks(learner.causal_mask(6, 6), learner.padding_mask(real))
    yield "two sentences of six: two pads before the first, one behind the second\n" + "\n\n".join(map(mask, both))
