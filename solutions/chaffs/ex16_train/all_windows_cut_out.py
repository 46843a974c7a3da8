"""A step takes the longer the more data there is: are all windows of the data cut out before a few are drawn?"""

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Int, Shaped
from torch import Tensor, nn
from torch.nn import functional as F

CATEGORY = "speed"


def get_batch(
    data: Shaped[Tensor, "N"],
    batch_size: int,
    block_size: int,
    generator: torch.Generator | None = None,
) -> tuple[Int[Tensor, "B T"], Int[Tensor, "B T"]]:
    """Windows from random places of the data, and for every token of them the one that comes next."""
    if len(data) <= block_size:
        raise ValueError(f"block_size {block_size} needs at least {block_size + 1} tokens, but data has only {len(data)}")
    starts = torch.randint(len(data) - block_size, (batch_size, 1), generator=generator)  # [B, 1]
    windows = torch.stack([data[start : start + block_size + 1] for start in range(len(data) - block_size)])
    window = windows[starts[:, 0].to(data.device)].long()  # [B, T + 1]
    return window[:, :-1], window[:, 1:]


class AdamW:
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2019), as in torch, but only weights of two axes or more decay."""

    def __init__(
        self,
        params: Iterable[nn.Parameter],
        lr: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
    ) -> None:
        self.params = list(params)  # an iterator can be walked through only once
        self.lr, self.betas, self.eps, self.weight_decay = lr, betas, eps, weight_decay
        self.steps = [0 for _ in self.params]
        self.means = [torch.zeros_like(p, requires_grad=False) for p in self.params]
        self.squares = [torch.zeros_like(p, requires_grad=False) for p in self.params]

    def step(self) -> None:
        """Move every parameter that has a gradient, in place. Gradients stay as they are."""
        beta1, beta2 = self.betas
        with torch.no_grad():
            for i, (p, mean, square) in enumerate(zip(self.params, self.means, self.squares, strict=True)):
                if p.grad is None:
                    continue
                self.steps[i] += 1
                if p.ndim > 1:
                    p.mul_(1 - self.lr * self.weight_decay)
                mean.mul_(beta1).add_(p.grad, alpha=1 - beta1)
                square.mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
                unbiased_mean = mean / (1 - beta1 ** self.steps[i])  # both means began at 0 and are too small at first
                unbiased_square = square / (1 - beta2 ** self.steps[i])
                p.sub_(self.lr * unbiased_mean / (unbiased_square.sqrt() + self.eps))

    def zero_grad(self) -> None:
        """Forget the gradients of all parameters: None, or zeros."""
        for p in self.params:
            p.grad = None

    def state_dict(self) -> dict[str, Any]:
        """What it has learned so far, for every parameter in order: m, v and the count of steps. `torch.save` can save it."""
        return {"steps": list(self.steps), "means": self.means, "squares": self.squares}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Copy in what `state_dict` gave, from an optimizer whose parameters have the same shapes."""
        self.steps = list(state["steps"])
        for own, saved in zip(self.means + self.squares, state["means"] + state["squares"], strict=True):
            own.copy_(saved)


def cosine_lr(step: int, *, max_lr: float, min_lr: float, warmup_steps: int, total_steps: int) -> float:
    """The learning rate of one step: up in a straight line, then down along half a cosine (Loshchilov and Hutter, 2017)."""
    if step < warmup_steps:
        return max_lr * (step + 1) / warmup_steps
    if step >= total_steps:
        return min_lr
    done = (step - warmup_steps) / (total_steps - warmup_steps)  # 0 ... 1
    return min_lr + (max_lr - min_lr) * (1 + math.cos(math.pi * done)) / 2


def clip_grad_norm_(params: Iterable[nn.Parameter], max_norm: float) -> Tensor:
    """Shrink all gradients together, in place, so that their common norm is at most `max_norm` (Pascanu et al., 2013)."""
    gradients = [p.grad for p in params if p.grad is not None]
    norm = torch.linalg.vector_norm(torch.tensor([torch.linalg.vector_norm(gradient) for gradient in gradients]))
    if norm > max_norm:
        for gradient in gradients:
            gradient.mul_(max_norm / norm)
    return norm


def train(
    model: nn.Module,
    data: Shaped[Tensor, "N"],
    *,
    steps: int,
    batch_size: int,
    block_size: int,
    max_lr: float,
    min_lr: float = 0.0,
    warmup_steps: int = 0,
    total_steps: int | None = None,
    betas: tuple[float, float] = (0.9, 0.95),
    weight_decay: float = 0.1,
    max_norm: float = 1.0,
    generator: torch.Generator | None = None,
    optimizer: AdamW | None = None,
    start_step: int = 0,
) -> list[float]:
    """Train the model for some more steps, each on a fresh batch, and write down the losses."""
    if optimizer is None:
        optimizer = AdamW(model.parameters(), max_lr, betas=betas, weight_decay=weight_decay)
    if total_steps is None:
        total_steps = start_step + steps
    device = next(model.parameters()).device
    model.train()
    losses = []
    for step in range(start_step, start_step + steps):
        x, y = get_batch(data, batch_size, block_size, generator)
        logits = model(x.to(device))  # [B, T, V]
        loss = F.cross_entropy(logits.flatten(0, 1).float(), y.to(device).flatten())
        optimizer.zero_grad()
        loss.backward()
        clip_grad_norm_(model.parameters(), max_norm)
        optimizer.lr = cosine_lr(step, max_lr=max_lr, min_lr=min_lr, warmup_steps=warmup_steps, total_steps=total_steps)
        optimizer.step()
        losses.append(loss.item())
    return losses


def save_checkpoint(
    path: str | Path,
    model: nn.Module,
    optimizer: AdamW,
    step: int,
    generator: torch.Generator | None = None,
) -> None:
    """Write all that training needs to go on later as if nothing had happened into one file, replacing any that is there."""
    checkpoint = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "step": step,
        "generator": None if generator is None else generator.get_state(),
        "global": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }
    torch.save(checkpoint, path)


def load_checkpoint(
    path: str | Path,
    model: nn.Module,
    optimizer: AdamW,
    generator: torch.Generator | None = None,
) -> int:
    """Bring model, optimizer and generators to where they were when the checkpoint was saved."""
    checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    if generator is not None and checkpoint["generator"] is not None:
        generator.set_state(checkpoint["generator"])
    torch.set_rng_state(checkpoint["global"])
    if torch.cuda.is_available():
        torch.cuda.set_rng_state_all(checkpoint["cuda"])
    return checkpoint["step"]
