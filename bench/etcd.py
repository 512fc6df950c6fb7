"""Reads from etcd's metrics how many bytes of its file are in use."""

from __future__ import annotations

import ssl
import urllib.request

from prometheus_client.parser import text_string_to_metric_families

from router.controlplane.plane import ControlPlane

_FIGURE = "etcd_mvcc_db_total_size_in_use_in_bytes"


def bytes_used(plane: ControlPlane) -> int:
    """Bytes of etcd's file that are in use: all revisions since the last compaction."""
    context = ssl.create_default_context(cafile=str(plane.place.pki("etcd-ca.crt")))
    client = "apiserver-etcd-client"
    context.load_cert_chain(plane.place.pki(f"{client}.crt"), plane.place.pki(f"{client}.key"))
    url = f"https://127.0.0.1:{plane.place.ports.etcd}/metrics"
    with urllib.request.urlopen(url, context=context, timeout=60) as reply:
        families = text_string_to_metric_families(reply.read().decode())
    return next(int(one.value) for family in families for one in family.samples if one.name == _FIGURE)
