"""What a suite hands to the code that it tests: caches that write down what they are told, small models, random generators.

It runs in the learner's process, beside the learner's code, so nothing in it is secret, and nothing that it writes down is
believed on its own: a test compares answers, too. `learner.file("props").RecordingCache()` makes one.
"""

from __future__ import annotations

import contextlib
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor


def generator(seed: int) -> torch.Generator:
    """A random generator on the CPU."""
    return torch.Generator().manual_seed(seed)


def seed(number: int) -> None:
    """Seed torch's global generator."""
    torch.manual_seed(number)


def rng_state() -> Tensor:
    """The state of torch's global generator."""
    return torch.get_rng_state()


def set_attribute(target: Any, name: str, value: Any) -> None:
    """`target.name = value`."""
    setattr(target, name, value)


class RecordingCache:
    """A cache as `Attention` needs it: joins keys and values on dim 1 and writes down every update.

    It counts as false, as an empty cache with a `__len__` does: code has to ask `cache is not None`.
    """

    def __init__(self) -> None:
        self.updates: list[tuple[int, Tensor, Tensor]] = []  # (layer_idx, k, v) as they were given
        self._held: dict[int, tuple[Tensor, Tensor]] = {}

    def __len__(self) -> int:
        return 0

    @property
    def length(self) -> int:
        """Tokens held by the fullest layer."""
        return max((k.shape[1] for k, _ in self._held.values()), default=0)

    def held(self, layer_idx: int) -> tuple[Tensor, Tensor]:
        """The keys and values of one layer, as they are now."""
        return self._held[layer_idx]

    def update(self, k: Tensor, v: Tensor, layer_idx: int) -> tuple[Tensor, Tensor]:
        """Keys and values `[B, T, K, D]` of new tokens; returns those of all tokens so far `[B, S, K, D]`."""
        self.updates.append((layer_idx, k.detach().clone(), v.detach().clone()))
        if layer_idx in self._held:
            past_k, past_v = self._held[layer_idx]
            k, v = torch.cat([past_k, k], dim=1), torch.cat([past_v, v], dim=1)
        self._held[layer_idx] = (k, v)
        return k, v


def left_behind(module: torch.nn.Module, *calls: list[Any]) -> bool:
    """Whether anything of a call stays in a module: after calls with other numbers of the same shapes, the tensors in its attributes
    differ. What depends on the shapes alone, a mask say, does not."""
    found: list[list[Tensor]] = []
    with torch.no_grad():
        for arguments in calls:
            module(*arguments)
            found.append(_tensors_in(module, {}))
    first = found[0]
    return any(
        len(one) != len(first) or not all(a.shape == b.shape and bool((a == b).all()) for a, b in zip(one, first, strict=True))
        for one in found[1:]
    )


def _tensors_in(thing: Any, seen: dict[int, Any]) -> list[Tensor]:
    """Copies of the tensors in an object's attributes, and in theirs, each of them once."""
    if id(thing) in seen or isinstance(thing, type):
        return []
    seen[id(thing)] = thing
    if isinstance(thing, Tensor):
        return [thing.detach().clone()]
    parts = thing.values() if isinstance(thing, dict) else thing if isinstance(thing, list | tuple | set) else ()
    return [one for part in (*parts, *getattr(thing, "__dict__", {}).values()) for one in _tensors_in(part, seen)]


def modes(module: torch.nn.Module) -> list[bool]:
    """`training` of a module and of everything inside it."""
    return [part.training for part in module.modules()]


def gradient_modes(function: Any, enabled: bool, *arguments: Any, **keywords: Any) -> tuple[list[Tensor], list[bool]]:
    """Call it as somebody who has switched gradients on or off: what comes out, one by one if it is an iterator, and whether
    they are on after each, and at the end. A `TableModel` that fails on request ends it early."""
    outputs, modes = [], []
    with torch.set_grad_enabled(enabled):
        try:
            result = function(*arguments, **keywords)
            for output in [result] if isinstance(result, Tensor) else result:
                outputs.append(output)
                modes.append(torch.is_grad_enabled())
        except RuntimeError as error:
            if "of this model fails" not in str(error):
                raise
        modes.append(torch.is_grad_enabled())
    return outputs, modes


def given_to(part: str, module: torch.nn.Module, *arguments: Any, **keywords: Any) -> tuple[Any, list[Tensor]]:
    """Run a module: its output, and the tensors that a part of it was given, those inside of tuples too; none if it was not called
    as a module."""
    given: list[Tensor] = []

    def write_down(_: torch.nn.Module, positional: tuple, named: dict[str, Any]) -> None:
        for value in (*positional, *named.values()):
            given.extend(one for one in (value if isinstance(value, tuple | list) else [value]) if isinstance(one, Tensor))

    hook = module.get_submodule(part).register_forward_pre_hook(write_down, with_kwargs=True)
    try:
        return module(*arguments, **keywords), given
    finally:
        hook.remove()


class TableModel(torch.nn.Module):
    """A causal language model whose logits are rows of a table, so that a test knows them; called as `CausalLM` is.

    The logits at a token are `table[(sum of id + 1 over the visible tokens up to it) % P, its id]`: they depend on the whole history,
    and all of it that is not in this call is read back from the cache. In training mode they are negated, as if by a wild dropout.
    Every call is written down, as dicts of plain data.
    """

    def __init__(self, table: Tensor, fails_at: int | None = None) -> None:
        """`table` is [P, V, V]; the call with the number `fails_at`, counted from 1, raises RuntimeError."""
        super().__init__()
        self.table = torch.nn.Parameter(table.clone())
        self.fails_at = fails_at
        self.calls: list[dict[str, Any]] = []

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, cache: Any = None) -> Tensor:
        """Ids `[B, T]` to logits `[B, T, V]`; the mask `[B, S]` covers what the cache holds and the new tokens."""
        ids = input_ids.tolist() if input_ids.numel() < 100 else None
        grad = torch.is_grad_enabled()
        self.calls.append({"ids": ids, "tokens": input_ids.numel(), "training": self.training, "grad": grad})
        if len(self.calls) == self.fails_at:
            raise RuntimeError(f"call {self.fails_at} of this model fails, as it was told to")
        tokens = input_ids
        if cache is not None:
            k = input_ids.float()[:, :, None, None]
            tokens = cache.update(k, k.clone(), 0)[0][:, :, 0, 0].long()
        visible = torch.ones_like(tokens) if attention_mask is None else attention_mask.long()
        if visible.shape != tokens.shape:
            raise ValueError(f"attention_mask must have shape {list(tokens.shape)}, [B, past + new], got {list(visible.shape)}")
        history = ((tokens + 1) * visible).cumsum(dim=1) % len(self.table)
        logits = self.table[history, tokens][:, -input_ids.shape[1] :]
        return -logits if self.training else logits


def get_attribute(target: Any, name: str) -> Any:
    """`target.name`, as it is: a method stays a method."""
    return getattr(target, name)


def named(file: str, name: str) -> Any:
    """A function or class of a file of the learner's, to be handed on as an argument: named("ex13_kv_cache", "append_kv")."""
    return getattr(import_module(f"{__package__}.{file}"), name)


def append_all(append_kv: Any, *keys_and_values: Tensor) -> tuple[Tensor, ...]:
    """Keys, values, keys, values, ... of one portion of tokens after the other: what they are when all are joined."""
    joined = None
    for k, v in zip(keys_and_values[::2], keys_and_values[1::2], strict=True):
        joined = append_kv(joined, k, v)
    return joined


def update_all(cache: Any, layer_idx: int, *keys_and_values: Tensor) -> tuple[Tensor, ...]:
    """The same through a cache: the keys and values that every update returned, one after the other."""
    pairs = zip(keys_and_values[::2], keys_and_values[1::2], strict=True)
    return tuple(x for k, v in pairs for x in cache.update(k, v, layer_idx))


def fill(cache: Any, k: Tensor, v: Tensor, times: int, resets: int = 0) -> Any:
    """The same keys and values again and again, without autograd, for `resets` texts and then one more; what the last update
    returned."""
    with torch.no_grad():
        for _ in range(resets):
            for _ in range(times):
                cache.update(k, v, 0)
            cache.reset()
        for _ in range(times - 1):
            cache.update(k, v, 0)
        return cache.update(k, v, 0)


def device_of(tensors: tuple[Tensor, ...]) -> list[str]:
    """The kinds of devices that tensors lie on."""
    return [tensor.device.type for tensor in tensors]


def same(value: Any) -> Any:
    """What it was given: a handle comes back as the plain data that it now stands for."""
    return value


class Weights(torch.nn.Module):
    """Parameters with the names and values that a test gives, and nothing to compute with them: for optimizers and clipping."""

    def __init__(self, **values: Tensor) -> None:
        super().__init__()
        for name, value in values.items():
            self.register_parameter(name, torch.nn.Parameter(value.clone()))

    def set_gradients(self, **gradients: Tensor | None) -> None:
        """Give these parameters their gradients; None takes one away."""
        for name, gradient in gradients.items():
            getattr(self, name).grad = gradient

    def gradients(self) -> dict[str, Tensor | None]:
        """The gradient of every parameter."""
        return {name: p.grad for name, p in self.named_parameters()}


def parameter_list(module: torch.nn.Module) -> list[torch.nn.Parameter]:
    """The parameters of a module themselves, in a list."""
    return list(module.parameters())


def parameter_iterator(module: torch.nn.Module) -> Any:
    """The same, to be walked through once."""
    return module.parameters()


def leave_gradients(module: torch.nn.Module, value: float) -> None:
    """Give every parameter a gradient, as something that was computed before may have left it."""
    for parameter in module.parameters():
        parameter.grad = torch.full_like(parameter, value)


class BigramModel(torch.nn.Module):
    """The smallest language model, called as `CausalLM` is: the logits after a token are its row of a table, plus a bias.

    Dropout lies on the rows, so that a run with dropout depends on the global generator; with dropout 1 the training loss is known. The
    ids of every call are written down.
    """

    def __init__(self, table: Tensor, bias: Tensor, dropout: float = 0.0) -> None:
        """`table` is [V, V], `bias` [V]."""
        super().__init__()
        self.table, self.bias = torch.nn.Parameter(table.clone()), torch.nn.Parameter(bias.clone())
        self.dropout = torch.nn.Dropout(dropout)
        self.seen: list[Tensor] = []

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, cache: Any = None) -> Tensor:
        """Ids `[B, T]` to logits `[B, T, V]`."""
        self.seen.append(input_ids.clone())
        return self.dropout(self.table[input_ids]) + self.bias


class PlainDescent:
    """An optimizer with what `train` may use of one: `p -= lr * gradient`. Writes down the rate and the gradients' norm of each step."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.lr = 0.0
        self.model = model
        self.rates: list[float] = []
        self.norms: list[float] = []

    def step(self) -> None:
        gradients = [p.grad for p in self.model.parameters() if p.grad is not None]
        self.rates.append(float(self.lr))
        self.norms.append(torch.cat([gradient.flatten() for gradient in gradients]).norm().item())
        with torch.no_grad():
            for p in self.model.parameters():
                if p.grad is not None:
                    p -= self.lr * p.grad

    def zero_grad(self, set_to_none: bool = True) -> None:
        for p in self.model.parameters():
            p.grad = None

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """There is none."""


class Folder:
    """A new folder for files, where the exercise may have any. It is removed together with this object."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()

    def path(self, name: str) -> str:
        """Where a file of this name lies, or would lie."""
        return str(Path(self._folder.name) / name)

    def rename(self, old: str, new: str) -> str:
        """Give a file another name; returns where it lies now."""
        return str(Path(self.path(old)).rename(self.path(new)))


def chain(*modules: torch.nn.Module) -> torch.nn.Sequential:
    """Modules one after the other, as one module."""
    return torch.nn.Sequential(*modules)


def descend(module: torch.nn.Module, lr: float, cotangent: Tensor, *inputs: Tensor) -> None:
    """One step of plain gradient descent on all parameters of a module, in place, as an optimiser takes it."""
    (module(*inputs) * cotangent).sum().backward()  # `backward(cotangent)` imports some 490 modules at its first use
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.grad is not None:
                parameter -= lr * parameter.grad
                parameter.grad = None


def state_shapes(module: torch.nn.Module) -> dict[str, list[int]]:
    """Names and shapes of a state dict, without its values: those of a new module are drawn at random."""
    return {name: list(x.shape) for name, x in module.state_dict().items()}


def spoil(result: Any) -> None:
    """Change in place what a call returned, as its owner may: numbers of tensors, length of lists, one after the other in tuples."""
    if isinstance(result, tuple):
        for one in result:
            spoil(one)
    elif isinstance(result, list):
        result.append(result[-1] if result else 0)
    elif isinstance(result, Tensor):
        with torch.no_grad(), contextlib.suppress(RuntimeError):  # a view that several places share cannot be written to
            result += 1


def called_again(function: Any, *arguments: Any) -> Any:
    """What a second call returns, after the caller has changed the result of the first one."""
    spoil(function(*arguments))
    return function(*arguments)


def want_gradients(tensors: tuple[Tensor, ...]) -> list[bool]:
    """Which of these tensors ask for a gradient."""
    return [tensor.requires_grad for tensor in tensors]


def load_weights(module: torch.nn.Module, state: dict[str, Tensor], strict: bool, assign: bool) -> dict[str, Tensor]:
    """Load a checkpoint; returns what the checkpoint is afterwards. `strict` and `assign` are left out where they are as ever."""
    options = ({} if strict else {"strict": False}) | ({"assign": True} if assign else {})
    module.load_state_dict(state, **options)
    return state


# ---- for timed tests: each makes what it needs from plain data, does the work, and returns plain data ------------------------------


def encode_with(vocab: dict[int, bytes], merges: list[tuple[bytes, bytes]], text: str) -> list[int]:
    """The ids that a new tokenizer gives a text."""
    return named("ex01_tokenizer", "Tokenizer")(vocab, merges).encode(text)


def attend(q: Tensor, k: Tensor, v: Tensor, times: int, device: str) -> Tensor:
    """Attention again and again, each time with the last output as queries; on a GPU in bfloat16."""
    attention = named("ex09_flash", "attention")
    dtype = torch.bfloat16 if device == "cuda" else q.dtype
    q, k, v = (x.to(device, dtype) for x in (q, k, v))
    with torch.no_grad():
        for _ in range(times):
            q = attention(q, k, v)
    return q.float().cpu()


def fill_one_by_one(kind: str, k: Tensor, v: Tensor, looked_at: list[int]) -> list[Any]:
    """Give a new cache keys and values `[B, S, K, D]` one token at a time, as decoding does; what the updates at some places returned."""
    cache, results = named("ex13_kv_cache", kind)(), []
    with torch.no_grad():
        for place in range(k.shape[1]):
            result = cache.update(k[:, place : place + 1], v[:, place : place + 1], 0)
            if place in looked_at:
                results.append(result)
    return results


class ToilingModel(TableModel):
    """A `TableModel` that takes its time for every token that it is given, as larger models do: what comes of it is added to the
    logits, so that less work gives other ones."""

    def __init__(self, table: Tensor, load: Tensor) -> None:
        """`load` is [N, N]."""
        super().__init__(table)
        self.load = torch.nn.Parameter(load.clone())

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, cache: Any = None) -> Tensor:
        """Ids `[B, T]` to logits `[B, T, V]`."""
        work = torch.stack([(self.load @ self.load).diagonal() for _ in range(input_ids.shape[1])])  # [T, N]
        logits = super().forward(input_ids, attention_mask, cache)
        return logits + work[:, -logits.shape[-1] :]


def continue_text(table: Tensor, load: Tensor, ids: Tensor, new_tokens: int) -> Tensor:
    """A `ToilingModel`'s most likely continuation of ids `[B, T]`, with the cache."""
    return named("ex15_generate", "generate")(ToilingModel(table, load), ids, new_tokens, temperature=0)


def train_on(pattern: Tensor, repeats: int, table: Tensor, bias: Tensor, steps: int) -> list[float]:
    """Train a `BigramModel` on a pattern `[T]` that repeats itself, in windows of its length, so that all of them teach the same pairs
    of a token and its next one: the losses."""
    data = pattern.repeat(repeats)
    settings = {"batch_size": 8, "block_size": len(pattern), "max_lr": 0.1, "min_lr": 0.01, "warmup_steps": 1, "max_norm": 1.0}
    return named("ex16_train", "train")(BigramModel(table, bias), data, steps=steps, **settings)
