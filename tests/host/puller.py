"""The image puller as an admin would install it, asked by an ordinary user of this machine."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from bed.layout import USERS
from router.host import imagepull

PYTHON: Final = "/usr/bin/python3"
"""The machine's own: the user can run it."""


@dataclass(frozen=True, slots=True)
class Puller:
    """An image puller of one user.

    :param directory: the user's own, with the cache and where layers are unpacked
    :param further: further variables of its environment
    """

    program: Path
    directory: Path
    user: str
    further: Mapping[str, str] = field(default_factory=dict)

    @property
    def cache(self) -> Path:
        return self.directory / "cache"

    @property
    def scratch(self) -> Path:
        return self.directory / "scratch"

    def as_user(self, argv: list[str]) -> list[str]:
        """The words that run a command as the user, with the environment that the site helper gives."""
        become = ["runuser", "-u", self.user, "--"] if os.geteuid() == 0 else []
        home = pwd.getpwnam(self.user).pw_dir
        return [*become, "env", "-i", f"HOME={home}", "PATH=/usr/bin:/bin", *_pairs(self.further), *argv]

    def question(self, image: str, **changed: object) -> dict[str, object]:
        """What an agent asks."""
        asked: dict[str, object] = {"version": 1, "image": image, "file": None, "cache": str(self.cache)}
        asked.update(policy="Always", when="host", runtime="apptainer", insecure=True, auths=[])
        return {**asked, **changed}

    def begin(self, image: str, **changed: object) -> subprocess.Popen[str]:
        """Ask, and do not wait for the answer."""
        process = subprocess.Popen(
            self.as_user([str(self.program)]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdin is not None
        process.stdin.write(json.dumps(self.question(image, **changed)))
        process.stdin.close()
        process.stdin = None
        return process

    def ask(self, image: str, **changed: object) -> dict[str, Any]:
        """The answer."""
        return answer_of(self.begin(image, **changed))

    def settle(self, image: str, **changed: object) -> dict[str, Any]:
        """The answer when it is no more "pulling"."""
        deadline = time.monotonic() + 180
        while (answer := self.ask(image, **changed))["state"] == "pulling":
            assert time.monotonic() < deadline
            time.sleep(1)
        return answer

    def left(self) -> list[str]:
        """The names of all files that are there."""
        found = (path.relative_to(self.directory) for path in self.directory.rglob("*"))
        return sorted(str(path) for path in found if (self.directory / path).is_file())


def answer_of(process: subprocess.Popen[str]) -> dict[str, Any]:
    """What it says; nothing else is on stdout or stderr."""
    out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, "")
    answer = json.loads(out)
    assert isinstance(answer, dict)
    return answer


def _pairs(variables: Mapping[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in variables.items()]


@contextlib.contextmanager
def installed(**constants: object) -> Iterator[Puller]:
    """A puller with constants set as an admin may set them. The test is skipped where there is no user to run it as."""
    user = ordinary_user()
    with tempfile.TemporaryDirectory(prefix="puller-") as made:
        place = Path(made)
        place.chmod(0o755)
        directory = place / "theirs"
        (directory / "scratch").mkdir(parents=True)
        for path in (directory, directory / "scratch"):
            shutil.chown(path, user)
            path.chmod(0o700)
        yield Puller(_program(place, {"SCRATCH": str(directory / "scratch"), **constants}), directory, user)


def ordinary_user() -> str:
    """Who asks: root has one of the bed's users do it, or `nobody`, whom every machine has."""
    if os.geteuid():
        return pwd.getpwuid(os.geteuid()).pw_name
    for name in (*USERS, "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name).pw_name
    return pytest.skip("there is no ordinary user to run it as")


def _program(place: Path, constants: Mapping[str, object]) -> Path:
    path = place / "imagepull"
    text = Path(imagepull.__file__).read_text()
    for name, value in constants.items():
        text, count = re.subn(rf"^{name} = [^#\n]*", f"{name} = {value!r}  ", text, flags=re.MULTILINE)
        assert count == 1
    path.write_text(re.sub(r"^#!.*", f"#!{PYTHON} -I", text))
    path.chmod(0o755)
    return path
