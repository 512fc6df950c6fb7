"""The script and whoever reads its files agree on their names: ``router.pod.layout`` has them, the templates spell them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from router import script
from router.pod import layout
from router.script.completing import FORMAT
from tests.script.builders import container, site, text_of, workload

RUNTIME = Path(script.__file__).parent / "runtime" / str(FORMAT)


@pytest.mark.parametrize(
    "name",
    [
        layout.ARGV,
        layout.ENV,
        layout.IMAGE,
        layout.IMAGE_ENV,
        layout.LOG,
        layout.EXIT,
        layout.MESSAGE,
        layout.CLAIM,
        layout.ALIVE,
        layout.USAGE,
    ],
)
def test_what_lies_in_the_pod_s_directory(name: str) -> None:
    text = "".join(path.read_text() for path in sorted(RUNTIME.glob("*.sh")))

    assert f"$dir/{name}" in text


@pytest.mark.parametrize(
    ("source", "directory"), [({"emptyDir": {}}, layout.VOLUMES), ({"configMap": {"name": "c"}}, layout.FILES)]
)
@pytest.mark.parametrize(("below", "call"), [({}, "mount"), ({"subPath": "a/b"}, "volume")])
def test_the_volumes_of_a_pod_lie_there(
    source: dict[str, Any], directory: str, below: dict[str, str], call: str
) -> None:
    mounting = container("true", volumeMounts=[{"name": "v", "mountPath": "/v", **below}])

    assert f'{call} "$dir"/{directory}/v ' in text_of(workload(mounting, volumes=[{"name": "v", **source}]), site())


def test_the_spool_directory_is_found_from_the_pod_s() -> None:
    pod = layout.PodDirectory("/work", "job", "0", "pod")

    assert pod.spool == pod.path.parents[3] / layout.SPOOL
    assert "spool=${dir%/*/*/*/*}/spool" in (RUNTIME / "base.sh").read_text()
