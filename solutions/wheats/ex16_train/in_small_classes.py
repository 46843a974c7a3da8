"""Every parameter has an object that moves it; the schedule and the loop are classes, too. Starts come from a shuffle that may
repeat, and the state dict is nested by hand."""

import math
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor


def get_batch(data, batch_size, block_size, generator=None):
    """As many shuffles of all starts as are needed; the first of each shuffle is a start."""
    tokens = torch.as_tensor(data)
    starts = tokens.shape[0] - block_size
    if starts <= 0:
        raise ValueError(f"block_size: {block_size} does not fit into data of {tokens.shape[0]} tokens")
    chosen = torch.multinomial(torch.ones(starts), batch_size, replacement=True, generator=generator)
    index = torch.stack([torch.arange(start, start + block_size) for start in chosen.tolist()])
    return tokens[index].to(torch.int64), tokens[index + 1].to(torch.int64)


@dataclass
class Moved:
    """A parameter and what is known of its gradients."""

    parameter: torch.nn.Parameter
    mean: Tensor = field(init=False)
    square: Tensor = field(init=False)
    steps: int = 0

    def __post_init__(self):
        self.mean = self.parameter.new_zeros(self.parameter.shape)
        self.square = self.parameter.new_zeros(self.parameter.shape)

    def move(self, lr, betas, eps, decay):
        gradient = self.parameter.grad
        self.steps += 1
        self.mean = torch.lerp(gradient, self.mean, betas[0])
        self.square = torch.lerp(gradient * gradient, self.square, betas[1])
        mean = self.mean.div(1 - betas[0] ** self.steps)
        root = self.square.div(1 - betas[1] ** self.steps).sqrt()
        if self.parameter.ndim > 1:
            self.parameter.data.mul_(1 - lr * decay)
        self.parameter.data.addcdiv_(mean, root.add(eps), value=-lr)


class AdamW:
    """A list of `Moved`."""

    def __init__(self, params, lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        self.moved = [Moved(p) for p in params]
        self.lr, self.betas, self.eps, self.weight_decay = lr, betas, eps, weight_decay

    def step(self):
        for one in self.moved:
            if one.parameter.grad is not None:
                one.move(self.lr, self.betas, self.eps, self.weight_decay)

    def zero_grad(self):
        for one in self.moved:
            one.parameter.grad = None

    def state_dict(self):
        return {str(i): {"mean": one.mean, "square": one.square, "steps": one.steps} for i, one in enumerate(self.moved)}

    def load_state_dict(self, state):
        for i, one in enumerate(self.moved):
            saved = state[str(i)]
            one.mean, one.square, one.steps = saved["mean"].clone(), saved["square"].clone(), saved["steps"]


class Schedule:
    """A rate for every step."""

    def __init__(self, max_lr, min_lr, warmup_steps, total_steps):
        self.top, self.bottom, self.warmup, self.total = max_lr, min_lr, warmup_steps, total_steps

    def __call__(self, step):
        if step < self.warmup:
            return self.top / self.warmup * (step + 1)
        if step >= self.total:
            return self.bottom
        turn = (step - self.warmup) / (self.total - self.warmup)
        return self.bottom + (self.top - self.bottom) * (math.cos(turn * math.pi) + 1) * 0.5


def cosine_lr(step, *, max_lr, min_lr, warmup_steps, total_steps):
    """One step of a schedule."""
    return Schedule(max_lr, min_lr, warmup_steps, total_steps)(step)


def clip_grad_norm_(params, max_norm):
    """Gradients are replaced by smaller ones."""
    params = [p for p in params if p.grad is not None]
    norm = math.hypot(*(p.grad.norm().item() for p in params))
    if norm > max_norm:
        with torch.no_grad():
            for p in params:
                p.grad.mul_(max_norm).div_(norm)
    return torch.tensor(norm)


class Loop:
    """What a step needs."""

    def __init__(self, model, optimizer, schedule, max_norm, draw):
        self.model, self.optimizer, self.schedule, self.max_norm, self.draw = model, optimizer, schedule, max_norm, draw

    def step(self, number):
        self.optimizer.zero_grad()
        x, y = self.draw()
        logits = self.model(x)
        losses = F.cross_entropy(logits.permute(0, 2, 1), y, reduction="none")  # [B, T]
        loss = losses.sum() / y.numel()
        loss.backward()
        clip_grad_norm_(self.model.parameters(), self.max_norm)
        self.optimizer.lr = self.schedule(number)
        self.optimizer.step()
        return loss.item()


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
    """Builds a loop and runs it."""
    model.train()
    end = start_step + steps
    optimizer = AdamW(model.parameters(), max_lr, betas, 1e-8, weight_decay) if optimizer is None else optimizer
    schedule = Schedule(max_lr, min_lr, warmup_steps, end if total_steps is None else total_steps)
    loop = Loop(model, optimizer, schedule, max_norm, lambda: get_batch(data, batch_size, block_size, generator))
    return [loop.step(number) for number in range(start_step, end)]


def save_checkpoint(path, model, optimizer, step, generator=None):
    """Copies of all states."""
    random = {"torch": torch.get_rng_state()}
    if generator is not None:
        random["batches"] = generator.get_state()
    torch.save({"weights": dict(model.state_dict()), "moved": optimizer.state_dict(), "at": step, "random": random}, path)


def load_checkpoint(path, model, optimizer, generator=None):
    """Put where they belong."""
    saved = torch.load(path, weights_only=True)
    model.load_state_dict(saved["weights"], strict=True)
    optimizer.load_state_dict(saved["moved"])
    if generator is not None and "batches" in saved["random"]:
        generator.set_state(saved["random"]["batches"])
    torch.set_rng_state(saved["random"]["torch"])
    return int(saved["at"])
