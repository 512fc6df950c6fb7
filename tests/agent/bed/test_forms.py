"""The forms of ``forms``, each a Job over two nodes of the bed, through the webhook and the agent."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bed.image import seal, unpack
from router import names
from tests.agent.bed.conftest import Cluster, Stack, reached
from tests.agent.bed.forms import FORMS, Form, job_of, rings_of
from tests.agent.bed.jobs import SECONDS, apply, end_of, exit_code, printed
from tests.agent.bed.site import LAYOUT, SUDO, TALLY
from tests.agent.bed.tally import await_empty, await_ends
from tests.agent.bed.test_mpi import MpiSite

pytestmark = [pytest.mark.bed, pytest.mark.slurm, pytest.mark.apptainer, pytest.mark.mpi, pytest.mark.timeout(1800)]

YIELD = {"OMPI_MCA_mpi_yield_when_idle": "1"}
"""The bed has more slots than cores: a rank that waits lets another one work."""
IMAGE = LAYOUT.image.with_name("forms.sif")
SCRIPT = """#!/bin/sh
echo "the image's own script"
cd /tmp && mpirun -np "$1" ring | cat
"""
ENTRYPOINT = """#!/bin/sh
echo "the image's entrypoint"
exec solve.sh 4
"""
ACTIVATE = 'PATH="/venv/bin:$PATH"\n'
OTHER_LAUNCHER = "#!/bin/sh\necho the wrong launcher\nexit 1\n"


@dataclass(frozen=True)
class FormsSite(MpiSite):
    """The bed with both launchers, and the image of forms."""

    def documents(self) -> dict[str, Any]:
        """The files of the policy by their names."""
        found = super().documents()
        (site,) = found["sites.yaml"]["sites"]
        site["images"] = [{"match": "*", "path": str(IMAGE)}]
        for profile in site["mpi"]:
            profile["env"].update(YIELD)
        return found


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The bed's image with a script and an entrypoint that start ranks."""
    tree = tmp_path_factory.mktemp("image") / "root"
    unpack(LAYOUT.image, tree)
    for path, script in (("usr/local/bin/solve.sh", SCRIPT), (".singularity.d/runscript", ENTRYPOINT)):
        (tree / path).write_text(script)
        (tree / path).chmod(0o755)
    seal(tree, IMAGE)
    shutil.rmtree(tree)
    yield IMAGE
    IMAGE.unlink()


@pytest.fixture(scope="module")
def stack(cluster: Cluster, image: Path) -> Iterator[Stack]:
    assert image.exists()
    with reached(cluster, SUDO, kind=FormsSite) as found:
        yield found


@pytest.fixture(scope="module")
def over(stack: Stack) -> Iterator[dict[str, str]]:
    """The Job of each form, when all that go to the site are over."""
    made = {name: _apply(stack, form) for name, form in FORMS.items()}
    with contextlib.ExitStack() as left:
        for name in made.values():
            left.callback(shutil.rmtree, TALLY / name)
        await_ends(stack.ada, [name for name in made.values() if not _stays(stack, name)], seconds=4 * SECONDS)
        yield made


def _stays(stack: Stack, job: str) -> str:
    """Why a Job stays in the cloud, where nobody runs it; empty if it goes to the site."""
    metadata = (stack.ada.get("job", job) or {})["metadata"]
    return (
        ""
        if metadata["labels"].get(names.KEY_TARGET) == names.TARGET_HPC
        else str(metadata["annotations"].get(names.KEY_REASON))
    )


def _apply(stack: Stack, form: Form) -> str:
    made, files = job_of(form)
    binaries = TALLY / made["metadata"]["name"] / "venv" / "bin"
    binaries.mkdir(parents=True)
    (binaries / "activate").write_text(ACTIVATE)
    (binaries / "mpirun").write_text(OTHER_LAUNCHER)
    (binaries / "mpirun").chmod(0o755)
    if files:
        stack.ada.ok("apply", "-f", "-", stdin=json.dumps(files))
    return apply(stack.ada, made)


@pytest.mark.parametrize("name", FORMS)
def test_a_form_of_an_mpi_job(stack: Stack, over: dict[str, str], name: str) -> None:
    form, job = FORMS[name], over[name]
    assert _stays(stack, job) == ""

    end = end_of(stack.ada, job)
    lines = printed(stack.ada, job)

    launches, wrong, others = rings_of(lines)
    assert (end, exit_code(stack.ada, job)) == ("Failed" if form.code else "Complete", form.code), lines
    assert (launches, wrong) == (dict(Counter(form.rings)), []), lines
    assert form.said is None or others == list(form.said), lines
    for part in form.shown:
        assert part in "\n".join(others)
    await_empty(job)
