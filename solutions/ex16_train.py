"""16 · training: draw a batch, ask how wrong the model is, and move every weight a little downhill."""

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Int, Shaped
from torch import Tensor, nn
from torch.nn import functional as F


def get_batch(
    data: Shaped[Tensor, "N"],
    batch_size: int,
    block_size: int,
    generator: torch.Generator | None = None,
) -> tuple[Int[Tensor, "B T"], Int[Tensor, "B T"]]:
    """Windows from random places of the data, and for every token of them the one that comes next.

    Args:
        data: all tokens in a row, `[N]`, integers of any dtype.
        batch_size: B, windows in the batch; each starts at a place of its own, and two may start at the same.
        block_size: T, tokens in a window.
        generator: draws the starts; None draws them from torch's global generator.

    Returns:
        x and y, int64 `[B, T]`: x[b] is `data[s : s + T]` and y[b] is `data[s + 1 : s + T + 1]`. Every start s from 0 to
        N - T - 1 is equally likely.

    Speed:
        A batch takes as long as its own windows, however large the data is.

    Raises:
        ValueError: N <= T, so that no window has a next token; the message names `block_size` and gives T and N.

    Example:
        >>> get_batch(torch.arange(5), batch_size=1, block_size=4)  # N = 5: there is only one window
        (tensor([[0, 1, 2, 3]]), tensor([[1, 2, 3, 4]]))
    """
    # BEGIN SOLUTION
    if len(data) <= block_size:
        raise ValueError(f"block_size {block_size} needs at least {block_size + 1} tokens, but data has only {len(data)}")
    starts = torch.randint(len(data) - block_size, (batch_size, 1), generator=generator)  # [B, 1]
    window = data[(starts + torch.arange(block_size + 1)).to(data.device)].long()  # [B, T + 1]
    return window[:, :-1], window[:, 1:]
    # END SOLUTION


class AdamW:
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2019), as in torch, but only weights of two axes or more decay.

    `step` does this to every parameter p that has a gradient g; one whose gradient is None is left out altogether:

        t += 1                                     its own count of steps
        p *= 1 - lr * weight_decay                 only if p has more than one axis: no norm weights, no biases
        m  = beta1 * m + (1 - beta1) * g           the mean of the gradients, from 0
        v  = beta2 * v + (1 - beta2) * g * g       the mean of their squares, from 0
        m̂, v̂ = m / (1 - beta1 ** t), v / (1 - beta2 ** t)
        p -= lr * m̂ / (sqrt(v̂) + eps)

    Args:
        params: the parameters, any iterable; an iterator is fine.
        lr: learning rate. It becomes the attribute `lr`, and whoever sets that changes the steps that follow.
        betas: beta1 and beta2.
        eps: keeps the division harmless where all gradients were 0.
        weight_decay: the strength of the decay.

    Example:
        p = 1 of one axis, g = 2, lr = 0.1: m̂ = 2 and v̂ = 4 after the first step, so p becomes 1 - 0.1 * 2 / 2 = 0.9. In a
        matrix, with weight_decay = 0.5, it is 1 * (1 - 0.1 * 0.5) - 0.1 = 0.85.
    """

    def __init__(
        self,
        params: Iterable[nn.Parameter],
        lr: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
    ) -> None:
        # BEGIN SOLUTION
        self.params = list(params)  # an iterator can be walked through only once
        self.lr, self.betas, self.eps, self.weight_decay = lr, betas, eps, weight_decay
        self.steps = [0 for _ in self.params]
        self.means = [torch.zeros_like(p, requires_grad=False) for p in self.params]
        self.squares = [torch.zeros_like(p, requires_grad=False) for p in self.params]
        # END SOLUTION

    def step(self) -> None:
        """Move every parameter that has a gradient, in place. Gradients stay as they are."""
        # BEGIN SOLUTION
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
        # END SOLUTION

    def zero_grad(self) -> None:
        """Forget the gradients of all parameters: None, or zeros."""
        # BEGIN SOLUTION
        for p in self.params:
            p.grad = None
        # END SOLUTION

    def state_dict(self) -> dict[str, Any]:
        """What it has learned so far, for every parameter in order: m, v and the count of steps. `torch.save` can save it."""
        # BEGIN SOLUTION
        return {"steps": list(self.steps), "means": self.means, "squares": self.squares}
        # END SOLUTION

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Copy in what `state_dict` gave, from an optimizer whose parameters have the same shapes."""
        # BEGIN SOLUTION
        self.steps = list(state["steps"])
        for own, saved in zip(self.means + self.squares, state["means"] + state["squares"], strict=True):
            own.copy_(saved)
        # END SOLUTION


def cosine_lr(step: int, *, max_lr: float, min_lr: float, warmup_steps: int, total_steps: int) -> float:
    """The learning rate of one step: up in a straight line, then down along half a cosine (Loshchilov and Hutter, 2017).

    Args:
        step: 0 for the first step.
        max_lr: reached by the last step of the warm-up.
        min_lr: where the cosine ends; the rate of every step from `total_steps` on.
        warmup_steps: step s of these has `max_lr * (s + 1) / warmup_steps`; 0 means no warm-up. Fewer than `total_steps`.
        total_steps: warm-up and cosine together. Between the two, with d = (s - warmup) / (total - warmup), the rate is
            `min_lr + (max_lr - min_lr) * (1 + cos(pi * d)) / 2`.

    Returns:
        The rate as a float.

    Example:
        >>> [round(cosine_lr(s, max_lr=1.0, min_lr=0.1, warmup_steps=4, total_steps=12), 3) for s in (0, 3, 4, 8, 12, 99)]
        [0.25, 1.0, 1.0, 0.55, 0.1, 0.1]
    """
    # BEGIN SOLUTION
    if step < warmup_steps:
        return max_lr * (step + 1) / warmup_steps
    if step >= total_steps:
        return min_lr
    done = (step - warmup_steps) / (total_steps - warmup_steps)  # 0 ... 1
    return min_lr + (max_lr - min_lr) * (1 + math.cos(math.pi * done)) / 2
    # END SOLUTION


def clip_grad_norm_(params: Iterable[nn.Parameter], max_norm: float) -> Tensor:
    """Shrink all gradients together, in place, so that their common norm is at most `max_norm` (Pascanu et al., 2013).

    The norm is that of all gradients laid end to end: the root of the sum of all their squares. If it is larger than
    `max_norm`, every gradient is multiplied by `max_norm / norm` (dividing by `norm + 1e-6`, as torch does, is as good);
    if not, none is touched.

    Args:
        params: the parameters, any iterable; an iterator is fine. Those whose gradient is None are skipped.
        max_norm: a number above 0.

    Returns:
        The norm before clipping, as a tensor without axes (a float is as good); 0 if there is no gradient.

    Example:
        Gradients [3] and [[4, 0]] have the norm 5. With `max_norm=1` they become [0.6] and [[0.8, 0]], and 5 is returned.
    """
    # BEGIN SOLUTION
    gradients = [p.grad for p in params if p.grad is not None]
    norm = torch.linalg.vector_norm(torch.tensor([torch.linalg.vector_norm(gradient) for gradient in gradients]))
    if norm > max_norm:
        for gradient in gradients:
            gradient.mul_(max_norm / norm)
    return norm
    # END SOLUTION


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
    """Train the model for some more steps, each on a fresh batch, and write down the losses.

    A step: draw a batch; `model(x)` gives logits `[B, T, V]`; the loss is the mean cross-entropy of all B * T of them with
    y, which `get_batch` has shifted already; the gradients of this loss alone; clip them; set the learning rate; move.

    Args:
        model: `model(input_ids [B, T]) -> logits [B, T, V]`, such as `CausalLM`. It is trained in training mode, whatever
            mode it comes in.
        data: all tokens in a row, `[N]`.
        steps: how many steps to go from here.
        batch_size, block_size, generator: as in `get_batch`.
        max_lr, min_lr, warmup_steps, total_steps: as in `cosine_lr`. Without `total_steps` the last step of this call is the
            last of the schedule: it is `start_step + steps`.
        betas, weight_decay: of the optimizer that is made if none is given; otherwise they are not used. The defaults are
            usual for language models.
        max_norm: as in `clip_grad_norm_`.
        optimizer: goes on with this one, made from the same model's parameters: its `zero_grad()`, its `step()` and its
            attribute `lr`, which is set before each step, are used. None makes a new `AdamW`.
        start_step: the steps that were taken before this call, and so the first one's place in the schedule.

    Returns:
        One float per step: its loss, before the weights moved.

    Raises:
        ValueError: as in `get_batch`.

    Example:
        Four steps at once are the same as two and two more, with one generator and dropout apart:

            train(model, data, steps=4, optimizer=optimizer, ...)

            train(model, data, steps=2, total_steps=4, optimizer=optimizer, ...)
            train(model, data, steps=2, total_steps=4, optimizer=optimizer, start_step=2, ...)
    """
    # BEGIN SOLUTION
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
    # END SOLUTION


def save_checkpoint(
    path: str | Path,
    model: nn.Module,
    optimizer: AdamW,
    step: int,
    generator: torch.Generator | None = None,
) -> None:
    """Write all that training needs to go on later as if nothing had happened into one file, replacing any that is there.

    Args:
        path: the file. It may be moved afterwards: nothing else is written.
        model, optimizer: their state dicts are saved.
        step: the steps taken so far.
        generator: that of the batches, if they have one. The state of torch's global generator is saved in any case.
    """
    # BEGIN SOLUTION
    checkpoint = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "step": step,
        "generator": None if generator is None else generator.get_state(),
        "global": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }
    torch.save(checkpoint, path)
    # END SOLUTION


def load_checkpoint(
    path: str | Path,
    model: nn.Module,
    optimizer: AdamW,
    generator: torch.Generator | None = None,
) -> int:
    """Bring model, optimizer and generators to where they were when the checkpoint was saved.

    The next `train` with `start_step` set to the step returned here then does what it would have done without the break,
    bit for bit, dropout included.

    Args:
        path: a file written by `save_checkpoint`.
        model: of the same architecture. Its own parameters get the saved values: they stay the same objects, since the
            optimizer holds them.
        optimizer: made from the parameters of `model`.
        generator: put into the state of the one that was saved; give one if and only if one was saved. torch's global generator
            is put into its saved state too: dropout draws from it, and so do batches without a generator.

    Returns:
        The saved step.
    """
    # BEGIN SOLUTION
    checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    if generator is not None and checkpoint["generator"] is not None:
        generator.set_state(checkpoint["generator"])
    torch.set_rng_state(checkpoint["global"])
    if torch.cuda.is_available():
        torch.cuda.set_rng_state_all(checkpoint["cuda"])
    return checkpoint["step"]
    # END SOLUTION
