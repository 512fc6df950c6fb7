"""The systemd unit, and how words are written in one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from router.joining import units
from router.joining.layout import Layout
from router.joining.units import Unit

HPC = Layout("hpc")
UNIT = Unit("/opt/batchgate/bin/batchgate", "batchgate", "batchgate-system", ("--address=192.0.2.7",))
START = r"""ExecStart=/opt/batchgate/bin/batchgate agent \
    --site=hpc \
    --policy-configmap=batchgate-policies \
    --public-key=/etc/batchgate/hpc/signing.pub \
    --kubeconfig=/etc/batchgate/hpc/kubeconfig \
    --renew-token=7d \
    --certificates=/var/lib/batchgate/hpc/kubelet \
    --namespace=batchgate-system \
    --address=192.0.2.7
"""
IMPLIED = {
    *("PrivateDevices", "ProtectKernelTunables", "ProtectKernelModules", "ProtectKernelLogs", "ProtectClock"),
    *("ProtectHostname", "LockPersonality", "MemoryDenyWriteExecute", "RestrictAddressFamilies", "RestrictNamespaces"),
    *("RestrictRealtime", "RestrictSUIDSGID", "SystemCallArchitectures", "SystemCallFilter"),
}
"""What turns NoNewPrivileges on for an unprivileged account (systemd.exec(5))."""


def settings(unit: Unit) -> dict[str, list[str]]:
    """The settings of the unit, each with its values, comments left out."""
    found: dict[str, list[str]] = {}
    for line in units.text(unit, HPC).replace("\\\n", " ").splitlines():
        key, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found.setdefault(key, []).append(" ".join(value.split()))
    return found


def test_a_unit_whose_agent_uses_sudo() -> None:
    text = units.text(UNIT, HPC)

    assert START in text
    assert settings(UNIT) == {
        "Description": ["Batchgate agent of site hpc"],
        "Wants": ["network-online.target"],
        "After": ["network-online.target remote-fs.target"],
        "StartLimitIntervalSec": ["0"],
        "Type": ["exec"],
        "ExecStart": [" ".join(START.removeprefix("ExecStart=").replace("\\\n", " ").split())],
        "User": ["batchgate"],
        "StateDirectory": ["batchgate/hpc"],
        "StateDirectoryMode": ["0700"],
        "Restart": ["always"],
        "RestartSec": ["5"],
        "TimeoutStopSec": ["60"],
        "ProtectSystem": ["full"],
        "ProtectControlGroups": ["yes"],
        "CapabilityBoundingSet": [
            "~CAP_SYS_MODULE CAP_SYS_RAWIO CAP_SYS_TIME CAP_SYS_BOOT CAP_SYSLOG CAP_MAC_ADMIN CAP_MAC_OVERRIDE"
        ],
        "KillMode": ["process"],
        "WantedBy": ["multi-user.target"],
    }


def test_no_switch_takes_sudo_away_and_each_is_named_as_off() -> None:
    text = units.text(UNIT, HPC)

    assert settings(UNIT).keys() & (IMPLIED | {"NoNewPrivileges"}) == set()
    assert {name for name in IMPLIED if name not in text} == set()


def test_a_unit_whose_agent_only_speaks_ssh_has_them_all() -> None:
    remote = settings(replace(UNIT, by_ssh=True))

    assert IMPLIED - remote.keys() == set()
    assert (remote["NoNewPrivileges"], remote["ProtectSystem"], remote["ProtectHome"]) == (["yes"], ["strict"], ["yes"])
    assert (remote["CapabilityBoundingSet"], remote["UMask"]) == ([""], ["0077"])
    assert remote.keys() & {"ReadWritePaths", "KillMode"} == set()


def test_a_unit_by_ssh_sees_what_it_needs() -> None:
    found = settings(replace(UNIT, by_ssh=True, home=True, writable=("/results/of users/",)))

    assert (found["ProtectHome"], found["ReadWritePaths"]) == (["read-only"], ['"/results/of users/"'])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/opt/batchgate/bin/batchgate", "/opt/batchgate/bin/batchgate"),
        ("--listen=[::1]:10250", '"--listen=[::1]:10250"'),
        ("a b", '"a b"'),
        ("", '""'),
        ("100%", '"100%%"'),
        ("$HOME", '"$$HOME"'),
        ('say "a\\b"', '"say \\"a\\\\b\\""'),
    ],
)
def test_words(text: str, expected: str) -> None:
    assert units.word(text) == expected
