"""A login node under a real systemd: this machine's own Debian in a container, changed in an overlay alone.

The root file system is an overlay over ``/``, so nothing is downloaded, and the container shares the machine's network,
so it reaches a control plane on loopback. systemd starts none of the machine's own services. ``batchgate`` is in
``/opt/batchgate``, where every user may read it.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

TOP: Final = Path(__file__).parent.parent.parent
PROGRAM: Final = "/opt/batchgate/bin/batchgate"
PYTHON: Final = "/usr/bin/python3"
_SECONDS: Final = 300.0
_TRIES, _PAUSE = 40, 0.5
_EMPTY: Final = (
    "tmp",
    "run",
    "var/tmp",
    "var/log",
    "var/lib/containers",
    "etc/systemd/system",
    "etc/sudoers.d",
    "home",
    "opt",
    "srv",
    "usr/local/libexec",
)
"""Folders of the machine that are empty in the container."""
_MASKED: Final = (
    *(f"systemd-{name}.service" for name in ("sysctl", "binfmt", "modules-load", "udevd", "firstboot", "random-seed")),
    *("systemd-timesyncd.service", "console-getty.service", "getty.target"),
)
"""Units that would change the machine itself, or wait for a terminal."""
_NEEDED: Final = ("podman", "runc", "systemctl", "sudo", "visudo", "useradd", "/sbin/init", "dbus-daemon", PYTHON)
_VERSION: Final = "import sys; print('%d.%d' % sys.version_info[:2])"
_START: Final = "from router.cli import main\n\nmain()\n"


def obstacle() -> str:
    """Why there can be no such container here; empty if there can."""
    if os.geteuid() != 0:
        return "needs root"
    release = Path("/etc/os-release").read_text() if Path("/etc/os-release").exists() else ""
    if 'VERSION_ID="12"' not in release or "ID=debian" not in release:
        return "needs Debian 12"
    missing = [name for name in _NEEDED if shutil.which(name) is None]
    if missing:
        return f"needs {', '.join(missing)}: the packages podman, runc, systemd-sysv, dbus, sudo, passwd"
    ours = f"{sys.version_info.major}.{sys.version_info.minor}"
    theirs = subprocess.run([PYTHON, "-c", _VERSION], capture_output=True, check=False)
    if theirs.stdout.decode().strip() != ours:
        return f"needs Debian's Python to be {ours}, as the packages of this environment are"
    return ""


@dataclass(frozen=True)
class Run:
    """How a command in the container ended."""

    rc: int
    out: str
    err: str


@dataclass(frozen=True)
class LoginNode:
    """The container. ``root`` is its file system as this machine sees it."""

    name: str
    root: Path
    podman: tuple[str, ...]

    def run(self, *words: str, stdin: str = "", seconds: float = _SECONDS) -> Run:
        """Run a command as root in it."""
        done = subprocess.run(
            [*self.podman, "exec", "--interactive", self.name, *words],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        return Run(done.returncode, done.stdout, done.stderr)

    def must(self, *words: str, stdin: str = "") -> str:
        """The same, for a command that has to succeed; returns its output."""
        done = self.run(*words, stdin=stdin)
        assert done.rc == 0, f"{words}: {done.out}{done.err}"
        return done.out

    def batchgate(self, *words: str) -> Run:
        """Run ``batchgate`` as root in it."""
        return self.run(PROGRAM, *words)

    def put(self, path: str, text: str, mode: int = 0o644) -> None:
        """Write a file."""
        self.must("sh", "-c", 'umask 077; cat > "$0"; chmod "$1" "$0"', path, f"{mode:o}", stdin=text)

    def reboot(self) -> None:
        """Shut it down, as ``systemctl reboot`` does, and start it again on the same file system."""
        _podman(self.podman, "stop", "--time", "60", self.name)
        _podman(self.podman, "start", self.name)
        self.await_boot()

    def await_boot(self) -> None:
        """Wait until systemd has started all. On failure with what it said: mostly that this machine's limit of inotify
        instances is reached (fs.inotify.max_user_instances), of which it needs a few."""
        done = self.run(
            "sh", "-c", "for i in $(seq 300); do systemctl is-system-running -q && exit; sleep 0.2; done; exit 1"
        )
        if done.rc:
            logs = subprocess.run([*self.podman, "logs", self.name], capture_output=True, text=True, check=False)
            raise AssertionError(f"systemd does not run: {done.err}{logs.stdout}{logs.stderr}")


@contextmanager
def login_node(shared: Sequence[Path] = ()) -> Iterator[LoginNode]:
    """Start it; at the end it is gone.

    :param shared: directories of this machine that it has too, under the same paths
    """
    directory = Path(tempfile.mkdtemp(prefix="batchgate-login-", dir="/var/tmp"))
    root = directory / "root"
    apart = ("--root", str(directory / "storage"), "--runroot", str(directory / "running"))
    podman = ("env", f"CONTAINERS_CONF={_configuration(directory)}", "podman", *apart)
    node = LoginNode(directory.name, root, podman)
    try:
        _make_root(directory, root)
        _podman(podman, *_arguments(node, shared))
        node.await_boot()
        yield node
    finally:
        subprocess.run([*podman, "rm", "--force", "--time", "0", node.name], capture_output=True, check=False)
        if root.is_mount():
            subprocess.run(["umount", str(root)], check=True)
        _remove(directory)


def _remove(directory: Path) -> None:
    """Remove our folder, but never what is mounted below it: podman tidies up, and mounts its storage, for a while."""
    store = directory / "storage" / "overlay"
    for _ in range(_TRIES):
        subprocess.run(["umount", str(store)], capture_output=True, check=False)
        if str(directory) not in Path("/proc/self/mountinfo").read_text():
            shutil.rmtree(directory, ignore_errors=True)
        if not directory.exists():
            return
        time.sleep(_PAUSE)
    raise AssertionError(f"{directory} cannot be removed")


def _configuration(directory: Path) -> Path:
    """Podman's limits as this process has them, since a root without CAP_SYS_RESOURCE raises none."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    limits = f'["nofile={files}:{files}", "nproc=32768:32768"]'
    file = directory / "containers.conf"
    file.write_text(f'[containers]\ndefault_ulimits = {limits}\n[engine]\nevents_logger = "none"\nruntime = "runc"\n')
    return file


def _make_root(directory: Path, root: Path) -> None:
    upper, work = directory / "upper", directory / "work"
    for path in (upper, work, root):
        path.mkdir()
    for name in _EMPTY:
        (upper / name).mkdir(parents=True)
        os.setxattr(upper / name, "trusted.overlay.opaque", b"y")
    for name in ("tmp", "var/tmp"):
        (upper / name).chmod(0o1777)
    for unit in _MASKED:
        (upper / "etc/systemd/system" / unit).symlink_to("/dev/null")
    options = f"lowerdir=/,upperdir={upper},workdir={work}"
    _do(["mount", "-t", "overlay", "overlay", "-o", options, str(root)])
    home = root / "opt/batchgate"
    _do(["chroot", str(root), PYTHON, "-m", "venv", "--without-pip", "/opt/batchgate"])
    (site_packages,) = home.glob("lib/python3*/site-packages")
    (site_packages / "batchgate.pth").write_text("/opt/source\n/opt/packages\n")
    (home / "bin/batchgate").write_text(f"#!/opt/batchgate/bin/python\n{_START}")
    (home / "bin/batchgate").chmod(0o755)
    for name in ("source", "packages"):
        (root / "opt" / name).mkdir()


def _arguments(node: LoginNode, shared: Sequence[Path]) -> list[str]:
    import router  # noqa: PLC0415 - where this environment has its packages

    (packages,) = Path(sys.prefix).glob("lib/python3*/site-packages")
    source = Path(router.__file__).parent
    capabilities = "SYS_ADMIN,SYS_PTRACE,SYS_RESOURCE,AUDIT_WRITE"
    return [
        *("run", "--detach", "--name", node.name, "--network", "host", "--systemd", "always"),
        *("--cap-add", capabilities, "--security-opt", "seccomp=unconfined"),
        *("--volume", f"{source}:/opt/source/router:ro", "--volume", f"{packages}:/opt/packages:ro"),
        *(word for path in shared for word in ("--volume", f"{path}:{path}")),
        *("--rootfs", str(node.root), "/sbin/init"),
    ]


def _podman(podman: Sequence[str], *words: str) -> None:
    _do([*podman, *words])


def _do(argv: Sequence[str]) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=_SECONDS, check=False)
    assert done.returncode == 0, f"{argv}: {done.stderr}"
