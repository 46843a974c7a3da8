"""Draws small things where people would rather look than read numbers: masks, attention rows, a rotation, merges. Plain text."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

MAX_CELLS = 40  # of a picture, each way
MAX_ROWS = 12  # of bars
BAR = 24  # characters of the longest bar
HALF_BAR, NARROW_BAR = 15, 6  # the same where two stand side by side in a report, for one query and for several
GAP = "   "
BLOCKS = " ▏▎▍▌▋▊▉█"

Picture = Callable[[Any, Any], str]  # yours, expected


def beside(left: str, right: str, titles: tuple[str, str] = ("yours", "expected")) -> str:
    """Two pictures side by side under their titles."""
    one, other = [titles[0], *left.split("\n")], [titles[1], *right.split("\n")]
    width = max(map(len, one))
    height = max(len(one), len(other))
    one += [""] * (height - len(one))
    other += [""] * (height - len(other))
    return "\n".join(f"{a:<{width}}{GAP}{b}".rstrip() for a, b in zip(one, other, strict=True))


def mask(tensor: torch.Tensor) -> str:
    """A bool matrix, `#` visible and `.` hidden; of more axes, the first matrix."""
    matrix = _matrix(tensor)
    rows = ["".join("#" if cell else "." for cell in row[:MAX_CELLS]) for row in matrix[:MAX_CELLS].tolist()]
    return "\n".join(row + ("…" if matrix.shape[1] > MAX_CELLS else "") for row in rows) + (
        "\n…" if matrix.shape[0] > MAX_CELLS else ""
    )


def masks(yours: torch.Tensor, expected: torch.Tensor) -> str:
    """Two masks side by side: who may see whom."""
    return beside(mask(yours), mask(expected))


def bar(share: float, width: int = BAR) -> str:
    """A bar for a share between 0 and 1, in eighths of a character; anything else is told in words."""
    if not math.isfinite(share):
        return str(share)
    eighths = round(max(0.0, min(1.0, share)) * width * 8)
    return "█" * (eighths // 8) + (BLOCKS[eighths % 8] if eighths % 8 else "")


def bars(rows: torch.Tensor, expected: torch.Tensor | None = None, labels: Sequence[str] = (), width: int = BAR) -> str:
    """One bar per value of the first rows: how much of each key a query takes. With `expected`, both side by side."""
    if expected is not None:
        width = NARROW_BAR if _matrix(rows).shape[0] > 1 else HALF_BAR
        return beside(bars(rows, labels=labels, width=width), bars(expected, labels=labels, width=width))
    lines = []
    matrix = _matrix(rows).to(torch.float64)
    for index, row in enumerate(matrix.tolist()):
        for key, value in enumerate(row[:MAX_ROWS]):
            name = labels[key] if key < len(labels) else f"key {key}"
            head = f"query {index}  " if matrix.shape[0] > 1 else ""
            lines.append(f"{head}{name:<6} {value:6.3f} {bar(value, width)}".rstrip())
        if len(lines) > 2 * MAX_ROWS:
            lines.append("…")
            break
    return "\n".join(lines)


def rotation(before: torch.Tensor, after: torch.Tensor, size: int = 9) -> str:
    """A pair of channels before (o) and after (x) it was turned, in a square around the origin (+)."""
    before, after = (vector.to(torch.float64).flatten()[:2].tolist() for vector in (before, after))
    reach = max(*map(abs, before + after), 1e-9)
    grid = [[" "] * (2 * size + 1) for _ in range(size)]
    middle = size // 2
    for column in range(2 * size + 1):
        grid[middle][column] = "─"
    for row in range(size):
        grid[row][size] = "│"
    grid[middle][size] = "+"
    for (x, y), sign in ((before, "o"), (after, "x")):
        if math.isfinite(x) and math.isfinite(y):
            grid[middle - round(y / reach * middle)][size + round(x / reach * size)] = sign
    angle = math.degrees(math.atan2(after[1], after[0]) - math.atan2(before[1], before[0]))
    turned = (angle + 180) % 360 - 180
    lines = ["".join(row).rstrip() for row in grid]
    return "\n".join([*lines, f"o ({before[0]:.2f}, {before[1]:.2f})  x ({after[0]:.2f}, {after[1]:.2f}): {turned:.0f} degrees"])


def merges(steps: Iterable[Sequence[bytes]]) -> str:
    """A word's tokens after each merge, one step a line: `l·o·w`, `lo·w`, `low`."""
    return "\n".join("·".join(token.decode("utf-8", "backslashreplace") for token in step) for step in steps)


def table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A plain table: numbers to the right, words to the left."""
    cells = [[str(heading) for heading in headings], *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(headings))]
    right = [
        all(row[column].replace(",", "").replace(".", "").replace(" ", "").isdigit() for row in cells[1:])
        for column in range(len(headings))
    ]
    lines = [
        GAP.join(
            f"{cell:>{width}}" if flush else f"{cell:<{width}}" for cell, width, flush in zip(row, widths, right, strict=True)
        )
        for row in cells
    ]
    lines.insert(1, GAP.join("─" * width for width in widths))
    return "\n".join(line.rstrip() for line in lines)


def _matrix(tensor: torch.Tensor) -> torch.Tensor:
    """The first matrix of a tensor of any number of axes."""
    while tensor.dim() > 2:
        tensor = tensor[0]
    return tensor.reshape(1, -1) if tensor.dim() < 2 else tensor
