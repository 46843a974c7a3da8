"""The one description of a model: every size that a module needs to be built. Given, not graded."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class ModelConfig:
    """A decoder's sizes and switches. The defaults are MiniMind's.

    `intermediate_size` follows from `hidden_size` unless it is given: C * pi, rounded up to a multiple of 64, so 2432.
    """

    hidden_size: int = 768  # C, the channels of the residual stream
    num_layers: int = 8  # L
    num_heads: int = 8  # H, query heads
    num_kv_heads: int = 4  # K, key/value heads, each shared by H / K query heads
    head_dim: int = 96  # D, its own number: H * D need not be C
    intermediate_size: int = 0  # F, the channels inside the feed-forward network; 0: follows from C
    vocab_size: int = 6400  # V
    max_position_embeddings: int = 32768  # the most tokens that a sequence may have
    rms_norm_eps: float = 1e-6
    rope_theta: float = 1e6
    dropout: float = 0.0
    tie_word_embeddings: bool = True  # the head's weight is the embedding's
    use_flash: bool = True

    def __post_init__(self) -> None:
        if self.intermediate_size == 0:
            # The dataclass is frozen for everybody else; this completes it.
            object.__setattr__(self, "intermediate_size", math.ceil(self.hidden_size * math.pi / 64) * 64)

    @property
    def n_rep(self) -> int:
        """How many query heads share one key/value head: 2 by default."""
        return self.num_heads // self.num_kv_heads

    @property
    def q_size(self) -> int:
        """Width of all query heads together, H * D: 768 by default."""
        return self.num_heads * self.head_dim

    @property
    def kv_size(self) -> int:
        """Width of all key (or value) heads together, K * D: 384 by default."""
        return self.num_kv_heads * self.head_dim
