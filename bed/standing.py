"""What kind of bed stands: noted by ``up``, read by whoever comes later.

Shell: one small file in the state directory.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from bed.commands import BedError
from bed.layout import Layout, Variant


def note(layout: Layout, variant: Variant) -> None:
    """Write down the variant."""
    _path(layout).write_text(json.dumps(asdict(variant)) + "\n")


def variant(layout: Layout) -> Variant:
    """The variant that was made last.

    :raises BedError: none was
    """
    try:
        return Variant(**json.loads(_path(layout).read_text()))
    except FileNotFoundError:
        raise BedError("no bed was made on this machine; `make bed` makes one") from None


def _path(layout: Layout) -> Path:
    return layout.state / "variant.json"
