"""What the values name stays a text in the objects, also where it looks like a number or a truth value."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from router import names
from tests.chart.rendering import NEEDED, template

Json = dict[str, Any]
PLAIN = {
    "namespace": "zz-a",
    "site": "zz-b",
    "secret": "zz-c",
    "map": "zz-d",
    "claim": "zz-e",
    "label": "zz-f",
    "class": "zz-g",
    "other": "zzzh",
    "cidr": "10.0.0.0/8",
}
NUMBERS = {
    "namespace": "123",
    "site": "456",
    "secret": "0123",
    "map": "77",
    "claim": "0x1f",
    "label": "true",
    "class": "7",
    "other": "8888",
    "cidr": "::/0",
}
MODES: dict[str, Json] = {
    "builtin": {},
    "cert-manager": {"mode": "cert-manager", "certManager": {"issuerRef": {"name": "zzzh", "kind": "Issuer"}}},
    "existing": {"mode": "existing", "existing": {"caBundle": "zzzh"}},
}


def values(words: Mapping[str, str], certificates: Json) -> Json:
    placed = {
        "nodeSelector": {"a": words["label"]},
        "priorityClassName": words["class"],
        "podLabels": {"a": words["label"]},
        "podAnnotations": {"a": words["label"]},
    }
    ssh = {"keysSecret": words["secret"], "knownHostsConfigMap": words["map"]}
    queues = [{"name": "q", "nodes": 1, "cpusPerNode": 1}]
    text = json.dumps(certificates).replace("zzzh", words["other"])
    return NEEDED | {
        "createNamespace": True,
        "imagePullSecrets": [words["secret"]],
        "webhook": {
            "clientCA": {"configMap": words["map"], "names": [words["other"]]},
            "decisionLog": {"enabled": True, "claim": words["claim"]},
            **placed,
        },
        "page": {"enabled": True, "hostNames": [words["other"]], "tlsSecret": words["secret"], "decisionLog": True},
        "agents": [
            {"site": words["site"], "ssh": ssh, "resultsClaim": words["claim"], **placed},
            {"site": "local", "local": True, "localQueues": queues, "stateClaim": words["claim"]},
        ],
        "hooks": {"nodeSelector": placed["nodeSelector"]},
        "network": {"enabled": True, "apiServer": [words["cidr"]], "monitoringNamespace": words["other"]},
        "pullSecrets": {"enabled": True, "namespaces": [words["other"]]},
        "public": {"enabled": True, "groups": [words["other"]]},
        "secrets": {"enabled": True, "namespaces": [words["other"]]},
        "tokens": {"enabled": True, "namespaces": [words["other"]]},
        "monitoring": {
            "enabled": True,
            "labels": {"a": words["label"]},
            "dashboards": {
                "enabled": True,
                "labels": {"a": words["label"]},
                "annotations": {"a": words["label"]},
            },
        },
        "quota": {"enabled": True},
        "tracing": {
            "endpoint": "http://127.0.0.1:4318",
            "headersSecret": words["secret"],
            "variables": {"OTEL_A": words["other"]},
        },
        "approver": {"enabled": True},
        "policyReports": {"enabled": True, "decisionLog": True},
        "certificates": json.loads(text),
    }


def rendered(words: Mapping[str, str], certificates: Json) -> list[Json]:
    done = template(values(words, certificates), f"--namespace={words['namespace']}")
    assert done.returncode == 0, done.stderr
    found = [one for one in yaml.safe_load_all(done.stdout) if one is not None]
    for one in found:
        if one["metadata"]["name"] == names.REGISTRATION_CONFIG_MAP:
            one["data"] = {key: yaml.safe_load(text) for key, text in one["data"].items()}
    return found


@pytest.mark.parametrize("mode", MODES)
def test_a_name_that_looks_like_a_number_stays_a_text(mode: str) -> None:
    expected = json.dumps(rendered(PLAIN, MODES[mode]))
    for key, word in PLAIN.items():
        expected = expected.replace(word, NUMBERS[key])

    found = {json.dumps(one, sort_keys=True) for one in rendered(NUMBERS, MODES[mode])}
    assert found == {json.dumps(one, sort_keys=True) for one in json.loads(expected)}
