"""RoPE tables are buffers that are not saved; hooks fill in the head's key and tie again; the loss is log_softmax and nll_loss."""

import torch
from torch import nn
from torch.nn import functional as F

from .config import ModelConfig
from .ex02_embedding import LMHead, TokenEmbedding
from .ex03_norm import RMSNorm
from .ex04_positions import precompute_rotary
from .ex12_block import TransformerBlock


class CausalLM(nn.Module):
    """`model` is a bare container; everything happens here."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.lm_head = LMHead(TokenEmbedding(config.vocab_size, config.hidden_size))
        self.model = nn.Module()
        self.model.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.model.layers = nn.ModuleList()
        for index in range(config.num_layers):
            self.model.layers.append(TransformerBlock(config, index))
        self.model.embed_tokens = TokenEmbedding(config.vocab_size, config.hidden_size)
        tables = torch.stack(precompute_rotary(config.head_dim, config.max_position_embeddings, config.rope_theta))
        self.register_buffer("tables", tables, persistent=False)
        if config.tie_word_embeddings:
            self._tie()
            self.register_load_state_dict_pre_hook(_fill_in_head)
            self.register_load_state_dict_post_hook(lambda module, keys: module._tie())

    def _tie(self) -> None:
        self.lm_head.weight = self.model.embed_tokens.weight

    def forward(self, input_ids, attention_mask=None, cache=None):
        """Positions of the new tokens are an index into the tables."""
        past = cache.length if cache is not None else 0
        positions = torch.arange(past, past + input_ids.size(1), device=input_ids.device)
        if len(positions) and positions[-1] >= self.config.max_position_embeddings:
            limit = self.config.max_position_embeddings
            raise ValueError(f"{past} past and {len(positions)} new tokens exceed max_position_embeddings = {limit}")
        if attention_mask is not None:
            if attention_mask.size(-1) != past + input_ids.size(1):
                raise ValueError(
                    f"attention_mask is {attention_mask.size(-1)} long, past and new tokens are {past + input_ids.size(1)}"
                )
        hidden = self.model.embed_tokens(input_ids)
        cos, sin = self.tables[:, positions]
        for block in self.model.layers:
            hidden = block(hidden, (cos, sin), attention_mask=attention_mask, cache=cache)
        return self.lm_head(self.model.norm(hidden))


def _fill_in_head(module, state_dict, prefix, *_):
    embedding = state_dict.get(f"{prefix}model.embed_tokens.weight")
    if embedding is not None:
        state_dict.setdefault(f"{prefix}lm_head.weight", embedding)


def causal_lm_loss(logits, labels, ignore_index=-100):
    """nll_loss adds up, the division is ours."""
    V = logits.size(-1)
    flat, labels = logits[:, :-1].reshape(-1, V), labels[:, 1:].reshape(-1)
    exist = (labels >= 0) & (labels < V) | (labels == ignore_index)
    if not exist.all():
        raise ValueError(f"labels hold {labels[~exist].unique().tolist()}, V is {V}, ignore_index {ignore_index}")
    total = F.nll_loss(F.log_softmax(flat, dim=-1, dtype=torch.float32), labels, ignore_index=ignore_index, reduction="sum")
    return total / max(1, int((labels != ignore_index).sum()))
