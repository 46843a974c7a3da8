"""14 · model: ids in, logits out. An embedding, a stack of blocks, a norm and a head; and the loss that trains them."""

from typing import Any

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from .config import ModelConfig


class CausalLM(nn.Module):
    """A Qwen3-style decoder with a language-model head: ids to logits for the next token.

    Args:
        config: every size. `num_layers` blocks of the same form, each with its own weights and its own `layer_idx`. With
            `tie_word_embeddings` the head's weight is the embedding's Parameter; without, it is a table of its own.

    Modules, named as in Hugging Face's Qwen3:
        model.embed_tokens: `TokenEmbedding`, V x C.
        model.layers: `TransformerBlock`s, "model.layers.0", "model.layers.1", ...
        model.norm: `RMSNorm` over C with config.rms_norm_eps, after the last block.
        lm_head: `LMHead`.

        Their parameters are all the parameters, and the state dict holds them and nothing else: lm_head.weight (tied, too),
        no RoPE tables.

    Loading: `load_state_dict` also takes a checkpoint without "lm_head.weight" when the head is tied, and the tie survives
    loading, with `assign=True` or `strict=False` too. Untied, the key is needed as ever. The checkpoint itself is not changed.

    Example:
        >>> model = CausalLM(ModelConfig(num_layers=2))
        >>> model(torch.zeros(1, 100, dtype=torch.int64)).shape
        torch.Size([1, 100, 6400])
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        raise NotImplementedError("EX14: CausalLM.__init__")

    def forward(
        self,
        input_ids: Int[Tensor, "B T"],
        attention_mask: Bool[Tensor, "B S"] | Int[Tensor, "B S"] | None = None,
        cache: Any = None,
    ) -> Float[Tensor, "B T V"]:
        """Logits for the token that follows each of the T new ones.

        Args:
            input_ids: `[B, T]` int64 (or int32) ids of the new tokens. Not changed.
            attention_mask: `[B, S]` bool or 0/1 over all S tokens, past and new, 1 = real token; None if all are. Pads may
                stand on the left: every real token then gets the logits that it gets when its row stands alone.
            cache: a `DynamicCache` or `StaticCache` that holds the past tokens and takes the new ones in, or None. The new
                tokens stand at the positions `cache.length`, `cache.length + 1`, ...

        Returns:
            `[B, T, V]` in the parameters' dtype: raw logits, no softmax.

        Raises:
            ValueError: past and new tokens, pads counted, are more than `max_position_embeddings` (the message names it and
                gives its value and how many they are), or `attention_mask` is not as long as past and new tokens together (it names
                `attention_mask` and gives both lengths). The cache is then as before.
        """
        raise NotImplementedError("EX14: CausalLM.forward")


def causal_lm_loss(logits: Float[Tensor, "B T V"], labels: Int[Tensor, "B T"], ignore_index: int = -100) -> Float[Tensor, ""]:
    """How surprised the model is by the text, on average per token: mean of `-log p(token t + 1 | tokens 0 .. t)`.

    The shift happens here: the logits at position t are scored against the label at t + 1, within each row. The last logits
    and the first label of a row take no part.

    Args:
        logits: `[B, T, V]`, raw, of any float dtype. Not changed.
        labels: `[B, T]` int64, usually the input ids themselves, or `ignore_index` where a token is not to be counted.
            Not changed.
        ignore_index: any integer, one of the ids 0 .. V - 1 too.

    Returns:
        float32 scalar, computed in at least float32: the mean over the counted labels. If none is counted, and also if T = 1, it
        is 0, and a backward pass gives zeros. Logits of 1000 give finite numbers.

    Raises:
        ValueError: a label that is counted is < 0 or >= V; the message names `labels` and gives the label and V
            (or the ids 0 .. V - 1).

    Example:
        Two tokens, three ids: the second token is 2, and its logit is 0 next to 0 and ln 2, so its share is 1/4.

        >>> logits = torch.tensor([[[0.0, 0.6931, 0.0], [9.0, 9.0, 9.0]]])
        >>> causal_lm_loss(logits, torch.tensor([[1, 2]]))
        tensor(1.3863)
    """
    raise NotImplementedError("EX14: causal_lm_loss")
