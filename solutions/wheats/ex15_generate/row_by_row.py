"""Every row is a text of its own, with its own cache and without its pads; stream takes one token of each. Slow, and right."""

import torch

from .ex13_kv_cache import DynamicCache


def refuse(name, value, good):
    if not good:
        raise ValueError(f"{name}={value} will not do")


def apply_repetition_penalty(logits, input_ids, penalty):
    seen = (input_ids.unsqueeze(-1) == torch.arange(logits.shape[-1], device=logits.device)).any(dim=1)  # [B, V]
    sign = logits.sign()
    return torch.where(seen & (sign > 0), logits / penalty, torch.where(seen & (sign < 0), logits * penalty, logits))


def filter_top_k(logits, top_k):
    if top_k is None:
        return logits
    refuse("top_k", top_k, top_k >= 1)
    ids = torch.sort(logits, dim=-1, descending=True, stable=True).indices[:, :top_k]
    hidden = torch.full_like(logits, -float("inf"))
    return hidden.scatter(-1, ids, torch.gather(logits, -1, ids))


def filter_top_p(logits, top_p):
    if top_p is None:
        return logits
    refuse("top_p", top_p, 0 <= top_p <= 1)
    values, ids = torch.sort(logits, dim=-1, descending=True)
    masses = torch.softmax(values.float(), -1).cumsum(-1)
    masses = torch.nn.functional.pad(masses, (1, 0))[:, :-1]  # before each id
    values = values.masked_fill((masses >= top_p) & (torch.arange(values.shape[-1]) > 0), -float("inf"))
    return values.gather(-1, ids.argsort(-1))


def sample_next(logits, temperature=1.0, top_k=None, top_p=None, generator=None):
    refuse("temperature", temperature, temperature >= 0)
    refuse("top_k", top_k, top_k is None or top_k >= 1)
    refuse("top_p", top_p, top_p is None or 0 <= top_p <= 1)
    if temperature == 0:
        return logits.argmax(-1)
    weights = filter_top_p(filter_top_k(logits.double() / temperature, top_k), top_p).softmax(-1)
    return weights.multinomial(1, generator=generator).flatten()


def text(model, ids, penalty, how, use_cache):
    """One row's tokens, for ever."""
    cache, new = DynamicCache() if use_cache else None, ids
    while True:
        with torch.no_grad():
            logits = model(new, None, cache)[:, -1]
        new = sample_next(apply_repetition_penalty(logits, ids, penalty), *how)[:, None]
        ids = torch.cat([ids, new], dim=1)
        yield new.item()
        new = new if use_cache else ids


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
    refuse("max_new_tokens", max_new_tokens, max_new_tokens >= 0)
    how = (temperature, top_k, top_p, generator)
    sample_next(torch.zeros(1, 1), 0 if temperature == 0 else temperature, top_k, top_p)
    mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
    prompts = [row[real.bool()][None] for row, real in zip(input_ids, mask)]
    texts = [text(model, prompt, repetition_penalty, how, use_cache) for prompt in prompts]
    tokens = [None] * len(texts)
    training = model.training
    model.eval()
    try:
        for _ in range(max_new_tokens):
            for row, words in enumerate(texts):
                if eos_token_id is None or tokens[row] != eos_token_id:
                    tokens[row] = next(words)
            yield torch.tensor(tokens, device=input_ids.device)
            if eos_token_id is not None and set(tokens) == {eos_token_id}:
                break
    finally:
        if training:
            model.train()


def generate(model, input_ids, *arguments, **options):
    steps = [input_ids.T, *stream(model, input_ids, *arguments, **options)]
    return torch.vstack(steps).T
