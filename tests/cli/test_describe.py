"""``batchgate describe`` over an API server: what it prints of a Pod that waits."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from router.cli import commands
from tests.page.apiserver import answering
from tests.page.objects import judged, pending

WHEN = "expected to start between 2026-01-01T11:00:00Z and 2026-01-01T12:30:00Z"


@pytest.mark.parametrize(
    "basis", ["the batch system's plans of the last hour", "the waits of 12 Pods in this queue within a day"]
)
def test_an_expected_start_is_told_with_what_it_rests_on(tmp_path: Path, basis: str) -> None:
    file = tmp_path / "kubeconfig"
    with answering() as server:
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": server.host}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "c",
        }
        file.write_text(yaml.safe_dump(config))
        server.jobs = [judged("waits")]
        server.pods = [pending("waits-1", "waits", "Queued", f"Priority; {WHEN}, by {basis}")]

        done = CliRunner().invoke(commands, ["describe", "waits", "--kubeconfig", str(file)])

    assert done.exit_code == 0, done.output
    (line,) = [one for one in done.output.splitlines() if one.startswith("waits-1")][:1]
    assert line.endswith(f"Queued: Priority; {WHEN}, by {basis}")
