"""Scores with `causal_lm_loss`, on labels that begin with a token which its own shift drops again; windows by unfolding; starts
from floats; the mode of the model is put back at the end."""

import math

import torch

from .ex14_model import causal_lm_loss


def get_batch(data, batch_size, block_size, generator=None):
    """Rows of the table of all windows."""
    if data.shape[0] < block_size + 1:
        raise ValueError(f"block_size={block_size}: data of {data.shape[0]} tokens has no window with a next token")
    windows = data.unfold(0, block_size + 1, 1)  # [N - T, T + 1], a view
    chosen = (torch.rand(batch_size, generator=generator, dtype=torch.float64) * windows.shape[0]).long()
    rows = windows[chosen].to(torch.long)
    return rows[:, :block_size].clone(), rows[:, 1:].clone()


class AdamW:
    """Means are moved with lerp, on detached parameters."""

    def __init__(self, params, lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        self.lr, self.betas, self.eps, self.weight_decay = lr, betas, eps, weight_decay
        self.entries = [[p, torch.zeros_like(p.detach()), torch.zeros_like(p.detach()), 0] for p in params]

    def step(self):
        for entry in self.entries:
            p, m, v, _ = entry
            if p.grad is None:
                continue
            entry[3] += 1
            g, weight = p.grad.detach(), p.detach()
            m.lerp_(g, 1 - self.betas[0])
            v.lerp_(g.square(), 1 - self.betas[1])
            corrected = m / (1 - self.betas[0] ** entry[3])
            root = v.sqrt() / math.sqrt(1 - self.betas[1] ** entry[3])
            decay = self.weight_decay if weight.ndim > 1 else 0.0
            weight.copy_(weight - self.lr * (decay * weight + corrected / (root + self.eps)))

    def zero_grad(self):
        for p, *_ in self.entries:
            if p.grad is not None:
                p.grad = torch.zeros_like(p.grad)

    def state_dict(self):
        return {"entries": [(m.clone(), v.clone(), t) for _, m, v, t in self.entries]}

    def load_state_dict(self, state):
        for entry, (m, v, t) in zip(self.entries, state["entries"], strict=True):
            entry[1:] = [m.clone(), v.clone(), t]


def cosine_lr(step, *, max_lr, min_lr, warmup_steps, total_steps):
    """Half a cosine is the square of a cosine of half the angle."""
    if step < warmup_steps:
        return (step + 1) / warmup_steps * max_lr
    done = 1.0 if step >= total_steps else (step - warmup_steps) / (total_steps - warmup_steps)
    share = math.cos(math.pi / 2 * done) ** 2
    return share * max_lr + (1 - share) * min_lr


def clip_grad_norm_(params, max_norm):
    """The norm in float64, returned as a float."""
    grads = [p.grad for p in params if p.grad is not None]
    norm = math.sqrt(math.fsum(g.double().square().sum().item() for g in grads))
    if norm > max_norm:
        for g in grads:
            g *= max_norm / norm
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
    """In training mode, and back."""
    optimizer = optimizer or AdamW(model.parameters(), max_lr, betas, weight_decay=weight_decay)
    last = total_steps if total_steps is not None else start_step + steps
    was_training = model.training
    model.train()
    losses = []
    for number in range(start_step, start_step + steps):
        x, y = get_batch(data, batch_size, block_size, generator)
        logits = model(x)
        labels = torch.cat([x[:, :1], y], dim=1)  # [B, T + 1]
        padded = torch.cat([logits, logits[:, -1:]], dim=1)  # [B, T + 1, V]; the last row takes no part
        loss = causal_lm_loss(padded, labels)
        optimizer.zero_grad()
        loss.backward()
        clip_grad_norm_(model.parameters(), max_norm)
        optimizer.lr = cosine_lr(number, max_lr=max_lr, min_lr=min_lr, warmup_steps=warmup_steps, total_steps=last)
        optimizer.step()
        losses.append(loss.detach().item())
    model.train(was_training)
    return losses


def save_checkpoint(path, model, optimizer, step, generator=None):
    """Everything, as one tuple."""
    states = (torch.get_rng_state(), None if generator is None else generator.get_state())
    torch.save((step, model.state_dict(), optimizer.state_dict(), states), path)


def load_checkpoint(path, model, optimizer, generator=None):
    """And back."""
    step, weights, moments, (everywhere, batches) = torch.load(path, weights_only=False)
    model.load_state_dict(weights)
    optimizer.load_state_dict(moments)
    torch.set_rng_state(everywhere)
    if generator is not None:
        generator.set_state(batches)
    return step
