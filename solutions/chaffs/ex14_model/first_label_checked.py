"""It looks as if the first label of a row is looked at, too. Which logits are scored against it?"""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from .config import ModelConfig
from .ex02_embedding import LMHead, TokenEmbedding
from .ex03_norm import RMSNorm
from .ex04_positions import precompute_rotary
from .ex12_block import TransformerBlock

CATEGORY = "robustness"


class Decoder(nn.Module):
    """All of the model below the head."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.embed_tokens = TokenEmbedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(TransformerBlock(config, layer_idx) for layer_idx in range(config.num_layers))
        self.norm = RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.max_len = config.max_position_embeddings
        self.cos, self.sin = precompute_rotary(config.head_dim, self.max_len, config.rope_theta)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None, cache: Any) -> Tensor:
        """Hidden states after the last norm."""
        start = 0 if cache is None else cache.length
        end = start + input_ids.shape[1]
        if end > self.max_len:
            raise ValueError(f"max_position_embeddings is {self.max_len}, but past and new tokens are {end}")
        if attention_mask is not None and attention_mask.shape[1] != end:
            found = attention_mask.shape[1]
            raise ValueError(f"attention_mask must cover all {end} tokens, past and new, but it covers {found}")
        x = self.embed_tokens(input_ids)
        position_embeddings = self.cos[start:end].to(x.device), self.sin[start:end].to(x.device)
        for layer in self.layers:
            x = layer(x, position_embeddings, attention_mask, cache)
        return self.norm(x)


class CausalLM(nn.Module):
    """A decoder with a language-model head."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.model = Decoder(config)
        self.is_tied = config.tie_word_embeddings
        table = self.model.embed_tokens if self.is_tied else TokenEmbedding(config.vocab_size, config.hidden_size)
        self.lm_head = LMHead(table)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, cache: Any = None) -> Tensor:
        """Logits for the token that follows each of the new ones."""
        return self.lm_head(self.model(input_ids, attention_mask, cache))

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """As in `nn.Module`; tied weights may come without the head's key, and are tied afterwards."""
        table = "model.embed_tokens.weight"
        if self.is_tied and table in state_dict:
            state_dict = {"lm_head.weight": state_dict[table], **state_dict}
        result = super().load_state_dict(state_dict, strict=strict, assign=assign)
        if self.is_tied:
            self.lm_head.weight = self.model.embed_tokens.weight
        return result


def causal_lm_loss(logits: Tensor, labels: Tensor, ignore_index: int = -100) -> Tensor:
    """The mean of `-log p(next token)`."""
    wrong = labels[(labels != ignore_index) & ((labels < 0) | (labels >= logits.shape[-1]))]
    if wrong.numel():
        raise ValueError(f"labels must be 0 .. {logits.shape[-1] - 1} or {ignore_index}, but one is {wrong[0].item()}")
    logits, labels = logits[:, :-1].float(), labels[:, 1:]
    counted = labels != ignore_index
    chosen = logits.gather(-1, labels.where(counted, 0)[..., None])[..., 0]
    surprise = logits.logsumexp(dim=-1) - chosen
    return (surprise * counted).sum() / counted.sum().clamp(min=1)
