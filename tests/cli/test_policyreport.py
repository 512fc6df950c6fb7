"""``batchgate policy report``: of a log, and of Jobs on a real API server that has the APIs for reports, or has not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from router import names
from router.cli import commands
from router.controlplane.options import ADA
from router.controlplane.plane import ControlPlane
from router.replay.policyreports import FORMS, OPENREPORTS, WGPOLICY, Form
from tests import reportapis
from tests.cli import test_policydiff
from tests.cli.test_policydiff import job, lines
from tests.policies import LARGE_GO_TO_HPC

Json = dict[str, Any]

ROOT = Path(__file__).parent.parent.parent
POLICY = LARGE_GO_TO_HPC.replace(
    "rules:\n",
    "rules:\n"
    "  - {name: vast, when: job.cpus > 4, deny: too many cores, mode: audit}\n"
    "  - {name: eve, when: request.user == 'eve', deny: not for you, mode: audit}\n",
)
NOT_SERVED = (
    "Warning: the cluster serves neither PolicyReports (wgpolicyk8s.io/v1alpha2) nor Reports (openreports.io/v1alpha1), "
    "so none was written: install the CRDs of either, or switch policyReports.enabled of the chart off\n"
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "all.yaml").write_text(POLICY)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words: str) -> Result:
    done = CliRunner().invoke(commands, ["policy", "report", *words])
    assert "Traceback" not in done.output
    return done


def cells(done: Result) -> list[list[str]]:
    """The rows of its table, without the messages."""
    return [[cell.strip() for cell in line.split("  ") if cell.strip()][:-1] for line in done.stdout.splitlines()[1:]]


# --- of a log ---------------------------------------------------------------------------------------------------


def test_jobs_of_the_last_day_of_a_log_are_told_by_namespace(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(test_policydiff, "NOON", int(datetime.now(tz=UTC).timestamp()) - 3600)
    old, new = lines((8, "ada", -2)), lines((1, "ada", 0), (8, "ada", 0), (2, "eve", 0))
    (folder / "log").write_text(old + new + lines((1, "ben", 0), namespace="lab"))

    page = (ROOT / "docs" / "policy-reports.md").read_text()

    table = run("policies", "--log", "log")
    documents = list(yaml.safe_load_all(run("policies", "--log", "log", "-o", "yaml").stdout))
    listed = json.loads(run("policies", "--log", "log", "-o", "json").stdout)

    assert table.exit_code == 0
    assert table.stdout == page.partition("```text\n")[2].partition("```")[0]
    assert cells(table) == [
        ["default", "vast", "fail", "1", "0", "Job/j1"],
        ["default", "eve", "fail", "1", "0", "Job/j2"],
        ["lab", "vast", "pass", "0", "0", "-"],
        ["lab", "eve", "pass", "0", "0", "-"],
    ]
    assert table.stderr == "Left out, before --since: 1\n"
    assert [(one["kind"], one["metadata"]["namespace"], one["summary"]["fail"]) for one in documents] == [
        ("PolicyReport", "default", 2),
        ("PolicyReport", "lab", 0),
    ]
    assert listed == {"apiVersion": "v1", "kind": "List", "items": documents}
    assert cells(run("policies", "--log", "log", "--since", "3d"))[0][2:4] == ["fail", "2"]
    assert {row[0] for row in cells(run("policies", "--log", "log", "-n", "lab"))} == {"lab"}


def test_without_an_audit_rule_there_is_nothing_to_report(folder: Path) -> None:
    (folder / "policies" / "all.yaml").write_text(LARGE_GO_TO_HPC)
    (folder / "log").write_text(lines((1, "ada", 0)))

    done = run("policies", "--log", "log")

    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr == "The policy has no rule with mode: audit, so there is nothing to report.\n"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--write", "-o", "yaml"], "-o yaml and -o json only print: leave out either them or --write"),
        (["--if-served"], "--if-served is for --write"),
        (["policies", "--log", "none"], "none: there is no such decision log"),
        (["none", "--log", "none"], "none: there is no such policy directory"),
    ],
)
def test_what_is_wrong_is_named(folder: Path, words: list[str], told: str) -> None:
    done = run(*words)

    assert (done.exit_code, told in done.stderr) == (2, True), done.stderr


# --- of a cluster -----------------------------------------------------------------------------------------------


@pytest.fixture
def without_reports(plane: ControlPlane) -> Iterator[None]:
    reportapis.remove(plane, *FORMS)
    yield
    reportapis.remove(plane, *FORMS)


@pytest.fixture
def registration(plane: ControlPlane) -> Iterator[None]:
    """The webhook judges Jobs of namespaces that opt in; the API server asks it about none here."""
    webhook = {
        "name": names.JOBS_WEBHOOK,
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "clientConfig": {"url": "https://localhost:1/mutate"},
        "namespaceSelector": {"matchLabels": {names.LABEL_GATE: names.GATE_ENABLED}},
    }
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration"}
    plane.apply({**kind, "metadata": {"name": names.REGISTRATION}, "webhooks": [webhook]})
    yield
    plane.kubectl("delete", "mutatingwebhookconfiguration", names.REGISTRATION)


@pytest.fixture
def gated(plane: ControlPlane, namespace: str, registration: None) -> str:
    """A namespace whose Jobs the webhook judges."""
    plane.kubectl("label", "namespace", namespace, f"{names.LABEL_GATE}={names.GATE_ENABLED}")
    return namespace


def report(plane: ControlPlane, *words: str, user: str = "admin") -> Result:
    return run("policies", "--kubeconfig", str(plane.kubeconfig(user)), *words)


def make(plane: ControlPlane, namespace: str, **cores: int) -> None:
    """Jobs of these names, by ada; nothing judges them, and no Pod of theirs is run."""
    for name, count in cores.items():
        plane.kubectl("create", "-n", namespace, "-f", "-", stdin=json.dumps(job(name, count)), user=ADA.name)


def found(plane: ControlPlane, namespace: str, form: Form = WGPOLICY) -> list[Json]:
    items: list[Json] = plane.get(f"{form.plural}.{form.group}", "-n", namespace)["items"]
    return items


def told(one: Json) -> list[tuple[str, str, str, list[str]]]:
    """Rule, result, number of Jobs, and the names of Jobs."""
    return [
        (each["rule"], each["result"], each["properties"]["jobs"], [job["name"] for job in each.get("resources", ())])
        for each in one["results"]
    ]


def test_where_no_api_serves_reports_one_sentence_says_so(
    plane: ControlPlane, namespace: str, folder: Path, without_reports: None
) -> None:
    make(plane, namespace, vast=8)
    where = ("-n", namespace)

    shown, refused = report(plane, *where), report(plane, *where, "--write")
    left = report(plane, *where, "--write", "--if-served")

    assert (shown.exit_code, cells(shown)) == (
        0,
        [
            [namespace, "vast", "fail", "1", "0", "Job/vast"],
            [namespace, "eve", "skip", "0", "1", "-"],
        ],
    )
    assert (refused.exit_code, refused.output) == (1, NOT_SERVED)
    assert (left.exit_code, left.output) == (0, NOT_SERVED)


def test_a_report_lives_as_its_jobs_do(plane: ControlPlane, gated: str, folder: Path, without_reports: None) -> None:
    namespace = gated
    reportapis.define(plane, OPENREPORTS)
    words = ("-n", namespace, "--write")
    make(plane, namespace, small=1, vast=8)
    unsure: tuple[str, str, str, list[str]] = ("eve", "skip", "0", [])

    # Where only the successor is served, that one is written.
    first = report(plane, *words)
    assert (first.exit_code, first.stdout) == (0, f"{namespace}: written\nReport objects that were up to date: 0\n")
    (one,) = found(plane, namespace, OPENREPORTS)
    assert told(one) == [("vast", "fail", "1", ["vast"]), unsure]

    # Then the other one, and the first is taken away.
    reportapis.define(plane, WGPOLICY)
    assert report(plane, *words).stdout.splitlines()[:2] == [
        f"{namespace}: written",
        f"{namespace}: deleted, as it is out of date",
    ]
    assert found(plane, namespace, OPENREPORTS) == []
    (one,) = found(plane, namespace)
    assert (one["metadata"]["name"], one["scope"]["name"]) == ("batchgate-audit", namespace)

    # What has not changed is not written.
    same = report(plane, *words)
    assert (same.exit_code, same.stdout) == (0, "PolicyReport objects that were up to date: 1\n")
    assert found(plane, namespace)[0]["metadata"]["resourceVersion"] == one["metadata"]["resourceVersion"]

    make(plane, namespace, more=6)
    assert report(plane, *words).stdout.splitlines()[0] == f"{namespace}: written"
    (one,) = found(plane, namespace)
    assert told(one)[0][:3] == ("vast", "fail", "2")
    assert sorted(told(one)[0][3]) == ["more", "vast"]

    # Somebody else's is left as it is, and is named.
    plane.kubectl("label", "-n", namespace, "policyreports", "batchgate-audit", "app.kubernetes.io/managed-by-")
    plane.kubectl("delete", "job", "more", "-n", namespace)
    foreign = report(plane, *words)
    assert (foreign.exit_code, foreign.stdout) == (1, "PolicyReport objects that were up to date: 0\n")
    assert "is somebody else's, as it lacks the label app.kubernetes.io/managed-by=batchgate" in foreign.stderr
    assert told(found(plane, namespace)[0])[0][2] == "2"

    # Without a Job there is no report, but somebody else's.
    plane.kubectl("delete", "jobs", "--all", "-n", namespace)
    assert report(plane, *words).stdout == "PolicyReport objects that were up to date: 0\n"
    plane.kubectl(
        "label", "-n", namespace, "policyreports", "batchgate-audit", "app.kubernetes.io/managed-by=batchgate"
    )
    assert report(plane, *words).stdout.splitlines()[0] == f"{namespace}: deleted, as it is out of date"
    assert found(plane, namespace) == []


def test_only_namespaces_that_the_webhook_judges_get_a_report(
    plane: ControlPlane, namespace: str, folder: Path, without_reports: None, registration: None
) -> None:
    reportapis.define(plane, WGPOLICY)
    make(plane, namespace, vast=8)
    gate = ("label", "--overwrite", "namespace", namespace)

    out = report(plane, "--write")
    plane.kubectl(*gate, f"{names.LABEL_GATE}={names.GATE_ENABLED}")
    into = report(plane, "--write")
    plane.kubectl(*gate, f"{names.LABEL_GATE}={names.GATE_DISABLED}")
    again = report(plane, "--write")

    assert [one.exit_code for one in (out, into, again)] == [0, 0, 0]
    assert "Left out, of namespaces whose Jobs the webhook does not judge: " in out.stderr
    lines = [f"{namespace}: written", f"{namespace}: deleted, as it is out of date"]
    assert [[line for line in one.stdout.splitlines() if line in lines] for one in (out, into, again)] == [
        [],
        lines[:1],
        lines[1:],
    ]


def test_who_cannot_read_everything_writes_nothing(
    plane: ControlPlane, namespace: str, folder: Path, without_reports: None
) -> None:
    reportapis.define(plane, WGPOLICY)
    make(plane, namespace, vast=8)

    shown = report(plane, "-n", namespace, user=ADA.name)
    refused = report(plane, "-n", namespace, "--write", user=ADA.name)

    assert cells(shown)[0] == [namespace, "vast", "fail", "1", "0", "Job/vast"]
    assert "Warning: limitranges could not be looked at: " in shown.stderr
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr.splitlines()[-1].endswith(
        "Nothing was written, as a report must rest on all Jobs and their facts"
    )
    assert found(plane, namespace) == []


def test_without_a_registration_nothing_is_written(
    plane: ControlPlane, namespace: str, folder: Path, without_reports: None
) -> None:
    """As for a moment of an upgrade: reports of namespaces that nothing judges would be wrong."""
    reportapis.define(plane, WGPOLICY)
    make(plane, namespace, vast=8)

    shown, refused = report(plane, "-n", namespace), report(plane, "-n", namespace, "--write")

    unknown = (
        "Warning: which namespaces the webhook judges is unknown, as no MutatingWebhookConfiguration batchgate has "
        "jobs.batchgate.dev, so Jobs of all namespaces are judged\n"
    )
    assert (shown.exit_code, shown.stderr, cells(shown)[0][:4]) == (0, unknown, [namespace, "vast", "fail", "1"])
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr.startswith(unknown)
    assert "Nothing was written" in refused.stderr
    assert found(plane, namespace) == []


def test_a_namespace_that_is_being_deleted_gets_no_report_and_is_no_failure(
    plane: ControlPlane, namespace: str, folder: Path, without_reports: None, registration: None
) -> None:
    reportapis.define(plane, WGPOLICY)
    ending = f"{namespace}-ending"
    plane.kubectl("create", "namespace", ending)
    plane.kubectl("label", "namespace", ending, f"{names.LABEL_GATE}={names.GATE_ENABLED}")
    held = job("held", 8, finalizers=["example.org/held"])
    plane.kubectl("create", "-n", ending, "-f", "-", stdin=json.dumps(held))
    plane.kubectl("delete", "namespace", ending, "--wait=false")
    try:
        done = report(plane, "-n", ending, "--write")
    finally:
        plane.kubectl(
            "patch",
            "job",
            "held",
            "-n",
            ending,
            "--type=json",
            "-p",
            '[{"op": "remove", "path": "/metadata/finalizers"}]',
        )

    words = "left as it is, as the namespace or the report was just deleted or changed; the next run looks again"
    assert (done.exit_code, done.stdout) == (
        0,
        f"{ending}: {words}\nPolicyReport objects that were up to date: 0\n",
    )
