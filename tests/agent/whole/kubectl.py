"""kubectl as one person uses it: whole commands, their output, and what a cluster holds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.processes import started

PROGRAM = Path(sys.executable).parent / "kubectl"
SECONDS = 60.0


@dataclass(frozen=True)
class Run:
    """How a command ended."""

    rc: int
    out: str
    err: str


@dataclass(frozen=True)
class Kubectl:
    """The commands of one person in one namespace. ``home`` takes kubectl's caches."""

    kubeconfig: Path
    namespace: str
    home: Path

    def environment(self) -> dict[str, str]:
        return {"PATH": os.environ["PATH"], "HOME": str(self.home), "KUBECONFIG": str(self.kubeconfig)}

    def argv(self, *words: str) -> list[str]:
        return [str(PROGRAM), "--namespace", self.namespace, *words]

    def run(self, *words: str, stdin: str = "", seconds: float = SECONDS) -> Run:
        """One command to its end."""
        done = subprocess.run(
            self.argv(*words), env=self.environment(), input=stdin, capture_output=True, text=True, timeout=seconds,
            check=False, cwd=self.home, errors="replace",
        )  # fmt: skip
        return Run(done.returncode, done.stdout, done.stderr)

    def ok(self, *words: str, stdin: str = "", seconds: float = SECONDS) -> str:
        """What a command prints that must succeed."""
        done = self.run(*words, stdin=stdin, seconds=seconds)
        assert done.rc == 0, f"kubectl {' '.join(words)}: {done}"
        return done.out

    def start(self, *words: str) -> AbstractContextManager[subprocess.Popen[str]]:
        """A command that goes on, e.g. ``logs -f``; killed at the end."""
        return started(
            self.argv(*words), env=self.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, cwd=self.home,
        )  # fmt: skip

    def apply(self, *objects: Mapping[str, Any]) -> Run:
        """``kubectl apply`` of these objects, which must succeed."""
        done = self.run("apply", "-f", "-", stdin=_document(objects))
        assert done.rc == 0, done
        return done

    def refused(self, *objects: Mapping[str, Any]) -> str:
        """What kubectl says of objects that are refused."""
        done = self.run("create", "-f", "-", stdin=_document(objects))
        assert done.rc != 0, f"was taken: {done}"
        return done.err

    def get(self, kind: str, name: str) -> dict[str, Any] | None:
        """One object; None where there is none."""
        text = self.ok("get", kind, name, "-o", "json", "--ignore-not-found")
        found: dict[str, Any] | None = json.loads(text) if text.strip() else None
        return found

    def elsewhere(self, namespace: str) -> Kubectl:
        """The same person in another namespace."""
        return replace(self, namespace=namespace)

    def every(self, kind: str, selector: str = "") -> list[dict[str, Any]]:
        """All objects of a kind."""
        chosen = ["-l", selector] if selector else []
        items: list[dict[str, Any]] = json.loads(self.ok("get", kind, *chosen, "-o", "json"))["items"]
        return items


def _document(objects: tuple[Mapping[str, Any], ...]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
