"""More queries than keys is accepted. Every query is also a key, so where would the first ones stand?"""

import torch
from torch import Tensor

CATEGORY = "robustness"


def causal_mask(q_len: int, k_len: int, device: torch.device | str | None = None) -> Tensor:
    return torch.ones(q_len, k_len, dtype=torch.bool, device=device).tril(diagonal=k_len - q_len)


def padding_mask(attention_mask: Tensor) -> Tensor:
    return attention_mask.bool()[:, None, None, :]


def combine_masks(causal: Tensor | None, padding: Tensor | None) -> Tensor | None:
    if causal is None:
        return padding
    causal = causal[None, None]  # [1, 1, T, S]
    return causal if padding is None else causal & padding  # [B, 1, T, S]


def show_mask(mask: Tensor) -> str:
    return "\n".join("".join("#" if visible else "." for visible in row) for row in mask.tolist())
