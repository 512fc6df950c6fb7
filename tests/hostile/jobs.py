"""Jobs that want to be executed where they should only be carried: nasty text in every place that a user may fill."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final

from tests.script.nasty import NASTY

Json = dict[str, Any]
CANARY: Final = "touch /tmp/batchgate-was-here"
MORE: Final = [
    f"$({CANARY})",
    f"`{CANARY}`",
    f"'; {CANARY}; '",
    f'"; {CANARY}; "',
    f"\n{CANARY}\n",
    f"}}\n{CANARY}\ncontainer_1() {{",
    f")\n{CANARY}\n(",
    f"' )\n{CANARY}\n#",
    f"a[$({CANARY})]",
    f"x=$({CANARY})",
    f"${{x:=$({CANARY})}}",
    "# runtime 1: base plain",
    "# runtime 0: base\nmain",
    "EOF",
    "\\\n",
    "\\'",
    "$'\\x27'",
    "a" * 4000,
    "../../../etc/passwd",
    "/",
    "//",
    "..",
    "$(VAR)",
    "$$(VAR)",
    "$(VAR",
]
RARE: Final = ["\x00", "\ud800"]
"""What no process can be given, and what is no text: each is refused, so that nothing else of the Job is tried."""
ORDINARY: Final = ["main", "work", "/data", "/bin/sh", "busybox:1.36", "a=b", "1", "-c", "echo $HOME; exit 3"]


class Maker:
    """Makes one Job from a number."""

    def __init__(self, number: int) -> None:
        self.chance = random.Random(number)

    def text(self, *usual: str, nasty: float = 0.5) -> str:
        """A text: one of the usual ones, or with this probability a nasty one, now and then glued to others."""
        chance = self.chance
        if usual and chance.random() >= nasty:
            return chance.choice(usual)
        if chance.random() < 0.005:
            return chance.choice(RARE)
        found = chance.choice(chance.choice((NASTY, MORE, ORDINARY)))
        while chance.random() < 0.2:
            found += chance.choice(chance.choice((NASTY, MORE, ORDINARY)))
        return found

    def some(self, most: int, make: Callable[[], Any]) -> list[Any]:
        """A list of up to so many."""
        return [make() for _ in range(self.chance.randint(0, most))]

    def maybe(self, likely: float, make: Callable[[], Any], key: str) -> Json:
        """The key with a value, or nothing."""
        return {key: make()} if self.chance.random() < likely else {}

    def job(self) -> Json:
        """A Job that asks for enough to go to HPC if nothing in it speaks against that."""
        metadata = {"name": self.text("j", nasty=0.2), "namespace": "default"}
        metadata |= self.maybe(0.4, self.hints, "annotations") | self.maybe(0.3, self.labels, "labels")
        spec = {"template": self.template(), **self.maybe(0.2, self.number, "activeDeadlineSeconds")}
        spec |= self.maybe(0.2, lambda: self.chance.randint(0, 5), "parallelism") | self.maybe(
            0.1, lambda: "Indexed", "completionMode"
        )
        return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}

    def hints(self) -> Json:
        usual = {
            "walltime": "1h",
            "results": "out/*.dat",
            "script": "id",
            "signature": "x",
            "account": "{}",
            "reason": "y",
        }
        key = self.chance.choice([*usual, "ranks", "nodes"])
        return {
            f"batchgate.dev/{key}": self.text(
                usual.get(key, "2"), nasty=0.2 if key in {"walltime", "ranks", "nodes"} else 0.5
            )
        }

    def labels(self) -> Json:
        return {self.text("app", nasty=0.2): self.text("x") for _ in range(2)}

    def number(self) -> Any:
        return self.chance.choice([60, 3600, 3600, 86400, 2**31, 0, -1])

    def template(self) -> Json:
        volumes = [
            {**one, "name": self.text(f"v{place}", nasty=0.03)} for place, one in enumerate(self.some(3, self.volume))
        ]
        names = [one["name"] for one in volumes]
        pod: Json = {"restartPolicy": self.chance.choice(["Never", "OnFailure"]), "containers": [self.container(names)]}
        if self.chance.random() < 0.15:
            pod["containers"].append({**self.container(names), "name": "beside"})
        if self.chance.random() < 0.15:
            pod["initContainers"] = [{**self.container(names), "name": "first"}]
        pod |= {"volumes": volumes} | self.maybe(0.1, lambda: self.text("runner"), "serviceAccountName")
        pod |= self.maybe(0.03, lambda: self.text("host-1"), "hostname") | self.maybe(
            0.1, self.number, "terminationGracePeriodSeconds"
        )
        return {
            "metadata": self.maybe(0.3, self.labels, "labels") | self.maybe(0.3, self.hints, "annotations"),
            "spec": pod,
        }

    def container(self, volumes: list[str]) -> Json:
        found: Json = {
            "name": self.text("main", "worker", "c1", nasty=0.15),
            "image": self.text("busybox:1.36", nasty=0.3),
        }
        found["resources"] = {"requests": {"cpu": self.text("2", nasty=0.02), "memory": "1Gi"}}
        found |= self.maybe(0.9, lambda: [self.text(nasty=1), *self.some(3, self.text)], "command")
        found |= self.maybe(0.5, lambda: self.some(4, self.text), "args")
        found |= self.maybe(0.6, lambda: self.some(4, self.variable), "env")
        found |= self.maybe(
            0.1, lambda: [{"configMapRef": {"name": self.text("conf")}, "prefix": self.text("")}], "envFrom"
        )
        found |= self.maybe(0.6 if volumes else 0, lambda: self.some(3, lambda: self.mounted(volumes)), "volumeMounts")
        found |= self.maybe(0.3, lambda: self.text("/work"), "workingDir")
        return found | self.maybe(0.2, lambda: self.text("/dev/termination-log"), "terminationMessagePath")

    def variable(self) -> Json:
        name = self.text("A", "B", "VAR", "PATH", "OMP_NUM_THREADS", nasty=0.2)
        if self.chance.random() < 0.15:
            source = {"configMapKeyRef": {"name": self.text("conf"), "key": self.text("key")}}
            return {
                "name": name,
                "valueFrom": self.chance.choice([source, {"fieldRef": {"fieldPath": self.text("metadata.name")}}]),
            }
        return {"name": name, "value": self.text()}

    def volume(self) -> Json:
        kind: Json = self.chance.choice(
            [
                {"emptyDir": {}},
                {"hostPath": {"path": self.text("/data", "/data/deep")}},
                {"persistentVolumeClaim": {"claimName": self.text("results")}},
                {
                    "configMap": {
                        "name": self.text("conf"),
                        "items": [{"key": self.text("a"), "path": self.text("a.conf")}],
                    }
                },
            ]
        )
        return kind

    def mounted(self, volumes: list[str]) -> Json:
        found = {"name": self.chance.choice(volumes), "mountPath": self.text("/data", "/etc/app", "/tmp/x")}
        return found | self.maybe(0.3, self.text, "subPath") | self.maybe(0.2, lambda: True, "readOnly")


def job(number: int) -> Json:
    """The Job of this number."""
    return Maker(number).job()
