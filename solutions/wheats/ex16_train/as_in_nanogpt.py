"""Slices stacked one by one; multiplies by a clamped factor with 1e-6 in it; the schedule's cosine may reach its end by itself;
gradients are forgotten at the end of a step."""

import math
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F


def get_batch(data, batch_size, block_size, generator=None):
    """Windows of the data, and the same one token further on."""
    if data.numel() <= block_size:
        raise ValueError(f"data has {data.numel()} tokens, which is not more than block_size = {block_size}")
    ix = torch.randint(data.numel() - block_size, (batch_size,), generator=generator)
    x = torch.stack([data[i : i + block_size].to(torch.int64) for i in ix.tolist()])
    y = torch.stack([data[i + 1 : i + 1 + block_size].to(torch.int64) for i in ix.tolist()])
    return x, y


class AdamW:
    """Its state is made when a parameter is first moved."""

    def __init__(self, params, lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        self.params = [p for p in params]
        self.lr = lr
        self.beta1, self.beta2 = betas
        self.eps = eps
        self.weight_decay = weight_decay
        self.state: dict[int, dict[str, Any]] = {}

    @torch.no_grad()
    def step(self):
        for index, p in enumerate(self.params):
            if p.grad is None:
                continue
            if index not in self.state:
                self.state[index] = {"t": 0, "m": torch.zeros_like(p), "v": torch.zeros_like(p)}
            state = self.state[index]
            state["t"] += 1
            t, g = state["t"], p.grad
            if p.dim() >= 2:
                p -= self.lr * self.weight_decay * p
            state["m"] = self.beta1 * state["m"] + (1 - self.beta1) * g
            state["v"] = self.beta2 * state["v"] + (1 - self.beta2) * g**2
            m_hat = state["m"] / (1 - self.beta1**t)
            v_hat = state["v"] / (1 - self.beta2**t)
            p -= self.lr * m_hat / (torch.sqrt(v_hat) + self.eps)

    def zero_grad(self):
        for p in self.params:
            p.grad = None

    def state_dict(self):
        return {index: dict(state) for index, state in self.state.items()}

    def load_state_dict(self, state):
        self.state = {index: {"t": one["t"], "m": one["m"].clone(), "v": one["v"].clone()} for index, one in state.items()}


def cosine_lr(step, *, max_lr, min_lr, warmup_steps, total_steps):
    """As in nanoGPT, with a warm-up that ends at max_lr."""
    if step < warmup_steps:
        return max_lr * (step + 1) / warmup_steps
    if step > total_steps:
        return min_lr
    ratio = (step - warmup_steps) / (total_steps - warmup_steps)
    coefficient = 0.5 * (1.0 + math.cos(math.pi * ratio))
    return min_lr + coefficient * (max_lr - min_lr)


def clip_grad_norm_(params, max_norm):
    """The factor is 1 where nothing is to be clipped."""
    grads = [p.grad for p in params if p.grad is not None]
    if not grads:
        return torch.tensor(0.0)
    total = torch.sqrt(sum(g.pow(2).sum() for g in grads))
    factor = torch.clamp(max_norm / (total + 1e-6), max=1.0)
    for g in grads:
        g.mul_(factor)
    return total


def train(
    model: nn.Module,
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
    """The plainest loop."""
    if optimizer is None:
        optimizer = AdamW(model.parameters(), lr=max_lr, betas=betas, weight_decay=weight_decay)
    total_steps = start_step + steps if total_steps is None else total_steps
    model.train()
    optimizer.zero_grad()  # after that, each step leaves none behind
    losses = []
    for i in range(steps):
        optimizer.lr = cosine_lr(start_step + i, max_lr=max_lr, min_lr=min_lr, warmup_steps=warmup_steps, total_steps=total_steps)
        x, y = get_batch(data, batch_size, block_size, generator)
        logits = model(x)
        loss = F.cross_entropy(logits.view(-1, logits.size(-1)), y.view(-1))
        loss.backward()
        losses.append(float(loss))
        clip_grad_norm_(model.parameters(), max_norm)
        optimizer.step()
        optimizer.zero_grad()
    return losses


def save_checkpoint(path, model, optimizer, step, generator=None):
    """A dict of plain things."""
    torch.save(
        {
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "step": step,
            "rng": torch.random.get_rng_state(),
            "batches": generator.get_state() if generator else None,
        },
        str(path),
    )


def load_checkpoint(path, model, optimizer, generator=None):
    """And back."""
    state = torch.load(str(path))
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    torch.random.set_rng_state(state["rng"])
    if generator and state["batches"] is not None:
        generator.set_state(state["batches"])
    return state["step"]
