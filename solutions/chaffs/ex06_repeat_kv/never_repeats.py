"""What comes out has as many heads as what came in. Where does n_rep enter?"""

from torch import Tensor

CATEGORY = "shape"


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    if n_rep < 1:
        raise ValueError(f"n_rep must be at least 1, got {n_rep}")
    return x
