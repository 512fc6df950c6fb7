"""Brings Batchgate into the cluster: the images that were built here, and the chart.

Shell: runs kind and Helm. What is not built yet is named, and left out.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from kindcluster import cluster
from kindcluster.commands import Tell, step
from kindcluster.layout import SOURCE, Layout
from kindcluster.provider import Provider

IMAGES: Final = SOURCE / "build" / "image"
CHART: Final = SOURCE / "charts" / "batchgate"
VALUES: Final = Path(__file__).resolve().parent / "values.yaml"


def load(layout: Layout, chosen: Provider, tell: Tell, images: Path = IMAGES) -> list[Path]:
    """Bring the archives of Batchgate's images to the cluster; returns them.

    :raises kindcluster.commands.KindError: kind refuses one
    """
    archives = sorted(images.glob("*.tar"))
    if not archives:
        tell(f"There is no image of Batchgate in {images}, so none is loaded.")
        return []
    with step(tell, f"Loading {', '.join(archive.name for archive in archives)}."):
        cluster.load(layout, chosen, archives, tell)
    return archives
