"""Site helpers as an admin would install them, with the constants set that an admin may set."""

from __future__ import annotations

import contextlib
import functools
import os
import pwd
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from router.host import sitehelper
from router.host.sentences import HelperPlace
from router.host.ssh import Connections, SshOpener
from router.host.sudo import LocalOpener, sudo_argv
from tests.host.sshd import Sshd


def installed(
    directory: Path,
    *,
    programs: Sequence[str] = (),
    least_uid: int = 0,
    roots: Sequence[str] = (),
    python: str = sys.executable,
) -> Path:
    """A site helper in that directory, for any user to run."""
    path = directory / "sitehelper"
    text = Path(sitehelper.__file__).read_text()
    for name, value in (("LEAST_UID", least_uid), ("FURTHER_PROGRAMS", tuple(programs)), ("ROOTS", tuple(roots))):
        text, count = re.subn(rf"^{name} = [^#]*", f"{name} = {value!r}  ", text, flags=re.MULTILINE)
        assert count == 1
    path.write_text(re.sub(r"^#!.*", f"#!{python} -I", text))
    path.chmod(0o755)
    return path


def piped(helper: Path) -> LocalOpener:
    """The way to a site helper that is this very user's."""
    return LocalOpener((str(helper),), HelperPlace(str(os.getuid()), "this machine", str(helper)))


def by_login(server: Sshd, helper: Path, **changed: str) -> SshOpener:
    """The way to it over ssh."""
    login = server.login(**changed)
    return SshOpener(Connections(login), [str(helper)], HelperPlace(server.user, login.address.known_as, str(helper)))


def by_sudo(user: str, helper: Path) -> LocalOpener:
    """The way to it as another user of this machine."""
    return LocalOpener(sudo_argv(user, str(helper)), HelperPlace(user, "this machine", str(helper), sudo=True))


def oldest_python() -> str:
    """The oldest Python from 3.6 on that is older than the one of the tests. Skips where there is none."""
    found = _oldest_python()
    if found is None:
        pytest.skip("no Python on this machine is older than the one of the tests")
    return found


@functools.cache
def _oldest_python() -> str | None:
    places = ["/usr/libexec/platform-python", "/usr/bin/python3"]
    for directory in os.environ.get("PATH", "").split(":"):
        places += [str(path) for path in Path(directory).glob("python3.*") if path.name[8:].isdecimal()]
        places += [str(path) for path in Path(directory).parent.glob("versions/3.*/bin/python3")]  # pyenv's shims
    versions = {path: version for path in places if "shims" not in path and (version := _version(path)) is not None}
    older = {path: version for path, version in versions.items() if (3, 6) <= version < sys.version_info[:2]}
    return min(older, key=lambda path: older[path]) if older else None


def _version(python: str) -> tuple[int, int] | None:
    """The version of an interpreter; None where it does not run."""
    try:
        run = subprocess.run(
            [python, "-I", "-c", "import sys; print(*sys.version_info[:2])"],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        major, minor = map(int, run.stdout.split())
    except (OSError, ValueError):
        return None
    return major, minor


@contextlib.contextmanager
def open_directory() -> Iterator[Path]:
    """A directory that every user of this machine may enter, unlike pytest's own."""
    path = Path(tempfile.mkdtemp(prefix="batchgate-hosts-"))
    path.chmod(0o755)
    try:
        yield path
    finally:
        shutil.rmtree(path)


def sudo_user() -> str:
    """Somebody else on this machine, whom sudo lets us be. Skips where that cannot be."""
    if shutil.which("sudo") is None:
        pytest.skip("no sudo on this machine")
    user = pwd.getpwuid(65534).pw_name
    if os.geteuid() != 0 or subprocess.run(["sudo", "-n", "-u", user, "true"], check=False).returncode:
        pytest.skip(f"sudo does not let this user be {user}: run the tests as root")
    return user
