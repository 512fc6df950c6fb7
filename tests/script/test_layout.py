"""The script and whoever reads its files agree on their names: ``router.layout`` has them, the templates spell them."""

from __future__ import annotations

from pathlib import Path

import pytest

from router import layout, script

TEMPLATES = Path(script.__file__).parent / "templates"


@pytest.mark.parametrize(
    "name",
    [layout.ARGV, layout.ENV, layout.FILES, layout.VOLUMES, layout.LOG, layout.EXIT, layout.CLAIM, layout.ALIVE],
)
def test_what_lies_in_the_pod_s_directory(name: str) -> None:
    text = "".join(path.read_text() for path in sorted(TEMPLATES.glob("*.sh")))

    assert f"$dir/{name}" in text


def test_the_spool_directory_is_found_from_the_pod_s() -> None:
    pod = layout.PodDirectory("/work", "job", "0", "pod")

    assert pod.spool == pod.path.parents[3] / layout.SPOOL
    assert "spool=${dir%/*/*/*/*}/spool" in (TEMPLATES / "base.sh").read_text()
