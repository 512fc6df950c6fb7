"""For tests of what newer Kubernetes brings, where ``BATCHGATE_KUBERNETES`` names an older one."""

from __future__ import annotations

import pytest

from router.controlplane import programs


def minor(version: str) -> int:
    """The second number of a version such as ``v1.36.3``."""
    return int(version.removeprefix("v").split(".")[1])


OURS = minor(programs.version())
"""The minor version of the Kubernetes that runs in these tests."""


def since(number: int, what: str) -> pytest.MarkDecorator:
    """Skip a test where the control plane is older than Kubernetes ``1.number``.

    :param what: what it lacks then
    """
    return pytest.mark.skipif(number > OURS, reason=f"Kubernetes 1.{number} brings {what}; this is 1.{OURS}")
