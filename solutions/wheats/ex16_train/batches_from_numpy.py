"""Draws its starts with numpy, from a seed that torch's generator gives; computes AdamW's steps in float64; decays by a factor of its
own; saves the state of the generators as numbers."""

import math

import numpy as np
import torch
from torch.nn import functional as F


def get_batch(data, batch_size, block_size, generator=None):
    """One number from the generator is enough."""
    tokens = np.asarray(data).astype(np.int64)
    if len(tokens) <= block_size:
        raise ValueError(f"block_size {block_size} asks for more than the {len(tokens)} tokens there are")
    seed = int(torch.randint(2**62, (), generator=generator))
    starts = np.random.default_rng(seed).integers(0, len(tokens) - block_size, size=(batch_size, 1))
    windows = torch.from_numpy(tokens[starts + np.arange(block_size + 1)])
    return windows[:, :-1], windows[:, 1:]


class AdamW:
    """Works in float64."""

    def __init__(self, params, lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        self.params, self.lr, self.betas, self.eps, self.weight_decay = list(params), lr, betas, eps, weight_decay
        self.memory = [
            (torch.zeros(p.shape, dtype=torch.float64), torch.zeros(p.shape, dtype=torch.float64), 0) for p in self.params
        ]

    @torch.no_grad()
    def step(self):
        b1, b2 = self.betas
        for i, p in enumerate(self.params):
            if p.grad is None:
                continue
            mean, square, t = self.memory[i]
            g = p.grad.double()
            mean, square, t = b1 * mean + (1 - b1) * g, b2 * square + (1 - b2) * g * g, t + 1
            self.memory[i] = mean, square, t
            new = p.double()
            if p.ndim > 1:
                new = new - new * self.lr * self.weight_decay
            new = new - self.lr * (mean / (1 - b1**t)) / ((square / (1 - b2**t)) ** 0.5 + self.eps)
            p.data.copy_(new)

    def zero_grad(self):
        for p in self.params:
            p.grad = None

    def state_dict(self):
        return {"memory": self.memory}

    def load_state_dict(self, state):
        self.memory = list(state["memory"])  # every step makes new tensors, so sharing these is harmless


def cosine_lr(step, *, max_lr, min_lr, warmup_steps, total_steps):
    """In numpy's numbers."""
    if step < warmup_steps:
        return float(np.linspace(0.0, max_lr, warmup_steps + 1)[step + 1])
    done = np.clip((step - warmup_steps) / (total_steps - warmup_steps), 0.0, 1.0)
    return float(min_lr + (max_lr - min_lr) * 0.5 * (1.0 + np.cos(np.pi * done)))


def clip_grad_norm_(params, max_norm):
    """The largest gradient is divided out before squaring."""
    grads = [p.grad for p in params if p.grad is not None]
    largest = max((g.abs().max().item() for g in grads), default=0.0)
    if largest == 0.0:
        return torch.zeros(())
    norm = largest * math.sqrt(sum((g / largest).square().sum().item() for g in grads))
    factor = min(1.0, max_norm / norm)
    if factor < 1.0:
        for g in grads:
            g.mul_(factor)
    return torch.tensor(norm)


def train(
    model,
    data,
    *,
    steps,
    batch_size,
    block_size,
    max_lr,
    min_lr=0.0,
    warmup_steps=0,
    total_steps=None,
    betas=(0.9, 0.95),
    weight_decay=0.1,
    max_norm=1.0,
    generator=None,
    optimizer=None,
    start_step=0,
):
    """The loss of each row is averaged, then that of the batch."""
    if optimizer is None:
        optimizer = AdamW(model.parameters(), 0.0, betas=betas, weight_decay=weight_decay)
    model.train()
    history = []
    for offset in range(steps):
        step = start_step + offset
        x, y = get_batch(data, batch_size, block_size, generator)
        rows = [F.cross_entropy(row.float(), target) for row, target in zip(model(x), y, strict=True)]
        loss = torch.stack(rows).mean()
        optimizer.zero_grad()
        loss.backward()
        history.append(loss.item())
        clip_grad_norm_(list(model.parameters()), max_norm)
        optimizer.lr = cosine_lr(
            step,
            max_lr=max_lr,
            min_lr=min_lr,
            warmup_steps=warmup_steps,
            total_steps=(start_step + steps) if total_steps is None else total_steps,
        )
        optimizer.step()
    return history


def save_checkpoint(path, model, optimizer, step, generator=None):
    """Numbers and tensors."""
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
    state["global"] = torch.get_rng_state().tolist()
    state["batches"] = None if generator is None else generator.get_state().tolist()
    torch.save(state, path)


def load_checkpoint(path, model, optimizer, generator=None):
    """And back."""
    state = torch.load(path)
    own = model.state_dict()
    for name, value in state["model"].items():
        own[name].copy_(value)
    optimizer.load_state_dict(state["optimizer"])
    if generator is not None:
        generator.set_state(torch.tensor(state["batches"], dtype=torch.uint8))
    torch.set_rng_state(torch.tensor(state["global"], dtype=torch.uint8))
    return state["step"]
