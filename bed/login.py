"""Makes the login node: sshd's configuration, keys, certificates, and the slow mounts.

Pure except ``prepare``, ``mount``, ``unmount`` and ``mounted``.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from bed import accounts, commands, files
from bed.layout import LOOK, MARK, OPERATOR, SERVICE, USERS, Layout

CACHE_SECONDS: Final = 60
"""How long a slow mount caches names, sizes and times."""


def sshd_config(layout: Layout) -> str:
    """The configuration of sshd. Other settings keep their defaults, like ten sessions for each connection."""
    lines = (
        f"# {MARK}; it is written anew by every `up`.",
        "ListenAddress 127.0.0.1",
        f"Port {layout.ssh_port}",
        f"HostKey {layout.ssh / 'host_key'}",
        f"PidFile {layout.running / 'sshd-own.pid'}",
        f"TrustedUserCAKeys {layout.ssh / 'user_ca.pub'}",
        f"AuthorizedKeysFile {layout.ssh / 'authorized_keys'}/%u",
        f"AllowUsers {' '.join(accounts.EVERYBODY)}",
        "UsePAM no",
        "PasswordAuthentication no",
        "KbdInteractiveAuthentication no",
        "PermitRootLogin no",
        "X11Forwarding no",
        "PrintMotd no",
        # Tests connect often and at the same time; a centre would not allow it.
        "MaxStartups 100:30:200",
        "Subsystem sftp internal-sftp",
        # Also with a certificate, the operator may run only this command.
        f"Match User {OPERATOR}",
        f"    ForceCommand {LOOK}",
        "    DisableForwarding yes",
        "    PermitTTY no",
    )
    return "\n".join(lines) + "\n"


def known_hosts(layout: Layout, host_key: str) -> str:
    """The ``known_hosts`` file for strict checks; ``host_key`` is the public key's text."""
    kind, key = host_key.split()[:2]
    return f"[127.0.0.1]:{layout.ssh_port} {kind} {key}\n"


def ssh_config(layout: Layout) -> str:
    """The ssh configuration for people: ``ssh -F FILE hpc-ada``."""
    lines = [f"# {MARK}."]
    for name in accounts.EVERYBODY:
        lines += [f"Host {name}", f"    User {name}", f"    IdentityFile {layout.keys / name}"]
    lines += [
        *("Host *", "    HostName 127.0.0.1", f"    Port {layout.ssh_port}", "    IdentitiesOnly yes"),
        *(f"    UserKnownHostsFile {layout.ssh / 'known_hosts'}", "    StrictHostKeyChecking yes", "    BatchMode yes"),
    ]
    return "\n".join(lines) + "\n"


def mount_options(layout: Layout, key: Path) -> str:
    """The options of sshfs: it and the kernel cache all metadata for 60 s, as with a slow network file system."""
    seconds = CACHE_SECONDS
    options = (
        *(f"port={layout.ssh_port}", f"IdentityFile={key}", "IdentitiesOnly=yes", "BatchMode=yes"),
        *(f"UserKnownHostsFile={layout.ssh / 'known_hosts'}", "StrictHostKeyChecking=yes"),
        *("dir_cache=yes", f"dcache_timeout={seconds}", f"dcache_stat_timeout={seconds}"),
        *(f"dcache_dir_timeout={seconds}", f"dcache_link_timeout={seconds}"),
        *(f"entry_timeout={seconds}", f"attr_timeout={seconds}", f"negative_timeout={seconds}"),
        *("reconnect", "ServerAliveInterval=5"),
    )
    return ",".join(options)


def prepare(layout: Layout) -> None:
    """Make the missing keys, and write the configuration."""
    files.directory(layout.ssh)
    files.directory(layout.ssh / "authorized_keys")
    files.directory(layout.keys, mode=0o700)
    # sshd needs it, and without a service manager it may be missing.
    files.directory(Path("/run/sshd"))
    for name in ("host_key", "user_ca"):
        _key(layout.ssh / name, name)
    for name in accounts.EVERYBODY:
        public = _key(layout.keys / name, name)
        (layout.ssh / "authorized_keys" / name).write_text(public)
    for name in USERS:
        _own_key(layout, name)
    (layout.ssh / "known_hosts").write_text(known_hosts(layout, (layout.ssh / "host_key.pub").read_text()))
    (layout.ssh / "ssh_config").write_text(ssh_config(layout))
    (layout.ssh / "sshd_config").write_text(sshd_config(layout))
    commands.run(["/usr/sbin/sshd", "-t", "-f", layout.ssh / "sshd_config"])


def _key(path: Path, comment: str) -> str:
    """The public key's text; the key pair is made if it is missing."""
    if not path.exists():
        commands.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", path])
    return path.with_suffix(".pub").read_text() if path.suffix else Path(f"{path}.pub").read_text()


def _own_key(layout: Layout, name: str) -> None:
    """Make a copy of the user's key that the user may read, as the slow mount runs as the user."""
    directory = files.directory(accounts.home(name) / ".ssh", mode=0o700, owner=name)
    key = directory / "bed"
    shutil.copyfile(layout.keys / name, key)
    shutil.chown(key, name, name)
    key.chmod(0o600)


def mount(layout: Layout) -> None:
    """Mount each user's work directory a second time, over sshd, as that user."""
    for name in USERS:
        point = layout.slow / name
        if _answers(name, point):
            continue
        _take_away(point)
        files.directory(point, mode=0o700, owner=name)
        options = mount_options(layout, accounts.home(name) / ".ssh" / "bed")
        source = f"{name}@127.0.0.1:{layout.work / name}"
        commands.run(["runuser", "-u", name, "--", "sshfs", "-o", options, source, point])
        # sshfs goes into the background after mounting.
        if str(point) not in mounted():
            raise commands.BedError(f"sshfs says that it has mounted {point}, but it is not mounted")


def unmount(layout: Layout) -> None:
    """Unmount the slow mounts, even if their server is gone."""
    for name in USERS:
        _take_away(layout.slow / name)


def _answers(name: str, point: Path) -> bool:
    return (
        str(point) in mounted()
        and commands.attempt(["runuser", "-u", name, "--", "timeout", "5", "stat", "-f", point]).returncode == 0
    )


def _take_away(point: Path) -> None:
    while str(point) in mounted():
        commands.run(["umount", "--lazy", point])


def mounted() -> list[str]:
    """Every mount point of this mount namespace, read from /proc as a query of a dead FUSE mount would hang."""
    return [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]


def look_script() -> str:
    """The operator's forced command: runs one of the read-only commands, word by word, without a shell."""
    allowed = [command.removesuffix(" *").split() for command in accounts.LOOKING]
    return (
        "#!/usr/bin/python3 -I\n"
        f'"""{MARK}: what {OPERATOR} may run over ssh, and {SERVICE} as {OPERATOR}."""\n'
        "import os\nimport shlex\nimport sys\n\n"
        f"ALLOWED = {allowed!r}\n\n"
        'try:\n    words = shlex.split(os.environ.get("SSH_ORIGINAL_COMMAND", ""))\n'
        "except ValueError:\n    words = []\n"
        "for command in ALLOWED:\n"
        "    for name in (command[0], os.path.basename(command[0])):\n"
        "        if words[: len(command)] == [name, *command[1:]]:\n"
        '            os.execve(command[0], [command[0], *words[1:]], {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"})\n'
        'sys.exit("only " + ", ".join(" ".join(command) for command in ALLOWED) + " may be run here")\n'
    )
