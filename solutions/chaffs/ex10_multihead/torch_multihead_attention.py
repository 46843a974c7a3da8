"""It looks as if `nn.MultiheadAttention` does the work. What would you have learned then?"""

from typing import Any

import torch
from torch import Tensor, nn

from .config import ModelConfig
from .ex04_positions import apply_rotary_pos_emb
from .ex05_qkv import QKVProjection
from .ex06_repeat_kv import repeat_kv

CATEGORY = "by_hand"


class Attention(QKVProjection):
    """Causal self-attention with grouped heads, QK-Norm and rotary positions."""

    def __init__(self, config: ModelConfig, layer_idx: int = 0) -> None:
        C, H, K, D = config.hidden_size, config.num_heads, config.num_kv_heads, config.head_dim
        super().__init__(C, H, K, D, eps=config.rms_norm_eps)
        self.o_proj = nn.Linear(H * D, C, bias=False)
        self.config = config
        self.layer_idx = layer_idx

    def forward(
        self,
        x: Tensor,
        position_embeddings: tuple[Tensor, Tensor],
        attention_mask: Tensor | None = None,
        cache: Any = None,
    ) -> Tensor:
        """Let every token gather from the tokens up to itself."""
        q, k, v = super().forward(x)  # [B, T, H, D], [B, T, K, D], [B, T, K, D], normed
        q, k = apply_rotary_pos_emb(q, k, *position_embeddings)
        if cache is not None:
            k, v = cache.update(k, v, self.layer_idx)  # [B, S, K, D]
        k, v = repeat_kv(k, self.config.n_rep), repeat_kv(v, self.config.n_rep)  # [B, S, H, D]
        B, T, H, D = q.shape
        mixer = nn.MultiheadAttention(H * D, H, bias=False, batch_first=True)
        with torch.no_grad():
            mixer.in_proj_weight.copy_(torch.eye(H * D).repeat(3, 1))
            mixer.out_proj.weight.copy_(torch.eye(H * D))
        hidden = torch.ones(T, k.shape[1], dtype=torch.bool).triu(k.shape[1] - T + 1)
        pads = None if attention_mask is None else ~attention_mask.bool()
        out, _ = mixer(q.flatten(2), k.flatten(2), v.flatten(2), key_padding_mask=pads, attn_mask=hidden)
        return self.o_proj(out)
