"""Positions are counted over real tokens, row by row, so pads take none; without a mask they start at the cache's length."""

from typing import Any

import torch
from torch import Tensor, nn

from .config import ModelConfig
from .ex02_embedding import LMHead, TokenEmbedding
from .ex03_norm import RMSNorm
from .ex04_positions import precompute_rotary
from .ex12_block import TransformerBlock


class Backbone(nn.Module):
    """Ids to hidden states."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.limit = config.max_position_embeddings
        self.embed_tokens = TokenEmbedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList([TransformerBlock(config, i) for i in range(config.num_layers)])
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        for name, table in zip(("cos", "sin"), precompute_rotary(config.head_dim, self.limit, config.rope_theta)):
            self.register_buffer(name, table, persistent=False)

    def _apply(self, fn, recurse=True):
        """Tables move with the model, and stay float32."""
        tables = self.cos, self.sin
        super()._apply(fn, recurse)
        self.cos, self.sin = (table.to(self.cos.device) for table in tables)
        return self

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, cache: Any = None) -> Tensor:
        """[B, T] to [B, T, C]."""
        B, T = input_ids.shape
        S = T + (cache.length if cache is not None else 0)
        if S > self.limit:
            raise ValueError(f"sequence of {S} is longer than max_position_embeddings ({self.limit})")
        if attention_mask is None:
            positions = torch.arange(S, device=input_ids.device).expand(B, S)
        elif attention_mask.shape[-1] == S:
            positions = (attention_mask.long().cumsum(-1) - 1).clamp(min=0)
        else:
            raise ValueError(f"attention_mask of {attention_mask.shape[-1]} for {S} tokens")
        positions = positions[:, S - T :]  # [B, T]
        rotary = self.cos[positions], self.sin[positions]  # [B, T, D]
        h = self.embed_tokens(input_ids)
        for layer in self.layers:
            h = layer(h, rotary, attention_mask, cache)
        return self.norm(h)


class CausalLM(nn.Module):
    """Backbone and head."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.config, self.model = config, Backbone(config)
        if config.tie_word_embeddings:
            self.lm_head = LMHead(self.model.embed_tokens)
        else:
            self.lm_head = LMHead(TokenEmbedding(config.vocab_size, config.hidden_size))

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, cache: Any = None) -> Tensor:
        """[B, T] to [B, T, V]."""
        return self.lm_head(self.model(input_ids, attention_mask, cache))

    def load_state_dict(self, state_dict, strict=True, assign=False):
        """For a tied model the embedding is the only truth."""
        if not self.config.tie_word_embeddings:
            return super().load_state_dict(state_dict, strict, assign)
        state_dict = dict(state_dict)
        if "model.embed_tokens.weight" in state_dict:
            state_dict["lm_head.weight"] = state_dict["model.embed_tokens.weight"]
        outcome = super().load_state_dict(state_dict, strict, assign)
        del self.lm_head.weight
        self.lm_head.weight = self.model.embed_tokens.weight
        return outcome


def causal_lm_loss(logits: Tensor, labels: Tensor, ignore_index: int = -100) -> Tensor:
    """With a one-hot instead of a gather, and labels that are moved instead of logits that are cut."""
    V = logits.shape[-1]
    targets = torch.full_like(labels, ignore_index)
    targets[:, :-1] = labels[:, 1:]
    seen = targets.ne(ignore_index)
    bad = seen & (targets.lt(0) | targets.ge(V))
    if bad.any():
        raise ValueError(f"labels outside 0..{V - 1}: {targets[bad].tolist()}")
    one_hot = targets[..., None] == torch.arange(V, device=logits.device)
    log_probabilities = torch.log_softmax(logits.to(torch.float64), dim=-1)
    total = -torch.where(one_hot & seen[..., None], log_probabilities, 0.0).sum()
    return (total / seen.sum().clamp(min=1)).float()
