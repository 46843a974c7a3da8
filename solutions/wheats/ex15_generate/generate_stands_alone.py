"""generate and stream are written apart from each other: generate keeps lists of plain numbers, row by row, and its own loop."""

import math

import torch

from .ex13_kv_cache import DynamicCache


def apply_repetition_penalty(logits, input_ids, penalty):
    rows = []
    for row, ids in zip(logits.tolist(), input_ids.tolist(), strict=True):
        seen = frozenset(ids)
        rows.append([(x / penalty if x > 0 else x * penalty) if i in seen else x for i, x in enumerate(row)])
    return torch.tensor(rows, dtype=logits.dtype, device=logits.device)


def filter_top_k(logits, top_k):
    """A list per row: sorted() is stable, so equal logits keep the order of their ids."""
    if top_k is None:
        return logits
    if top_k < 1:
        raise ValueError(f"top_k must be positive: {top_k}")
    rows = []
    for row in logits.tolist():
        kept = set(sorted(range(len(row)), key=lambda i: row[i], reverse=True)[:top_k])
        rows.append([x if i in kept else -math.inf for i, x in enumerate(row)])
    return torch.tensor(rows, dtype=logits.dtype, device=logits.device)


def filter_top_p(logits, top_p):
    if top_p is None:
        return logits
    if not 0 <= top_p <= 1:
        raise ValueError(f"top_p must be a probability: {top_p}")
    rows = []
    for row in logits.tolist():
        largest = max(row)
        weights = [math.exp(x - largest) for x in row]
        total = math.fsum(weights)
        kept, mass = set(), 0.0
        for i in sorted(range(len(row)), key=lambda i: -row[i]):
            kept.add(i)
            mass += weights[i]
            if mass >= top_p * total * (1 - 1e-12):
                break
        rows.append([x if i in kept else -math.inf for i, x in enumerate(row)])
    return torch.tensor(rows, dtype=logits.dtype, device=logits.device)


def sample_next(logits, temperature=1.0, top_k=None, top_p=None, generator=None):
    check(temperature, top_k, top_p)
    if temperature == 0:
        return logits.argmax(-1)
    scaled = logits.to(torch.float32) / temperature
    rows, which = scaled.unique(dim=0, return_inverse=True)
    rows = filter_top_p(filter_top_k(rows, top_k), top_p)
    return torch.multinomial(torch.softmax(rows, -1)[which], 1, generator=generator).view(-1)


def check(temperature, top_k, top_p, max_new_tokens=0):
    if temperature < 0:
        raise ValueError(f"temperature must be 0 or positive: {temperature}")
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k must be positive: {top_k}")
    if top_p is not None and not 0 <= top_p <= 1:
        raise ValueError(f"top_p must be a probability: {top_p}")
    if max_new_tokens < 0:
        raise ValueError(f"max_new_tokens must be 0 or positive: {max_new_tokens}")


def generate(
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
    check(temperature, top_k, top_p, max_new_tokens)
    texts = input_ids.tolist()
    ended = set()
    cache, fed = DynamicCache() if use_cache else None, 0
    mode = model.training
    model.train(False)
    try:
        for step in range(max_new_tokens):
            ids = torch.tensor(texts)
            mask = attention_mask
            if mask is not None:
                mask = torch.cat([mask, torch.ones(len(texts), step, dtype=mask.dtype)], dim=1)
            with torch.no_grad():
                last = model(input_ids=ids[:, fed:], attention_mask=mask, cache=cache)[:, -1]
            fed = ids.shape[1] if use_cache else 0
            last = apply_repetition_penalty(last, ids, repetition_penalty) if repetition_penalty != 1 else last
            for row, token in enumerate(sample_next(last, temperature, top_k, top_p, generator).tolist()):
                texts[row].append(eos_token_id if row in ended else token)
                if token == eos_token_id:
                    ended.add(row)
            if len(ended) == len(texts):
                break
    finally:
        model.train(mode)
    return torch.tensor(texts, dtype=torch.int64, device=input_ids.device)


def stream(
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
    check(temperature, top_k, top_p, max_new_tokens)
    model_was_training = model.training
    model.eval()
    cache = DynamicCache() if use_cache else None
    ids, mask, finished = input_ids, attention_mask, False
    try:
        for step in range(max_new_tokens):
            fed = ids[:, -1:] if cache is not None and step > 0 else ids
            with torch.no_grad():
                logits = model(fed, mask, cache)[:, -1]
            token = sample_next(apply_repetition_penalty(logits, ids, repetition_penalty), temperature, top_k, top_p, generator)
            if eos_token_id is not None:
                token = torch.where(torch.as_tensor(finished), eos_token_id, token)
                finished = (token == eos_token_id) | finished
            yield token
            if eos_token_id is not None and finished.all():
                return
            ids = torch.cat([ids, token.unsqueeze(-1)], -1)
            if mask is not None:
                mask = torch.cat([mask, torch.ones_like(mask[:, -1:])], -1)
    finally:
        model.train(model_was_training)
