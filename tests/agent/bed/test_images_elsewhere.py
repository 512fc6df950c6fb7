"""Images on sites where jobs pull them, and where the program that looks for them is not installed: each an agent of its own."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.agent.bed.conftest import Cluster, reached
from tests.agent.bed.jobs import apply, pod_of, printed
from tests.agent.bed.site import SUDO
from tests.agent.bed.tally import await_ends
from tests.agent.bed.test_images import IMAGES, ImageSite, await_words, made, tool
from tests.registry import Registry, serving

pytestmark = [pytest.mark.bed, pytest.mark.slurm, pytest.mark.apptainer, pytest.mark.timeout(1200)]


@dataclass(frozen=True)
class JobSite(ImageSite):
    """The same, where jobs pull; or where the program that looks for images is not installed."""

    def documents(self) -> dict[str, Any]:
        """The files of the policy by their names."""
        found = super().documents()
        found["sites.yaml"]["sites"][0] |= {"pull": "job", "secrets": "cloud", **self.more()}
        return found

    def more(self) -> dict[str, Any]:
        return {}


class WithoutProgram(JobSite):
    def more(self) -> dict[str, Any]:
        return {"pull": "host", "imagepull": "/usr/local/libexec/batchgate/none"}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with serving(tmp_path_factory.mktemp("registry")) as found:
        yield found


def test_where_jobs_pull_an_image_is_resolved_before_and_pulled_once(cluster: Cluster, served: Registry) -> None:
    shutil.rmtree(IMAGES, ignore_errors=True)
    (pushed,) = served.push("team/by-job:1", tool())
    served.forget()
    with reached(cluster, SUDO, kind=JobSite) as stack:
        image = served.named("team/by-job:1")
        names = [apply(stack.ada, made(image)) for _ in range(4)]
        assert await_ends(stack.ada, names) == dict.fromkeys(names, "Complete")
        assert [printed(stack.ada, name) for name in names] == [["entry cmd"]] * 4
        status = pod_of(stack.ada, names[0])["status"]["containerStatuses"][0]
        assert status["imageID"] == served.named(f"team/by-job@{pushed.digest}")
    fetched = served.fetched()
    assert {digest: fetched.count(digest) for digest in pushed.layers} == dict.fromkeys(pushed.layers, 1)


def test_a_site_without_the_program_is_told(cluster: Cluster, served: Registry) -> None:
    served.push("team/tool:1", tool())
    with reached(cluster, SUDO, kind=WithoutProgram) as stack:
        name = apply(stack.ada, made(served.named("team/tool:1")))
        text = await_words(stack, name, "ErrImagePull", "ImagePullBackOff")
        assert "/usr/local/libexec/batchgate/none on site bed, which pulls images, gave no answer" in text
        stack.ada.ok("delete", "job", name)
