"""The outcome of an example, its expected outcome, and the differences in words.

Pure: values in, values out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from router.errors import ConfigError

KEPT: Final = "in the cloud"
DENIED: Final = "denied"
NO_LAUNCHER: Final = "not run: no MPI launcher"
SUCCEEDED: Final = "Succeeded"
FAILED: Final = "Failed"
UNFINISHED: Final = "not finished"


@dataclass(frozen=True, slots=True)
class PodOutcome:
    """How one Pod's batch job ended. ``exit_code`` is None without an exit code in the files; logs by container."""

    directory: str
    job_id: str
    exit_code: int | None
    logs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one example ended. ``decision`` is in the words of expected.yaml."""

    name: str
    job: str
    decision: Mapping[str, Any]
    reason: str
    state: str
    pods: Sequence[PodOutcome] = ()
    warnings: Sequence[str] = ()

    @property
    def exit_code(self) -> int | None:
        """The first exit code other than 0, else 0; None without a run."""
        codes = [pod.exit_code for pod in self.pods]
        if not codes:
            return None
        return next((code for code in codes if code != 0), 0)

    @property
    def log_line(self) -> str:
        """The last line that a container of the first Pod wrote."""
        for text in reversed(list(self.pods[0].logs.values())) if self.pods else ():
            if lines := text.strip().splitlines():
                return lines[-1]
        return ""


@dataclass(frozen=True, slots=True)
class Expected:
    """The content of expected.yaml. ``program`` is one that the image must have, and the demo's image lacks."""

    decision: Mapping[str, Any]
    state: str | None = None
    exit_code: int | None = None
    pods: int = 1
    logs: Mapping[str, str] = field(default_factory=dict)
    program: str = ""


def read_expected(value: object, source: str) -> Expected:
    """Read expected.yaml's value. Raises ConfigError for an invalid form."""
    if not isinstance(value, dict) or not isinstance(value.get("decision"), dict):
        raise ConfigError(f"{source}: needs a mapping `decision`")
    outcome = value.get("outcome") or {}
    return Expected(
        decision=value["decision"],
        state=outcome.get("state"),
        exit_code=outcome.get("exitCode"),
        pods=outcome.get("pods", 1),
        logs=outcome.get("logs", {}),
        program=outcome.get("program", ""),
    )


def differences(expected: Expected, outcome: Outcome, *, launcher: bool) -> list[str]:
    """The differences from the expected outcome, in words; empty if there are none.

    :param launcher: whether the machine has an MPI launcher; without one, a Job that needs it is expected not to run
    """
    found = [
        f"{key} is {outcome.decision.get(key)!r}, expected {wanted!r}"
        for key, wanted in expected.decision.items()
        if not _meets(outcome.decision.get(key), wanted)
    ]
    if expected.state is None or (outcome.state == NO_LAUNCHER and not launcher):
        return found
    if outcome.state != expected.state:
        found.append(f"state is {outcome.state!r}, expected {expected.state!r}")
    if outcome.exit_code != expected.exit_code:
        found.append(f"exit code is {outcome.exit_code}, expected {expected.exit_code}")
    if len(outcome.pods) != expected.pods:
        found.append(f"{len(outcome.pods)} Pods, expected {expected.pods}")
    for pod in outcome.pods:
        found += [
            f"the log of container {container} lacks {words!r} ({pod.directory})"
            for container, words in expected.logs.items()
            if words not in pod.logs.get(container, "")
        ]
    return found


def _meets(got: object, wanted: object) -> bool:
    """Whether a value is as wanted. A list may have more items: without containers, more fields keep a Job in the
    cloud.
    """
    if isinstance(wanted, list):
        return isinstance(got, list | tuple) and set(wanted) <= set(got)
    return got == wanted
