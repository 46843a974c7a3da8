"""The reference of 11 against torch's activations and Hugging Face's networks."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from transformers import GPT2Config, Qwen3Config
from transformers.models.gpt2.modeling_gpt2 import GPT2MLP
from transformers.models.qwen3.modeling_qwen3 import Qwen3MLP

from solutions.ex11_ffn import GELUMLP, SwiGLU, gelu, silu

PAIRS = pytest.mark.parametrize(("ours", "theirs"), [(gelu, F.gelu), (silu, F.silu)], ids=["gelu", "silu"])


def randomised(module: nn.Module, seed: int) -> nn.Module:
    """The module with every parameter drawn anew, of size about 1."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return module


@PAIRS
@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [(torch.float64, 1e-12), (torch.float32, 1e-6), (torch.float16, 5e-3), (torch.bfloat16, 3e-2)],
    ids=["float64", "float32", "float16", "bfloat16"],
)
def test_activations(ours, theirs, dtype, tolerance):
    near = torch.linspace(-8, 8, 1601, dtype=torch.float64)
    far = torch.tensor([-1000, -300, -100, -20, 20, 100, 300, 1000], dtype=torch.float64)
    for x in (near.to(dtype), far.to(dtype)):
        one, other = x.clone().requires_grad_(), x.clone().requires_grad_()
        ours(one).sum().backward()
        theirs(other).sum().backward()
        torch.testing.assert_close(ours(x), theirs(x), rtol=tolerance, atol=tolerance)
        torch.testing.assert_close(one.grad, other.grad, rtol=tolerance, atol=tolerance)


def test_swiglu_is_qwen3s():
    theirs = randomised(Qwen3MLP(Qwen3Config(hidden_size=12, intermediate_size=20, hidden_act="silu")), 1)
    ours = SwiGLU(12, 20)
    ours.load_state_dict(theirs.state_dict(), strict=True)
    x = torch.randn(2, 5, 12, generator=torch.Generator().manual_seed(2))
    torch.testing.assert_close(ours(x), theirs(x), rtol=1e-5, atol=1e-4)


def test_gelumlp_is_gpt2s_with_the_exact_gelu():
    theirs = randomised(GPT2MLP(20, GPT2Config(n_embd=12, activation_function="gelu", resid_pdrop=0.0)), 3)
    ours = GELUMLP(12, 20)
    state = theirs.state_dict()  # GPT-2 keeps its weights as [in, out]
    ours.load_state_dict(
        {
            "fc_in.weight": state["c_fc.weight"].T,
            "fc_in.bias": state["c_fc.bias"],
            "fc_out.weight": state["c_proj.weight"].T,
            "fc_out.bias": state["c_proj.bias"],
        },
        strict=True,
    )
    x = torch.randn(2, 5, 12, generator=torch.Generator().manual_seed(4))
    torch.testing.assert_close(ours(x), theirs(x), rtol=1e-5, atol=1e-4)


def test_gelumlps_dropout_is_a_sequence_of_torchs_layers():
    ours = GELUMLP(12, 20, dropout=0.4).train()
    theirs = nn.Sequential(ours.fc_in, nn.GELU(), ours.fc_out, nn.Dropout(0.4)).train()
    x = torch.randn(2, 5, 12, generator=torch.Generator().manual_seed(5))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(6)
        one = ours(x)
        torch.manual_seed(6)
        other = theirs(x)
    torch.testing.assert_close(one, other)
    assert (one == 0).any() and (one != 0).any()
