"""A fake of imagepull: answers as a test has said, by the image's name, and notes what it was asked."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DIGEST = "sha256:" + "ab" * 32
_PROGRAM = """#!{python}
import json, pathlib, sys, time
here = pathlib.Path({here!r})
asked = json.load(sys.stdin)
with (here / "asked").open("a") as file:
    file.write(json.dumps(asked) + "\\n")
answer = json.loads((here / "answers").read_text()).get(asked["image"])
if answer is None:
    sys.exit("knows no " + asked["image"])
time.sleep(answer.pop("after", 0))
print(json.dumps({{"version": 1, **answer}}))
"""


def ready(path: str = "/cache/ab.sif", repository: str = "docker.io/library/perl", **config: Any) -> dict[str, Any]:
    """The answer for an image that is there."""
    found = {"env": [], "entrypoint": [], "cmd": [], "workdir": "", "user": "", **config}
    return {
        "state": "ready",
        "path": path,
        "source": f"docker://{repository}@{DIGEST}",
        "digest": DIGEST,
        "config": found,
        "reason": "",
        "message": "",
        "permanent": False,
    }


def failed(reason: str = "ErrImagePull", message: str = "no such image", *, permanent: bool = False) -> dict[str, Any]:
    """The answer for an image that cannot be had."""
    return {"state": "failed", "path": "", "reason": reason, "message": message, "permanent": permanent}


PULLING = {"state": "pulling", "path": "/cache/ab.sif", "source": "", "reason": "", "message": ""}


@dataclass(frozen=True)
class FakeImagepull:
    """One such program, in a directory of its own."""

    here: Path

    @property
    def program(self) -> Path:
        return self.here / "imagepull"

    def make(self) -> FakeImagepull:
        self.here.mkdir()
        self.program.write_text(_PROGRAM.format(python=sys.executable, here=str(self.here)))
        self.program.chmod(0o755)
        (self.here / "answers").write_text("{}")
        return self

    def answers(self, **by_image: dict[str, Any]) -> None:
        """What it answers from now on, by image."""
        half = self.here / "half"
        half.write_text(json.dumps(by_image))
        half.replace(self.here / "answers")

    @property
    def asked(self) -> list[dict[str, Any]]:
        """All questions, in order."""
        log = self.here / "asked"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
