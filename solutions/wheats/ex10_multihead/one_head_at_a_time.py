"""Attends with one query head after the other and looks its key head up by number: nothing is ever repeated."""

import torch
from torch import Tensor, nn

from .config import ModelConfig
from .ex04_positions import apply_rotary_pos_emb
from .ex05_qkv import QKVProjection
from .ex09_flash import attention


class Attention(QKVProjection):
    """A loop over heads; every head adds its own slice of o_proj."""

    def __init__(self, config: ModelConfig, layer_idx: int = 0) -> None:
        super().__init__(config.hidden_size, config.num_heads, config.num_kv_heads, config.head_dim, config.rms_norm_eps)
        self.o_proj = nn.Linear(config.q_size, config.hidden_size, bias=False)
        self.settings = config, layer_idx

    def forward(self, x: Tensor, position_embeddings, attention_mask=None, cache=None) -> Tensor:
        """The output is the sum of what the heads contribute."""
        config, layer_idx = self.settings
        q, k, v = super().forward(x)
        q, k = apply_rotary_pos_emb(q, k, position_embeddings[0], position_embeddings[1])
        if cache is not None:
            k, v = cache.update(k, v, layer_idx)
        result = torch.zeros_like(x)
        slices = self.o_proj.weight.split(config.head_dim, dim=1)  # H of [C, D]
        for head, weight in enumerate(slices):
            kv = head * config.num_kv_heads // config.num_heads
            mixed = attention(
                q[:, :, head].unsqueeze(1),
                k[:, :, kv].unsqueeze(1),
                v[:, :, kv].unsqueeze(1),
                attention_mask=attention_mask,
                dropout_p=config.dropout,
                training=self.training,
                use_flash=config.use_flash,
            )
            result = result + mixed.squeeze(1) @ weight.T
        return result
