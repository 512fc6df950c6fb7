"""A report as one HTML file that loads nothing else.

Pure. Every text is escaped by the template.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined

from router.policy.model import Policy
from router.replay import plots
from router.replay.changes import MEANING
from router.replay.rows import head_line, notes, rule
from router.replay.tally import Report, day
from router.replay.texts import plain

_MOST_NAMED: Final = 20


def page(report: Report, old: Policy, new: Policy) -> str:
    """The text of the file."""
    bars = plots.bars(report)
    return rendered(
        "replay/templates/page.html.j2",
        report=report,
        title=head_line(report),
        notes=notes(report),
        bars=bars,
        bars_height=len(bars) * plots.BAR_STEP,
        sizes=plots.sizes(report, old, new),
        width=plots.WIDTH,
        height=plots.HEIGHT,
        meaning=MEANING,
    )


def rendered(template: str, **values: Any) -> str:
    """A page by a template that extends ``file.html.j2``, which shows ``title`` and ``notes``."""
    return _environment().get_template(template).render(values)


@lru_cache(maxsize=1)
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("router", ""),
        undefined=StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"plain": plain, "day": day, "most": _most}
    environment.globals["rule"] = rule
    return environment


def _most(counted: dict[str, int]) -> str:
    """Those with the most Jobs, each with its number, and how many others there are."""
    shown = [f"{plain(name) or 'unknown'} ({count:,})" for name, count in list(counted.items())[:_MOST_NAMED]]
    rest = len(counted) - len(shown)
    return ", ".join([*shown, f"and {rest:,} more"] if rest else shown)
