"""Reference 16 against torch's own optimizer, clipping, schedulers and loss."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from solutions.config import ModelConfig
from solutions.ex14_model import CausalLM
from solutions.ex16_train import AdamW, clip_grad_norm_, cosine_lr, get_batch, load_checkpoint, save_checkpoint, train

TINY = ModelConfig(
    hidden_size=24, num_layers=2, num_heads=4, num_kv_heads=2, head_dim=6, intermediate_size=40, vocab_size=31,
    max_position_embeddings=64,
)  # fmt: skip


def parameters(seed: int = 0) -> list[nn.Parameter]:
    generator = torch.Generator().manual_seed(seed)
    shapes = [(5,), (4, 3), (2, 3, 4), (), (7, 2)]
    return [nn.Parameter(torch.randn(shape, generator=generator)) for shape in shapes]


def torch_adamw(params: list[nn.Parameter], lr: float, **settings: object) -> torch.optim.AdamW:
    """torch's, told to let only weights of two axes or more decay."""
    decay = settings.pop("weight_decay", 0.01)
    groups = [
        {"params": [p for p in params if p.ndim > 1], "weight_decay": decay},
        {"params": [p for p in params if p.ndim <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=lr, **settings)


@pytest.mark.parametrize("settings", [{}, {"betas": (0.5, 0.8), "eps": 0.1, "weight_decay": 0.7}], ids=["defaults", "others"])
@pytest.mark.parametrize("scale", [1.0, 1e-6])
def test_adamw_is_torchs(settings, scale):
    ours, theirs = parameters(), parameters()
    one, other = AdamW(iter(ours), 0.05, **settings), torch_adamw(theirs, 0.05, **settings)
    generator = torch.Generator().manual_seed(1)
    for step in range(12):
        for index, (p, q) in enumerate(zip(ours, theirs, strict=True)):
            missing = (index == 1 and step < 3) or (index == 2 and step in (4, 5))
            p.grad = None if missing else scale * torch.randn(p.shape, generator=generator)
            q.grad = None if missing else p.grad.clone()
        rate = 0.05 / (step + 1)
        one.lr = rate
        for group in other.param_groups:
            group["lr"] = rate
        one.step()
        other.step()
        for p, q in zip(ours, theirs, strict=True):
            torch.testing.assert_close(p, q, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("max_norm", [0.1, 3.0, 1000.0])
def test_clipping_is_torchs(max_norm):
    ours, theirs = parameters(), parameters()
    generator = torch.Generator().manual_seed(1)
    for index, (p, q) in enumerate(zip(ours, theirs, strict=True)):
        p.grad = None if index == 2 else torch.randn(p.shape, generator=generator)
        q.grad = None if index == 2 else p.grad.clone()
    norm, expected = clip_grad_norm_(iter(ours), max_norm), nn.utils.clip_grad_norm_(theirs, max_norm)
    torch.testing.assert_close(norm, expected)
    for p, q in zip(ours, theirs, strict=True):
        assert (p.grad is None) == (q.grad is None)
        if p.grad is not None:
            torch.testing.assert_close(p.grad, q.grad)
    assert clip_grad_norm_([nn.Parameter(torch.ones(2))], 1.0) == 0


def test_the_cosine_is_that_of_torchs_scheduler():
    p = nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([p], lr=0.9)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=20, eta_min=0.2)
    for step in range(20):
        ours = cosine_lr(step, max_lr=0.9, min_lr=0.2, warmup_steps=0, total_steps=20)
        assert math.isclose(ours, optimizer.param_groups[0]["lr"], rel_tol=1e-9)
        optimizer.step()
        scheduler.step()


def test_batches_are_slices_of_the_data():
    data = torch.randint(0, 100, (50,), generator=torch.Generator().manual_seed(0))
    windows = {tuple(data[start : start + 8].tolist()) for start in range(43)}
    x, y = get_batch(data, 400, 7, torch.Generator().manual_seed(1))
    rows = {(*row, last[-1]) for row, last in zip(x.tolist(), y.tolist(), strict=True)}
    assert rows == windows  # with 400 rows, each of the 43 windows is there
    torch.testing.assert_close(x[:, 1:], y[:, :-1])


def run_torch(model: nn.Module, data: torch.Tensor, steps: int, generator: torch.Generator) -> list[float]:
    """The loop that a user of torch would write."""
    optimizer = torch_adamw(list(model.parameters()), 1.0, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
    losses = []
    for step in range(steps):
        x, y = get_batch(data, 4, 9, generator)
        loss = F.cross_entropy(model(x).transpose(1, 2), y)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        for group in optimizer.param_groups:
            group["lr"] = cosine_lr(step, max_lr=0.02, min_lr=0.002, warmup_steps=3, total_steps=steps)
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_a_run_is_the_one_that_torch_makes():
    data = torch.arange(200) * 7 % 31
    torch.manual_seed(0)
    ours = CausalLM(TINY)
    theirs = CausalLM(TINY)
    theirs.load_state_dict(ours.state_dict())
    losses = train(
        ours, data, steps=12, batch_size=4, block_size=9, max_lr=0.02, min_lr=0.002, warmup_steps=3, max_norm=0.5,
        betas=(0.9, 0.95), weight_decay=0.1, generator=torch.Generator().manual_seed(2),
    )  # fmt: skip
    expected = run_torch(theirs, data, 12, torch.Generator().manual_seed(2))
    torch.testing.assert_close(torch.tensor(losses), torch.tensor(expected), rtol=1e-4, atol=1e-4)
    assert losses[-1] < losses[0] - 0.5


def test_a_checkpoint_of_a_whole_model_resumes_bit_for_bit(tmp_path):
    data = torch.arange(300) * 11 % 31
    config = ModelConfig(**{**{name: getattr(TINY, name) for name in TINY.__dataclass_fields__}, "dropout": 0.3})
    settings = {"batch_size": 3, "block_size": 8, "max_lr": 0.02, "warmup_steps": 2, "total_steps": 8}

    def start(seed: int) -> tuple[CausalLM, AdamW, torch.Generator]:
        torch.manual_seed(seed)
        model = CausalLM(config)
        return model, AdamW(model.parameters(), 0.01), torch.Generator().manual_seed(seed)

    model, optimizer, generator = start(0)
    train(model, data, steps=4, optimizer=optimizer, generator=generator, **settings)
    save_checkpoint(tmp_path / "checkpoint.pt", model, optimizer, 4, generator)
    rest = train(model, data, steps=4, start_step=4, optimizer=optimizer, generator=generator, **settings)
    other, other_optimizer, other_generator = start(1)
    step = load_checkpoint(tmp_path / "checkpoint.pt", other, other_optimizer, other_generator)
    again = train(other, data, steps=4, start_step=step, optimizer=other_optimizer, generator=other_generator, **settings)
    assert (step, again) == (4, rest)
    for name, value in model.state_dict().items():
        assert torch.equal(value, other.state_dict()[name]), name
    assert other.lm_head.weight is other.model.embed_tokens.weight
