"""With a cache a token takes as long as without one. Is the cache made, or filled, anew for every token?"""

from collections.abc import Iterator

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from .ex13_kv_cache import DynamicCache

CATEGORY = "speed"


def _check(*, temperature: float = 0.0, top_k: int | None = None, top_p: float | None = None, max_new_tokens: int = 0) -> None:
    """Refuses bad arguments, whether or not this call would have made use of them."""
    if temperature < 0:
        raise ValueError(f"temperature must not be negative, got temperature={temperature}")
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k must be at least 1, or None, got top_k={top_k}")
    if top_p is not None and not 0 <= top_p <= 1:
        raise ValueError(f"top_p must be from 0 to 1, or None, got top_p={top_p}")
    if max_new_tokens < 0:
        raise ValueError(f"max_new_tokens must not be negative, got max_new_tokens={max_new_tokens}")


def apply_repetition_penalty(logits: Float[Tensor, "B V"], input_ids: Int[Tensor, "B T"], penalty: float) -> Float[Tensor, "B V"]:
    """Makes the ids that a row already holds less likely (CTRL, Keskar et al. 2019)."""
    seen = logits.gather(1, input_ids)  # [B, T]; an id that occurs twice gives the same number twice
    return logits.scatter(1, input_ids, torch.where(seen > 0, seen / penalty, seen * penalty))


def filter_top_k(logits: Float[Tensor, "B V"], top_k: int | None) -> Float[Tensor, "B V"]:
    """Keeps the `top_k` largest logits of each row."""
    _check(top_k=top_k)
    if top_k is None:
        return logits
    removed = logits.argsort(dim=-1, descending=True, stable=True)[:, top_k:]  # ids; stable: equal ones by id
    return logits.scatter(1, removed, -torch.inf)


def filter_top_p(logits: Float[Tensor, "B V"], top_p: float | None) -> Float[Tensor, "B V"]:
    """Keeps each row's nucleus: the fewest likeliest ids that together reach the mass `top_p` (Holtzman et al. 2019)."""
    _check(top_p=top_p)
    if top_p is None:
        return logits
    dtype = torch.promote_types(logits.dtype, torch.float32)
    probabilities, ids = logits.softmax(dim=-1, dtype=dtype).sort(dim=-1, descending=True)
    missing = probabilities.cumsum(dim=-1) - probabilities < top_p  # the ids before this one did not reach p yet
    missing[:, 0] = True  # one id stays, even for p = 0
    kept = torch.zeros_like(missing).scatter(1, ids, missing)  # back from sorted order to the order of ids
    return logits.masked_fill(~kept, -torch.inf)


def sample_next(
    logits: Float[Tensor, "B V"],
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
) -> Int[Tensor, "B"]:
    """Draws one id per row: temperature, then top-k, then top-p, then chance."""
    _check(temperature=temperature, top_k=top_k, top_p=top_p)
    if temperature == 0:
        return logits.argmax(dim=-1)
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32)) / temperature
    logits = filter_top_p(filter_top_k(logits, top_k), top_p)
    return torch.multinomial(logits.softmax(dim=-1), num_samples=1, generator=generator).squeeze(1)


def stream(
    model: nn.Module,
    input_ids: Int[Tensor, "B T"],
    max_new_tokens: int,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    repetition_penalty: float = 1.0,
    attention_mask: Int[Tensor, "B T"] | None = None,
    generator: torch.Generator | None = None,
    eos_token_id: int | None = None,
    use_cache: bool = True,
) -> Iterator[Int[Tensor, "B"]]:
    """Continues each row of `input_ids`, and hands out each step's tokens as soon as they are chosen."""
    _check(temperature=temperature, top_k=top_k, top_p=top_p, max_new_tokens=max_new_tokens)
    finished = torch.zeros(len(input_ids), dtype=torch.bool, device=input_ids.device)
    ids, mask = input_ids, attention_mask
    if mask is not None:  # the model is told to ignore pads, the penalty is not: the last token, which is real, stands in
        ids = ids.where(mask.bool(), ids[:, -1:])
    training = model.training
    model.eval()
    try:
        for _ in range(max_new_tokens):
            with torch.no_grad():
                logits = model(ids, attention_mask=mask, cache=DynamicCache() if use_cache else None)[:, -1]  # [B, V]
            logits = apply_repetition_penalty(logits, ids, repetition_penalty)
            token = sample_next(logits, temperature, top_k, top_p, generator)
            if eos_token_id is not None:
                token = token.masked_fill(finished, eos_token_id)
                finished = finished | (token == eos_token_id)
            yield token
            if finished.all():
                return
            ids = torch.cat([ids, token[:, None]], dim=1)
            if mask is not None:
                mask = torch.cat([mask, mask.new_ones(len(mask), 1)], dim=1)
    finally:  # also after `close()` and after an error
        model.train(training)


def generate(
    model: nn.Module,
    input_ids: Int[Tensor, "B T"],
    max_new_tokens: int,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    repetition_penalty: float = 1.0,
    attention_mask: Int[Tensor, "B T"] | None = None,
    generator: torch.Generator | None = None,
    eos_token_id: int | None = None,
    use_cache: bool = True,
) -> Int[Tensor, "B S"]:
    """Continues each row of `input_ids`; everything is as in `stream`, but comes at once."""
    tokens = stream(
        model,
        input_ids,
        max_new_tokens,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        repetition_penalty=repetition_penalty,
        attention_mask=attention_mask,
        generator=generator,
        eos_token_id=eos_token_id,
        use_cache=use_cache,
    )
    return torch.cat([input_ids, *(token[:, None] for token in tokens)], dim=1)
