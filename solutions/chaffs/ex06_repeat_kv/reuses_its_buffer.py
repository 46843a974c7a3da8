"""An earlier result changes when the function is called again. Do two calls write into the same memory?"""

from torch import Tensor

CATEGORY = "robustness"

_BUFFERS: dict[tuple, Tensor] = {}


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    if n_rep < 1:
        raise ValueError(f"n_rep must be at least 1, got {n_rep}")
    B, T, K, D = x.shape
    copies = x[:, :, :, None, :].expand(B, T, K, n_rep, D)
    if x.requires_grad:
        return copies.reshape(B, T, K * n_rep, D)
    key = (B, T, K, n_rep, D, x.dtype)
    if key not in _BUFFERS:
        _BUFFERS[key] = x.new_empty(B, T, K, n_rep, D)
    return _BUFFERS[key].copy_(copies).flatten(2, 3)
