"""After the call the caller's tensor is not what it was. Which of your calls ends in an underscore?"""

from torch import Tensor

CATEGORY = "robustness"


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    if n_rep < 1:
        raise ValueError(f"n_rep must be at least 1, got {n_rep}")
    B, T, K, D = x.shape
    return x.unsqueeze_(3).expand(B, T, K, n_rep, D).reshape(B, T, K * n_rep, D)
