"""Brings Batchgate into the cluster: the images that were built here, and the chart.

Shell: runs kind and Helm. What is not built yet is named, and left out.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from kindcluster import cluster, commands, provider
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


def install(layout: Layout, chosen: Provider, tell: Tell, chart: Path = CHART, values: Path = VALUES) -> bool:
    """Install the chart, or upgrade what is installed; returns whether it did.

    :raises kindcluster.commands.KindError: Helm fails
    """
    lacking = [str(path) for path in (chart / "Chart.yaml", values) if not path.exists()]
    program = shutil.which("helm")
    if program is None:
        lacking.append("helm on PATH")
    if lacking or program is None:
        tell(f"There is no {', no '.join(lacking)}, so Batchgate is not installed.")
        return False
    with step(tell, f"Installing {chart}."):
        commands.run(provider.helm(layout, chosen, Path(program), chart, values))
    return True
