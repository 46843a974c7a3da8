"""Gives the model its prompt in portions of three tokens, always with a mask, in which finished rows are hidden from then on."""

import torch

from .ex13_kv_cache import DynamicCache

PORTION = 3


def apply_repetition_penalty(logits, input_ids, penalty):
    logits = logits.clone()
    for row in range(logits.shape[0]):
        ids = input_ids[row].unique()
        values = logits[row, ids]
        logits[row, ids] = values * torch.where(values > 0, values.new_tensor(1 / penalty), values.new_tensor(penalty))
    return logits


def filter_top_k(logits, top_k):
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k has to be at least 1 but was {top_k}")
    if top_k is None:
        return logits
    order = logits.argsort(dim=1, descending=True, stable=True)
    rank = order.argsort(dim=1)
    return logits.masked_fill(rank >= top_k, float("-inf"))


def filter_top_p(logits, top_p):
    if top_p is not None and not (top_p >= 0 and top_p <= 1):
        raise ValueError(f"top_p has to be between 0 and 1 but was {top_p}")
    if top_p is None:
        return logits
    order = logits.argsort(dim=1, descending=True)
    masses = logits.gather(1, order).float().softmax(dim=1).cumsum(dim=1)
    needed = (masses < top_p).sum(dim=1, keepdim=True) + 1  # the one that reaches p as well
    rank = order.argsort(dim=1)
    return logits.masked_fill(rank >= needed, float("-inf"))


def _bad(temperature, top_k, top_p, max_new_tokens):
    if max_new_tokens < 0:
        raise ValueError(f"max_new_tokens has to be at least 0 but was {max_new_tokens}")
    sample_next(torch.zeros(1, 1), temperature, top_k, top_p)


def sample_next(logits, temperature=1.0, top_k=None, top_p=None, generator=None):
    if temperature < 0:
        raise ValueError(f"temperature has to be at least 0 but was {temperature}")
    if temperature > 0:
        logits = logits.float().div(temperature)
    logits = filter_top_p(filter_top_k(logits, top_k), top_p)  # neither removes the largest
    if temperature == 0:
        return logits.argmax(dim=-1)
    if generator is None:
        return torch.distributions.Categorical(logits=logits).sample()
    return _race(logits, generator)


def _race(logits, generator):
    """Each id arrives after an exponential time with its probability as rate; the first one wins."""
    times = torch.empty_like(logits, dtype=torch.float64).exponential_(generator=generator)
    return (times / logits.double().softmax(dim=-1)).argmin(dim=-1)


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
    _bad(temperature, top_k, top_p, max_new_tokens)
    before = model.training
    try:
        ids = input_ids.clone()
        mask = torch.ones_like(ids, dtype=torch.bool) if attention_mask is None else attention_mask.bool()
        cache = DynamicCache()
        held = 0
        finished = None
        for _ in range(max_new_tokens):
            model.eval()
            with torch.no_grad():
                if not use_cache:
                    logits = model(ids, mask, None)
                else:
                    while held < ids.shape[1]:
                        end = min(held + PORTION, ids.shape[1])
                        logits = model(ids[:, held:end], mask[:, :end], cache)
                        held = end
            token = sample_next(
                apply_repetition_penalty(logits[:, -1], ids, repetition_penalty), temperature, top_k, top_p, generator
            )
            alive = torch.ones_like(token, dtype=torch.bool) if finished is None else ~finished
            if eos_token_id is not None:
                token = torch.where(alive, token, torch.full_like(token, eos_token_id))
                finished = token == eos_token_id
            ids = torch.cat([ids, token.reshape(-1, 1)], dim=1)
            mask = torch.cat([mask, alive.reshape(-1, 1)], dim=1)
            yield token
            if finished is not None and bool(finished.all()):
                break
    finally:
        model.train(before)


def generate(model, input_ids, max_new_tokens, **options):
    steps = [token for token in stream(model, input_ids, max_new_tokens, **options)]
    return torch.cat([input_ids] + [step.unsqueeze(1) for step in steps], dim=1)
