"""Calls no attention of an earlier exercise: torch's own where it may, a softmax over positions where it may not."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .config import ModelConfig
from .ex04_positions import apply_rotary_pos_emb
from .ex05_qkv import QKVProjection


class Attention(QKVProjection):
    """Query heads stand as [K, n] beside their key head, so that keys broadcast."""

    def __init__(self, config: ModelConfig, layer_idx: int = 0) -> None:
        super().__init__(
            hidden_size=config.hidden_size,
            num_heads=config.num_heads,
            num_kv_heads=config.num_kv_heads,
            head_dim=config.head_dim,
            eps=config.rms_norm_eps,
        )
        self.o_proj = nn.Linear(config.num_heads * config.head_dim, config.hidden_size, bias=False)
        self.weight_dropout = nn.Dropout(config.dropout)
        self.layer_idx = layer_idx
        self.groups, self.fast = config.num_kv_heads, config.use_flash

    def forward(self, x: Tensor, position_embeddings, attention_mask=None, cache=None) -> Tensor:
        """Fused for a whole prompt without pads, by hand for everything else."""
        q, k, v = super().forward(x)
        q, k = apply_rotary_pos_emb(q, k, *position_embeddings)
        if cache is not None:
            k, v = cache.update(k, v, self.layer_idx)
        T, S = q.shape[1], k.shape[1]
        q = q.unflatten(2, (self.groups, -1)).permute(0, 2, 3, 1, 4)  # [B, K, n, T, D]
        k, v = (one.permute(0, 2, 1, 3).unsqueeze(2) for one in (k, v))  # [B, K, 1, S, D]
        whole = attention_mask is None or bool((attention_mask != 0).all())
        if self.fast and whole and T == S > 1:
            rate = self.weight_dropout.p if self.training else 0.0
            k, v = k.expand(-1, -1, q.shape[2], -1, -1).flatten(1, 2), v.expand(-1, -1, q.shape[2], -1, -1).flatten(1, 2)
            out = F.scaled_dot_product_attention(q.flatten(1, 2), k, v, dropout_p=rate, is_causal=True)
        else:
            out = self.by_hand(q, k, v, attention_mask).flatten(1, 2)
        return self.o_proj(out.transpose(1, 2).flatten(2))

    def by_hand(self, q: Tensor, k: Tensor, v: Tensor, attention_mask: Tensor | None) -> Tensor:
        """Scores of hidden keys become minus infinity; rows of nothing else are set to zero."""
        T, S = q.shape[-2], k.shape[-2]
        dtype = torch.promote_types(q.dtype, torch.float32)
        scores = (q.to(dtype) @ k.to(dtype).mT) / math.sqrt(q.shape[-1])  # [B, K, n, T, S]
        visible = torch.arange(S, device=q.device) <= torch.arange(S - T, S, device=q.device).unsqueeze(1)
        if attention_mask is not None:
            visible = visible & (attention_mask != 0)[:, None, None, None, :]
        nothing = ~visible.any(dim=-1, keepdim=True)
        scores = scores.masked_fill(~visible & ~nothing, -math.inf)
        weights = scores.softmax(dim=-1).masked_fill(nothing, 0.0)
        return self.weight_dropout(weights).to(v.dtype) @ v
