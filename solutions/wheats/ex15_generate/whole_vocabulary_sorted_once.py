"""Draws a place in the sorted row and looks up its id afterwards: the filters are cuts of the sorted row. Decorated with no_grad."""

import torch

from .ex13_kv_cache import DynamicCache


class BadArgument(ValueError):
    """A ValueError of its own kind."""

    def __init__(self, name, value):
        super().__init__(f"{name} ({value}) is out of range")


def validate(temperature=0, top_k=None, top_p=None, max_new_tokens=0):
    for name, value, low, high in (
        ("temperature", temperature, 0, float("inf")),
        ("top_k", top_k, 1, float("inf")),
        ("top_p", top_p, 0, 1),
        ("max_new_tokens", max_new_tokens, 0, float("inf")),
    ):
        if value is not None and not low <= value <= high:
            raise BadArgument(name, value)


def apply_repetition_penalty(logits, input_ids, penalty):
    chosen = torch.gather(logits, 1, input_ids)
    chosen = torch.maximum(chosen, chosen.new_zeros(())) / penalty + torch.minimum(chosen, chosen.new_zeros(())) * penalty
    return torch.scatter(logits, 1, input_ids, chosen)


def _cut(values, top_k, top_p):
    """How many of each sorted row [B, V] stay, [B, 1]."""
    if top_k is not None:
        values = values.clone()
        values[:, top_k:] = float("-inf")
    count = (values > float("-inf")).sum(dim=-1, keepdim=True)
    if top_p is None:
        return count
    masses = values.softmax(dim=-1, dtype=torch.float64).cumsum(dim=-1)
    reached = (masses >= top_p - 1e-9).long().argmax(dim=-1, keepdim=True) + 1  # the first that reaches p
    return count if top_p == 1 else torch.minimum(count, reached)


def _filter(logits, top_k, top_p):
    order = torch.argsort(logits, dim=-1, descending=True, stable=True)
    sorted_logits = logits.gather(-1, order)
    places = torch.arange(logits.shape[-1], device=logits.device)
    cut = sorted_logits.masked_fill(places >= _cut(sorted_logits, top_k, top_p), float("-inf"))
    return torch.empty_like(logits).scatter_(-1, order, cut)


def filter_top_k(logits, top_k):
    validate(top_k=top_k)
    return _filter(logits, top_k, None)


def filter_top_p(logits, top_p):
    validate(top_p=top_p)
    return _filter(logits, None, top_p)


def sample_next(logits, temperature=1.0, top_k=None, top_p=None, generator=None):
    validate(temperature, top_k, top_p)
    values, ids = torch.sort(logits.float(), dim=-1, descending=True, stable=True)
    if temperature == 0:
        return ids[:, 0]
    values = values / temperature
    places = torch.arange(values.shape[-1], device=values.device)
    values = values.masked_fill(places >= _cut(values, top_k, top_p), float("-inf"))
    place = torch.multinomial(values.softmax(dim=-1), 1, generator=generator)
    return ids.gather(1, place)[:, 0]


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
    validate(temperature, top_k, top_p, max_new_tokens)
    sampling = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "generator": generator}
    return _run(model, input_ids, max_new_tokens, sampling, repetition_penalty, attention_mask, eos_token_id, use_cache)


@torch.no_grad()
def _run(model, ids, steps, sampling, penalty, mask, end, use_cache):
    if steps == 0:
        return
    training = model.training
    model.eval()
    try:
        cache = DynamicCache() if use_cache else None
        finished = torch.full((ids.shape[0],), False)
        fresh = ids
        while True:
            logits = model(fresh, mask, cache=cache)
            token = sample_next(apply_repetition_penalty(logits[:, -1], ids, penalty), **sampling)
            if end is not None:
                token = torch.where(finished, end, token)
                finished = torch.logical_or(finished, token.eq(end))
            steps -= 1
            if steps == 0 or finished.all():
                model.train(training)
                yield token
                return
            yield token
            ids = torch.cat((ids, token[:, None]), dim=1)
            fresh = token[:, None] if use_cache else ids
            mask = None if mask is None else torch.cat((mask, torch.ones_like(token[:, None])), dim=1)
    finally:
        model.train(training)


def generate(model, input_ids, max_new_tokens, **options):
    return torch.column_stack([input_ids, *stream(model, input_ids, max_new_tokens, **options)])
