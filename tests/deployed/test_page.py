"""The page for many as the chart's Deployment: a Pod without an account, that shows each what their token shows."""

from __future__ import annotations

from pathlib import Path

import urllib3
import yaml

from router import names
from router.demo import services
from tests.agent.whole.waiting import until
from tests.chart.rendering import NEEDED, objects
from tests.deployed.conftest import IMAGE, Deployed
from tests.webhook.real.gated import job

SYSTEM = f"--namespace={names.SYSTEM_NAMESPACE}"
HOST = "page.example.org"


def test_it_shows_what_a_token_shows(deployed: Deployed, tmp_path: Path) -> None:
    plane = deployed.plane
    services.batchgate("certs", "create", str(tmp_path / "tls"), "--host-name", HOST)
    files = [f"--cert={tmp_path}/tls/tls.crt", f"--key={tmp_path}/tls/tls.key"]
    plane.kubectl("create", "secret", "tls", "page-tls", *files, SYSTEM)
    repository, _, tag = IMAGE.rpartition(":")
    image = {"repository": repository, "tag": tag, "pullPolicy": "Never"}
    page = {"enabled": True, "hostNames": [HOST], "tlsSecret": "page-tls", "tokenHeader": "X-Token"}
    made = objects({**NEEDED, "image": image, "page": page}, ["page"])
    plane.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(made))
    plane.kubectl("rollout", "status", "deployment/batchgate-page", "--timeout=180s", SYSTEM)
    (pod,) = plane.get("pods", SYSTEM, "-l", "app.kubernetes.io/name=batchgate-page")["items"]
    assert [volume["name"] for volume in pod["spec"]["volumes"]] == ["cluster", "tls"]
    plane.kubectl("create", "-f", "-", "-n", "physics", stdin=yaml.safe_dump(job("seen-on-the-page")))
    plane.kubectl(
        "create", "role", "looks", "-n", "physics", "--verb=get,list,watch", "--resource=jobs.batch,pods,events"
    )
    plane.kubectl("create", "rolebinding", "looks", "-n", "physics", "--role=looks", "--serviceaccount=physics:default")
    token = plane.kubectl("create", "token", "default", "-n", "physics").stdout.strip()
    browser = urllib3.HTTPSConnectionPool(
        pod["status"]["podIP"],
        8443,
        ca_certs=str(tmp_path / "tls" / "ca.crt"),
        server_hostname=HOST,
        assert_hostname=HOST,
    )

    def look(given: str) -> tuple[int, str]:
        answer = browser.request("GET", "/", headers={"Host": HOST, "X-Token": given}, retries=False)
        return answer.status, answer.data.decode()

    # The Job is watched; who looks is asked beside it.
    words = ("seen-on-the-page", "system:serviceaccount:physics:default")
    status, _ = until(lambda: look(token), lambda seen: all(one in seen[1] for one in words), what=f"for {words}")
    assert status == 200
    assert look("wrong")[0] == 401
