"""Jobs of a user with kubectl on kind, run by a real Slurm: over ssh from the cluster, and by the agent of a login node.

Only with BATCHGATE_KIND=required, as ``make test-together`` says, after ``make kind`` and ``make bed``: it replaces what is
installed on that cluster for a while.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from router import names
from tests.agent.bed.site import LAYOUT as BED
from tests.agent.bed.site import slurm
from tests.agent.whole.waiting import until
from tests.joining import loginnode
from tests.joining.loginnode import LoginNode, login_node
from tests.together.installed import ACCOUNT, DEPLOYMENT, LOGIN, NAMESPACE, SITE, Installed, job
from tests.together.road import Road

pytestmark = [pytest.mark.kind, pytest.mark.bed, pytest.mark.timeout(900)]

SYSTEM = ("-n", names.SYSTEM_NAMESPACE)
TICKS = ("sh", "-c", "for i in $(seq 40); do echo tick $i; sleep 1; done")
LONGER = ("sh", "-c", "touch ticking; i=0; until [ -e enough ]; do i=$((i + 1)); echo tick $i; sleep 1; done")
"""For as long as the test needs, in a directory that this machine has too."""
UNIT = f"batchgate-agent-{LOGIN}"
SECONDS = 120.0
_RANK = re.compile(r"rank=(\d) size=4 node=(node\d)")


def jobs_of_slurm(batch_job: str) -> str:
    """The batch job's state in Slurm; empty when it has left the queue."""
    return slurm("squeue", "--noheader", "--all", "--format=%T", "--states=all", f"--jobs={batch_job}").strip()


def batch_job(installed: Installed, name: str) -> str:
    """The id of a Job's batch job, once it is submitted."""
    return str(until(lambda: installed.pod(name)["metadata"]["annotations"].get(names.KEY_JOB_ID, ""), seconds=SECONDS))


def begun(installed: Installed, name: str) -> None:
    """Wait until a Job of ``TICKS`` or ``LONGER`` has said something."""
    until(lambda: "tick" in installed.kubectl("-n", NAMESPACE, "logs", f"job/{name}").stdout, seconds=SECONDS)


def enough(installed: Installed, name: str) -> None:
    """Let a Job of ``LONGER`` end."""
    uid = installed.pod(name)["metadata"]["uid"]
    (found,) = (one for one in BED.work.rglob("ticking") if uid in str(one))
    found.with_name("enough").touch()


def leader(installed: Installed) -> str:
    """The Pod of the agent that leads."""
    held = installed.ok(*SYSTEM, "get", "lease", f"batchgate-{SITE}", "-o", "jsonpath={.spec.holderIdentity}")
    return held.rpartition("_")[0]


def test_a_user_sees_output_exit_code_results_and_all_ranks(installed: Installed) -> None:
    installed.ada(
        "create",
        "-f",
        "-",
        stdin=job("good", "sh", "-c", "id -un; echo $WORD; cat /words/word; mkdir out; date >out/a"),
    )
    installed.ada("create", "-f", "-", stdin=job("bad", "sh", "-c", "echo failing; exit 7"))
    installed.ada("create", "-f", "-", stdin=job("ranks", "mpirun", "-np", "4", "ranks", cpus=4, nodes=2))
    installed.wait("good")
    installed.wait("bad", "failed")
    installed.wait("ranks")

    assert installed.ada("logs", "job/good").splitlines() == [ACCOUNT, *["from a ConfigMap"] * 2]
    state = installed.pod("bad")["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (state["exitCode"], installed.ada("logs", "job/bad")) == (7, "failing\n")
    ranks = _RANK.findall(installed.ada("logs", "job/ranks"))
    assert (sorted(rank for rank, _ in ranks), len({node for _, node in ranks})) == (list("0123"), 2)
    told = until(lambda: installed.ada("get", "events"), lambda text: "ResultsBrought" in text, seconds=SECONDS)
    assert "brought to /results/together/good/" in told


def test_a_job_that_is_deleted_while_it_runs_is_gone_from_slurm(installed: Installed) -> None:
    installed.ada("create", "-f", "-", stdin=job("short-lived", *TICKS))
    begun(installed, "short-lived")
    number = batch_job(installed, "short-lived")

    installed.ada("delete", "job", "short-lived", "--timeout=60s")
    installed.ada("wait", "--for=delete", "pods", "-l", "job-name=short-lived", "--timeout=120s")

    assert jobs_of_slurm(number) not in {"RUNNING", "PENDING", "COMPLETING"}


def test_the_standby_takes_over_when_the_leader_is_killed(installed: Installed) -> None:
    installed.ada("create", "-f", "-", stdin=job("goes-on", *TICKS))
    begun(installed, "goes-on")
    first = leader(installed)

    installed.ok(*SYSTEM, "delete", "pod", first, "--grace-period=0", "--force")
    until(lambda: leader(installed), lambda now: now not in ("", first), seconds=SECONDS)
    number = batch_job(installed, "goes-on")
    installed.wait("goes-on")

    assert installed.ada("logs", "job/goes-on").splitlines() == [f"tick {number}" for number in range(1, 41)]
    assert batch_job(installed, "goes-on") == number


def test_a_key_that_is_taken_away_is_told_on_the_pod_and_the_job_runs_when_it_is_back(installed: Installed) -> None:
    """Connections that are open go on; so the agent's Pods are started anew, as for a stolen key."""
    key = installed.ok(*SYSTEM, "get", "secret", "hpc-keys", "-o", f"jsonpath={{.data.{ACCOUNT}}}")
    taken = json.dumps([{"op": "remove", "path": f"/data/{ACCOUNT}"}])
    installed.ok(*SYSTEM, "patch", "secret", "hpc-keys", "--type=json", "-p", taken)
    _restart(installed)
    installed.ada("create", "-f", "-", stdin=job("keyless", "true"))

    missing = f"/etc/batchgate/keys/{ACCOUNT}: No such file or directory; put the private key there"
    until(lambda: installed.ada("get", "events"), lambda text: missing in text, seconds=SECONDS)
    installed.ok(*SYSTEM, "patch", "secret", "hpc-keys", "-p", json.dumps({"data": {ACCOUNT: key}}))
    _restart(installed)

    installed.wait("keyless")


def _restart(installed: Installed) -> None:
    installed.ok(*SYSTEM, "rollout", "restart", DEPLOYMENT)
    installed.ok(*SYSTEM, "rollout", "status", DEPLOYMENT, "--timeout=180s")


def test_the_check_runs_in_the_agents_pod(installed: Installed) -> None:
    done = installed.kubectl(
        *SYSTEM, "exec", DEPLOYMENT, "--", "batchgate", "site", "check", SITE, "--policy", "/policies"
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert f"agents of site {SITE} may submit" in done.stderr


@pytest.fixture(scope="module")
def node(installed: Installed) -> Iterator[LoginNode]:
    """The bed's login node once more, with a systemd: this machine's Slurm, users and work directories."""
    if why := loginnode.obstacle():
        pytest.skip(f"no systemd in a container: {why}")
    with login_node((BED.shared, BED.running)) as found:
        yield found


def test_a_login_nodes_agent_from_joining_to_leaving(
    installed: Installed, way: Road, node: LoginNode, tmp_path: Path
) -> None:
    """sudo, sbatch, squeue, scancel and Apptainer under the unit's protections, and a reboot while a job runs."""
    file = tmp_path / "join"
    joined = installed.batchgate("site", "add", LOGIN, "--server", way.server, "--output", str(file))
    assert joined.returncode == 0, joined.stderr
    node.put("/root/join", file.read_text(), 0o600)

    done = node.batchgate("site", "install", LOGIN, "--from", "/root/join")

    assert (done.rc, re.findall(r"^(probe|runtime|image) +\S+ +(\w+)", done.out, re.MULTILINE)) == (
        0,
        [("probe", "ok"), ("runtime", "ok"), ("image", "ok")],
    ), done.out + done.err
    installed.ada("create", "-f", "-", stdin=job("reboots", *LONGER, near=True))
    begun(installed, "reboots")  # the approver has taken the agent's request by then
    node.reboot()
    refused = node.batchgate("site", "uninstall", LOGIN)
    assert (refused.rc, "1 Pods of site login live" in refused.err) == (2, True)
    enough(installed, "reboots")
    installed.wait("reboots")
    ticks = installed.ada("logs", "job/reboots").splitlines()
    assert (ticks[0], ticks) == ("tick 1", [f"tick {number}" for number in range(1, len(ticks) + 1)])
    installed.ada("create", "-f", "-", stdin=job("cut-off", *TICKS, near=True))
    begun(installed, "cut-off")
    number = batch_job(installed, "cut-off")
    installed.ada("delete", "job", "cut-off", "--timeout=60s")
    installed.ada("wait", "--for=delete", "pods", "-l", "job-name=cut-off", "--timeout=120s")
    assert jobs_of_slurm(number) not in {"RUNNING", "PENDING", "COMPLETING"}
    assert node.run("systemctl", "is-active", UNIT).out == "active\n"
    gone = node.batchgate("site", "uninstall", LOGIN)
    removed = installed.batchgate("site", "remove", LOGIN)
    assert (gone.rc, removed.returncode) == (0, 0), gone.err + removed.stderr
