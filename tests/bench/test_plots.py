"""The pictures of benchmarks."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from bench.plots import curves
from router.simulate.figures import spread

LOADS = (0.5, 0.7, 0.9)


@pytest.mark.parametrize(
    ("scale", "values", "marks"),
    [
        ("time", (3600.0, 7200.0, 36000.0), ("0h", "4h", "8h")),
        ("log", (1.0, 20.0, 900.0), ("1", "10", "100")),
        ("part", (0.1, 0.2, 0.9), ("0%", "60%", "100%")),
    ],
)
def test_a_line_for_each_way_over_the_loads(scale: str, values: tuple[float, ...], marks: tuple[str, ...]) -> None:
    found = {way: [spread([one, one * 1.1, one * 1.05]) for one in values] for way in ("by <size>", "in hindsight")}

    drawn = curves("Mean wait", LOADS, found, scale)

    texts = {one.text for one in ET.fromstring(drawn).iter() if one.tag.endswith("}text")}
    assert {"Mean wait", "by <size>", "in hindsight", "0.5", "0.7", "0.9", *marks} <= texts
    assert drawn == curves("Mean wait", LOADS, found, scale)
