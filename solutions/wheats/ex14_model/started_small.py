"""All matrices start at a standard deviation of 0.02, as GPT-2's do; tied by a subclass of its own; the loss by boolean selection."""

import torch
from torch import nn

from .config import ModelConfig
from .ex02_embedding import LMHead, TokenEmbedding
from .ex03_norm import RMSNorm
from .ex04_positions import precompute_rotary
from .ex12_block import TransformerBlock


class Stack(nn.Module):
    """Blocks between an embedding and a norm; the rotary tables lie in a plain dict."""

    def __init__(self, config):
        super().__init__()
        self.embed_tokens = TokenEmbedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(map(lambda i: TransformerBlock(config, i), range(config.num_layers)))
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.rotary = {}

    def tables(self, config, device):
        if device not in self.rotary:
            with torch.inference_mode(False):
                made = precompute_rotary(config.head_dim, config.max_position_embeddings, config.rope_theta)
            self.rotary[device] = tuple(table.to(device) for table in made)
        return self.rotary[device]


class CausalLM(nn.Module):
    def __init__(self, config: ModelConfig):
        super().__init__()
        self.config = config
        self.model = Stack(config)
        self.lm_head = LMHead(TokenEmbedding(config.vocab_size, config.hidden_size))
        self.share()
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=0.02)

    def share(self):
        if self.config.tie_word_embeddings:
            self.model.embed_tokens.weight = self.lm_head.weight

    def load_state_dict(self, state_dict, *arguments, **keywords):
        if self.config.tie_word_embeddings and "lm_head.weight" not in state_dict:
            state_dict = state_dict | {"lm_head.weight": state_dict["model.embed_tokens.weight"]}
        outcome = super().load_state_dict(state_dict, *arguments, **keywords)
        self.share()
        return outcome

    def check(self, new, past, mask):
        limit = self.config.max_position_embeddings
        if past + new > limit:
            raise ValueError(f"max_position_embeddings={limit} exceeded by {past}+{new}")
        if mask is not None and mask.shape[1] - past != new:
            raise ValueError(f"attention_mask covers {mask.shape[1]} tokens but there are {past + new}")

    def forward(self, input_ids, attention_mask=None, cache=None):
        past = 0
        if cache is not None:
            past = cache.length
        self.check(input_ids.shape[1], past, attention_mask)
        x = self.model.embed_tokens(input_ids)
        cos, sin = (t[past:][: input_ids.shape[1]] for t in self.model.tables(self.config, x.device))
        for layer in self.model.layers:
            x = layer(x, (cos, sin), attention_mask, cache)
        return self.lm_head(self.model.norm(x))


def causal_lm_loss(logits, labels, ignore_index=-100):
    counted = labels[:, 1:] != ignore_index
    chosen, targets = logits[:, :-1][counted].float(), labels[:, 1:][counted]  # [N, V], [N]
    if len(targets) == 0:
        return chosen.sum() + 0.0 * logits.sum().float()
    if targets.min() < 0 or targets.max() >= logits.shape[-1]:
        raise ValueError(f"labels go from {targets.min()} to {targets.max()}, but V is {logits.shape[-1]}")
    return (chosen.logsumexp(1) - chosen[range(len(targets)), targets]).mean()
