"""Prefill and decode apart from each other: the prompt before the loop, and in the loop one token, then the model again,
unless that was the last one. The ids stand in one tensor that was made beforehand; stream checks before it starts.
"""

import torch

from .ex13_kv_cache import DynamicCache


def apply_repetition_penalty(logits, input_ids, penalty):
    punished = torch.where(logits > 0, logits / penalty, logits * penalty)
    counts = torch.zeros(logits.shape, dtype=torch.int64, device=logits.device)
    counts.scatter_add_(1, input_ids, torch.ones_like(input_ids))
    return torch.where(counts > 0, punished, logits)


def filter_top_k(logits, top_k):
    _check(1.0, top_k, None, 0)
    if top_k is None:
        return logits
    kept = torch.zeros_like(logits, dtype=torch.bool)
    rest = logits.float().clone()
    for _ in range(min(top_k, logits.shape[-1])):
        best = rest.amax(dim=-1, keepdim=True)
        first = ((rest == best) & ~kept).long().argmax(dim=-1, keepdim=True)  # argmax of 0 and 1: the first 1
        first = torch.where(((rest == best) & ~kept).any(dim=-1, keepdim=True), first, 0)
        kept.scatter_(1, first, True)
        rest.scatter_(1, first, float("-inf"))
    return logits.where(kept, float("-inf"))


def filter_top_p(logits, top_p):
    _check(1.0, None, top_p, 0)
    if top_p is None:
        return logits
    result = torch.full_like(logits, float("-inf"))
    for row, out in zip(logits, result):
        probabilities = row.softmax(dim=0, dtype=torch.float64).tolist()
        mass = 0.0
        for token in sorted(range(len(row)), key=lambda token: -probabilities[token]):
            if mass >= top_p - 1e-9 and mass > 0:
                break
            out[token] = row[token]
            mass += probabilities[token]
    return result


def _check(temperature, top_k, top_p, max_new_tokens):
    problems = {
        "temperature": (temperature, temperature < 0),
        "top_k": (top_k, top_k is not None and top_k < 1),
        "top_p": (top_p, top_p is not None and not 0 <= top_p <= 1),
        "max_new_tokens": (max_new_tokens, max_new_tokens < 0),
    }
    for name, (value, is_bad) in problems.items():
        if is_bad:
            raise ValueError(f"{name} = {value} is not allowed")


def sample_next(logits, temperature=1.0, top_k=None, top_p=None, generator=None):
    _check(temperature, top_k, top_p, 0)
    if temperature == 0:
        return torch.argmax(logits, dim=1)
    rows, back = (logits.float() / temperature).unique(dim=0, return_inverse=True)
    probabilities = torch.softmax(filter_top_p(filter_top_k(rows, top_k), top_p), dim=-1)[back]
    return torch.multinomial(probabilities, num_samples=1, generator=generator)[:, 0]


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
    _check(temperature, top_k, top_p, max_new_tokens)

    def step(ids, mask, cache, length):
        with torch.inference_mode():
            return model(ids, attention_mask=None if mask is None else mask[:, :length], cache=cache)[:, -1].clone()

    def steps():
        if max_new_tokens == 0:
            return
        rows, prompt = input_ids.shape
        everything = torch.empty(rows, prompt + max_new_tokens, dtype=torch.int64)
        everything[:, :prompt] = input_ids
        mask = None
        if attention_mask is not None:
            mask = torch.ones(rows, prompt + max_new_tokens, dtype=torch.bool)
            mask[:, :prompt] = attention_mask.bool()
        done = torch.zeros(rows, dtype=torch.bool)
        cache = DynamicCache() if use_cache else None
        was_training = model.training
        model.eval()
        try:
            logits = step(input_ids, mask, cache, prompt)
            for place in range(prompt, prompt + max_new_tokens):
                logits = apply_repetition_penalty(logits, everything[:, :place], repetition_penalty)
                token = sample_next(logits, temperature, top_k, top_p, generator)
                if eos_token_id is not None:
                    token[done] = eos_token_id
                    done |= token == eos_token_id
                everything[:, place] = token
                yield token
                if done.all() or place + 1 == everything.shape[1]:
                    break
                model.eval()
                seen = everything[:, place : place + 1] if use_cache else everything[:, : place + 1]
                logits = step(seen.clone(), mask, cache, place + 1)
        finally:
            model.train(was_training)

    return steps()


def generate(model, input_ids, max_new_tokens, **options):
    columns = [input_ids]
    for token in stream(model, input_ids, max_new_tokens, **options):
        columns.append(token[:, None])
    return torch.cat(columns, dim=1)
