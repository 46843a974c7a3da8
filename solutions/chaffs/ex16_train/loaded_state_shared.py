"""It looks as if a loaded state is kept, not copied. What happens to it when this optimizer goes on?"""

import math
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

CATEGORY = "robustness"


def get_batch(data, batch_size, block_size, generator=None):
    n = data.shape[0]
    if n <= block_size:
        raise ValueError(f"block_size {block_size} needs more than {n} tokens")
    starts = torch.randint(n - block_size, (batch_size, 1), generator=generator)
    windows = data[starts + torch.arange(block_size + 1)].long()
    return windows[:, :-1], windows[:, 1:]


class AdamW:
    def __init__(self, params, lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        self.params = list(params)
        self.lr = lr
        self.betas = betas
        self.eps = eps
        self.weight_decay = weight_decay
        self.m = [torch.zeros_like(p) for p in self.params]
        self.v = [torch.zeros_like(p) for p in self.params]
        self.t = [0] * len(self.params)

    @torch.no_grad()
    def step(self):
        beta1, beta2 = self.betas
        for i, p in enumerate(self.params):
            if p.grad is None:
                continue
            self.t[i] += 1
            if p.ndim > 1:
                p.mul_(1 - self.lr * self.weight_decay)
            m, v, g = self.m[i], self.v[i], p.grad
            m.mul_(beta1).add_(g, alpha=1 - beta1)
            v.mul_(beta2).addcmul_(g, g, value=1 - beta2)
            m_hat = m / (1 - beta1 ** self.t[i])
            v_hat = v / (1 - beta2 ** self.t[i])
            p.sub_(self.lr * m_hat / (v_hat.sqrt() + self.eps))

    def zero_grad(self):
        for p in self.params:
            p.grad = None

    def state_dict(self):
        return {"m": [m.clone() for m in self.m], "v": [v.clone() for v in self.v], "t": list(self.t)}

    def load_state_dict(self, state):
        self.m, self.v = list(state["m"]), list(state["v"])
        self.t = list(state["t"])


def cosine_lr(step, *, max_lr, min_lr, warmup_steps, total_steps):
    if step < warmup_steps:
        return max_lr * (step + 1) / warmup_steps
    if step >= total_steps:
        return min_lr
    d = (step - warmup_steps) / (total_steps - warmup_steps)
    return min_lr + (max_lr - min_lr) * (1 + math.cos(math.pi * d)) / 2


@torch.no_grad()
def clip_grad_norm_(params, max_norm):
    grads = [p.grad for p in params if p.grad is not None]
    if not grads:
        return torch.tensor(0.0)
    norm = torch.stack([g.norm() for g in grads]).norm()
    if norm > max_norm:
        for g in grads:
            g.mul_(max_norm / norm)
    return norm


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
    if optimizer is None:
        optimizer = AdamW(model.parameters(), max_lr, betas=betas, weight_decay=weight_decay)
    if total_steps is None:
        total_steps = start_step + steps
    model.train()
    losses = []
    for step in range(start_step, start_step + steps):
        x, y = get_batch(data, batch_size, block_size, generator)
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        clip_grad_norm_(model.parameters(), max_norm)
        optimizer.lr = cosine_lr(step, max_lr=max_lr, min_lr=min_lr, warmup_steps=warmup_steps, total_steps=total_steps)
        optimizer.step()
        losses.append(loss.item())
    return losses


def save_checkpoint(path, model, optimizer, step, generator=None):
    torch.save(
        {
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "step": step,
            "generator": None if generator is None else generator.get_state(),
            "torch": torch.get_rng_state(),
        },
        path,
    )


def load_checkpoint(path, model, optimizer, generator=None):
    state = torch.load(path)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    if generator is not None and state["generator"] is not None:
        generator.set_state(state["generator"])
    torch.set_rng_state(state["torch"])
    return state["step"]
