"""Secrets on HPC, from ``kubectl apply`` to their end: as files and variables of real containers, and nowhere else."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from router import names
from router.cli.cluster import Cluster
from router.cli.rights import look_at_rights, own_lines
from router.cli.status import look
from router.cli.statustroubles import look_at_policy
from router.controlplane import installing, realnode
from router.controlplane.plane import ControlPlane
from router.demo import sandbox
from router.kube.client import connect
from router.policy import load
from router.preflight import Mark
from router.site.rights import Right
from router.startup.policyfiles import read_directory
from tests.agent.whole import unreliable
from tests.agent.whole.jobs import BUSY, IMAGE, LABEL, job_of, unique
from tests.agent.whole.kubectl import Kubectl
from tests.agent.whole.site import BOXED
from tests.agent.whole.stack import NAMESPACE, Agent, Stack, agent_argv, component
from tests.agent.whole.waiting import until

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.apptainer,
    pytest.mark.skipif(shutil.which("apptainer") is None, reason="no apptainer on this machine"),
]
PUBLISHED = (
    Path(__file__).parents[4]
    / "shared/corpus/GoogleCloudPlatform__kubernetes-engine-samples/ai-ml__llm-serving-gemma__saxml__job-2b.yaml"
)
VALUE = "correct-horse-battery"
ACCOUNT = f"{names.SYSTEM_NAMESPACE}:{names.AGENT_ACCOUNT}"
TOKENS = (f"{names.AGENT_ACCOUNT}-tokens", "--clusterrole", names.TOKENS_ROLE, "--serviceaccount", ACCOUNT)
GRANTED = (f"{names.AGENT_ACCOUNT}-secrets", "--clusterrole", names.SECRETS_ROLE, "--serviceaccount", ACCOUNT)


@pytest.fixture(scope="module")
def boxed_agent(whole: Stack) -> Iterator[Agent]:
    """The agent of the site to which Secrets are brought."""
    sandbox.build(whole.site.image)
    for folder in ("secrets", "tokens"):
        whole.plane.kubectl("apply", "-k", str(installing.MANIFESTS / folder))
    key = whole.signing_key.with_name("signing.pub")
    site = whole.site.boxed()
    site.make_boxed()
    argv = agent_argv(site, installing.agent(whole.plane), key, BOXED, BOXED)
    argv[argv.index("--policy") + 1] = str(whole.site.policy)
    agent = Agent(component(whole.plane, BOXED, argv, site))
    agent.start()
    whole.kept.append(agent)
    installing.approve(whole.plane)
    yield agent
    whole.kept.remove(agent)
    agent.kill()
    site.stop()
    _forget(whole.plane)


def _forget(plane: ControlPlane) -> None:
    """Take away what the agent has published: other tests count agents, queues and Nodes."""
    plane.kubectl("delete", "nodes", "-l", f"{names.KEY_SITE}={BOXED}")
    for one in (names.QUEUES_CONFIG_MAP, names.CHECKS_CONFIG_MAP, names.POLICY_STATE_CONFIG_MAP):
        place = ("configmap", "-n", names.SYSTEM_NAMESPACE, one)
        data = json.loads(plane.kubectl("get", *place, "--ignore-not-found", "-o", "json").stdout or "{}").get(
            "data", {}
        )
        gone = dict.fromkeys(key for key, text in data.items() if BOXED in key or f'"{BOXED}"' in text)
        if gone:
            plane.kubectl("patch", *place, "-p", json.dumps({"data": gone}))


@pytest.fixture
def boxed(stack: Stack, boxed_agent: Agent) -> Iterator[Stack]:
    """The stack with that agent, and with the right to read Secrets bound in the namespace."""
    boxed_agent.kill()
    boxed_agent.start()
    for binding in (GRANTED, TOKENS):
        stack.admin.ok("create", "rolebinding", *binding)
    yield stack
    stack.admin.ok("delete", "rolebinding", GRANTED[0], TOKENS[0], "--ignore-not-found")
    stack.admin.ok("delete", "secret", "-l", LABEL)


def secret(stack: Stack, **values: str) -> str:
    """A new Secret of the namespace."""
    name = unique("login")
    metadata = {"name": name, "labels": {LABEL: name}}
    stack.admin.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": values})
    return name


def job(name: str, text: str, *, pod: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    main = {"name": "main", "image": "any/image:1", "command": ["/bin/bash", "-c", text], **fields}
    made = job_of(name, [main], pod=pod or {}, annotations={})
    made["metadata"]["labels"][BOXED] = "yes"
    main["resources"] = {"requests": {"cpu": str(BUSY), "memory": "64Mi"}}
    return made


def variable(name: str, key: str = "password") -> dict[str, Any]:
    return {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": name, "key": key}}}


def holding(stack: Stack, value: str = VALUE) -> list[str]:
    """Files below the site's root and the logs' directory that hold a value, as paths."""
    found = []
    for root in (stack.site.root, stack.plane.place.logs):
        for folder, _, names_ in os.walk(root):  # which does not mind what goes meanwhile
            for path in (Path(folder) / name for name in names_ if stack.site.image not in Path(folder).parents):
                with contextlib.suppress(OSError):
                    if not path.is_symlink() and path.is_file() and value.encode() in path.read_bytes():
                        found.append(str(path))
    return found


def in_command_lines(value: str = VALUE) -> list[str]:
    found = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = process.read_bytes()
        except OSError:
            continue
        if value.encode() in words:
            found.append(words.decode(errors="replace"))
    return found


def logs(stack: Stack, name: str) -> list[str]:
    installing.approve(stack.plane)  # the second agent asks for a certificate too
    return stack.user.run("logs", f"job/{name}").out.splitlines()


def test_a_secret_in_variables_and_volumes_and_nothing_left_of_it(boxed: Stack) -> None:
    name, own = unique("secret"), secret(boxed, user="ada", password=VALUE, **{"tls.key": "k"})
    text = (
        'for one in "$user" "$PASSWORD" "$DB_user" "$(cat /one/deep/pass)" "$(cat /all/user)" "$(cat /sub)" "$(cat /joined/p)"\n'
        'do echo "${one:0:9}"; done\nls -l /one/deep/pass /all/tls.key\nls /none\n(echo x >/all/user) 2>/dev/null || echo read-only\n'
        "sleep 600"
    )
    volumes = [
        {"name": "one", "secret": {"secretName": own, "defaultMode": 0o400, "items": [{"key": "password", "path": "deep/pass"}]}},
        {"name": "all", "secret": {"secretName": own}},
        {"name": "none", "secret": {"secretName": "absent", "optional": True}},
        {"name": "joined", "projected": {"sources": [{"secret": {"name": own, "items": [{"key": "user", "path": "p", "mode": 0o600}]}}]}},
    ]  # fmt: skip
    mounts = [{"name": one, "mountPath": f"/{one}"} for one in ("one", "all", "none", "joined")]
    mounts.append({"name": "all", "mountPath": "/sub", "subPath": "user"})
    env_from = [{"secretRef": {"name": own}}, {"prefix": "DB_", "secretRef": {"name": own}}]

    boxed.user.apply(
        job(name, text, pod={"volumes": volumes}, volumeMounts=mounts, env=[variable(own)], envFrom=env_from)
    )
    boxed.await_running(name)
    staged = holding(boxed)
    site = boxed.site.boxed()
    shown = site.local("qstat", "-x", "-f", site.of(name)[0].job_id)

    assert {Path(path).relative_to(site.work).parts[5:] for path in staged} == {
        ("env", "main"), ("files", "one", "deep", "pass"), ("files", "all", "password"),
    }  # fmt: skip
    assert in_command_lines() == []
    lines = until(lambda: logs(boxed, name), lambda found: "read-only" in found, what="for its last line")
    assert lines[:7] == ["ada", VALUE[:9], "ada", VALUE[:9], "ada", "ada", "ada"]
    assert [line.split()[0] for line in lines[7:9]] == ["-rw-------", "-r--------"]
    assert lines[9:] == ["read-only"]
    assert VALUE not in shown
    boxed.user.ok("delete", "job", name, "--wait=false", "--cascade=foreground")
    boxed.await_gone(name)
    assert holding(boxed) == []


def events(stack: Stack, name: str, reason: str) -> list[str]:
    uid = stack.pod(name)["metadata"]["uid"]
    found = stack.user.every("events", "")
    return [one["message"] for one in found if one["involvedObject"].get("uid") == uid and one["reason"] == reason]


def waiting(stack: Stack, name: str) -> tuple[str, str]:
    """Why the one container of a Job waits."""
    states = [one["state"] for one in stack.pod(name)["status"].get("containerStatuses", ())]
    found = states[0].get("waiting", {}) if states else {}
    return found.get("reason", ""), found.get("message", "")


@pytest.mark.skipif(bool(realnode.obstacle()), reason=f"no real node of the cloud: {realnode.obstacle()}")
def test_a_program_sees_the_same_on_a_real_node(boxed: Stack) -> None:
    own = secret(boxed, user="ada", password="two\nlines", EMPTY="")
    items = [{"key": "user", "path": "a/b"}, {"key": "EMPTY", "path": "none"}]
    sources = [{"secret": {"name": own, "items": items}}, {"secret": {"name": "absent", "optional": True}}]
    volumes = [{"name": "all", "secret": {"secretName": own}}, {"name": "some", "projected": {"sources": sources}}]
    mounts = [{"name": "all", "mountPath": "/all"}, {"name": "some", "mountPath": "/some"}]
    mounts.append({"name": "all", "mountPath": "/alone", "subPath": "password"})
    account = "/var/run/secrets/kubernetes.io/serviceaccount"
    text = (
        'for one in "$user" "$X_user" "$PASSWORD" "${EMPTY-unset}" "${NONE-unset}" "$URL" "$(ls /all)" "$(ls /some)" "$(cat /all/*)"\n'
        f'do echo "[$one]"; done >/said\ncat /some/a/b /some/none /alone >>/said; ls {account} >>/said; cat {account}/namespace >>/said'
    )
    absent = {"name": "NONE", "valueFrom": {"secretKeyRef": {"name": own, "key": "none", "optional": True}}}
    fields: dict[str, Any] = {
        "image": IMAGE,
        "command": ["sh", "-c", text],
        "env": [variable(own), absent, {"name": "URL", "value": "x:$(PASSWORD)@y"}],
        "envFrom": [{"secretRef": {"name": own}}, {"prefix": "X_", "secretRef": {"name": own}}],
        "volumeMounts": mounts,
        "terminationMessagePath": "/said",
    }
    said = []
    for place, cpus in (("cloud", "0"), (BOXED, str(BUSY))):
        made = job(unique(place), "", pod={"volumes": volumes}, **fields)
        made["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpus
        if place == "cloud":
            del made["metadata"]["labels"][BOXED]
        boxed.user.apply(made)
        name = made["metadata"]["name"]
        assert boxed.await_end(name) == ["Complete"]
        said.append(boxed.pod(name)["status"]["containerStatuses"][0]["state"]["terminated"]["message"])

    assert said[1] == said[0]
    assert said[0].splitlines()[:3] == ["[ada]", "[ada]", "[two"]


@pytest.mark.skipif(not PUBLISHED.exists(), reason="no ../shared/corpus beside the project")
def test_a_job_that_others_have_published(boxed: Stack) -> None:
    """It downloads a model with a Secret in a volume; what its image lacks here stands in for what it calls."""
    programs = {
        "pip": "exit 0",
        "awk": "echo part",
        "kaggle": f"[ $(</kaggle/kaggle.json) == {VALUE} ]",
        "gcloud": "exit 0",
    }
    for program, text in programs.items():
        path = boxed.site.image / "usr" / "bin" / program
        path.write_text(f"#!/bin/bash\n{text}\n")
        path.chmod(0o755)
    (boxed.site.image / "usr" / "bin" / "bash").symlink_to("/bin/bash")
    objects = [one for one in yaml.safe_load_all(PUBLISHED.read_text()) if one]
    (own,) = [one for one in objects if one["kind"] == "Job"]
    name = own["metadata"]["name"]
    for labelled in (own["metadata"], own["spec"]["template"]["metadata"]):
        labelled["labels"] |= {LABEL: name, BOXED: "yes"}
    metadata = {"name": "kaggle-secret", "labels": {LABEL: name}}
    login = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"kaggle.json": VALUE}}
    boxed.admin.apply(login)

    applied = boxed.user.apply(*objects)

    assert "Warning: This Job goes to HPC" in applied.err
    assert boxed.await_end(name) == ["Complete"]
    assert holding(boxed) == []


def test_without_the_right_a_pod_waits_with_the_command_that_gives_it(boxed: Stack) -> None:
    boxed.admin.ok("delete", "rolebinding", GRANTED[0])
    name, own = unique("rightless"), secret(boxed, password=VALUE)

    boxed.user.apply(job(name, "true", env=[variable(own)]))

    command = f"kubectl -n {NAMESPACE} create rolebinding {' '.join(GRANTED)}"
    words = f"the agent may not read Secret {own}: an admin of namespace {NAMESPACE} allows it with `{command}`"
    until(lambda: waiting(boxed, name), lambda found: found == ("CreateContainerConfigError", words))
    assert until(lambda: events(boxed, name, "CreateContainerConfigError"), what="for the Event") == [words]
    check_what_is_told_of_rights(boxed, command)
    boxed.admin.ok(*command.split()[3:])
    assert boxed.await_end(name) == ["Complete"]


def check_what_is_told_of_rights(stack: Stack, command: str) -> None:
    """What ``site check`` says as the agent and ``status`` as an admin, of a right that lacks and of one that is there."""
    (site,) = [one for one in load(read_directory(stack.site.policy)).sites if one.name == BOXED]
    told = list(own_lines(connect(str(installing.agent(stack.plane))), site, []))
    assert [(line.name, line.mark, line.change) for line in told] == [
        (f"rights/{NAMESPACE}", Mark.WARNING, command),
        (f"rights/{NAMESPACE}", Mark.OK, ""),
    ]
    place = ("-n", names.SYSTEM_NAMESPACE, "configmap", names.POLICIES_CONFIG_MAP)
    stack.plane.kubectl("create", *place, f"--from-file={stack.site.policy}")
    try:
        seen = Cluster(connect(str(stack.admin.kubeconfig)), NAMESPACE, named=False, system=names.SYSTEM_NAMESPACE)
        _, policy = look_at_policy(seen)
        assert not isinstance(policy, str), policy
        shown = look_at_rights(seen, policy, look(seen).jobs, BOXED)
    finally:
        stack.plane.kubectl("delete", *place)
    assert ([one for one in shown if one.namespace == NAMESPACE], seen.missed) == (
        [
            Right(BOXED, NAMESPACE, "read Secrets", allowed=False, change=command),
            Right(BOXED, NAMESPACE, "create tokens", allowed=True),
        ],
        [],
    )


def test_a_missing_secret_or_key_is_waited_for_as_on_a_node(boxed: Stack) -> None:
    name, later = unique("missing"), unique("later")
    volume = {"name": "v", "secret": {"secretName": later, "items": [{"key": "password", "path": "p"}]}}
    mount = {"name": "v", "mountPath": "/v"}

    boxed.user.apply(job(name, "read one </v/p; ((${#one}))", pod={"volumes": [volume]}, volumeMounts=[mount]))

    begin = f"MountVolume.SetUp failed for volume \"v\" : spec.volumes[v].secret: Secret '{later}' does not exist"
    until(lambda: waiting(boxed, name), lambda found: found[0] == "ContainerCreating" and found[1].startswith(begin))
    assert until(lambda: events(boxed, name, "FailedMount"), what="for the Event")[0].startswith(begin)
    metadata = {"name": later, "labels": {LABEL: later}}
    boxed.admin.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"other": "x"}})
    until(lambda: waiting(boxed, name)[1], lambda words: "there is no key 'password'" in words)
    boxed.admin.ok("patch", "secret", later, "-p", json.dumps({"stringData": {"password": f"{VALUE}\n"}}))
    assert boxed.await_end(name) == ["Complete"]
    assert holding(boxed) == []


def test_what_a_killed_script_leaves_goes_with_its_pod(boxed: Stack) -> None:
    name, own = unique("killed"), secret(boxed, password=VALUE)
    boxed.user.apply(job(name, "sleep 600", env=[variable(own)]))
    boxed.await_running(name)
    site = boxed.site.boxed()
    assert holding(boxed) != []

    site.local("qdel", "-W", "force", site.of(name)[0].job_id)

    assert boxed.await_end(name) == ["Failed"]
    until(lambda: holding(boxed), lambda left: not left, what="for nothing left of the Secret")


def test_each_pod_of_a_job_that_is_tried_again_has_its_own_and_none_is_left(boxed: Stack) -> None:
    name, own = unique("again"), secret(boxed, password=VALUE)
    made = job(name, "exit $((${#PASSWORD} != 21 ? 3 : 4))", env=[variable(own)])
    made["spec"]["backoffLimit"] = 1

    boxed.user.apply(made)

    assert boxed.await_end(name) == ["Failed"]
    codes = [pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] for pod in boxed.pods(name)]
    assert codes == [4, 4]
    until(lambda: holding(boxed), lambda left: not left, what="for nothing left of the Secret")


def test_an_agent_that_dies_between_staging_and_submission_leaves_nothing(boxed: Stack, boxed_agent: Agent) -> None:
    name, own = unique("between"), secret(boxed, password=VALUE)
    unreliable.plan(boxed.site.boxed().faults, unreliable.LATE, seconds=300)
    boxed.user.apply(job(name, "true", env=[variable(own)]))
    until(lambda: unreliable.met(boxed.site.boxed().faults), what="for the submission")
    boxed_agent.kill()
    boxed.user.ok("delete", "job", name, "--wait=false")
    assert holding(boxed) != []

    boxed_agent.start()

    until(lambda: holding(boxed), lambda left: not left, what="for nothing left of the Secret")
    boxed.await_gone(name)


def token_of(stack: Stack) -> str:
    (path,) = stack.site.boxed().work.rglob(".serviceaccount/token")
    return path.read_text()


def reviewed(stack: Stack, token: str, audience: str = "") -> dict[str, Any]:
    """What the API server says of a token."""
    spec = {"token": token, "audiences": [audience] if audience else []}
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec}
    out = stack.admin.ok("create", "-f", "-", "-o", "json", stdin=json.dumps(body))
    status: dict[str, Any] = json.loads(out)["status"]
    return status


def test_a_token_of_the_pod_with_what_programs_look_for_beside_it_and_renewed(boxed: Stack, boxed_agent: Agent) -> None:
    name = unique("token")
    text = (
        "cd /var/run/secrets/kubernetes.io/serviceaccount && cat namespace && echo && read -r one <ca.crt && echo $one\n"
        "echo $(KUBERNETES_SERVICE_HOST) $KUBERNETES_SERVICE_PORT\nfirst=$(cat token)\n"
        'until [ "$first" != "$(cat token)" ]; do sleep 0.2; done\necho renewed\nsleep 600'
    )
    source = {"serviceAccountToken": {"audience": "vault", "expirationSeconds": 900, "path": "t"}}
    volume = {"name": "vault", "projected": {"sources": [source]}}
    boxed.user.apply(
        job(name, text, pod={"volumes": [volume]}, volumeMounts=[{"name": "vault", "mountPath": "/vault"}])
    )
    boxed.await_running(name)
    until(lambda: len(logs(boxed, name)) == 3, what="for its first lines")
    token, pod = token_of(boxed), boxed.pod(name)
    seen = reviewed(boxed, token)
    assert seen["user"]["username"] == f"system:serviceaccount:{NAMESPACE}:default"
    assert seen["user"]["extra"]["authentication.kubernetes.io/pod-uid"] == [pod["metadata"]["uid"]]
    (other,) = boxed.site.boxed().work.rglob("vault/t")
    assert reviewed(boxed, other.read_text(), "vault")["audiences"] == ["vault"]
    assert in_command_lines(token) == []

    boxed_agent.kill()
    boxed_agent.start()

    lines = until(lambda: logs(boxed, name), lambda found: len(found) == 4, what="for a renewal")
    assert lines == [NAMESPACE, "-----BEGIN CERTIFICATE-----", "kubernetes.example.org 6443", "renewed"]
    last = token_of(boxed)
    boxed.user.ok("delete", "job", name, "--wait=false")
    boxed.await_gone(name)
    until(lambda: [*holding(boxed, token), *holding(boxed, last)], lambda left: not left, what="for no token left")
    assert "authenticated" not in reviewed(boxed, last)


def test_without_the_right_to_create_tokens_a_pod_waits(boxed: Stack) -> None:
    boxed.admin.ok("delete", "rolebinding", TOKENS[0])
    name, without = unique("tokenless"), unique("needless")

    boxed.user.apply(job(name, "true"), job(without, "true", pod={"automountServiceAccountToken": False}))

    command = f"kubectl -n {NAMESPACE} create rolebinding {' '.join(TOKENS)}"
    words = (
        f"the agent may not create a token of service account default: an admin of namespace {NAMESPACE} allows it with "
        f"`{command}`"
    )
    until(lambda: waiting(boxed, name), lambda found: found == ("CreateContainerConfigError", words))
    assert boxed.await_end(without) == ["Complete"]
    boxed.admin.ok(*command.split()[3:])
    assert boxed.await_end(name) == ["Complete"]


def test_an_agent_creates_no_token_that_outlives_its_pod(boxed: Stack) -> None:
    agent = Kubectl(installing.agent(boxed.plane), NAMESPACE, boxed.site.root)

    assert "an agent creates tokens only for Pods" in agent.run("create", "token", "default").err
