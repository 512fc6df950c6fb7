"""Jobs that the API server keeps from the webhook, by what ``batchgate policy conditions`` and the chart make."""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from router import names
from router.cli import commands
from router.controlplane import programs
from router.controlplane.options import ADA, BEN, RESEARCHERS
from router.controlplane.plane import ControlPlane
from tests.chart.rendering import NEEDED, objects
from tests.kube.wire import await_true
from tests.webhook.real.conftest import POLICY, asked
from tests.webhook.real.gated import Gated, gated, job, target
from tests.webhook.servers import Server

Json = dict[str, Any]
RULES = """
rules:
  - {name: robots, when: request.user == 'ben', cloud: true}
  - {name: labs, when: "request.namespace.startsWith('lab-') && job.cpus >= 2", hpc: [{queue: batch}]}
  - {name: tier, when: "'tier' in job.labels && job.labels['tier'] == 'hpc'", hpc: [{queue: batch}]}
  - {name: rest, cloud: true}
"""
ACCOUNTS = "[{users: [ada], as: ada}]"
EXPRESSION = (
    "request.userInfo.username != 'ben' && (request.namespace.startsWith('lab-')"
    " || has(object.metadata.labels) && 'tier' in object.metadata.labels && object.metadata.labels['tier'] == 'hpc')"
)
LAB, WEB = "lab-conditions", "web-conditions"


@dataclass(frozen=True)
class Registered:
    """A webhook of which the API server asks by the condition; namespaces of ada and ben, all of them gated."""

    plane: ControlPlane
    server: Server
    lab: Gated
    web: Gated
    configuration: Json

    def judged(self, name: str) -> int:
        """How often the webhook has decided about a Job of this name."""
        return sum(line["name"] == name for line in self.server.logged("decision"))

    def left_out(self) -> float:
        """How many Jobs the API server says to have kept from the webhook."""
        text = self.plane.kubectl("get", "--raw", "/metrics").stdout
        found = re.findall(
            r'^apiserver_admission_match_condition_exclusions_total\{.*"jobs\.batchgate\.dev".*\} (\S+)$',
            text,
            re.MULTILINE,
        )
        return sum(map(float, found))


@pytest.fixture(scope="module")
def registered(older: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registered]:
    directory = tmp_path_factory.mktemp("left-out")
    sites = POLICY.partition("\ncontrollers:")[0]
    try:
        programs.find_helm()
    except programs.NoPrograms as error:
        pytest.skip(str(error))
    with asked(older, directory, f"{sites}\naccounts: {ACCOUNTS}\n{RULES}") as server:
        older.make_namespaces({LAB: (RESEARCHERS,), WEB: (RESEARCHERS,)})
        lab = gated(older, LAB, directory / "signing.pub")
        older.kubectl("label", "namespace", WEB, f"{names.LABEL_GATE}={names.GATE_ENABLED}")
        web = Gated(older, WEB, directory / "signing.pub")
        await_true(lambda: target(_dry(web)) == names.TARGET_CLOUD, "the webhook is asked about both")
        before = older.get("mutatingwebhookconfiguration", names.REGISTRATION)
        configuration = _configuration(directory / "policies", before["webhooks"][0]["clientConfig"])
        older.apply(configuration)
        await_true(lambda: target(_dry(web)) is None, "the condition counts")
        yield Registered(older, server, lab, web, configuration)
        for namespace in (LAB, WEB):
            older.kubectl("delete", "namespace", namespace, "--wait=false")


def _dry(where: Gated) -> Json:
    return where.create(job(f"probe-{time.monotonic_ns()}"), "--dry-run=server")


def _configuration(policies: Path, client: Json) -> Json:
    """The chart's registration, with the output of the command among its values."""
    done = CliRunner().invoke(commands, ["policy", "conditions", str(policies)])
    assert done.exit_code == 0, done.output
    existing = {"certificates": {"mode": "existing", "existing": {"caBundle": base64.b64encode(b"CA").decode()}}}
    rendered = objects(NEEDED | existing | yaml.safe_load(done.stdout), ["registration"])
    (found,) = (one for one in rendered if one["kind"] == "MutatingWebhookConfiguration")
    found["webhooks"][0]["clientConfig"] = client
    return found


def test_the_chart_adds_the_jobs_that_are_sent_in_any_case(registered: Registered) -> None:
    (_, condition) = registered.configuration["webhooks"][0]["matchConditions"]

    assert re.fullmatch(r"policy-[0-9a-f]{12}", condition["name"])
    assert condition["expression"].startswith(f"({EXPRESSION}) || (object.spec.template.spec.?nodeName")


KEY = {"annotations": {names.HINT_ROUTE: "cloud"}}
# namespace, user, what the Job has beside its name, and what becomes of it: None where nobody asks the webhook
SENT = {
    "large-in-a-lab": (LAB, ADA.name, {}, names.TARGET_HPC),
    "web-labelled": (WEB, ADA.name, {"labels": {"tier": "hpc"}}, names.TARGET_HPC),
    "web-of-another-tier": (WEB, ADA.name, {"labels": {"tier": "web"}}, None),
    "web": (WEB, ADA.name, {}, None),
    "of-a-robot": (LAB, BEN.name, {}, None),
    "robot-with-a-label": (WEB, BEN.name, {"labels": {"tier": "hpc"}}, None),
    "web-with-a-key-of-ours": (WEB, ADA.name, KEY, names.TARGET_CLOUD),
    "robot-with-a-forged-key": (LAB, BEN.name, {"labels": {names.KEY_TARGET: "hpc"}}, names.TARGET_CLOUD),
}


@pytest.mark.parametrize("name", SENT)
def test_which_jobs_reach_the_webhook(registered: Registered, name: str) -> None:
    namespace, user, metadata, wanted = SENT[name]
    where = registered.lab if namespace == LAB else registered.web
    before = registered.left_out()

    where.done("create", "-f", "-", sent=job(name, metadata={"name": name, **metadata}), user=user)

    assert target(where.get(name)) == wanted
    assert registered.judged(name) == (wanted is not None)
    assert (registered.left_out() > before) == (wanted is None)


def test_a_job_that_names_a_virtual_node_is_judged(registered: Registered) -> None:
    forged = job("forged", pod={"nodeName": "batch.demo.batchgate"})

    registered.web.run("create", "-f", "-", sent=forged)

    assert registered.judged("forged") == 1


def test_a_job_that_was_left_out_is_judged_once_it_must_be(registered: Registered) -> None:
    registered.web.create(job("later", suspend=True))
    # What the Job controller writes while a label comes has the API server ask twice; now it has no more to write.
    await_true(lambda: registered.web.get("later")["status"].get("conditions"), "the Job controller has done its part")
    assert registered.judged("later") == 0

    registered.web.done("label", "job", "later", "tier=hpc")

    lines = [line for line in registered.server.lines() if line.get("name") == "later"]
    assert [line["operation"] for line in lines] == ["UPDATE"]
    assert target(registered.web.get("later")) is None  # a Job in the cloud stays there
