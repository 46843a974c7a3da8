"""The values are right, but nothing flows back to x. Which step leaves the autograd graph (numpy, `.data`,
`detach`, `no_grad`, a new tensor)?
"""

from torch import Tensor

CATEGORY = "gradients"


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    if n_rep < 1:
        raise ValueError(f"n_rep must be at least 1, got {n_rep}")
    return x.detach().repeat_interleave(n_rep, dim=2)
