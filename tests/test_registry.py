"""The registry that tests of images pull from: what is pushed is what is there."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import registry


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[registry.Registry]:
    with registry.serving(tmp_path_factory.mktemp("open")) as running:
        yield running


def _get(served: registry.Registry, path: str, kind: str = "*/*") -> bytes:
    asked = urllib.request.Request(f"http://{served.address}/v2/{path}", headers={"Accept": kind})
    with urllib.request.urlopen(asked, timeout=10) as answer:
        return bytes(answer.read())


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ("oci", "application/vnd.oci.image.manifest.v1+json"),
        ("v2s2", "application/vnd.docker.distribution.manifest.v2+json"),
    ],
)
def test_an_image_is_there_with_its_config_and_each_fetch_is_logged(
    schema: str, kind: str, served: registry.Registry
) -> None:
    image = registry.Image([registry.shell(), {"data/a": b"1"}], {"Env": ["A=b c"], "Cmd": ["sh"]})

    (pushed,) = served.push("team/tool:1", image, schema=schema)
    served.forget()
    manifest = json.loads(_get(served, "team/tool/manifests/1", kind))
    config = json.loads(_get(served, f"team/tool/blobs/{pushed.config}"))

    assert manifest["config"]["digest"] == pushed.config
    assert tuple(layer["digest"] for layer in manifest["layers"]) == pushed.layers
    assert (config["architecture"], config["config"]) == ("amd64", {"Env": ["A=b c"], "Cmd": ["sh"]})
    assert served.fetched() == [pushed.config]


def test_several_architectures_stand_under_one_name(served: registry.Registry) -> None:
    images = [registry.Image([{"arch": name.encode()}], architecture=name) for name in ("arm64", "amd64")]

    pushed = served.push("team/both:1", *images)
    index = json.loads(_get(served, "team/both/manifests/1", "application/vnd.oci.image.index.v1+json"))

    assert [(one["platform"]["architecture"], one["digest"]) for one in index["manifests"]] == [
        ("arm64", pushed[0].digest),
        ("amd64", pushed[1].digest),
    ]


def test_a_private_one_asks_who_it_is_and_can_be_ended_and_begun_again(tmp_path: Path) -> None:
    with registry.serving(tmp_path, private=True) as running:
        running.push("team/tool:1", registry.Image([{"a": b"1"}]))
        with pytest.raises(urllib.error.HTTPError, match="401"):
            _get(running, "team/tool/manifests/1")

        running.stop()
        with pytest.raises(urllib.error.URLError):
            _get(running, "team/tool/manifests/1")
        running.start()
        with pytest.raises(urllib.error.HTTPError, match="401"):
            _get(running, "team/tool/manifests/1")
