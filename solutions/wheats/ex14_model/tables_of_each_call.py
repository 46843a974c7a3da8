"""RoPE tables are made anew in each call; the tie is restored by _load_from_state_dict; the loss goes row by row through logaddexp."""

import torch
from torch import nn

from .config import ModelConfig
from .ex02_embedding import LMHead, TokenEmbedding
from .ex03_norm import RMSNorm
from .ex04_positions import precompute_rotary
from .ex12_block import TransformerBlock


class Trunk(nn.ModuleDict):
    """The modules by name."""

    def __init__(self, config: ModelConfig) -> None:
        blocks = [TransformerBlock(config, layer_idx=i) for i in range(config.num_layers)]
        super().__init__(
            {
                "embed_tokens": TokenEmbedding(config.vocab_size, config.hidden_size),
                "layers": nn.Sequential(*blocks),
                "norm": RMSNorm(config.hidden_size, config.rms_norm_eps),
            }
        )


class CausalLM(nn.Module):
    """No table is kept."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.model = Trunk(config)
        own = None if config.tie_word_embeddings else TokenEmbedding(config.vocab_size, config.hidden_size)
        self.lm_head = LMHead(self.model["embed_tokens"] if own is None else own)

    def _load_from_state_dict(self, state_dict, prefix, *rest):
        if self.config.tie_word_embeddings:
            for name in ("model.embed_tokens.weight", "lm_head.weight"):
                if prefix + name in state_dict:
                    state_dict[f"{prefix}lm_head.weight"] = state_dict[prefix + name]
                    break
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def load_state_dict(self, *arguments, **keywords):
        """Load, then share again."""
        answer = nn.Module.load_state_dict(self, *arguments, **keywords)
        if self.config.tie_word_embeddings:
            self.lm_head.register_parameter("weight", self.model["embed_tokens"].weight)
        return answer

    def forward(self, input_ids, attention_mask=None, cache=None):
        """All positions up to the last are computed, the new ones used."""
        new = input_ids.shape[1]
        total = new if cache is None else cache.length + new
        most = self.config.max_position_embeddings
        if total > most:
            raise ValueError(f"{total} tokens > max_position_embeddings {most}")
        if attention_mask is not None and attention_mask.shape != (len(input_ids), total):
            raise ValueError(f"attention_mask has shape {list(attention_mask.shape)}, not {[len(input_ids), total]}")
        rotary = tuple(
            t[-new:].to(input_ids.device) for t in precompute_rotary(self.config.head_dim, total, self.config.rope_theta)
        )
        x = self.model["embed_tokens"](input_ids)
        for block in self.model["layers"]:
            x = block(x, rotary, attention_mask, cache)
        return self.lm_head(self.model["norm"](x))


def causal_lm_loss(logits, labels, ignore_index=-100):
    """Only the counted positions are looked at."""
    V = logits.shape[-1]
    total, count = logits.float().sum() * 0.0, 0
    for row, marks in zip(logits, labels):
        scores, targets = row[:-1].float(), marks[1:]
        chosen = (targets != ignore_index).nonzero()[:, 0]
        for place in chosen.tolist():
            label = int(targets[place])
            if not 0 <= label < V:
                raise ValueError(f"labels: {label} is not among the {V} ids")
        if len(chosen):
            scores = scores[chosen]
            highest = scores.amax(-1, keepdim=True).detach()
            spread = (scores - highest).exp().sum(-1).log() + highest[:, 0]
            total = total + (spread - scores[torch.arange(len(chosen)), targets[chosen]]).sum()
            count += len(chosen)
    return total / count if count else total
