"""Makes test inputs: seeded per run and test, recorded, and sharp by default (no axis of 1, no two equal axes)."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Sequence
from typing import Any, TypeVar

import torch

Item = TypeVar("Item")


class AuthoringError(Exception):
    """A mistake of the suite's author, not of the learner's."""


class InputSource:
    """The random numbers of one test; `recorded` says in words what it made."""

    current: InputSource | None = None

    def __init__(self, seed: int, test: str) -> None:
        digest = hashlib.sha256(f"{seed}:{test}".encode()).digest()
        self.generator = torch.Generator().manual_seed(int.from_bytes(digest[:7], "big"))
        self.recorded: list[str] = []


def _source() -> InputSource:
    if InputSource.current is None:
        raise AuthoringError("inputs can only be made inside a test")
    return InputSource.current


def _shape(shape: tuple[int, ...], blunt: str | None) -> tuple[int, ...]:
    if blunt is None and (len(set(shape)) < len(shape) or 1 in shape):
        raise AuthoringError(
            f"shape {list(shape)} has an axis of 1 or two equal axes, which hides mistakes; say why with blunt=..."
        )
    return shape


def _record(tensor: torch.Tensor, how: str) -> torch.Tensor:
    _source().recorded.append(f"{how} {list(tensor.shape)} {str(tensor.dtype).removeprefix('torch.')}")
    return tensor


def randn(*shape: int, dtype: torch.dtype = torch.float32, scale: float = 1.0, blunt: str | None = None) -> torch.Tensor:
    """Normal values of standard deviation `scale`. `blunt` says why a shape with equal axes or an axis of 1 is wanted."""
    drawn = torch.float64 if dtype == torch.float64 else torch.float32  # float64 values use all of float64's digits
    values = torch.randn(_shape(shape, blunt), generator=_source().generator, dtype=drawn) * scale
    return _record(values.to(dtype), f"randn x {scale:g}")


def randint(low: int, high: int, *shape: int, dtype: torch.dtype = torch.int64, blunt: str | None = None) -> torch.Tensor:
    """Integers in [low, high)."""
    return _record(
        torch.randint(low, high, _shape(shape, blunt), generator=_source().generator).to(dtype), f"randint {low}..{high - 1}"
    )


def rand_bool(*shape: int, p: float = 0.5, blunt: str | None = None) -> torch.Tensor:
    """Booleans, True with probability `p`."""
    return _record(torch.rand(_shape(shape, blunt), generator=_source().generator) < p, f"rand_bool {p:g}")


def uniform(low: float, high: float) -> float:
    """One float in [low, high)."""
    return low + (high - low) * torch.rand((), generator=_source().generator, dtype=torch.float64).item()


def choice(items: Sequence[Item]) -> Item:
    """One of the items."""
    return items[int(torch.randint(len(items), (), generator=_source().generator))]


def noncontiguous(tensor: torch.Tensor) -> torch.Tensor:
    """The same values behind other strides: every second element of a larger tensor, last axis first."""
    if tensor.dim() < 2:
        return torch.stack([tensor, tensor], -1)[..., 0]
    wide = torch.stack([tensor.transpose(0, -1)] * 2, -1).contiguous()
    return wide[..., 0].transpose(0, -1)


def describe(value: Any) -> str:
    """A value in a few words, for a message; whatever a learner's code returned, this neither fails nor takes long."""
    text = _short(value, depth=2)
    return text if len(text) <= 60 else text[:57] + "..."


def _short(value: Any, depth: int) -> str:
    if isinstance(value, torch.Tensor):
        return f"a tensor {list(value.shape)} of {str(value.dtype).removeprefix('torch.')}"
    if isinstance(value, str | bytes):
        return repr(value[:61])
    if type(value) is int and value.bit_length() > 200:  # Python refuses to print the longest ones
        return f"an integer of {value.bit_length()} bits"
    if isinstance(value, list | tuple | dict) and value and not depth:
        return "[...]" if isinstance(value, list) else "(...)" if isinstance(value, tuple) else "{...}"
    if isinstance(value, list | tuple):
        inner = ", ".join([_short(item, depth - 1) for item in value[:20]] + ["..."] * (len(value) > 20))
        return f"[{inner}]" if isinstance(value, list) else f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, dict):
        some = list(itertools.islice(value.items(), 20))
        inner = [f"{_short(key, depth - 1)}: {_short(item, depth - 1)}" for key, item in some] + ["..."] * (len(value) > 20)
        return "{" + ", ".join(inner) + "}"
    return repr(value)
