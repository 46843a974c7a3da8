"""The reference of 12 against Qwen3's decoder layer and torch's own encoder layer."""

import pytest
import torch
from torch import nn
from transformers import Qwen3Config
from transformers.cache_utils import DynamicCache as HuggingFaceCache
from transformers.models.qwen3.modeling_qwen3 import Qwen3DecoderLayer, Qwen3RotaryEmbedding

from solutions.config import ModelConfig
from solutions.ex12_block import GPTBlock, TransformerBlock
from solutions.ex13_kv_cache import DynamicCache

OURS = ModelConfig(
    hidden_size=20, num_heads=6, num_kv_heads=3, head_dim=8, intermediate_size=28, rms_norm_eps=1e-3, rope_theta=1e4
)
THEIRS = Qwen3Config(
    hidden_size=20,
    num_attention_heads=6,
    num_key_value_heads=3,
    head_dim=8,
    intermediate_size=28,
    rms_norm_eps=1e-3,
    rope_theta=1e4,
    num_hidden_layers=2,
    attn_implementation="eager",
)


def draw(*shape: int, seed: int) -> torch.Tensor:
    """Normal values."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def randomised(module: nn.Module) -> nn.Module:
    """The module with every parameter drawn anew: matrices of size about 1 / sqrt(columns), vectors about 1."""
    with torch.no_grad():
        for seed, parameter in enumerate(module.parameters()):
            parameter.copy_(draw(*parameter.shape, seed=seed) / (parameter.shape[-1] ** 0.5 if parameter.dim() > 1 else 1.0))
    return module


def qwen3_layer() -> tuple[Qwen3DecoderLayer, TransformerBlock, Qwen3RotaryEmbedding]:
    """Hugging Face's layer 1 and ours with its weights, and what makes the position embeddings."""
    theirs = randomised(Qwen3DecoderLayer(THEIRS, layer_idx=1)).eval()
    ours = TransformerBlock(OURS, layer_idx=1).eval()
    ours.load_state_dict(theirs.state_dict(), strict=True)
    return theirs, ours, Qwen3RotaryEmbedding(THEIRS)


def additive(visible: torch.Tensor) -> torch.Tensor:
    """Hugging Face's mask: 0 where a key may be seen, else the lowest number."""
    return torch.zeros(visible.shape).masked_fill(~visible, torch.finfo(torch.float32).min)


@torch.no_grad()
def test_transformer_block_is_qwen3s_decoder_layer():
    theirs, ours, rotary = qwen3_layer()
    x = draw(2, 5, 20, seed=100)
    positions = rotary(x, torch.arange(5)[None])
    causal = torch.ones(5, 5, dtype=torch.bool).tril()
    expected = theirs(x, attention_mask=additive(causal)[None, None], position_embeddings=positions)
    torch.testing.assert_close(ours(x, positions), expected, rtol=1e-4, atol=1e-4)
    kept = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]])
    visible = causal & kept[:, None, None].bool()
    expected = theirs(x, attention_mask=additive(visible), position_embeddings=positions)
    actual = ours(x, positions, kept)
    real = kept.bool()  # a token that sees nothing gets an average there and zeros here
    torch.testing.assert_close(actual[real], expected[real], rtol=1e-4, atol=1e-4)


@pytest.mark.filterwarnings("ignore:.past_key_values. is deprecated:FutureWarning")
@torch.no_grad()
def test_transformer_block_decodes_like_qwen3s():
    theirs, ours, rotary = qwen3_layer()
    x = draw(2, 6, 20, seed=101)
    their_cache, our_cache = HuggingFaceCache(config=THEIRS), DynamicCache()
    start = 0
    for length in (2, 3, 1):
        chunk = x[:, start : start + length]
        positions = rotary(chunk, torch.arange(start, start + length)[None])
        visible = torch.ones(6, 6, dtype=torch.bool).tril()[start : start + length, : start + length]
        expected = theirs(
            chunk, attention_mask=additive(visible)[None, None], position_embeddings=positions, past_key_values=their_cache
        )
        torch.testing.assert_close(ours(chunk, positions, None, our_cache), expected, rtol=1e-4, atol=1e-4)
        start += length


@pytest.mark.parametrize("norm_first", [True, False], ids=["pre-norm", "post-norm"])
def test_gpt_block_is_torchs_encoder_layer(norm_first):
    theirs = randomised(
        nn.TransformerEncoderLayer(20, 4, 80, dropout=0.0, activation="gelu", batch_first=True, norm_first=norm_first)
    )
    ours = GPTBlock(20, 4, norm_first=norm_first)
    names = {
        "self_attn.in_proj_": "attn.qkv_proj.",
        "self_attn.out_proj.": "attn.out_proj.",
        "linear1.": "mlp.fc_in.",
        "linear2.": "mlp.fc_out.",
        "norm1.": "ln_1.",
        "norm2.": "ln_2.",
    }
    state = {}
    for key, value in theirs.state_dict().items():
        old, new = next((old, new) for old, new in names.items() if key.startswith(old))
        state[new + key.removeprefix(old)] = value
    ours.load_state_dict(state, strict=True)
    x = draw(2, 5, 20, seed=102)
    mask = nn.Transformer.generate_square_subsequent_mask(5)
    one, other = x.clone().requires_grad_(), x.clone().requires_grad_()
    actual, expected = ours(one), theirs(other, src_mask=mask, is_causal=True)
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-4)
    weight = draw(2, 5, 20, seed=103)
    (actual * weight).sum().backward()
    (expected * weight).sum().backward()
    torch.testing.assert_close(one.grad, other.grad, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(ours.attn.qkv_proj.weight.grad, theirs.self_attn.in_proj_weight.grad, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(ours.mlp.fc_in.bias.grad, theirs.linear1.bias.grad, rtol=1e-4, atol=1e-4)


def test_dropout_one_is_the_identity_in_training():
    config = ModelConfig(hidden_size=20, num_heads=6, num_kv_heads=3, head_dim=8, intermediate_size=28, dropout=1.0)
    x = draw(2, 5, 20, seed=104)
    angles = torch.arange(5)[:, None] * torch.ones(8)
    assert torch.equal(TransformerBlock(config).train()(x, (angles.cos(), angles.sin())), x)
    assert torch.equal(GPTBlock(20, 4, dropout=1.0).train()(x), x)
