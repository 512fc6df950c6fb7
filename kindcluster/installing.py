"""Brings Batchgate into the cluster: the images that were built here, and the chart.

Shell: runs kind and Helm, which is built once. Without images nothing is installed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from imagebuild import archive
from kindcluster import cluster, commands, provider
from kindcluster.commands import Tell, step
from kindcluster.layout import SOURCE, Layout
from kindcluster.provider import Provider
from router import names
from router.controlplane import building, programs

IMAGES: Final = SOURCE / "build" / "image"
CHART: Final = SOURCE / "charts" / "batchgate"
GATED: Final = "default"
"""The namespace whose Jobs are judged: where a newcomer applies the first one."""
VALUES: Final = Path(__file__).resolve().parent / "values.yaml"


def load(layout: Layout, chosen: Provider, tell: Tell, images: Path = IMAGES) -> list[Path]:
    """Bring the archives of Batchgate's images to the cluster; returns them.

    :raises kindcluster.commands.KindError: kind refuses one
    """
    archives = sorted(images.glob("*.tar"))
    if not archives:
        tell(f"There is no image of Batchgate in {images}, so none is loaded.")
        return []
    with step(tell, f"Loading {', '.join(one.name for one in archives)}."):
        cluster.load(layout, chosen, archives, tell)
    return archives


def install(layout: Layout, chosen: Provider, tell: Tell) -> None:
    """Install the chart, or upgrade what is installed; then have a namespace opt in.

    :raises kindcluster.commands.KindError: Helm fails
    :raises router.errors.ConfigError: Helm cannot be built
    """
    building.ensure_helm(tell)
    with step(tell, f"Installing {CHART.name}."):
        commands.run(provider.helm(layout, chosen, programs.find_helm(), CHART, VALUES, _ids()))
    with step(tell, f"Having namespace {GATED} opt in."):
        label = f"{names.LABEL_GATE}={names.GATE_ENABLED}"
        commands.run(cluster.kubectl(layout, chosen, ["label", "--overwrite", "namespace", GATED, label]))


def _ids() -> dict[str, str]:
    """Annotations that change with the images, whose tags stay: so Pods of former images are replaced."""
    archives = {"webhook": "batchgate.tar", "agents[0]": "batchgate-local.tar"}
    return {f"{who}.podAnnotations.image-id": archive.read(IMAGES / name).digest for who, name in archives.items()}
