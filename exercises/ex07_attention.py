"""07 · attention: every query asks all keys, and takes home a weighted sum of the values."""

from jaxtyping import Bool, Float
from torch import Tensor


def attention_weights(
    q: Float[Tensor, "B H T D"],
    k: Float[Tensor, "B H S D"],
    mask: Bool[Tensor, "..."] | None = None,
    scale: float | None = None,
) -> Float[Tensor, "B H T S"]:
    """How much of each key's value every query takes: `softmax(q k^T * scale)` over the S keys.

    Args:
        q: queries `[B, H, T, D]`.
        k: keys `[B, H, S, D]`; S may differ from T.
        mask: bool, True = may attend, of any shape that broadcasts to `[B, H, T, S]`: `[T, S]`, `[B, 1, 1, S]`, ...
            None lets every query attend to every key. Hidden keys may hold any finite numbers.
        scale: multiplies the dot products. None means `1 / sqrt(D)`; any number given, 0.0 too, replaces that.

    Returns:
        Weights `[B, H, T, S]` in q's dtype. Each row sums to 1 and is exactly 0 on hidden keys. A row with no allowed
        key is all zeros, never NaN, and the gradients stay finite. Scores and softmax are computed in at least float32:
        q and k are converted before they are multiplied, and any finite score in float32 is handled.

    Raises:
        ValueError: the mask is not bool; the message names `mask` and its dtype.

    Example:
        One query and two keys with D = 4: the scores are 0 and 2 * ln 3 / sqrt(4) = ln 3, their exp 1 and 3.

        >>> q = torch.tensor([[[[2.0, 0.0, 0.0, 0.0]]]])
        >>> k = torch.tensor([[[[0.0, 0.0, 0.0, 0.0], [1.0986, 0.0, 0.0, 0.0]]]])
        >>> attention_weights(q, k)
        tensor([[[[0.2500, 0.7500]]]])
    """
    raise NotImplementedError("EX07: attention_weights")


def scaled_dot_product_attention(
    q: Float[Tensor, "B H T D"],
    k: Float[Tensor, "B H S D"],
    v: Float[Tensor, "B H S E"],
    mask: Bool[Tensor, "..."] | None = None,
    scale: float | None = None,
) -> Float[Tensor, "B H T E"]:
    """Attention's answer to every query: the values, summed with `attention_weights` as their shares.

    Args:
        q, k, mask, scale: as in `attention_weights`.
        v: values `[B, H, S, E]`, one per key; E may differ from D.

    Returns:
        `[B, H, T, E]` in the dtype of the inputs. A query with no allowed key gets zeros, and gradients stay finite.
        No argument is changed.

    Raises:
        ValueError: the mask is not bool; the message names `mask` and its dtype.

    Example:
        With q and k of the example above, the values [8, 0] and [0, 4] have the shares 1/4 and 3/4.

        >>> v = torch.tensor([[[[8.0, 0.0], [0.0, 4.0]]]])
        >>> scaled_dot_product_attention(q, k, v)
        tensor([[[[2.0000, 3.0000]]]])
    """
    raise NotImplementedError("EX07: scaled_dot_product_attention")
