"""15 · generation: from logits to the next token, and from one token to a text."""

from collections.abc import Iterator

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from .ex13_kv_cache import DynamicCache

# BEGIN SOLUTION


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


# END SOLUTION


def apply_repetition_penalty(logits: Float[Tensor, "B V"], input_ids: Int[Tensor, "B T"], penalty: float) -> Float[Tensor, "B V"]:
    """Makes the ids that a row already holds less likely (CTRL, Keskar et al. 2019).

    Args:
        logits: `[B, V]`.
        input_ids: the row's tokens so far, prompt and new ones, `[B, T]`, int64.
        penalty: above 1 discourages repetition, 1.0 changes nothing.

    Returns:
        `[B, V]` in the dtype of the logits: for each id of its own row a positive logit is divided by the penalty and
        any other multiplied, once, however often the id occurs. All other logits are unchanged. No argument is changed.

    Example:
        >>> apply_repetition_penalty(torch.tensor([[2.0, -2.0, 1.0]]), torch.tensor([[0, 1, 1]]), 1.5)
        tensor([[ 1.3333, -3.0000,  1.0000]])
    """
    # BEGIN SOLUTION
    seen = logits.gather(1, input_ids)  # [B, T]; an id that occurs twice gives the same number twice
    return logits.scatter(1, input_ids, torch.where(seen > 0, seen / penalty, seen * penalty))
    # END SOLUTION


def filter_top_k(logits: Float[Tensor, "B V"], top_k: int | None) -> Float[Tensor, "B V"]:
    """Keeps the `top_k` largest logits of each row.

    Args:
        logits: `[B, V]`, in no order.
        top_k: how many stay; V or more keeps all, None is off.

    Returns:
        `[B, V]` in the dtype of the logits: removed entries are -inf, the others unchanged. Exactly `top_k` entries stay;
        among equal logits those with the lowest ids stay. No argument is changed.

    Raises:
        ValueError: `top_k < 1`; the message names `top_k` and its value.

    Example:
        >>> filter_top_k(torch.tensor([[1.0, 4.0, -2.0, 3.0]]), 2)
        tensor([[-inf, 4., -inf, 3.]])
    """
    # BEGIN SOLUTION
    _check(top_k=top_k)
    if top_k is None:
        return logits
    removed = logits.argsort(dim=-1, descending=True, stable=True)[:, top_k:]  # ids; stable: equal ones by id
    return logits.scatter(1, removed, -torch.inf)
    # END SOLUTION


def filter_top_p(logits: Float[Tensor, "B V"], top_p: float | None) -> Float[Tensor, "B V"]:
    """Keeps each row's nucleus: the fewest likeliest ids that together reach the mass `top_p` (Holtzman et al. 2019).

    Args:
        logits: `[B, V]`, in no order.
        top_p: 0 to 1, None is off. Probabilities are the softmax of the logits, computed in at least float32.

    Returns:
        `[B, V]` in the dtype of the logits: removed entries are -inf, the others unchanged. What stays is the smallest
        set whose mass is at least `top_p`, and at least one id. No argument is changed.

    Raises:
        ValueError: `top_p` outside 0..1; the message names `top_p` and its value.

    Example:
        Probabilities of 0.1, 0.4, 0.2 and 0.3: one id has 0.4, two have 0.7, which is enough.

        >>> filter_top_p(torch.tensor([[0.1, 0.4, 0.2, 0.3]]).log(), 0.5)
        tensor([[   -inf, -0.9163,    -inf, -1.2040]])
    """
    # BEGIN SOLUTION
    _check(top_p=top_p)
    if top_p is None:
        return logits
    dtype = torch.promote_types(logits.dtype, torch.float32)
    probabilities, ids = logits.softmax(dim=-1, dtype=dtype).sort(dim=-1, descending=True)
    missing = probabilities.cumsum(dim=-1) - probabilities < top_p  # the ids before this one did not reach p yet
    missing[:, 0] = True  # one id stays, even for p = 0
    kept = torch.zeros_like(missing).scatter(1, ids, missing)  # back from sorted order to the order of ids
    return logits.masked_fill(~kept, -torch.inf)
    # END SOLUTION


def sample_next(
    logits: Float[Tensor, "B V"],
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
) -> Int[Tensor, "B"]:
    """Draws one id per row: temperature, then top-k, then top-p, then chance.

    Args:
        logits: `[B, V]`; an entry of -inf is never drawn.
        temperature: the logits are divided by it; 0 takes the largest logit (greedy).
        top_k, top_p: as in `filter_top_k` and `filter_top_p`; top-p looks at what top-k left, as probabilities.
        generator: where all random numbers come from; None is torch's global generator, which is otherwise left alone.

    Returns:
        Ids `[B]`, int64; every row is drawn for itself. No argument is changed.

    Raises:
        ValueError: `temperature < 0`, `top_k < 1` or `top_p` outside 0..1, also where nothing is drawn because the
            temperature is 0; the message names the argument and its value.

    Example:
        >>> sample_next(torch.tensor([[1.0, 4.0, -2.0], [0.5, 0.1, 0.2]]), temperature=0)
        tensor([1, 0])
    """
    # BEGIN SOLUTION
    _check(temperature=temperature, top_k=top_k, top_p=top_p)
    if temperature == 0:
        return logits.argmax(dim=-1)
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32)) / temperature
    logits = filter_top_p(filter_top_k(logits, top_k), top_p)
    return torch.multinomial(logits.softmax(dim=-1), num_samples=1, generator=generator).squeeze(1)
    # END SOLUTION


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
    """Continues each row of `input_ids`, and hands out each step's tokens as soon as they are chosen.

    Args:
        model: called as `CausalLM` is: `model(input_ids, attention_mask, cache) -> logits [B, T, V]`.
        input_ids: prompts `[B, T]`, T >= 1, int64; shorter ones are padded on the left.
        max_new_tokens: how many tokens are added at most.
        temperature, top_k, top_p, generator: as in `sample_next`.
        repetition_penalty: as in `apply_repetition_penalty`, over the prompt and the new tokens; comes before the others.
        attention_mask: `[B, T]`, bool or 0/1, of the prompt: 1 for a real token. None: all are real. New tokens are real.
        eos_token_id: a row that has drawn it is finished; None: no row ever is. In the prompt it means nothing.
        use_cache: keep keys and values, so that a step gives the model its new tokens only; otherwise the model gets all
            tokens in every step.

    Yields:
        Each step's ids `[B]`, int64: the finishing `eos_token_id` itself, and it again for rows that are already finished.
        After the step that finishes the last row, nothing more.

        Lazy: what was not asked for is not computed. The model is asked once for each step: not after the last one, and not
        at all if there is no token to come. It is in eval mode while it works and records no gradients; when the iterator is
        exhausted, closed (even before its first token) or failed, `model.training` is what it was. For whoever asks,
        gradients are on or off as before, after each token too. No argument is changed, and no call knows of another.

    Raises:
        ValueError: `max_new_tokens < 0`, `temperature < 0`, `top_k < 1` or `top_p` outside 0..1; at the latest when the
            first token is asked for, also if there is none to come. The message names the argument and its value.

    Example:
        A model that counts, always sure that n + 1 follows n:

        >>> list(stream(counting, torch.tensor([[3], [7]]), 2, temperature=0))
        [tensor([4, 8]), tensor([5, 9])]
    """
    # BEGIN SOLUTION
    _check(temperature=temperature, top_k=top_k, top_p=top_p, max_new_tokens=max_new_tokens)
    cache = DynamicCache() if use_cache else None
    finished = torch.zeros(len(input_ids), dtype=torch.bool, device=input_ids.device)
    ids, mask = input_ids, attention_mask
    if mask is not None:  # the model is told to ignore pads, the penalty is not: the last token, which is real, stands in
        ids = ids.where(mask.bool(), ids[:, -1:])
    unseen = ids  # what the cache does not hold yet
    training = model.training
    model.eval()
    try:
        for _ in range(max_new_tokens):
            with torch.no_grad():
                logits = model(unseen if use_cache else ids, attention_mask=mask, cache=cache)[:, -1]  # [B, V]
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
    finally:  # also after `close()` and after an error
        model.train(training)
    # END SOLUTION


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
    """Continues each row of `input_ids`; everything is as in `stream`, but comes at once.

    Returns:
        Prompt and new tokens, `[B, T + n]`, int64: n is `max_new_tokens`, or less if every row finished earlier. With
        `max_new_tokens` 0 it is the prompt. `model.training` is what it was, also after an error.

    Raises:
        ValueError: as in `stream`, with `max_new_tokens` 0 too.

    Example:
        The model that counts, with 9 as the end: the second row is finished first and is filled up.

        >>> generate(counting, torch.tensor([[6], [7]]), 5, temperature=0, eos_token_id=9)
        tensor([[6, 7, 8, 9], [7, 8, 9, 9]])
    """
    # BEGIN SOLUTION
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
    # END SOLUTION
