"""AdamW and clipping with `torch._foreach_*`, the rate in parameter groups behind a property; gradients from `autograd.grad`; the
loss from a log-softmax; whole parameters are pickled as bytes."""

import io
import math
import pickle

import torch


def get_batch(data, batch_size, block_size, generator=None):
    """Places of all tokens, then the tokens."""
    last = len(data) - block_size - 1
    if last < 0:
        raise ValueError(f"block_size ({block_size}) must be smaller than the number of tokens ({len(data)})")
    starts = torch.randint(0, last + 1, (batch_size,), generator=generator)
    places = starts.unsqueeze(1) + torch.arange(block_size).unsqueeze(0)
    return torch.take(data, places).long(), torch.take(data, places + 1).long()


class AdamW:
    """Two groups: what decays and what does not."""

    def __init__(self, params, lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        params = list(params)
        self.betas, self.eps = betas, eps
        self.groups = [
            {"params": [p for p in params if p.ndim > 1], "lr": lr, "decay": weight_decay},
            {"params": [p for p in params if p.ndim <= 1], "lr": lr, "decay": 0.0},
        ]
        self.memory = {p: [0, torch.zeros_like(p, requires_grad=False), torch.zeros_like(p, requires_grad=False)] for p in params}

    @property
    def lr(self):
        return self.groups[0]["lr"]

    @lr.setter
    def lr(self, value):
        for group in self.groups:
            group["lr"] = value

    @torch.no_grad()
    def step(self):
        beta1, beta2 = self.betas
        for group in self.groups:
            params = [p for p in group["params"] if p.grad is not None]
            if not params:
                continue
            grads = [p.grad for p in params]
            for p in params:
                self.memory[p][0] += 1
            counts = [self.memory[p][0] for p in params]
            means, squares = [self.memory[p][1] for p in params], [self.memory[p][2] for p in params]
            torch._foreach_mul_(params, 1 - group["lr"] * group["decay"])
            torch._foreach_mul_(means, beta1)
            torch._foreach_add_(means, grads, alpha=1 - beta1)
            torch._foreach_mul_(squares, beta2)
            torch._foreach_addcmul_(squares, grads, grads, value=1 - beta2)
            roots = torch._foreach_sqrt(torch._foreach_div(squares, [1 - beta2**t for t in counts]))
            torch._foreach_add_(roots, self.eps)
            torch._foreach_addcdiv_(params, means, roots, [-group["lr"] / (1 - beta1**t) for t in counts])

    def zero_grad(self):
        for p in self.memory:
            p.grad = None

    def state_dict(self):
        return {"memory": list(self.memory.values()), "rates": [group["lr"] for group in self.groups]}

    def load_state_dict(self, state):
        for own, (count, mean, square) in zip(self.memory.values(), state["memory"], strict=True):
            own[0] = count
            own[1].copy_(mean)
            own[2].copy_(square)
        for group, rate in zip(self.groups, state["rates"], strict=True):
            group["lr"] = rate


def cosine_lr(step, *, max_lr, min_lr, warmup_steps, total_steps):
    """Warm-up first."""
    if warmup_steps and step + 1 <= warmup_steps:
        return max_lr * ((step + 1) / warmup_steps)
    if step < total_steps:
        angle = math.pi * (step - warmup_steps) / (total_steps - warmup_steps)
        return (max_lr + min_lr) / 2 + (max_lr - min_lr) / 2 * math.cos(angle)
    return min_lr


@torch.no_grad()
def clip_grad_norm_(params, max_norm):
    """With torch's norm of a list, which is not the forbidden call."""
    grads = [p.grad for p in params if p.grad is not None]
    norm = torch.nn.utils.get_total_norm(grads)
    if grads:
        torch._foreach_mul_(grads, min(1.0, max_norm / (norm.item() + 1e-6)))
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
    """All rates are worked out before the first step."""
    if optimizer is None:
        optimizer = AdamW(model.parameters(), max_lr, betas=betas, weight_decay=weight_decay)
    end = start_step + steps
    where = {"max_lr": max_lr, "min_lr": min_lr, "warmup_steps": warmup_steps}
    rates = [cosine_lr(s, **where, total_steps=end if total_steps is None else total_steps) for s in range(start_step, end)]
    params = [p for p in model.parameters() if p.requires_grad]
    model.train(True)
    losses = []
    for rate in rates:
        x, y = get_batch(data, batch_size, block_size, generator=generator)
        logs = model(x).log_softmax(dim=-1)
        loss = -logs.gather(2, y[:, :, None]).mean()
        for p, gradient in zip(params, torch.autograd.grad(loss, params, allow_unused=True), strict=True):
            p.grad = gradient
        clip_grad_norm_(params, max_norm)
        optimizer.lr = rate
        optimizer.step()
        losses.append(loss.item())
    return losses


def save_checkpoint(path, model, optimizer, step, generator=None):
    """torch's format inside a pickle."""
    buffer = io.BytesIO()
    torch.save([model.state_dict(), optimizer.state_dict(), torch.get_rng_state(), generator and generator.get_state()], buffer)
    with open(path, "wb") as file:
        pickle.dump({"step": step, "rest": buffer.getvalue()}, file)


def load_checkpoint(path, model, optimizer, generator=None):
    """And out of it."""
    with open(path, "rb") as file:
        saved = pickle.load(file)
    weights, moments, everywhere, batches = torch.load(io.BytesIO(saved["rest"]))
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(weights[name])
    optimizer.load_state_dict(moments)
    if generator is not None:
        generator.set_state(batches)
    torch.set_rng_state(everywhere)
    return saved["step"]
