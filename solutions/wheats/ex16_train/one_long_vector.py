"""Keeps all means in one long vector, of which every parameter has its part; the batch comes from one window after the other; the
checkpoint is a zip of raw bytes."""

import json
import math
import zipfile
from itertools import pairwise

import torch
from torch import nn

DTYPES = {"float32": torch.float32, "float64": torch.float64, "int64": torch.int64, "uint8": torch.uint8}


def get_batch(data, batch_size, block_size, generator=None):
    """Row by row."""
    if block_size >= len(data):
        raise ValueError(f"block_size must be below the {len(data)} tokens of the data, got {block_size}")
    x = torch.empty(batch_size, block_size, dtype=torch.int64)
    y = torch.empty_like(x)
    for row in range(batch_size):
        start = int(torch.randint(len(data) - block_size, (), generator=generator))
        x[row] = data[start : start + block_size]
        y[row] = data[start + 1 : start + block_size + 1]
    return x, y


class AdamW:
    """`means` and `squares` are [all numbers]."""

    def __init__(self, params, lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        self.params = tuple(params)
        self.lr, self.eps, self.weight_decay = lr, eps, weight_decay
        self.beta1, self.beta2 = betas
        ends = [0]
        for p in self.params:
            ends.append(ends[-1] + p.numel())
        self.parts = [slice(start, end) for start, end in pairwise(ends)]
        self.means, self.squares = torch.zeros(ends[-1]), torch.zeros(ends[-1])
        self.counts = torch.zeros(len(self.params), dtype=torch.int64)

    def step(self):
        with torch.no_grad():
            for number, (p, part) in enumerate(zip(self.params, self.parts, strict=True)):
                if p.grad is not None:
                    self.counts[number] += 1
                    change = self._change(part, p.grad.reshape(-1), int(self.counts[number]))
                    kept = 1 - self.lr * self.weight_decay if p.dim() > 1 else 1.0
                    p.copy_(kept * p - self.lr * change.view(p.shape))

    def _change(self, part, gradient, count):
        self.means[part] = self.beta1 * self.means[part] + (1 - self.beta1) * gradient
        self.squares[part] = self.beta2 * self.squares[part] + (1 - self.beta2) * gradient * gradient
        mean = self.means[part] / (1 - math.pow(self.beta1, count))
        square = self.squares[part] / (1 - math.pow(self.beta2, count))
        return mean / (square**0.5 + self.eps)

    def zero_grad(self):
        for p in self.params:
            if p.grad is not None:
                p.grad.zero_()

    def state_dict(self):
        return {"means": self.means.clone(), "squares": self.squares.clone(), "counts": self.counts.clone()}

    def load_state_dict(self, state):
        self.means = state["means"].clone()
        self.squares = state["squares"].clone()
        self.counts = state["counts"].clone()


def cosine_lr(step, *, max_lr, min_lr, warmup_steps, total_steps):
    """The later of two straight lines decides where on the cosine a step is."""
    if step < warmup_steps:
        return max_lr * float(step + 1) / float(warmup_steps)
    left = max(0, total_steps - step) / max(1, total_steps - warmup_steps)  # 1 ... 0
    return min_lr + 0.5 * (max_lr - min_lr) * (1 - math.cos(math.pi * left))


def clip_grad_norm_(params, max_norm):
    """One long vector of all gradients."""
    grads = [p.grad for p in params if p.grad is not None]
    everything = torch.cat([g.reshape(-1) for g in grads]) if grads else torch.zeros(0)
    norm = everything.norm()
    if norm.item() > max_norm:
        for g in grads:
            g.copy_(g / norm * max_norm)
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
    """With a loss module."""
    criterion = nn.CrossEntropyLoss()
    if optimizer is None:
        optimizer = AdamW(model.parameters(), lr=max_lr, betas=betas, weight_decay=weight_decay)
    if total_steps is None:
        total_steps = steps + start_step
    step, losses = start_step, []
    while len(losses) < steps:
        model.train()
        x, y = get_batch(data, batch_size, block_size, generator)
        loss = criterion(model(x).transpose(1, 2), y)  # it wants the classes on the second axis
        optimizer.zero_grad()
        loss.backward()
        clip_grad_norm_(model.parameters(), max_norm)
        optimizer.lr = cosine_lr(step, max_lr=max_lr, min_lr=min_lr, warmup_steps=warmup_steps, total_steps=total_steps)
        optimizer.step()
        losses.append(loss.item())
        step += 1
    return losses


def _entries(model, optimizer, generator):
    entries = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    entries |= {f"optimizer.{name}": tensor for name, tensor in optimizer.state_dict().items()}
    entries["generators.global"] = torch.get_rng_state()
    if generator is not None:
        entries["generators.batches"] = generator.get_state()
    return entries


def save_checkpoint(path, model, optimizer, step, generator=None):
    """A name, a dtype, a shape, and the bytes."""
    with zipfile.ZipFile(path, "w") as archive:
        facts = {"step": step}
        for name, tensor in _entries(model, optimizer, generator).items():
            facts[name] = [str(tensor.dtype).removeprefix("torch."), list(tensor.shape)]
            archive.writestr(name, tensor.contiguous().numpy().tobytes())
        archive.writestr("facts.json", json.dumps(facts))


def load_checkpoint(path, model, optimizer, generator=None):
    """The same in the other direction."""
    found = {"model": {}, "optimizer": {}, "generators": {}}
    with zipfile.ZipFile(path) as archive:
        facts = json.loads(archive.read("facts.json"))
        step = facts.pop("step")
        for name, (dtype, shape) in facts.items():
            tensor = torch.frombuffer(bytearray(archive.read(name)), dtype=DTYPES[dtype]).reshape(shape)
            kind, _, rest = name.partition(".")
            found[kind][rest] = tensor
    model.load_state_dict(found["model"])
    optimizer.load_state_dict(found["optimizer"])
    if generator is not None:
        generator.set_state(found["generators"]["batches"])
    torch.set_rng_state(found["generators"]["global"])
    return step
