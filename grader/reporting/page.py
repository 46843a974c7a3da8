"""Owns the HTML page: one file that works offline, on paper and without a mouse.

Its words are in templates/report.html.
"""

from __future__ import annotations

from pathlib import Path

from grader.reporting.gradebook import COUNTED, ENOUGH, Gradebook, ReportError, short, why_not_official
from grader.reporting.words import LEGEND, cell, count, label, mean, number, percent, sum_of
from grader.text import clean, one_line

TEMPLATES = Path(__file__).parent.parent / "templates"


def html_page(book: Gradebook) -> bytes:
    """The page in UTF-8. Everything foreign is cleaned by the filters and escaped by the template."""
    try:
        import jinja2  # only for this: the terminal's report starts faster without
    except ImportError:
        raise ReportError("the page needs jinja2: install it, or leave out --out") from None
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"line": one_line, "lines": clean, "number": number, "percent": percent, "short": short}
    page = environment.get_template("report.html").render(
        book=book,
        legend=LEGEND,
        cell=cell,
        count=count,
        label=label,
        mean=mean,
        sum_of=sum_of,
        why_not_official=why_not_official,
        counted=COUNTED,
        ENOUGH=ENOUGH,
    )
    return page.encode()
