"""Owns the charts of the page: altair describes them, vl-convert draws them as SVG here, so that the page needs neither.

Every chart has its text: a sentence for who cannot see it and a table with the same numbers.
"""

from __future__ import annotations

import copy
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from html import escape
from typing import Any

from grader.reporting.gradebook import ReportError
from grader.reporting.statistics import Step, median_time
from grader.reporting.words import count, number, percent

# Colours that stand for the page's own, which differ by day and by night: replaced after drawing.
MARK, INK, LINE = "#010203", "#040506", "#070809"
VARIABLES = {MARK: "var(--mark)", INK: "var(--quiet)", LINE: "var(--line)"}


@contextmanager
def _absent(module: str) -> Iterator[None]:
    """As if an optional module were not installed. jsonschema, which altair imports, would take this one to check addresses;
    building its grammar takes three seconds, and charts hold no addresses."""
    if module in sys.modules:
        yield
        return
    sys.modules[module] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[module]


@dataclass(frozen=True)
class Chart:
    """A picture and its text."""

    svg: str  # safe to insert: drawn here from numbers and fixed words
    title: str
    text: str
    columns: tuple[str, str]
    rows: list[tuple[str, str]]


class Artist:
    """Draws charts; each gets its own ids on the page."""

    def __init__(self) -> None:
        try:
            with _absent("rfc3987_syntax"):
                import altair
            import vl_convert
        except ImportError as error:
            raise ReportError(f"the page needs {error.name}: install it (`make setup-instructor`), or leave out --out") from None
        self.altair, self.convert = altair, vl_convert
        self.drawn = 0
        self.chart = cache(self._chart)

    def histogram(self, title: str, counts: Sequence[int], who: str = "student") -> Chart:
        """How many have which share of the points, in tenths."""
        size = len(counts)
        labels = [f"{100 * one // size}–{100 * (one + 1) // size} %" for one in range(size)]
        values = [{"from": 100 * one / size, "to": 100 * (one + 1) / size, "n": n} for one, n in enumerate(counts)]
        whole = sum(counts)
        most = max(range(size), key=lambda one: counts[one])
        text = "Nobody has points yet."
        if whole:
            low = sum(counts[: size // 2])
            text = f"{count(whole, who)}: most ({counts[most]}) at {labels[most]}, {low} below half of the points."
        svg = self._draw("histogram", values, title, text)
        return Chart(svg, title, text, ("points", f"{who}s"), [(label, str(n)) for label, n in zip(labels, counts, strict=True)])

    def survival(self, title: str, steps: Sequence[Step], tries: Sequence[float]) -> Chart:
        """Who has not passed yet, by days since the own first attempt; `tries`: how long each has tried."""
        values: list[dict[str, float]] = [{"days": 0.0, "left": 1.0}]
        values += [{"days": step.time, "left": step.left} for step in steps]
        values.append({"days": max(tries), "left": values[-1]["left"]})  # the last who is still trying
        half, passed = median_time(steps), sum(step.passed for step in steps)
        text = f"{passed} of {len(tries)} who tried have passed; "
        if half is None:
            text += "when half will have cannot be estimated yet."
        else:
            text += f"half are estimated to pass {f'within {_days(half)}' if half > 0 else 'at the first attempt'}."
        svg = self._draw("survival", values, title, text)
        rows = [(_days(step.time), percent(step.left)) for step in _thinned(steps)]
        return Chart(svg, title, text, ("since the first attempt", "have not passed"), rows)

    def progress(self, title: str, days: Sequence[tuple[str, float]]) -> Chart:
        """The share of all points that the class has reached, day by day."""
        text = f"From {percent(days[0][1])} of all points on {days[0][0]} to {percent(days[-1][1])} on {days[-1][0]}."
        svg = self._draw("progress", [{"day": day, "share": share} for day, share in days], title, text)
        rows = [(day, percent(share)) for day, share in _thinned(days)]
        return Chart(svg, title, text, ("day", "of all points"), rows)

    def _draw(self, kind: str, values: list[dict[str, Any]], title: str, text: str) -> str:
        specification = copy.deepcopy(self.chart(kind))
        specification["data"] = {"values": values}
        svg = self.convert.vegalite_to_svg(specification)
        self.drawn += 1
        name = f"chart{self.drawn}"
        svg = re.sub(r"(id=\"|url\(#)(clip|gradient)", rf"\1{name}-\2", svg)
        svg = re.sub(r' (role|aria-[a-z]+)="[^"]*"', "", svg)
        for colour, variable in VARIABLES.items():
            svg = svg.replace(colour, variable)
        width, height = re.search(r'width="([0-9.]+)" height="([0-9.]+)"', svg).groups()  # type: ignore[union-attr]
        head = (
            f'<svg class="chart" role="img" aria-labelledby="{name}-t {name}-d" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}"><title id="{name}-t">{escape(title)}</title><desc id="{name}-d">{escape(text)}</desc>'
        )
        return re.sub(r"^<svg[^>]*>", lambda _: head, svg, count=1)

    def _chart(self, kind: str) -> dict[str, Any]:
        chart = {"histogram": self._bars, "survival": self._steps, "progress": self._area}[kind]()
        chart = chart.configure(background="transparent", font="system-ui, sans-serif", padding=2).configure_view(stroke=None)
        chart = chart.configure_axis(
            labelColor=INK, titleColor=INK, domainColor=LINE, tickColor=LINE, gridColor=LINE, labelFontSize=11, titleFontSize=11,
            titleFontWeight="normal",
        )  # fmt: skip
        return chart.to_dict()

    def _bars(self) -> Any:
        alt = self.altair
        x = alt.X(
            "from:Q", title="share of the points, %", scale=alt.Scale(domain=[0, 100]), axis=alt.Axis(grid=False, tickCount=5)
        )
        y = alt.Y("n:Q", title="students", axis=alt.Axis(tickMinStep=1, tickCount=4))
        bars = alt.Chart(alt.Data(values=[])).mark_bar(color=MARK, binSpacing=2).encode(x=x.bin("binned"), x2="to:Q", y=y)
        return bars.properties(width=270, height=110)

    def _steps(self) -> Any:
        alt = self.altair
        x = alt.X("days:Q", title="days since the own first attempt", axis=alt.Axis(grid=False, tickCount=6))
        y = alt.Y("left:Q", title="not passed yet", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format="%", tickCount=3))
        line = alt.Chart(alt.Data(values=[])).mark_line(color=MARK, interpolate="step-after", strokeWidth=2).encode(x=x, y=y)
        return line.properties(width=270, height=110)

    def _area(self) -> Any:
        alt = self.altair
        x = alt.X("day:T", title=None, scale=alt.Scale(type="utc"), axis=alt.Axis(grid=False, format="%-d %b", tickCount=6))
        y = alt.Y("share:Q", title="of all points", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format="%", tickCount=3))
        area = alt.Chart(alt.Data(values=[])).mark_area(color=MARK, opacity=0.25, line={"color": MARK}, interpolate="step-after")
        return area.encode(x=x, y=y).properties(width=420, height=110)


def _days(days: float | None) -> str:
    if days is None:
        return "-"
    if days < 1 / 24:
        return "an hour" if days > 0 else "at once"
    return f"{number(round(24 * days))} h" if days < 2 else f"{number(round(days, 1))} days"


def _thinned(rows: Sequence[Any], most: int = 12) -> list[Any]:
    """At most `most` rows, the first and the last among them."""
    if len(rows) <= most:
        return list(rows)
    return [rows[round(one * (len(rows) - 1) / (most - 1))] for one in range(most)]
