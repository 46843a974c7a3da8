"""The model reads the last token, too, and what it answers is thrown away. Who would have needed it?"""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from .ex13_kv_cache import DynamicCache

CATEGORY = "robustness"


def check(temperature: float = 0.0, top_k: int | None = None, top_p: float | None = None, max_new_tokens: int = 0) -> None:
    if temperature < 0:
        raise ValueError(f"temperature must not be negative, got temperature={temperature}")
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k must be at least 1, or None, got top_k={top_k}")
    if top_p is not None and not 0 <= top_p <= 1:
        raise ValueError(f"top_p must be from 0 to 1, or None, got top_p={top_p}")
    if max_new_tokens < 0:
        raise ValueError(f"max_new_tokens must not be negative, got max_new_tokens={max_new_tokens}")


def apply_repetition_penalty(logits: Tensor, input_ids: Tensor, penalty: float) -> Tensor:
    seen = logits.gather(1, input_ids)  # [B, T]
    return logits.scatter(1, input_ids, torch.where(seen > 0, seen / penalty, seen * penalty))


def filter_top_k(logits: Tensor, top_k: int | None) -> Tensor:
    check(top_k=top_k)
    if top_k is None:
        return logits
    removed = logits.argsort(dim=-1, descending=True, stable=True)[:, top_k:]
    return logits.scatter(1, removed, -torch.inf)


def filter_top_p(logits: Tensor, top_p: float | None) -> Tensor:
    check(top_p=top_p)
    if top_p is None:
        return logits
    probabilities, ids = logits.float().softmax(dim=-1).sort(dim=-1, descending=True)
    missing = probabilities.cumsum(dim=-1) - probabilities < top_p
    missing[:, 0] = True
    kept = torch.zeros_like(missing).scatter(1, ids, missing)
    return logits.masked_fill(~kept, -torch.inf)


def sample_next(
    logits: Tensor,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    check(temperature, top_k, top_p)
    if temperature == 0:
        return logits.argmax(dim=-1)
    logits = filter_top_p(filter_top_k(logits.float() / temperature, top_k), top_p)
    return torch.multinomial(logits.softmax(dim=-1), 1, generator=generator).squeeze(1)


def stream(
    model: nn.Module,
    input_ids: Tensor,
    max_new_tokens: int,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    repetition_penalty: float = 1.0,
    attention_mask: Tensor | None = None,
    generator: torch.Generator | None = None,
    eos_token_id: int | None = None,
    use_cache: bool = True,
) -> Iterator[Tensor]:
    check(temperature, top_k, top_p, max_new_tokens)
    cache = DynamicCache() if use_cache else None
    finished = torch.zeros(len(input_ids), dtype=torch.bool)
    ids, unseen, mask = input_ids, input_ids, attention_mask
    training = model.training
    model.eval()
    try:
        if max_new_tokens > 0:
            with torch.no_grad():
                logits = model(unseen, mask, cache)[:, -1]
        for _ in range(max_new_tokens):
            logits = apply_repetition_penalty(logits, ids, repetition_penalty)
            token = sample_next(logits, temperature, top_k, top_p, generator)
            if eos_token_id is not None:
                token = token.masked_fill(finished, eos_token_id)
                finished = finished | (token == eos_token_id)
            yield token
            if finished.all():
                return
            unseen = token[:, None]
            ids = torch.cat([ids, unseen], dim=1)
            if mask is not None:
                mask = torch.cat([mask, mask.new_ones(len(mask), 1)], dim=1)
            with torch.no_grad():
                logits = model(unseen if use_cache else ids, mask, cache)[:, -1]
    finally:
        model.train(training)


def generate(model: nn.Module, input_ids: Tensor, max_new_tokens: int, **options) -> Tensor:
    tokens = stream(model, input_ids, max_new_tokens, **options)
    return torch.cat([input_ids, *(token[:, None] for token in tokens)], dim=1)
