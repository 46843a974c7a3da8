"""Draws a loss curve in plain characters."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

LEVELS = " ▁▂▃▄▅▆▇█"


def curve(losses: Sequence[float], width: int = 60, height: int = 10) -> str:
    """Columns as high as the loss was, left to right through time; the mean of several steps where there are more than columns.

    >>> print(curve([3.0, 2.0, 1.0], width=3, height=2))
      3.00 │█
           │█▄
      1.00 ┴───
            1 … 3
    """
    columns = _means(losses, width)
    low, high = min(columns), max(columns)
    reach = (high - low) or 1.0
    eighths = [round((value - low) / reach * height * 8) for value in columns]
    lines = []
    for row in range(height - 1, -1, -1):
        label = f"{high:6.2f} │" if row == height - 1 else "       │"
        lines.append((label + "".join(LEVELS[max(0, min(8, one - row * 8))] for one in eighths)).rstrip())
    lines.append(f"{low:6.2f} ┴" + "─" * len(columns))
    lines.append("        " + f"1 … {len(losses)}")
    return "\n".join(lines)


def plain_curve(losses: Sequence[float], rows: int = 10) -> str:
    """The same as lines of "step, loss", for files and pipes."""
    means = _means(losses, rows)
    ends = [round((index + 1) * len(losses) / len(means)) for index in range(len(means))]
    return "\n".join(f"step {end:>6}  loss {mean:.3f}" for end, mean in zip(ends, means, strict=True))


def _means(losses: Sequence[float], most: int) -> list[float]:
    """At most `most` means of neighbouring losses."""
    count = min(most, len(losses))
    edges = [round(index * len(losses) / count) for index in range(count + 1)]
    return [sum(losses[a:b]) / (b - a) for a, b in pairwise(edges)]
