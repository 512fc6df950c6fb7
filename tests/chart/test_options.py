"""Every command in the chart is one that the program has, with options that it has, and files that the Pod mounts."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from router.cli import commands
from tests.chart.rendering import CHART, NEEDED, ROOT, helm, objects, template
from tests.monitoring.files import DASHBOARDS, PAGE, RULES

Json = dict[str, Any]
AGENT: Json = {
    "site": "hpc",
    "ssh": {"keysSecret": "k", "knownHostsConfigMap": "h"},
    "resultsClaim": "r",
    "extraArgs": ["--hands=4"],
    "resources": {"limits": {"memory": "2Gi"}},
}
VALUES: dict[str, Json] = {
    "the least": NEEDED,
    "everything": NEEDED
    | {
        "agents": [AGENT, AGENT | {"site": "other", "selfSigned": True}],
        "page": {
            "enabled": True,
            "hostNames": ["a.example"],
            "tokenHeader": "X-Token",
            "tlsSecret": "t",
            "decisionLog": True,
        },
        "policyReports": {"enabled": True, "decisionLog": True},
        "approver": {"enabled": True, "addresses": ["192.0.2.1", "2001:db8::1"]},
        "webhook": {
            "clientCA": {"configMap": "c", "names": ["a", "b"]},
            "extraArgs": ["--threads=4"],
            "claims": True,
            "decisionLog": {"enabled": True, "claim": "decisions"},
        },
        "tracing": {"endpoint": "http://collector:4318", "headersSecret": "h", "variables": {"OTEL_SERVICE_NAME": "1"}},
    },
    "kind": yaml.safe_load((ROOT / "kindcluster" / "values.yaml").read_text()),
}


def pod_specs(found: list[Json]) -> dict[str, Json]:
    """The Pods that objects make, by the objects' names."""
    jobs = [{**one, "spec": one["spec"]["jobTemplate"]["spec"]} for one in found if one["kind"] == "CronJob"]
    return {
        one["metadata"]["name"]: one["spec"]["template"]["spec"]
        for one in (*found, *jobs)
        if one["kind"] in {"Deployment", "Job"} or one in jobs
    }


def containers(spec: Json) -> list[Json]:
    return [*spec.get("initContainers", ()), *spec["containers"]]


def unknown(words: list[str]) -> list[str]:
    """The words of a command line that the program does not know: commands, and options of their command."""
    command: click.Command = commands
    context = click.Context(command)
    found = []
    for word in words:
        if word.startswith("-"):
            known = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
            found += [] if word.partition("=")[0] in known else [word]
        elif isinstance(command, click.Group) and (below := command.get_command(context, word)) is not None:
            command = below
        else:
            found.append(word)
    return found


@pytest.mark.parametrize("name", VALUES)
def test_the_program_knows_its_arguments(name: str) -> None:
    for owner, spec in pod_specs(objects(VALUES[name])).items():
        for container in containers(spec):
            assert unknown(container["args"]) == [], owner


def test_a_word_that_the_program_does_not_know_is_found() -> None:
    assert unknown(["agent", "--site=a", "--sight=b"]) == ["--sight=b"]
    assert unknown(["local", "--directory=/a", "queue"]) == ["queue"]


@pytest.mark.parametrize("name", VALUES)
def test_files_that_are_named_are_mounted(name: str) -> None:
    for owner, spec in pod_specs(objects(VALUES[name])).items():
        volumes = {volume["name"] for volume in spec.get("volumes", ())}
        for container in containers(spec):
            mounts = {mount["mountPath"]: mount["name"] for mount in container.get("volumeMounts", ())}
            paths = [word.partition("=")[2] for word in container["args"] if word.partition("=")[2].startswith("/")]
            assert [path for path in paths if not any(f"{path}/".startswith(f"{at}/") for at in mounts)] == [], owner
            assert set(mounts.values()) <= volumes
        used = {mount["name"] for one in containers(spec) for mount in one.get("volumeMounts", ())}
        assert used == volumes, owner


def test_the_rules_and_queues_of_kind_are_those_of_the_examples() -> None:
    """Only what depends on the Pod differs: where files lie, who runs, and that there is no container runtime or MPI."""
    policies = {key: yaml.safe_load(text) for key, text in VALUES["kind"]["policies"].items()}
    examples = {path.name: yaml.safe_load(path.read_text()) for path in (ROOT / "examples" / "policies").iterdir()}
    ours, theirs = (one["10-sites.yaml"]["sites"][0] for one in (policies, examples))

    assert policies["30-rules.yaml"] == examples["30-rules.yaml"]
    assert {key for key in (*ours, *theirs) if ours.get(key) != theirs.get(key)} == {
        "workDir", "resultsDir", "runtime", "images", "mpi",
    }  # fmt: skip


def test_kinds_embedded_queue_has_the_queues_of_its_policy() -> None:
    (site,) = yaml.safe_load(VALUES["kind"]["policies"]["10-sites.yaml"])["sites"]
    (agent,) = VALUES["kind"]["agents"]
    seconds = {"30m": 1800, "1h": 3600, "4h": 14400}
    expected = [
        {
            "name": queue["name"],
            "site": site["name"],
            "nodes": queue["nodes"],
            "cpusPerNode": queue["cpusPerNode"],
            "memory": queue["memoryPerNode"].replace("Gi", "gb"),
            **({"gpus": queue["gpusPerNode"]} if "gpusPerNode" in queue else {}),
            "walltimeDefault": seconds[queue["walltimeDefault"]],
            "walltimeMax": seconds[queue["walltimeMax"]],
            "hostPerNode": True,
        }
        for queue in site["queues"]
    ]

    assert agent["localQueues"] == expected


def test_what_a_failed_hook_said_can_be_read_and_is_cleaned() -> None:
    found = {one["metadata"]["name"]: one for one in objects(VALUES["everything"]) if one["kind"] == "Job"}

    assert {
        name: (one["spec"]["ttlSecondsAfterFinished"], one["metadata"]["annotations"]["helm.sh/hook-delete-policy"])
        for name, one in found.items()
    } == dict.fromkeys(
        ("batchgate-certs", "batchgate-activate", "batchgate-uninstall"), (600, "before-hook-creation,hook-succeeded")
    )
    assert {one["metadata"]["annotations"]["helm.sh/hook-output-log-policy"] for one in found.values()} == {
        "hook-failed"
    }


@pytest.mark.parametrize(("replicas", "kept"), [(1, []), (2, ["batchgate-webhook"])])
def test_a_single_replica_lets_its_node_be_drained(replicas: int, kept: list[str]) -> None:
    found = objects(NEEDED | {"webhook": {"replicas": replicas}}, ["webhook"])

    assert [one["metadata"]["name"] for one in found if one["kind"] == "PodDisruptionBudget"] == kept


def test_alerts_are_those_of_the_file_for_this_namespace_and_for_each_agent() -> None:
    wiki = "https://wiki.example.org/batchgate"
    values = NEEDED | {"agents": [AGENT], "monitoring": {"enabled": True, "runbooks": wiki}}
    done = template(values, "--namespace=gates")
    assert done.returncode == 0, done.stderr
    (rules,) = (one for one in yaml.safe_load_all(done.stdout) if one and one["kind"] == "PrometheusRule")
    *groups, of_agents = rules["spec"]["groups"]

    text = RULES.read_text().replace('namespace="batchgate-system"', 'namespace="gates"')
    assert groups == yaml.safe_load(re.sub(r"runbook_url: .*#", f"runbook_url: {wiki}#", text))["groups"]
    assert of_agents == {
        "name": "batchgate-agents",
        "rules": [
            {
                "alert": "BatchgateAgentSilent",
                "expr": (
                    'absent(batchgate_agent_leading{job="batchgate-agent-metrics",namespace="gates",site="hpc"} == 1) '
                    'unless on () up{job="batchgate-agent-metrics",namespace="gates",site="hpc"}'
                ),
                "for": "2m",
                "labels": {"severity": "critical", "site": "hpc"},
                "annotations": {
                    "summary": "No agent of site hpc leads.",
                    "description": "Its Jobs are not submitted, and their states are not reported. Batch jobs that run go on.",
                    "runbook_url": f"{wiki}#batchgateagentsilent",
                },
            }
        ],
    }


@pytest.mark.skipif(shutil.which("promtool") is None, reason="there is no promtool; Debian's package prometheus has it")
def test_an_agent_that_has_no_pod_is_told_as_is_one_that_does_not_lead(tmp_path: Path) -> None:
    """The file's rule sees sites that have targets; the chart's, those that have none."""
    agents = [AGENT | {"site": site} for site in ("gone", "scaled-down", "leads", "stands-by")]
    (rules,) = (
        one
        for one in objects(NEEDED | {"agents": agents, "monitoring": {"enabled": True}})
        if one["kind"] == "PrometheusRule"
    )
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(rules["spec"]))
    place = 'job="batchgate-agent-metrics",namespace="batchgate-system"'
    series = {
        # Its Pod ran for five minutes, and Prometheus has had no such target since then.
        f'up{{{place},site="scaled-down"}}': "1x5 stale",
        f'batchgate_agent_leading{{{place},site="scaled-down"}}': "1x5 stale",
        f'up{{{place},site="leads"}}': "1x40",
        f'batchgate_agent_leading{{{place},site="leads"}}': "1x40",
        f'up{{{place},site="stands-by"}}': "1x40",
        f'batchgate_agent_leading{{{place},site="stands-by"}}': "0x40",
        # Another release's agent of that site is not this one's.
        f'up{{{place.replace("batchgate-system", "other")},site="gone"}}': "1x40",
        f'batchgate_agent_leading{{{place.replace("batchgate-system", "other")},site="gone"}}': "1x40",
    }
    labels = 'alertname="BatchgateAgentSilent",alertstate="firing",severity="critical"'
    case = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [
            {
                "expr": 'ALERTS{alertname="BatchgateAgentSilent",alertstate="firing"}',
                "eval_time": "20m",
                "exp_samples": [
                    {"labels": f'ALERTS{{{labels},site="{site}"}}', "value": 1}
                    for site in ("gone", "scaled-down", "stands-by")
                ],
            },
        ],
    }
    (tmp_path / "cases.yaml").write_text(yaml.safe_dump({"rule_files": ["rules.yaml"], "tests": [case]}))

    done = subprocess.run(
        ["promtool", "test", "rules", str(tmp_path / "cases.yaml")], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_dashboards_are_the_files_for_the_release_and_come_alone() -> None:
    switch = {"enabled": True, "annotations": {"grafana_folder": "Batch"}}
    runbooks = "https://wiki.example.org/alerts?a&b"
    done = template(NEEDED | {"monitoring": {"dashboards": switch, "runbooks": runbooks}}, "--namespace=gates")
    found = [one for one in yaml.safe_load_all(done.stdout) if one and "dashboard" in one["metadata"]["name"]]

    assert [(one["kind"], one["metadata"]["labels"]["grafana_dashboard"]) for one in found] == [("ConfigMap", "1")] * 2
    assert {one["metadata"]["annotations"]["grafana_folder"] for one in found} == {"Batch"}
    assert {name: json.loads(text) for one in found for name, text in one["data"].items()} == {
        f"batchgate-{path.name}": json.loads(
            path.read_text().replace("batchgate-system", "gates").replace(f'"{PAGE}"', f'"{runbooks}"')
        )
        for path in DASHBOARDS
    }
    assert objects(NEEDED, ["monitoring"]) == []


@pytest.mark.parametrize(
    ("enabled", "agent", "told", "untold"),
    [
        (False, AGENT, "kubectl certificate approve NAME", "batchgate-approver"),
        (True, AGENT, "logs deployment/batchgate-approver", "kubectl certificate approve"),
        (False, AGENT | {"selfSigned": True}, "batchgate status", "kubectl certificate approve"),
    ],
)
def test_the_notes_ask_for_a_hand_where_one_is_needed(enabled: bool, agent: Json, told: str, untold: str) -> None:
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        yaml.safe_dump(NEEDED | {"agents": [agent], "approver": {"enabled": enabled}}, file)
        file.flush()
        done = helm("install", "batchgate", str(CHART), "--dry-run=client", f"--values={file.name}")

    notes = done.stdout.partition("NOTES:\n")[2]
    assert (done.returncode, told in notes, untold in notes) == (0, True, False), done.stderr + notes


@pytest.mark.parametrize("enabled", [False, True])
def test_the_notes_say_that_no_api_serves_policy_reports(enabled: bool) -> None:
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        yaml.safe_dump(NEEDED | {"policyReports": {"enabled": enabled}}, file)
        file.flush()
        done = helm("install", "batchgate", str(CHART), "--dry-run=client", f"--values={file.name}")

    assert (done.returncode, "Policy reports are not written yet" in done.stdout) == (0, enabled), done.stderr
