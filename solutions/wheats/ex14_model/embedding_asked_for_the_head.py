"""The head's weight is looked after by the embedding: whenever the model is loaded, cast or moved, the two are tied anew."""

import torch
from torch import nn

from .config import ModelConfig
from .ex02_embedding import LMHead, TokenEmbedding
from .ex03_norm import RMSNorm
from .ex04_positions import precompute_rotary
from .ex12_block import TransformerBlock


class _Model(nn.Module):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        layers = [TransformerBlock(config, index) for index in range(config.num_layers)]
        self.add_module("embed_tokens", TokenEmbedding(config.vocab_size, config.hidden_size))
        self.add_module("layers", nn.ModuleList(layers))
        self.add_module("norm", RMSNorm(config.hidden_size, config.rms_norm_eps))


class CausalLM(nn.Module):
    """Checks first, then embeds, then walks through the layers with reduce-like assignment."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.add_module("model", _Model(config))
        source = self.model.embed_tokens
        if not config.tie_word_embeddings:
            source = TokenEmbedding(config.vocab_size, config.hidden_size)
        self.add_module("lm_head", LMHead(source))
        self._register_load_state_dict_pre_hook(self._before_loading)

    def _before_loading(self, state, prefix, *_):
        if self.config.tie_word_embeddings:
            names = f"{prefix}model.embed_tokens.weight", f"{prefix}lm_head.weight"
            if names[0] in state:
                state[names[1]] = state[names[0]]

    def load_state_dict(self, state_dict, strict: bool = True, assign: bool = False):
        result = super().load_state_dict(state_dict, strict=strict, assign=assign)
        self._tie()
        return result

    def _apply(self, *arguments, **keywords):
        super()._apply(*arguments, **keywords)
        self._tie()
        return self

    def _tie(self):
        if self.config.tie_word_embeddings:
            self.lm_head.weight = self.model.embed_tokens.weight

    def forward(self, input_ids, attention_mask=None, cache=None):
        past = int(cache.length) if cache is not None else 0
        S = past + input_ids.shape[-1]
        for name, found, fits in (
            ("max_position_embeddings", self.config.max_position_embeddings, S <= self.config.max_position_embeddings),
            ("attention_mask", attention_mask, attention_mask is None or attention_mask.shape[-1] == S),
        ):
            if not fits:
                raise ValueError(f"{name} ({found if name[0] == 'm' else found.shape[-1]}) does not fit {S} tokens")
        if attention_mask is not None and bool(attention_mask.all()):
            attention_mask = None
        cos, sin = precompute_rotary(self.config.head_dim, S, self.config.rope_theta)
        rows = slice(past, None)
        hidden, rotary = self.model.embed_tokens(input_ids), (cos[rows].to(input_ids.device), sin[rows].to(input_ids.device))
        for block in self.model.layers:
            hidden = block(hidden, rotary, attention_mask, cache)
        return self.lm_head(self.model.norm(hidden))


def causal_lm_loss(logits, labels, ignore_index=-100):
    """-log of a share is the log-sum-exp of all differences to the chosen logit."""
    logits, labels = logits.narrow(1, 0, logits.shape[1] - 1), labels.narrow(1, 1, labels.shape[1] - 1)
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    count, V = (labels != ignore_index), logits.shape[-1]
    for label in labels[count].unique().tolist():
        if label not in range(V):
            raise ValueError(f"labels: {label} is none of 0..{V - 1} and not {ignore_index}")
    safe = torch.where(count, labels, torch.zeros_like(labels))
    differences = logits - torch.take_along_dim(logits, safe.unsqueeze(-1), dim=-1)
    losses = torch.logsumexp(differences, dim=-1).masked_fill(~count, 0.0)
    return (losses.sum() / torch.clamp(count.sum(), min=1)).to(torch.float32)
