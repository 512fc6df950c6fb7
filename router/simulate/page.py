"""What was played as one HTML file that loads nothing else.

Pure. Every text is escaped by the template.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import resources
from typing import Any

from jinja2 import Environment, StrictUndefined

from router.replay.texts import plain
from router.simulate import plots, reports, words
from router.simulate.reports import Report


def page(report: Report) -> str:
    """The text of the file."""
    text: str = _template().render(
        report=report,
        title=reports.head_line(report),
        statement=words.MODEL,
        head=reports.HEAD,
        rows=reports.rows(report),
        plots=plots.plots(report.sides),
        notes=reports.notes(report),
        width=plots.WIDTH,
        height=plots.HEIGHT,
    )
    return text


@lru_cache(maxsize=1)
def _template() -> Any:
    environment = Environment(undefined=StrictUndefined, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["plain"] = plain
    text = (resources.files("router.simulate") / "templates" / "page.html.j2").read_text("utf-8")
    return environment.from_string(text)
