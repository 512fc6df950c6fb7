"""What the chart says to values: those that it refuses, with which words, and those that its README explains."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from tests.chart import readme
from tests.chart.rendering import CHART, NEEDED, ROOT, helm, template

Json = dict[str, Any]
SITE = """
sites:
  - {name: hpc, system: slurm, host: "ssh://login", access: own-keys, keys: /etc/batchgate/keys,
     knownHosts: /etc/batchgate/known-hosts/known_hosts, workDir: "/scratch/{user}", queues: []}
  - {name: demo, system: local, workDir: /var/lib/batchgate/work, queues: []}
  - {name: elsewhere, system: local, workDir: /var/tmp/work, queues: []}
"""
BROUGHT: Json = {
    "existingPolicies": False,
    "policies": {"all.yaml": SITE.replace("queues: []", "resultsDir: /results/hpc, queues: []", 1)},
}
FILES: Json = {"existingPolicies": False, "policies": {"all.yaml": SITE}}
SSH: Json = {"keysSecret": "k", "knownHostsConfigMap": "h"}
QUEUES = [{"name": "batch", "nodes": 1, "cpusPerNode": 1}]


def agents(*entries: Json) -> Json:
    return {"agents": list(entries)}


# By the schema: the value and the words.
BY_SCHEMA: list[tuple[Json, tuple[str, ...]]] = [
    ({"registration": None, "hooks": None}, ("missing properties 'registration', 'hooks'",)),
    ({"certificates": {"existing": None}}, ("at '/certificates'", "missing property 'existing'")),
    ({"replicas": 3}, ("additional properties 'replicas' not allowed",)),
    ({"webhook": {"replica": 3}}, ("at '/webhook'", "additional properties 'replica' not allowed")),
    ({"webhook": {"replicas": 0}}, ("at '/webhook/replicas'", "got 0, want 1")),
    ({"webhook": {"replicas": "2"}}, ("at '/webhook/replicas'", "got string, want integer")),
    ({"webhook": {"extraArgs": ["threads=16"]}}, ("at '/webhook/extraArgs/0'", "does not match pattern")),
    ({"webhook": {"resources": {"limits": {"memory": "much"}}}}, ("at '/webhook/resources/limits/memory'",)),
    ({"image": {"pullPolicy": "never"}}, ("at '/image/pullPolicy'", "'IfNotPresent'", "'Never'")),
    ({"image": {"digest": "sha256:12"}}, ("at '/image/digest'", "does not match pattern")),
    ({"registration": {"failurePolicy": "fail"}}, ("at '/registration/failurePolicy'", "'Fail', 'Ignore'")),
    ({"registration": {"timeoutSeconds": 31}}, ("at '/registration/timeoutSeconds'", "got 31, want 30")),
    ({"registration": {"namespaces": "all"}}, ("at '/registration/namespaces'", "'opt-in', 'opt-out'")),
    ({"certificates": {"mode": "none"}}, ("at '/certificates/mode'", "'builtin', 'cert-manager', 'existing'")),
    ({"certificates": {"existing": {"caBundle": "-----BEGIN"}}}, ("at '/certificates/existing/caBundle'",)),
    ({"network": {"apiServer": ["192.0.2.10"]}}, ("at '/network/apiServer/0'", "does not match pattern")),
    ({"tracing": {"endpoint": "collector:4317"}}, ("at '/tracing/endpoint'", "does not match pattern")),
    ({"tracing": {"variables": {"PATH": "/"}}}, ("at '/tracing/variables'", "additional properties 'PATH' not allowed")),
    ({"tracing": {"variables": {"OTEL_BSP_SCHEDULE_DELAY": 5}}}, ("at '/tracing/variables/OTEL_BSP_SCHEDULE_DELAY'",)),
    ({"policies": {"rules": "rules: []"}}, ("at '/policies'", "additional properties 'rules' not allowed")),
    ({"policies": {"rules.yaml": {"rules": []}}}, ("at '/policies/rules.yaml'", "got object, want string")),
    (agents({"local": True}), ("at '/agents/0'", "missing property 'site'")),
    (agents({"site": "hpc", "key": "k"}), ("at '/agents/0'", "additional properties 'key' not allowed")),
    (agents({"site": "a site"}), ("at '/agents/0/site'", "does not match pattern")),
    (agents({"site": "hpc", "ssh": {"keysSecret": "k"}}), ("at '/agents/0/ssh'", "missing property 'knownHostsConfigMap'")),
    (agents({"site": "hpc", "ssh": SSH | {"keysDirectory": "keys"}}), ("at '/agents/0/ssh/keysDirectory'",)),
]  # fmt: skip
# By the chart: what the schema cannot say.
BY_CHART: list[tuple[Json, str]] = [
    ({"image": {"repository": ""}}, "image.repository is empty: name the image that `make image` built"),
    ({"existingPolicies": False}, "there is no policy: give the files in policies"),
    ({"policies": {"all.yaml": SITE}}, "policies and existingPolicies are both given"),
    (
        {"existingPolicies": False, "policies": {"all.yaml": "sites: ["}},
        "policies.all.yaml is no YAML mapping: ",
    ),
    ({"certificates": {"mode": "existing"}}, "certificates.existing.caBundle is empty"),
    (
        {"certificates": {"existing": {"caBundle": "AAAA"}}},
        "certificates.existing.caBundle is not used with certificates.mode builtin",
    ),
    (
        {"certificates": {"mode": "cert-manager", "takeOver": True}},
        "certificates.takeOver is for mode builtin, and the mode is cert-manager: leave it out",
    ),
    (
        {"certificates": {"certManager": {"issuerRef": {"kind": "ClusterIssuer"}}}},
        "certificates.certManager.issuerRef has no name: name the issuer, or leave issuerRef out",
    ),
    (
        {"certificates": {"certManager": {"issuerRef": {"name": "ours", "kind": "Clusterissuer"}}}},
        "certificates.certManager.issuerRef.kind Clusterissuer is neither Issuer nor ClusterIssuer: correct it, or name",
    ),
    ({"webhook": {"clientCA": {"names": ["a"]}}}, "webhook.clientCA.names needs webhook.clientCA.configMap"),
    ({"network": {"enabled": True}}, "network.apiServer is empty: name the addresses"),
    ({"pullSecrets": {"namespaces": ["physics"]}}, "pullSecrets.namespaces needs pullSecrets.enabled: true"),
    ({"secrets": {"namespaces": ["physics"]}}, "secrets.namespaces needs secrets.enabled: true"),
    ({"tokens": {"namespaces": ["physics"]}}, "tokens.namespaces needs tokens.enabled: true"),
    ({"page": {"enabled": True, "plainHTTP": True}}, "page.hostNames is empty: name the hosts by which browsers reach"),
    ({"page": {"enabled": True, "hostNames": ["a"]}}, "page: give either tlsSecret, a Secret of type kubernetes.io/tls"),
    (
        {"page": {"enabled": True, "hostNames": ["a"], "tlsSecret": "t", "plainHTTP": True}},
        "page: give either tlsSecret, a Secret of type kubernetes.io/tls",
    ),
    (
        {"page": {"enabled": True, "hostNames": ["a"], "tlsSecret": "t", "decisionLog": True}},
        "page.decisionLog needs webhook.decisionLog.enabled: true and webhook.decisionLog.claim",
    ),
    (
        {"policyReports": {"enabled": True, "decisionLog": True}, "webhook": {"decisionLog": {"enabled": True}}},
        "policyReports.decisionLog needs webhook.decisionLog.enabled: true and webhook.decisionLog.claim",
    ),
    (agents({"site": "hpc"}), "agents[0] (site hpc) reaches no batch system: give ssh"),
    (agents({"site": "hpc", "ssh": SSH, "local": True}), "agents[0] (site hpc) has both local and ssh"),
    (agents({"site": "demo", "local": True}), "agents[0] (site demo): local needs localQueues"),
    (
        agents({"site": "demo", "local": True, "localQueues": QUEUES, "replicas": 2}),
        "agents[0] (site demo): the embedded queue runs in the agent's own Pod, so there is one",
    ),
    (
        agents({"site": "hpc", "ssh": SSH, "stateClaim": "a"}),
        "agents[0] (site hpc): localQueues and stateClaim are for local: true",
    ),
    (
        agents({"site": "hpc_1", "ssh": SSH}, {"site": "HPC-1", "ssh": SSH}),
        "agents[1] (site HPC-1): agents[0] makes the Deployment batchgate-agent-hpc-1 already",
    ),
    (
        agents({"site": "hpc", "ssh": SSH | {"knownHostsDirectory": "/etc/batchgate/keys/hosts"}}),
        "/etc/batchgate/keys/hosts are two mounts, so that neither may be within the other",
    ),
    (FILES | agents({"site": "other", "ssh": SSH}), "agents[0] (site other): the policies have no such site, only demo, "),
    (FILES | agents({"site": "demo", "ssh": SSH}), "agents[0] (site demo): the policy says system: local, which needs local: true"),
    (
        FILES | agents({"site": "hpc", "local": True, "localQueues": QUEUES}),
        "agents[0] (site hpc): the policy says system: slurm, which needs local: false",
    ),
    (
        FILES | agents({"site": "hpc", "ssh": SSH | {"keysDirectory": "/keys"}}),
        "agents[0] (site hpc): the policy says keys: /etc/batchgate/keys, and the Secret k is mounted at /keys: set ssh.keysDirectory",
    ),
    (
        FILES | agents({"site": "hpc", "ssh": SSH | {"knownHostsDirectory": "/hosts"}}),
        "the policy says knownHosts: /etc/batchgate/known-hosts/known_hosts, and the ConfigMap h is mounted at /hosts",
    ),
    (
        BROUGHT | agents({"site": "hpc", "ssh": SSH}),
        "agents[0] (site hpc): the policy says resultsDir: /results/hpc, where the Pod has no volume: set resultsClaim",
    ),
    (
        BROUGHT | agents({"site": "hpc", "ssh": SSH, "resultsClaim": "r", "resultsDirectory": "/res"}),
        "the policy says resultsDir: /results/hpc, and the claim r is mounted at /res: set resultsDirectory",
    ),
    (
        FILES | agents({"site": "elsewhere", "local": True, "localQueues": QUEUES}),
        "agents[0] (site elsewhere): the policy says workDir: /var/tmp/work, where the Pod cannot write",
    ),
]  # fmt: skip
GOOD: list[Json] = [
    {},
    FILES | agents({"site": "hpc", "ssh": SSH}, {"site": "demo", "local": True, "localQueues": QUEUES}),
    agents({"site": "HPC_1.x", "ssh": SSH, "replicas": 3}),
    BROUGHT | agents({"site": "hpc", "ssh": SSH, "resultsClaim": "r"}),
]


@pytest.mark.parametrize(("values", "words"), BY_SCHEMA, ids=[str(values) for values, _ in BY_SCHEMA])
def test_the_schema_names_the_value_and_what_is_wrong(values: Json, words: tuple[str, ...]) -> None:
    done = template(NEEDED | values)

    assert done.returncode == 1
    for one in words:
        assert one in done.stderr


@pytest.mark.parametrize(("values", "words"), BY_CHART, ids=[words[:60] for _, words in BY_CHART])
def test_the_chart_says_what_is_wrong_and_what_to_do(values: Json, words: str) -> None:
    done = template(NEEDED | values)

    assert done.returncode == 1
    assert words in done.stderr


@pytest.mark.parametrize("values", GOOD, ids=str)
def test_good_values_are_taken(values: Json) -> None:
    done = template(NEEDED | values)

    assert (done.returncode, done.stderr) == (0, "")


def test_values_of_an_older_chart_without_what_is_off_by_default_render_as_if_it_were_off() -> None:
    """As with ``helm upgrade --reuse-values``: a value of null is one that is not there."""
    off = ("approver", "network", "page", "policyReports", "public", "pullSecrets", "quota", "secrets", "tokens")
    older = dict.fromkeys((*off, "monitoring", "tracing")) | {"webhook": {"decisionLog": None, "clientCA": None}}

    done = template(NEEDED | older)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == template(NEEDED).stdout


def test_policy_reports_of_an_older_charts_values_need_a_schedule() -> None:
    done = template(NEEDED | {"policyReports": {"enabled": True, "schedule": None}})

    assert done.returncode == 1
    assert (
        "policyReports.schedule is missing: upgrade with --reset-then-reuse-values in place of --reuse-" in done.stderr
    )


def test_quotas_need_a_newer_kubernetes() -> None:
    done = template(NEEDED | {"quota": {"enabled": True}}, "--kube-version=v1.35.0")

    assert done.returncode == 1
    assert "quota.enabled needs MutatingAdmissionPolicies, which Kubernetes v1.35.0 has not" in done.stderr


@pytest.mark.parametrize(("version", "taken"), [("v1.30.9", False), ("v1.31.0", True), ("v1.37.0-eks-1", True)])
def test_the_oldest_kubernetes(version: str, taken: bool) -> None:
    done = template(NEEDED, f"--kube-version={version}")

    assert (done.returncode == 0) is taken
    assert taken or "chart requires kubeVersion: >=1.31.0-0" in done.stderr


def test_it_is_free_of_what_helm_warns_of() -> None:
    values = ROOT / "kindcluster" / "values.yaml"
    done = helm("lint", "--strict", str(CHART), f"--values={values}")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 chart(s) failed" in done.stdout


def test_the_readme_explains_every_value() -> None:
    page, text = readme.README.read_text(), readme.VALUES.read_text()

    assert [place for place, words in readme.comments(text).items() if not words and "." in place
            and place in dict(readme.leaves(yaml.safe_load(text)))] == []  # fmt: skip
    assert readme.with_table(page, readme.table(text)) == page, "run `python -m tests.chart.readme`"


def test_the_schema_has_every_value_and_every_default_is_of_its_type() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load(readme.VALUES.read_text())

    def known(schema: Json, values: Json) -> None:
        properties = schema["properties"]
        assert set(values) == set(properties) - {"global"}
        for key, value in values.items():
            if isinstance(value, dict) and "properties" in properties[key] and value and not key.endswith("esources"):
                known(properties[key], value)

    known(schema, values)


def test_the_values_explain_every_key_of_an_agent() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    entry = schema["properties"]["agents"]["items"]["properties"]
    told = readme.VALUES.read_text().partition("\nagents: []")[0].rpartition("An entry:")[2]

    assert [key for key in (*entry, *entry["ssh"]["properties"]) if key not in told] == []
