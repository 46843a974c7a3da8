"""The last call's keys and values stay behind in the layer. What do they cost a model of many layers, and who reads them?"""

from typing import Any

from torch import Tensor, nn

from .config import ModelConfig
from .ex04_positions import apply_rotary_pos_emb
from .ex05_qkv import QKVProjection
from .ex06_repeat_kv import repeat_kv
from .ex09_flash import attention

CATEGORY = "robustness"


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
        self.last = (k, v)
        k, v = repeat_kv(k, self.config.n_rep), repeat_kv(v, self.config.n_rep)  # [B, S, H, D]
        out = attention(
            *(heads.transpose(1, 2) for heads in (q, k, v)),  # [B, H, T or S, D]
            attention_mask=attention_mask,
            dropout_p=self.config.dropout,
            training=self.training,
            use_flash=self.config.use_flash,
        )
        return self.o_proj(out.transpose(1, 2).flatten(2))  # [B, T, H*D] -> [B, T, C]
