"""Remembers which variant of the bed was made, and its ports: ``up`` writes it, later commands read it.

Shell: one small file in the state directory.
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

from bed.commands import BedError
from bed.layout import Layout, Variant


def note(layout: Layout, variant: Variant) -> None:
    """Write down the variant and the ports."""
    ports = {"ssh_port": layout.ssh_port, "first_port": layout.first_port}
    _path(layout).write_text(json.dumps({"variant": asdict(variant), "ports": ports}) + "\n")


def layout(default: Layout | None = None) -> Layout:
    """The layout of the bed that was made last; the default if there is none."""
    start = default or Layout()
    try:
        return replace(start, **json.loads(_path(start).read_text())["ports"])
    except FileNotFoundError:
        return start


def variant(layout: Layout) -> Variant:
    """The variant that was made last.

    :raises BedError: no bed was made
    """
    try:
        return Variant(**json.loads(_path(layout).read_text())["variant"])
    except FileNotFoundError:
        raise BedError("no bed was made on this machine; `make bed` makes one") from None


def _path(layout: Layout) -> Path:
    return layout.state / "standing.json"
