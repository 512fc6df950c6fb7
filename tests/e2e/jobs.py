"""Jobs for both kinds of node, by hand: each uses fields that are honoured on HPC, and prints what a container sees of them.

Pure values. ``sh`` is busybox's. Of a mode the owner's bits are printed: the one user of a container owns what is mounted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

Job = dict[str, Any]

IMAGE: Final = "registry.k8s.io/e2e-test-images/busybox:1.37.0-1"
WORDS: Final = {"plain": "one", "lines": "a\nb\n", "dotted.key": "two", "empty": "", "dollar": "$(HOME) `id` $x"}
"""The ConfigMap ``words`` of both namespaces."""


def job(*containers: Mapping[str, Any], spec: Mapping[str, Any] = {}, meta: Mapping[str, Any] = {}, **pod: Any) -> Job:
    """A Job of these containers. ``spec``: of the Job; ``meta``: of the Pod; the rest: of the Pod's spec."""
    template = {
        "metadata": dict(meta),
        "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 2, **pod, "containers": list(containers)},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {},
        "spec": {"backoffLimit": 0, **spec, "template": template},
    }


def box(*command: str, name: str = "main", **fields: Any) -> dict[str, Any]:
    """A container."""
    return {"name": name, "image": IMAGE, **({"command": list(command)} if command else {}), **fields}


def sh(text: str, name: str = "main", **fields: Any) -> dict[str, Any]:
    """A container that runs a text, in which Kubernetes takes ``$$`` for a dollar."""
    return box("sh", "-c", text, name=name, **fields)


def field(path: str) -> dict[str, Any]:
    return {"valueFrom": {"fieldRef": {"fieldPath": path}}}


def resource(name: str, divisor: str = "0") -> dict[str, Any]:
    return {"valueFrom": {"resourceFieldRef": {"resource": name, "divisor": divisor}}}


def from_map(key: str, name: str = "words", **more: Any) -> dict[str, Any]:
    return {"valueFrom": {"configMapKeyRef": {"name": name, "key": key, **more}}}


def env(**values: Any) -> list[dict[str, Any]]:
    return [{"name": key, **(value if isinstance(value, dict) else {"value": value})} for key, value in values.items()]


def volume(**source: Any) -> list[dict[str, Any]]:
    return [{"name": "v", **source}]


def mount(path: str = "/v", **more: Any) -> list[dict[str, Any]]:
    return [{"name": "v", "mountPath": path, **more}]


_LOOK: Final = 'cd /v && for f in *; do echo "$f $(stat -L -c %A "$f" | cut -c1-4)"; test -d "$f" || cat "$f"; done'
_TREE: Final = (
    'cd /v && find -L . ! -path "./..*" | sort | while read -r f; do echo "$f $(stat -L -c %A "$f" | cut -c1-4)"; done'
)
_LIMITS: Final = {"limits": {"cpu": "2", "memory": "64Mi"}, "requests": {"cpu": "250m", "memory": "32Mi"}}
_ITEMS: Final = [{"key": "plain", "path": "deep/er"}, {"key": "lines", "path": "l", "mode": 0o440}]
_PROJECTED: Final = [
    {"configMap": {"name": "words", "items": [{"key": "plain", "path": "a/plain"}]}},
    {"downwardAPI": {"items": [{"path": "a/labels", "fieldRef": {"fieldPath": "metadata.labels['who']"}}]}},
]
_THIRD: Final = 'n=$(cat /v/n 2>/dev/null || echo 0); n=$((n + 1)); echo $n >/v/n; echo "run $n"; [ $n -ge 3 ]'

ENVIRONMENT: Final = {
    "env-literal": job(sh("env | sort", env=env(A="1", B="two words", C="", D="a\nb", E="ü€"))),
    "env-refers": job(sh('echo "$A|$B|$C|$D"', env=env(A="x", B="$(A)y", C="$$(A)", D="$(LATER)$(NOT)", LATER="z"))),
    "env-quotes": job(sh("env | sort", env=env(A="'\"\\$x`id`", B="$(echo no)", C="${HOME} ; rm -rf /x", D="%s\\n\t"))),
    "env-names": job(sh("env | sort", env=env(**{"dotted.name": "1", "dash-name": "2", "UPPER_1": "3"}))),
    "env-twice": job(sh('echo "$A"', env=[{"name": "A", "value": "1"}, {"name": "A", "value": "2"}])),
    "env-path": job(sh("echo $PATH; cat /v 2>&1", env=env(PATH="/bin:/opt/x"))),
    "env-home": job(sh("echo $HOME; cd; pwd", env=env(HOME="/tmp"))),
    "env-fields": job(
        sh(
            'echo "$N $S $L $A $SA"',
            env=env(
                N=field("metadata.name"),
                L=field("metadata.labels['who']"),
                A=field("metadata.annotations['what']"),
                SA=field("spec.serviceAccountName"),
                S="",
            ),
        ),
        meta={"labels": {"who": "me"}, "annotations": {"what": 'a "note"'}},
    ),
    "env-resources": job(
        sh(
            "env | grep ^R | sort",
            resources=_LIMITS,
            env=env(
                R1=resource("limits.cpu"),
                R2=resource("limits.memory"),
                R3=resource("limits.memory", "1Mi"),
                R4=resource("requests.cpu", "1m"),
                R5=resource("requests.memory", "1Ki"),
            ),
        )
    ),
    "env-map": job(sh("env | grep ^M | sort", env=env(M1=from_map("plain"), M2=from_map("lines"), M3=from_map("dollar")))),
    "env-map-optional": job(sh('echo "[$M]"', env=env(M=from_map("none", optional=True)))),
    "env-map-none": job(sh('echo "[$M]"', env=env(M=from_map("x", name="none", optional=True)))),
    "env-from": job(sh("env | sort", envFrom=[{"configMapRef": {"name": "words"}}])),
    "env-from-prefix": job(sh("env | sort", envFrom=[{"prefix": "P_", "configMapRef": {"name": "words"}}])),
    "env-from-and-env": job(sh('echo "$plain"', envFrom=[{"configMapRef": {"name": "words"}}], env=env(plain="own"))),
    "env-from-refers": job(sh('echo "$A"', envFrom=[{"configMapRef": {"name": "words"}}], env=env(A="$(plain)!"))),
}  # fmt: skip

COMMANDS: Final = {
    "args-only": job(box(args=["sh", "-c", "echo args"])),
    "command-and-args": job(box("echo", args=["a", "b c", "", "d"])),
    "args-strange": job(box("printf", args=["[%s]\n", "a\nb", "'", '"', "$x", "`id`", "\\", "ü", "*", "-n", "!"])),
    "args-refer": job(box("echo", args=["$(A)", "$$(A)", "$(NOT)", "$(A)$(A)"], env=env(A="x y"))),
    "command-refers": job(box("$(PROGRAM)", args=["hi"], env=env(PROGRAM="echo"))),
    "long-argument": job(box("sh", "-c", 'echo "${#1}"', "sh", "x" * 20000)),
    "working-directory": job(sh("pwd", workingDir="/tmp")),
    "no-working-directory": job(sh("pwd")),
    "standard-input": job(sh("cat; echo end")),
    "no-terminal": job(sh("test -t 0 || echo no; test -t 1 || echo no; test -t 2 || echo no")),
    "umask": job(sh("umask; touch /tmp/a; stat -c %a /tmp/a")),
    # 32 and 33 are libc's own, which it has what it spawns ignore.
    "signals-are-default": job(
        sh("trap; kill -l TERM; grep Sig[IB] /proc/self/status | cut -f2 | while read -r x; do echo $$((0x$x & 0x7fffffff)); done")
    ),
    "temporary": job(sh("stat -c '%a %F' /tmp; echo a >/tmp/x && cat /tmp/x")),
    "shared-memory": job(sh("stat -c '%a %F' /dev/shm; echo a >/dev/shm/x-$$$$ && cat /dev/shm/x-$$$$; rm /dev/shm/x-$$$$")),
    "null-and-zero": job(sh("head -c 3 /dev/zero | wc -c; echo x >/dev/null; test -c /dev/urandom && echo yes")),
    "root-writes": job(sh("echo a >/made && cat /made; mkdir -p /opt/b && ls -d /opt/b")),
    "who": job(sh("id -u; id -g")),
    "own-processes": job(sh("sleep 33 & sleep 1; ps -o args | grep '^[s]leep 33'")),
}  # fmt: skip

ENDS: Final = {
    **{f"exit-{code}": job(sh(f"exit {code}")) for code in (0, 1, 2, 42, 126, 127, 128, 200, 255)},
    "terminates-itself": job(sh("kill -TERM $$$$; sleep 1; echo lives")),
    **{
        f"child-{name.lower()}": job(sh(f"exec 2>&1; sh -c 'kill -{name} $$$$'; echo $?"))
        for name in ("KILL", "TERM", "SEGV")
    },
    "missing-program": job(box("/no/such/program")),
    "not-executable": job(box("/etc/passwd")),
    "background": job(sh("sleep 600 & echo started")),
    "message": job(sh("echo 'it was me' >/dev/termination-log; exit 3")),
    "message-of-success": job(sh("echo done >/dev/termination-log")),
    "message-elsewhere": job(sh("echo here >/tmp/end; exit 3", terminationMessagePath="/tmp/end")),
    "message-long": job(sh("head -c 9000 /dev/zero | tr '\\0' x >/dev/termination-log")),
    "message-from-log": job(
        sh("for i in 1 2 3; do echo line $i; done; exit 3", terminationMessagePolicy="FallbackToLogsOnError")
    ),
    "message-not-from-log": job(sh("echo fine", terminationMessagePolicy="FallbackToLogsOnError")),
    "no-newline": job(sh("printf 'no end'")),
    "both-streams": job(sh("echo out; echo err >&2")),
    "long-line": job(sh("head -c 50000 /dev/zero | tr '\\0' x; echo")),
    "odd-bytes": job(sh("printf '\\001\\033[1mbold\\t|\\r\\n'")),
    "many-lines": job(sh("seq 3000")),
}

SEVERAL: Final = {
    "two-containers": job(sh("echo a", name="a"), sh("echo b", name="b")),
    "one-fails": job(sh("exit 0", name="a"), sh("exit 4", name="b")),
    "both-fail": job(sh("exit 5", name="a"), sh("exit 4", name="b")),
    "init-order": job(
        sh("cat /v/x", volumeMounts=mount()),
        initContainers=[sh(f"echo {i} >>/v/x", name=f"i{i}", volumeMounts=mount()) for i in (1, 2, 3)],
        volumes=volume(emptyDir={}),
    ),
    "init-fails": job(sh("echo never"), initContainers=[sh("exit 3", name="i1"), sh("echo never", name="i2")]),
    "sidecar": job(
        sh("sleep 1; echo main"),
        initContainers=[sh("trap 'exit 0' TERM; echo side; while :; do sleep 0.1; done", name="side", restartPolicy="Always")],
    ),
    "shared-directory": job(
        sh("echo a >/v/a; while [ ! -e /v/b ]; do sleep 0.1; done; cat /v/b", name="a", volumeMounts=mount()),
        sh("echo b >/v/b; while [ ! -e /v/a ]; do sleep 0.1; done; cat /v/a", name="b", volumeMounts=mount()),
        volumes=volume(emptyDir={}),
    ),
    "shared-network": job(
        sh("for i in $(seq 90); do nc -w 1 127.0.0.1 34567 2>/dev/null && break; sleep 1; done", name="a"),
        sh("echo hello | nc -l -p 34567 127.0.0.1", name="b"),
    ),
    "try-again-here": job(
        sh(_THIRD, volumeMounts=mount()), spec={"backoffLimit": 6}, restartPolicy="OnFailure", volumes=volume(emptyDir={})
    ),
}  # fmt: skip

VOLUMES: Final = {
    "empty": job(sh("stat -c %A /v | cut -c1-4; ls -A /v | wc -l", volumeMounts=mount()), volumes=volume(emptyDir={})),
    "empty-in-memory": job(
        sh("echo a >/v/a; cat /v/a", volumeMounts=mount()), volumes=volume(emptyDir={"medium": "Memory"})
    ),
    "empty-below-a-folder": job(
        sh("ls -A /etc/sub | wc -l; echo x >/etc/sub/x", volumeMounts=mount("/etc/sub")), volumes=volume(emptyDir={})
    ),
    "read-only": job(
        sh("exec 2>&1; echo a >/v/a; echo $?", volumeMounts=mount(readOnly=True)), volumes=volume(emptyDir={})
    ),
    "sub-path": job(
        sh("echo a >/v/a", name="a", volumeMounts=mount(subPath="in/side")),
        sh("while [ ! -e /v/in/side/a ]; do sleep 0.1; done; find /v | sort", name="b", volumeMounts=mount()),
        volumes=volume(emptyDir={}),
    ),
    "map": job(sh(_LOOK, volumeMounts=mount()), volumes=volume(configMap={"name": "words"})),
    "map-items": job(sh(_LOOK, volumeMounts=mount()), volumes=volume(configMap={"name": "words", "items": _ITEMS})),
    "map-mode": job(
        sh(_LOOK, volumeMounts=mount()), volumes=volume(configMap={"name": "words", "defaultMode": 0o500})
    ),
    "map-optional": job(
        sh("ls /v | wc -l", volumeMounts=mount()), volumes=volume(configMap={"name": "none", "optional": True})
    ),
    "map-one-file": job(
        sh("stat -c %F /etc/one; cat /etc/one", volumeMounts=mount("/etc/one", subPath="plain")),
        volumes=volume(configMap={"name": "words"}),
    ),
    "map-is-read-only": job(
        sh("exec 2>&1; echo a >/v/plain; echo $?; echo a >/v/new; echo $?", volumeMounts=mount()),
        volumes=volume(configMap={"name": "words"}),
    ),
    "downward": job(
        sh(_LOOK, volumeMounts=mount()),
        meta={"labels": {"who": "me"}, "annotations": {"what": "x\ny"}},
        volumes=volume(
            downwardAPI={
                "items": [
                    {"path": "who", "fieldRef": {"fieldPath": "metadata.labels['who']"}},
                    {"path": "what", "fieldRef": {"fieldPath": "metadata.annotations['what']"}, "mode": 0o400},
                    {"path": "memory", "resourceFieldRef": {"containerName": "main", "resource": "requests.memory"}},
                ]
            }
        ),
    ),
    "projected": job(sh(_TREE, volumeMounts=mount()), volumes=volume(projected={"sources": _PROJECTED})),
    "projected-mode": job(
        sh(_LOOK, volumeMounts=mount()), volumes=volume(projected={"sources": _PROJECTED, "defaultMode": 0o444})
    ),
    "read-only-root": job(
        sh("exec 2>&1; echo a >/made; echo $?; echo a >/v/a; echo $?", securityContext={"readOnlyRootFilesystem": True}, volumeMounts=mount()),
        volumes=volume(emptyDir={}),
    ),
    "two-mounts-of-one": job(
        sh("echo a >/v/a; cat /w/a", volumeMounts=[*mount(), *mount("/w", readOnly=True)]), volumes=volume(emptyDir={})
    ),
}  # fmt: skip

PODS: Final = {
    "hostname": job(sh("hostname; cat /proc/sys/kernel/hostname; echo $HOSTNAME")),
    "hostname-given": job(sh("hostname; echo $HOSTNAME; grep -c box1 /etc/hosts"), hostname="box1"),
    "hosts": job(sh("grep -c '^127.0.0.1.*localhost' /etc/hosts; grep -q \"$(hostname)\" /etc/hosts && echo own")),
    "host-aliases": job(
        sh("grep -F 10.1.2. /etc/hosts | tr -s '\\t ' ' '"),
        hostAliases=[{"ip": "10.1.2.3", "hostnames": ["alias1", "alias2"]}, {"ip": "10.1.2.4", "hostnames": ["other"]}],
    ),
    "dns-own": job(
        sh("grep -v '^#' /etc/resolv.conf | sort"),
        dnsPolicy="None",
        dnsConfig={"nameservers": ["10.1.2.3"], "searches": ["a.example", "b.example"], "options": [{"name": "ndots", "value": "2"}]},
    ),
    "service-links-off": job(sh("env | sort"), enableServiceLinks=False),
    "deadline-of-a-pod": job(sh("echo started; sleep 600"), activeDeadlineSeconds=3),
}  # fmt: skip

WHOLE: Final = {
    "several": job(sh("echo one of three"), spec={"completions": 3, "parallelism": 2}),
    "indexed": job(sh("echo $JOB_COMPLETION_INDEX; hostname | tail -c 3"), spec={"completions": 3, "parallelism": 3, "completionMode": "Indexed"}),
    "index-fails": job(
        sh("[ $JOB_COMPLETION_INDEX != 1 ]"),
        spec={"completions": 3, "parallelism": 3, "completionMode": "Indexed", "backoffLimit": 6, "backoffLimitPerIndex": 0},
    ),
    "tried-again": job(sh("exit 3"), spec={"backoffLimit": 1}),
    "fail-at-once": job(
        sh("exit 42"),
        spec={"backoffLimit": 6, "podFailurePolicy": {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}]}},
    ),
    "fail-of-one-container": job(
        sh("exit 42", name="a"),
        sh("exit 0", name="b"),
        spec={
            "backoffLimit": 6,
            "podFailurePolicy": {"rules": [{"action": "FailJob", "onExitCodes": {"containerName": "a", "operator": "NotIn", "values": [1]}}]},
        },
    ),
    "counted": job(
        sh("exit 42"),
        spec={"backoffLimit": 1, "podFailurePolicy": {"rules": [{"action": "Count", "onExitCodes": {"operator": "In", "values": [42]}}]}},
    ),
    "success-by-index": job(
        sh("[ $JOB_COMPLETION_INDEX = 0 ] || sleep 600"),
        spec={
            "completions": 2,
            "parallelism": 2,
            "completionMode": "Indexed",
            "successPolicy": {"rules": [{"succeededIndexes": "0"}]},
        },
    ),
    "nothing-to-do": job(sh("echo never"), spec={"completions": 0}),
}  # fmt: skip

JOBS: Final[dict[str, Job]] = ENVIRONMENT | COMMANDS | ENDS | SEVERAL | VOLUMES | PODS | WHOLE
