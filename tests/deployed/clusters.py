"""A control plane with a real node that has the image of this checkout."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from router.controlplane import cloudnode, realnode
from router.controlplane.arguments import SERVICE_ADDRESS
from router.controlplane.options import APISERVER, Options
from router.controlplane.plane import ControlPlane
from router.controlplane.start import control_plane
from tests.deployed import image
from tests.kube.wire import Wire, listener_on


@contextmanager
def with_node(directory: Path, tag: str, *arguments: str) -> Iterator[ControlPlane]:
    """A control plane in this directory whose node has the image under this tag, and a way from its Pods to the API server.

    There is no kube-proxy: the API server finds a Service's Pods itself, and what Pods send to the Service
    ``kubernetes`` is forwarded here.

    :param arguments: further ones of the API server
    """
    archive = directory / "image.tar"
    image.write(archive, tag)
    options = Options(arguments={APISERVER: ("--enable-aggregator-routing=true", *arguments)})
    with control_plane(directory / "plane", options) as plane:
        realnode.start(plane, cloudnode.NAME, cloudnode.IMAGES, [archive])
        bridge = f"bg{plane.place.ports.apiserver}"
        with Wire(plane.place.ports.apiserver, listener_on((SERVICE_ADDRESS, 443), bridge)):
            yield plane
