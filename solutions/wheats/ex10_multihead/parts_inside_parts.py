"""Keeps the projections in a part of its own and names its parameters by hand, so that the state dict stays flat."""

from torch import Tensor, nn

from .config import ModelConfig
from .ex04_positions import apply_rotary_pos_emb
from .ex05_qkv import QKVProjection
from .ex06_repeat_kv import repeat_kv
from .ex09_flash import attention


class Attention(nn.Module):
    """Borrows the layers of a `QKVProjection`, which itself is no submodule."""

    def __init__(self, config: ModelConfig, layer_idx: int = 0) -> None:
        super().__init__()
        c = config
        qkv = QKVProjection(c.hidden_size, c.num_heads, c.num_kv_heads, c.head_dim, c.rms_norm_eps)
        for name, layer in qkv.named_children():
            self.add_module(name, layer)
        self.o_proj = nn.Linear(c.num_heads * c.head_dim, c.hidden_size, bias=False)
        self.projections = (qkv,)  # in a tuple, so that it is not registered twice
        self.c, self.layer_idx = c, layer_idx

    def forward(self, x: Tensor, position_embeddings, attention_mask=None, cache=None) -> Tensor:
        """Values and keys wait in their own lines until they are repeated."""
        q, k, v = self.projections[0](x)
        q, k = apply_rotary_pos_emb(q, k, *position_embeddings)
        present = (k, v) if cache is None else cache.update(k, v, self.layer_idx)
        n_rep = q.shape[2] // present[0].shape[2]
        keys, values = (repeat_kv(one, n_rep).transpose(1, 2) for one in present)
        merged = attention(
            q.transpose(1, 2),
            keys,
            values,
            attention_mask=None if attention_mask is None or attention_mask.bool().all() else attention_mask,
            dropout_p=self.c.dropout,
            training=self.training,
            use_flash=self.c.use_flash,
        )
        heads = [merged[:, head] for head in range(self.c.num_heads)]  # H of [B, T, D]
        return sum(head @ weight.T for head, weight in zip(heads, self.o_proj.weight.split(self.c.head_dim, 1), strict=True))
