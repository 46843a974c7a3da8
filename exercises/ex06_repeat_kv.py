"""06 · repeat_kv: lend every key/value head to the query heads that share it (grouped-query attention)."""

from jaxtyping import Shaped
from torch import Tensor


def repeat_kv(x: Shaped[Tensor, "B T K D"], n_rep: int) -> Shaped[Tensor, "B T K*n_rep D"]:
    """Repeat each key/value head `n_rep` times, every copy right next to its original.

    Head j of the result is head j // n_rep of the input, so K heads become H = K * n_rep.

    Args:
        x: [B, T, K, D] keys or values of any dtype (floats, integers, bool), contiguous or not. It is not changed.
        n_rep: how many query heads share one key/value head, H // K; at least 1.

    Returns:
        [B, T, K * n_rep, D] in the dtype and on the device of `x`, bit for bit the values of `x`. It may share
        memory with `x`, but not with the result of another call, and nothing is remembered from call to call.
        Gradients flow back: a head of `x` receives the sum over its copies. The call takes no more new memory than
        the result.

    Raises:
        ValueError: `n_rep` is less than 1; the message names `n_rep` and gives the value.

    Example:
        >>> repeat_kv(torch.tensor([[[[1], [2]]]]), 2).flatten().tolist()
        [1, 1, 2, 2]
    """
    raise NotImplementedError("EX06: repeat_kv")
