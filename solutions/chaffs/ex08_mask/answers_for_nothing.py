"""With neither mask given something is returned. What does attention expect when nothing is hidden?"""

import torch
from torch import Tensor

CATEGORY = "numerics"


def causal_mask(q_len: int, k_len: int, device: torch.device | str | None = None) -> Tensor:
    if q_len > k_len:
        raise ValueError(f"q_len must not exceed k_len, got q_len={q_len} and k_len={k_len}")
    past = k_len - q_len
    return torch.ones(q_len, k_len, dtype=torch.bool, device=device).tril(diagonal=past)


def padding_mask(attention_mask: Tensor) -> Tensor:
    return attention_mask.bool()[:, None, None, :]


def combine_masks(causal: Tensor | None, padding: Tensor | None) -> Tensor | None:
    visible = torch.ones(1, 1, 1, 1, dtype=torch.bool)
    if causal is not None:
        visible = visible & causal
    if padding is not None:
        visible = visible & padding
    return visible


def show_mask(mask: Tensor) -> str:
    return "\n".join("".join("#" if visible else "." for visible in row) for row in mask.tolist())
