"""A real Prometheus for a while, which scrapes what a test starts and goes by the rules of the chart.

Shell: runs Debian's ``prometheus`` on a port that the kernel chooses, with its data in a directory of the test's.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from tests.monitoring.files import RULES
from tests.processes import started

Json = dict[str, Any]
PROGRAM: Final = shutil.which("prometheus")
LACKING: Final = "there is no prometheus; Debian's package of that name has it"
_SECONDS: Final = 60


@dataclass(frozen=True, slots=True)
class Prometheus:
    """A server that runs."""

    url: str

    def query(self, expr: str) -> list[Json]:
        """The samples of an instant query; the test fails with Prometheus' words where it does not take it."""
        found: list[Json] = self._ask("query", query=expr)["result"]
        return found

    def value(self, expr: str) -> float | None:
        """The value of a query with one sample; None without any."""
        samples = self.query(expr)
        assert len(samples) <= 1, samples
        return float(samples[0]["value"][1]) if samples else None

    def label_values(self, selector: str, label: str) -> set[str]:
        """The values of a label, as Grafana asks for those of a variable."""
        return set(self._ask(f"label/{label}/values", **{"match[]": selector}))

    def targets(self) -> dict[str, str]:
        """The targets by job: ``up``, or the error of the last scrape. There is none at the very first."""
        return {
            one["labels"]["job"]: one["lastError"] or one["health"] for one in self._ask("targets")["activeTargets"]
        }

    def rules(self) -> list[Json]:
        """Every rule with its state and health, once each was evaluated."""
        return [rule for group in self._ask("rules")["groups"] for rule in group["rules"]]

    def firing(self) -> dict[str, str]:
        """The summaries of the alerts that fire, by name."""
        return {one["labels"]["alertname"]: one["annotations"]["summary"] for one in self._ask("alerts")["alerts"]}

    def _ask(self, what: str, **words: str) -> Any:
        url = f"{self.url}/api/v1/{what}?{urllib.parse.urlencode(words)}"
        try:
            with urllib.request.urlopen(url, timeout=_SECONDS) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            with error:
                raise AssertionError(f"{words}: {error.read().decode()}") from None


@contextlib.contextmanager
def prometheus(directory: Path, scrapes: Sequence[Mapping[str, Any]]) -> Iterator[Prometheus]:
    """A Prometheus that asks these targets every five seconds, as a busy machine answers late, with the chart's alerts, which fire at once.

    :param scrapes: the entries of ``scrape_configs``
    """
    directory.mkdir()
    rules = re.sub(r"^ +for: .*\n", "", RULES.read_text(), flags=re.MULTILINE)
    (directory / "rules.yml").write_text(rules)
    seconds = {"scrape_interval": "5s", "scrape_timeout": "5s", "evaluation_interval": "1s"}
    config = {"global": seconds, "rule_files": ["rules.yml"], "scrape_configs": list(scrapes)}
    (directory / "prometheus.yml").write_text(yaml.safe_dump(config))
    argv = [
        str(PROGRAM),
        f"--config.file={directory / 'prometheus.yml'}",
        f"--storage.tsdb.path={directory / 'data'}",
        "--web.listen-address=127.0.0.1:0",
        "--log.format=json",
    ]
    log = directory / "log"
    with log.open("w") as told, started(argv, stdout=told, stderr=told) as process:
        yield Prometheus(f"http://{_address(log, process)}")


def _address(log: Path, process: subprocess.Popen[bytes]) -> str:
    """Where it listens, once it is ready."""
    deadline = time.monotonic() + _SECONDS
    while True:
        ended, text = process.poll() is not None, log.read_text()
        if "Server is ready to receive web requests" in text:
            address: str = re.findall(r'"address":"([^"]+)"[^\n]*"Listening on"', text)[-1]
            return address
        assert not ended, text
        assert time.monotonic() < deadline, text
        time.sleep(0.1)
