"""Jobs drawn by lot over the fields that are honoured on HPC, for both kinds of node.

Pure. Each ends in one way only, whatever the load: what runs at the same time shares nothing that the other would see,
and of Pods that run at the same time either none fails or each counts for itself.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any, Final

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.e2e import looks
from tests.e2e.drawncontainers import codes, container, texts
from tests.e2e.drawnvolumes import Json, Volume, volume


@dataclass(frozen=True)
class Ending:
    """How the main container ends.

    :param job: fields of the Job's spec
    :param pod: fields of the Pod's spec
    :param text: what the program does at its end
    :param main: fields of the container
    :param directory: the name of a volume that it has for that
    :param alone: whether no other container runs beside it
    """

    job: Json
    pod: Json
    text: str
    main: Json = field(default_factory=dict)
    directory: str = ""
    alone: bool = False


_LONG: Final = {"timeoutSeconds": 60}
"""For a probe that succeeds, however busy the machine is."""


def draw_jobs(number: int, start: int) -> list[Json]:
    """So many Jobs, the same from the same start."""
    found: list[Json] = []

    @seed(start)
    @settings(
        max_examples=number, database=None, derandomize=False, phases=[Phase.generate], deadline=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(jobs())
    def collect(job: Json) -> None:
        found.append(job)

    collect()
    return found[:number]


def fresh() -> int:
    """A start for draws."""
    return random.SystemRandom().randrange(1_000_000)


@st.composite
def jobs(draw: st.DrawFn) -> Json:
    """One Job, without a name."""
    ending = draw(st.one_of(_once(), _once(), _several(), _by_index(), _again(), _ended()))
    volumes = [draw(volume(f"v{number}", "main")) for number in range(draw(st.integers(0, 3)))]
    pod = draw(_pod(single=ending.job.get("completions", 1) == 1)) | ending.pod
    beside = "" if ending.alone else draw(st.sampled_from(("", "", "", "sidecar", "second")))
    inits = [
        draw(container(f"i{number}", _some(draw, volumes), alone=beside != "sidecar", end=""))
        for number in range(draw(st.integers(0, 2)))
    ]
    mains = [draw(_main(ending, pod, _some(draw, volumes), beside))]
    if beside == "sidecar":
        inits.insert(0, draw(_sidecar([one for one in volumes if not one.empty])))
    elif beside == "second":
        mains.append(draw(container("other", _some(draw, volumes), alone=False, end="")))
    more = [ending.directory] * bool(ending.directory) + ["ready"] * (beside == "sidecar")
    pod["volumes"] = [one.source for one in volumes] + [{"name": name, "emptyDir": {}} for name in more]
    pod |= {"initContainers": inits} if inits else {}
    meta = {"labels": {"who": "me"}, "annotations": {"what": 'a "note"', "lines": "x\ny"}}
    spec = {**draw(_job()), **ending.job, "template": {"metadata": meta, "spec": {**pod, "containers": mains}}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {}, "spec": spec}


def _some(draw: st.DrawFn, volumes: list[Volume]) -> list[Volume]:
    return [one for one in volumes if draw(st.integers(0, 3))]


@st.composite
def _main(draw: st.DrawFn, ending: Ending, pod: Json, volumes: list[Volume], beside: str) -> Json:
    """The main container, with what it needs for its end."""
    text = looks.RESOLVING if pod.get("dnsPolicy") == "None" else ""
    text += "while ! test -e /ready/side; do sleep 0.1; done\n" if beside == "sidecar" else ""
    main = draw(container("main", volumes, alone=not beside, end=text + ending.text))
    more = [ending.directory] * bool(ending.directory) + ["ready"] * (beside == "sidecar")
    mounts = [*main.get("volumeMounts", ()), *({"name": name, "mountPath": f"/{name}"} for name in more)]
    probes = {} if ending.main else draw(_probes())
    return main | ({"volumeMounts": mounts} if mounts else {}) | probes | ending.main


@st.composite
def _sidecar(draw: st.DrawFn, volumes: list[Volume]) -> Json:
    """It prints, says that it is there, and runs until it is told to end."""
    end = "echo >/ready/side\n" + looks.waiting("side", draw(st.sampled_from((0, 0, 5))))
    found = draw(container("side", volumes, alone=False, end=end, host=False))
    probe = {
        "startupProbe": {
            "exec": {"command": ["test", "-e", "/ready/side"]},
            "periodSeconds": 1,
            "failureThreshold": 600,
            **_LONG,
        }
    }
    return found | {
        "restartPolicy": "Always",
        "volumeMounts": [*found.get("volumeMounts", ()), {"name": "ready", "mountPath": "/ready"}],
        **draw(st.sampled_from(({}, probe))),
    }


@st.composite
def _probes(draw: st.DrawFn) -> Json:
    """Probes that never fail."""
    kinds = draw(st.lists(st.sampled_from(("startupProbe", "readinessProbe", "livenessProbe")), max_size=1))
    return {kind: {"exec": {"command": ["true"]}, **_LONG, "periodSeconds": draw(st.integers(1, 9))} for kind in kinds}


@st.composite
def _once(draw: st.DrawFn) -> Ending:
    """One Pod that ends well or badly, perhaps tried again, perhaps with a policy for its code."""
    code = draw(st.one_of(st.just(0), codes()))
    end = f"exit {code}\n" if code else ""
    spec: Json = {"backoffLimit": draw(st.sampled_from((0, 0, 1)))}
    if draw(st.booleans()):
        spec |= {"backoffLimit": 1, "podFailurePolicy": {"rules": draw(st.lists(_rule(), min_size=1, max_size=2))}}
    return Ending(spec, {"restartPolicy": "Never"}, end)


@st.composite
def _rule(draw: st.DrawFn) -> Json:
    values = sorted(draw(st.sets(codes(), min_size=1, max_size=3)))
    who = draw(st.sampled_from(({}, {"containerName": "main"})))
    operator = draw(st.sampled_from(("In", "NotIn")))
    return {
        "action": draw(st.sampled_from(("FailJob", "Count"))),
        "onExitCodes": {"operator": operator, "values": values, **who},
    }


@st.composite
def _several(draw: st.DrawFn) -> Ending:
    """Several Pods that end well."""
    spec: Json = {"completions": draw(st.integers(1, 3)), "parallelism": draw(st.integers(1, 3)), "backoffLimit": 0}
    if draw(st.booleans()):
        spec["completionMode"] = "Indexed"
        if draw(st.booleans()):
            last = spec["completions"] - 1
            spec["successPolicy"] = {"rules": [{"succeededIndexes": f"0-{last}" if last else "0"}]}
    return Ending(spec, {"restartPolicy": draw(st.sampled_from(("Never", "OnFailure")))}, "")


@st.composite
def _by_index(draw: st.DrawFn) -> Ending:
    """Indexes that each count for themselves."""
    code = draw(codes())
    spec: Json = {
        "completions": 3,
        "parallelism": 3,
        "completionMode": "Indexed",
        "backoffLimitPerIndex": draw(st.integers(0, 1)),
    }
    if draw(st.booleans()):
        rule = {"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [code]}}
        spec |= {"podFailurePolicy": {"rules": [rule]}}
    if draw(st.booleans()):
        spec["maxFailedIndexes"] = 3
    end = f"test $JOB_COMPLETION_INDEX != {draw(st.integers(0, 2))} || exit {code}\n"
    return Ending(spec, {"restartPolicy": "Never"}, end)


@st.composite
def _again(draw: st.DrawFn) -> Ending:
    """A container that is started again in its Pod, by the Pod's policy or its own."""
    code, times = draw(codes()), draw(st.integers(2, 3))
    rule = {"action": "Restart", "exitCodes": {"operator": "In", "values": [code]}}
    ways: tuple[tuple[str, Json], ...] = (
        ("OnFailure", {}),
        ("Never", {"restartPolicy": "OnFailure"}),
        ("Never", {"restartPolicy": "Never", "restartPolicyRules": [rule]}),
    )
    pod, main = draw(st.sampled_from(ways))
    return Ending({"backoffLimit": 6}, {"restartPolicy": pod}, looks.counted(times, code), main, "count")


@st.composite
def _ended(draw: st.DrawFn) -> Ending:
    """A container whose liveness probe fails, with hooks that look at their words, or one with hooks alone."""
    hook = [
        "sh",
        "-c",
        "{ pwd; echo '$(A) $$(A) $$ $(S_A)'; for w; do echo \"[$w]\"; done; } >/hook/part; mv /hook/part /hook/$0",
    ]
    words = draw(st.lists(texts(), max_size=2))
    after = {"exec": {"command": [*hook, "after", *words]}}
    before = {"exec": {"command": [*hook, "before", *words]}}
    end = "while ! test -e /hook/after; do sleep 0.1; done; cat /hook/after\n"
    fields: Json = {"lifecycle": {"postStart": draw(st.sampled_from((after, after, {"sleep": {"seconds": 1}})))}}
    if fields["lifecycle"]["postStart"] is not after:
        end = ""
    if draw(st.booleans()):
        fields["lifecycle"]["preStop"] = before
        probe = ["sh", "-c", "echo '$(A) $$(A) $(B)' >/hook/probe; ! test -e /hook/bad"]
        fields["livenessProbe"] = {"exec": {"command": probe}, "periodSeconds": 1, "failureThreshold": 1, **_LONG}
        end += "trap 'cat /hook/probe /hook/before; exit 7' TERM; echo >/hook/bad\nwhile :; do sleep 0.1; done\n"
    pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 60}
    return Ending({"backoffLimit": 0}, pod, end, fields, "hook", alone=True)


@st.composite
def _job(draw: st.DrawFn) -> Json:
    """Fields of the Job that go with any other."""
    found: Json = {}
    for more in (
        {"activeDeadlineSeconds": 1500},
        {"ttlSecondsAfterFinished": 7200},
        {"podReplacementPolicy": "Failed"},
        {"suspend": True},
        {"managedBy": "kubernetes.io/job-controller"},
    ):
        if draw(st.integers(0, 4)) == 0:
            found |= more
    return found


@st.composite
def _pod(draw: st.DrawFn, *, single: bool) -> dict[str, Any]:
    """Fields of the Pod that go with any other."""
    found: Json = {"terminationGracePeriodSeconds": draw(st.sampled_from((2, 2, 5)))}
    dns = {
        "nameservers": ["10.1.2.3", "10.1.2.4"],
        "searches": ["a.example", "b.example"],
        "options": [{"name": "ndots", "value": "2"}, {"name": "edns0"}],
    }
    for more in (
        {"hostname": "box1"},
        {"hostnameOverride": "over.ride"},
        {"subdomain": "sub"} if single else {},
        {"setHostnameAsFQDN": True},
        {
            "hostAliases": [
                {"ip": "10.1.2.3", "hostnames": ["alias1", "alias2"]},
                {"ip": "10.1.2.4", "hostnames": ["x"]},
            ]
        },
        {"dnsPolicy": "None", "dnsConfig": dns},
        {"enableServiceLinks": False},
        {"automountServiceAccountToken": False},
        {"activeDeadlineSeconds": 1500},
        {"serviceAccountName": "other"},
        {"securityContext": {"seccompProfile": {"type": "RuntimeDefault"}}},
        {"os": {"name": "linux"}},
    ):
        if draw(st.integers(0, 4)) == 0:
            found |= more
    if "hostnameOverride" in found:
        found.pop("setHostnameAsFQDN", None)  # the API server refuses both
    return found
