"""Removes from the unlikely end: top-p sorts upwards. Draws by looking a uniform number up in the cumulative sum."""

import torch
from torch import Tensor

from .ex13_kv_cache import DynamicCache


def apply_repetition_penalty(logits: Tensor, input_ids: Tensor, penalty: float) -> Tensor:
    result = logits.clone()
    for row, ids in zip(result, input_ids):
        for token in set(ids.tolist()):
            if row[token] < 0:
                row[token] *= penalty
            else:
                row[token] /= penalty
    return result


def filter_top_k(logits: Tensor, top_k: int | None) -> Tensor:
    if top_k is None or top_k >= logits.shape[-1]:
        return logits
    if top_k < 1:
        raise ValueError(f"top_k={top_k} keeps nothing; it must be 1 or more")
    _, ids = torch.sort(-logits, dim=-1, stable=True)
    result = torch.full_like(logits, float("-inf"))
    result.scatter_(-1, ids[:, :top_k], logits.gather(-1, ids[:, :top_k]))
    return result


def filter_top_p(logits: Tensor, top_p: float | None) -> Tensor:
    if top_p is None:
        return logits
    if top_p < 0.0 or top_p > 1.0:
        raise ValueError(f"top_p={top_p} is no share between 0 and 1")
    ordered, ids = torch.sort(logits, dim=-1)  # upwards
    mass = ordered.to(torch.float64).softmax(dim=-1).cumsum(dim=-1)
    removed = mass <= 1.0 - top_p + 1e-9
    if top_p == 1.0:
        removed[:] = False
    removed[:, -1] = False
    result = logits.clone()
    result[removed.gather(-1, ids.argsort(dim=-1))] = float("-inf")
    return result


def _checked(temperature, top_k, top_p, max_new_tokens=0):
    if temperature < 0:
        raise ValueError(f"temperature={temperature} is negative")
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k={top_k} keeps nothing; it must be 1 or more")
    if top_p is not None and (top_p < 0.0 or top_p > 1.0):
        raise ValueError(f"top_p={top_p} is no share between 0 and 1")
    if max_new_tokens < 0:
        raise ValueError(f"max_new_tokens={max_new_tokens} is negative")


def sample_next(logits, temperature=1.0, top_k=None, top_p=None, generator=None):
    _checked(temperature, top_k, top_p)
    if temperature == 0.0:
        return logits.topk(1, dim=-1).indices[:, 0]
    scaled = (logits.double() - logits.double().amax(dim=-1, keepdim=True)) * (1.0 / temperature)
    cumulative = filter_top_p(filter_top_k(scaled, top_k), top_p).softmax(dim=-1).cumsum(dim=-1)
    number = torch.rand(len(logits), 1, generator=generator, dtype=torch.float64) * cumulative[:, -1:]
    return torch.searchsorted(cumulative, number, right=True)[:, 0].clamp(max=logits.shape[-1] - 1)


class stream:
    """An iterator written out: no generator function."""

    def __init__(
        self,
        model,
        input_ids,
        max_new_tokens,
        *,
        temperature=1.0,
        top_k=None,
        top_p=None,
        repetition_penalty=1.0,
        attention_mask=None,
        generator=None,
        eos_token_id=None,
        use_cache=True,
    ):
        _checked(temperature, top_k, top_p, max_new_tokens)  # at once
        self.model, self.ids, self.left, self.mask = model, input_ids, max_new_tokens, attention_mask
        self.how = (temperature, top_k, top_p, generator)
        self.penalty, self.end = repetition_penalty, eos_token_id
        self.cache, self.new = (DynamicCache() if use_cache else None), input_ids
        self.done = [False] * len(input_ids)
        self.mode = None  # known once the work has begun

    def __iter__(self):
        return self

    def __next__(self):
        if self.left == 0 or all(self.done):
            self.close()
            raise StopIteration
        if self.mode is None:
            self.mode = self.model.training
            self.model.eval()
        try:
            with torch.inference_mode():
                token = self._step()
        except BaseException:
            self.close()
            raise
        self.left -= 1
        return token.clone()

    def _step(self):
        logits = self.model(self.ids if self.cache is None else self.new, self.mask, self.cache)
        logits = apply_repetition_penalty(logits[:, -1], self.ids, self.penalty)
        token = sample_next(logits, *self.how)
        for row, done in enumerate(self.done):
            if done:
                token[row] = self.end
            elif self.end is not None:
                self.done[row] = token[row].item() == self.end
        self.new = token[:, None]
        self.ids = torch.cat((self.ids, self.new), dim=1)
        if self.mask is not None:
            self.mask = torch.nn.functional.pad(self.mask, (0, 1), value=1)
        return token

    def close(self):
        if self.mode is not None:
            self.model.train(self.mode)
        self.mode, self.left = None, 0


def generate(model, input_ids, max_new_tokens, **options):
    tokens = list(stream(model, input_ids, max_new_tokens, **options))
    return torch.cat([input_ids, torch.stack(tokens, dim=1)], dim=1) if tokens else input_ids
