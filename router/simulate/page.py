"""What was played as one HTML file that loads nothing else.

Pure. Every text is escaped by the template.
"""

from __future__ import annotations

from router.replay.page import rendered
from router.simulate import plots, reports, words
from router.simulate.reports import Report


def page(report: Report) -> str:
    """The text of the file."""
    return rendered(
        "simulate/templates/page.html.j2",
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
