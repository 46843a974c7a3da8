"""Sorts nothing: an id's rank is the number of better ones. Draws by adding Gumbel noise and taking the largest."""

import torch

from .ex13_kv_cache import DynamicCache


def _refuse(name, value, wrong):
    if wrong:
        raise ValueError(f"bad argument {name}: {value}")


def _better(logits):
    """[B, V, V]: whether id j comes before id i; equal ones in the order of their ids."""
    one, other = logits[:, :, None], logits[:, None, :]
    ids = torch.arange(logits.shape[-1], device=logits.device)
    return (other > one) | ((other == one) & (ids[None, None, :] < ids[None, :, None]))


def apply_repetition_penalty(logits, input_ids, penalty):
    seen = torch.zeros_like(logits, dtype=torch.bool).scatter_(1, input_ids, True)
    factor = torch.where(logits > 0, 1.0 / penalty, penalty)
    return torch.where(seen, logits * factor, logits).to(logits.dtype)


def filter_top_k(logits, top_k):
    if top_k is None:
        return logits.clone()
    _refuse("top_k", top_k, top_k < 1)
    rows = [torch.where(_better(row[None]).sum(dim=-1) < top_k, row[None], float("-inf")) for row in _few(logits)]
    return torch.cat(rows)[_which(logits)]


def filter_top_p(logits, top_p):
    if top_p is None:
        return logits.clone()
    _refuse("top_p", top_p, top_p < 0 or top_p > 1)
    kept = []
    for row in _few(logits):
        better = _better(row[None])
        probabilities = torch.softmax(row[None].double(), dim=-1)
        before = (better * probabilities[:, None, :]).sum(dim=-1)
        kept.append(torch.where((before < top_p - 1e-9) | ~better.any(dim=-1), row[None], float("-inf")))
    return torch.cat(kept)[_which(logits)]


def _few(logits):
    """The rows that differ: of a large batch of equal prompts there are few."""
    return logits.unique(dim=0)


def _which(logits):
    return logits.unique(dim=0, return_inverse=True)[1]


def sample_next(logits, temperature=1.0, top_k=None, top_p=None, generator=None):
    _refuse("temperature", temperature, temperature < 0)
    _refuse("top_k", top_k, top_k is not None and top_k < 1)
    _refuse("top_p", top_p, top_p is not None and not 0 <= top_p <= 1)
    if not temperature:
        return logits.max(dim=-1).indices
    logits = filter_top_p(filter_top_k(logits.double() / temperature, top_k), top_p)
    noise = torch.rand(logits.shape, generator=generator, dtype=torch.float64, device=logits.device)
    return (logits - (-(noise + 1e-300).log() + 1e-300).log()).argmax(dim=-1)


def stream(model, input_ids, max_new_tokens, **options):
    yield from _steps(model, input_ids, max_new_tokens, **options)


@torch.no_grad()
def _steps(
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
    _refuse("max_new_tokens", max_new_tokens, max_new_tokens < 0)
    sample_next(torch.zeros(1, 2), temperature, top_k, top_p)
    mode = model.training
    model.eval()
    try:
        cache = DynamicCache() if use_cache else None
        ids, fed = input_ids, 0
        going = torch.ones(len(ids), dtype=torch.bool, device=ids.device)
        mask = torch.ones_like(ids) if attention_mask is None else attention_mask
        while max_new_tokens and going.any():
            logits = model(ids[:, fed:], mask, cache)[:, -1, :]
            fed = ids.shape[1] if use_cache else 0
            if repetition_penalty != 1.0:
                logits = apply_repetition_penalty(logits, ids, repetition_penalty)
            chosen = sample_next(logits, temperature, top_k, top_p, generator)
            if eos_token_id is not None:
                chosen = torch.where(going, chosen, eos_token_id)
                going = chosen != eos_token_id
            ids = torch.hstack([ids, chosen[:, None]])
            mask = torch.hstack([mask, torch.ones_like(mask[:, :1])])
            max_new_tokens -= 1
            yield chosen
    finally:
        model.train(mode)


def generate(model, input_ids, max_new_tokens, **options):
    output = [input_ids]
    for token in _steps(model, input_ids, max_new_tokens, **options):
        output.append(token.unsqueeze(-1))
    return torch.hstack(output)
