"""Long contexts fail. Is the mask cut out of a table whose size you chose once?"""

import torch
from torch import Tensor

CATEGORY = "robustness"

_TABLE = torch.ones(1024, 1024, dtype=torch.bool).tril()


def causal_mask(q_len: int, k_len: int, device: torch.device | str | None = None) -> Tensor:
    if q_len > k_len:
        raise ValueError(f"q_len must not exceed k_len, got q_len={q_len} and k_len={k_len}")
    mask = _TABLE[k_len - q_len : k_len, :k_len].clone()
    return mask if device is None else mask.to(device)


def padding_mask(attention_mask: Tensor) -> Tensor:
    return attention_mask.bool()[:, None, None, :]


def combine_masks(causal: Tensor | None, padding: Tensor | None) -> Tensor | None:
    if causal is None:
        return padding
    causal = causal[None, None]  # [1, 1, T, S]
    return causal if padding is None else causal & padding  # [B, 1, T, S]


def show_mask(mask: Tensor) -> str:
    return "\n".join("".join("#" if visible else "." for visible in row) for row in mask.tolist())
