"""The systemd unit of an agent on a login node.

Pure: text. The unit is hardened as far as the site's access allows: an agent that starts set-uid programs (sudo, some
batch systems' commands) cannot have what an agent has that only speaks ssh.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from router.joining.layout import Layout

CREDENTIAL_LIFE: Final = "7d"
"""The life of the credential that the agent asks for. The API server may grant less."""
_PLAIN: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=,@+")

_ON_THE_SITE: Final = """\
# The agent starts set-uid programs here: sudo, and commands of some batch systems. So NoNewPrivileges stays off. With it
# stay off the switches that would turn it on for an unprivileged account: PrivateDevices, ProtectKernelTunables,
# ProtectKernelModules, ProtectKernelLogs, ProtectClock, ProtectHostname, LockPersonality, MemoryDenyWriteExecute,
# RestrictAddressFamilies, RestrictNamespaces, RestrictRealtime, RestrictSUIDSGID, SystemCallArchitectures and
# SystemCallFilter.
# ProtectHome and ProtectSystem=strict stay off, as users' directories (workDir) may lie anywhere but below /usr, /boot
# and /etc. PrivateTmp stays off: image pullers of all users share /tmp, and outlive the agent.
# UMask and limits stay as they are: Slurm hands the submitter's on to the job.
ProtectSystem=full
ProtectControlGroups=yes
CapabilityBoundingSet=~CAP_SYS_MODULE CAP_SYS_RAWIO CAP_SYS_TIME CAP_SYS_BOOT CAP_SYSLOG CAP_MAC_ADMIN CAP_MAC_OVERRIDE
# Image pulls and jobs of the embedded queue outlive the agent; everything else ends with its input.
KillMode=process
"""

_BY_SSH: Final = """\
# The agent speaks to the API server and, by ssh, to the site; it starts no other program here.
NoNewPrivileges=yes
CapabilityBoundingSet=
ProtectSystem=strict
ProtectHome={home}
PrivateTmp=yes
PrivateDevices=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectClock=yes
ProtectHostname=yes
ProtectProc=invisible
ProcSubset=pid
LockPersonality=yes
MemoryDenyWriteExecute=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
RemoveIPC=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallFilter=~@privileged @resources
UMask=0077
"""


@dataclass(frozen=True, slots=True)
class Unit:
    """What a unit says.

    :param program: the absolute path of ``batchgate``
    :param account: the account of the agent
    :param options: further options of ``batchgate agent``
    :param by_ssh: whether the site is reached over ssh only
    :param home: whether the program or a key lies in a home directory, which the unit must then see
    :param writable: directories that the agent must write beside its state, with ``by_ssh``
    """

    program: str
    account: str
    namespace: str
    options: tuple[str, ...] = ()
    by_ssh: bool = False
    home: bool = False
    writable: tuple[str, ...] = field(default=())


def text(unit: Unit, layout: Layout) -> str:
    """The unit's file."""
    name = layout.unit.removesuffix(".service")
    hardening = _BY_SSH.format(home="read-only" if unit.home else "yes") if unit.by_ssh else _ON_THE_SITE
    writable = f"ReadWritePaths={' '.join(map(word, unit.writable))}\n" if unit.by_ssh and unit.writable else ""
    return f"""\
# Written by `batchgate site install {layout.site}`, which writes it anew. Changes of yours: systemctl edit {name}
[Unit]
Description=Batchgate agent of site {layout.site}
Wants=network-online.target
After=network-online.target remote-fs.target
# It is started again for ever: whoever mends the cluster or the policy need not think of this machine.
StartLimitIntervalSec=0

[Service]
Type=exec
ExecStart={command(unit, layout)}
User={unit.account}
StateDirectory=batchgate/{layout.site}
StateDirectoryMode=0700
Restart=always
RestartSec=5
# A command of the batch system that runs is waited for, so that the successor does not ask in vain.
TimeoutStopSec=60
{hardening}{writable}
[Install]
WantedBy=multi-user.target
"""


def command(unit: Unit, layout: Layout) -> str:
    """The command line, a line for each option."""
    words = [
        f"{word(unit.program)} agent",
        f"--site={layout.site}",
        "--policy-configmap=batchgate-policies",
        f"--public-key={layout.public_keys}",
        f"--kubeconfig={layout.kubeconfig}",
        f"--renew-token={CREDENTIAL_LIFE}",
        f"--certificates={layout.certificates}",
        f"--namespace={unit.namespace}",
        *unit.options,
    ]
    return " \\\n    ".join([words[0], *map(word, words[1:])])


def word(text: str) -> str:
    """One word of a command line or a list, as systemd reads it: its specifiers and variables stand for themselves."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return escaped if text and set(text) <= _PLAIN else f'"{escaped}"'
