"""The image as a cluster runs it: as its own user, nothing writable, no rights, no network."""

from __future__ import annotations

import io
import json
import os
import resource
import shutil
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from imagebuild import archive, base, builders, command
from imagebuild.builders import BILLS, IMAGES, Plan
from imagebuild.commands import BuildError
from imagebuild.source import ROOT, Source, source
from router import __version__
from router.startup.release import packages

SECONDS = 120
USER = "65532:65532"
JOB = """\
#!/bin/sh
#PBS -l select=1:ncpus=1,walltime=60
id -u; echo "$HOME $SHELL $PBS_JOBID"; for word in awk bash find ldd ps setsid stat timeout; do command -v $word; done
"""


@dataclass(frozen=True, slots=True)
class Built:
    """What ``make image`` wrote."""

    builder: str
    plan: Plan
    out: Path

    @property
    def source(self) -> Source:
        return self.plan.source

    def run(self, name: str, *words: str, entry: str | None = None, options: tuple[str, ...] = ()) -> list[str]:
        """The lines that a container prints; it has a read-only file system, no capability and no network."""
        # A root with few rights cannot raise limits to podman's own.
        files, processes = (resource.getrlimit(one)[1] for one in (resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC))
        limits = [f"--ulimit=nofile={files}:{files}", f"--ulimit=nproc={processes if 0 < processes < 32768 else 32768}"]
        strict = ["--rm", "--read-only", "--network=none", "--cap-drop=all", "--security-opt=no-new-privileges"]
        strict += limits if self.builder == "podman" else []
        strict += ["--read-only-tmpfs=false"] if self.builder == "podman" else []
        entry_point = [] if entry is None else [f"--entrypoint={entry}"]
        # Debian 12's crun starts nothing where cgroups are of both versions.
        runtime = ["--runtime=runc"] if self.builder == "podman" and shutil.which("runc") else []
        argv = [self.builder, *runtime, "run", *strict, *options, *entry_point, builders.tag(name, self.source), *words]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=SECONDS)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.splitlines()


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    if os.environ.get("BATCHGATE_KIND") != "required":
        pytest.skip("builds for minutes, so it is run by `make test-kind` only")
    try:
        builder = builders.find()
        below = base.ensure(builder, print)
    except BuildError as error:
        pytest.skip(f"no image can be built here: {error}")
    out = tmp_path_factory.mktemp("image")
    plan = Plan(source(), below, command.fetched(), builders.secrets())
    for target in IMAGES:
        command.make(builder, plan, target, out / f"{target}.tar")
    command.make(builder, plan, BILLS, out)
    return Built(builder, plan, out)


def _configuration(built: Built, name: str) -> dict[str, object]:
    found = archive.read(built.out / f"{name}.tar")
    assert found.tags == (f"localhost/{name}:{__version__}",)
    return found.configuration


@pytest.mark.parametrize("name", IMAGES)
def test_the_configuration(built: Built, name: str) -> None:
    whole = _configuration(built, name)
    config = whole["config"]
    assert isinstance(config, dict)

    assert {key: config[key] for key in ("User", "Entrypoint", "StopSignal", "WorkingDir")} == {
        "User": USER,
        "Entrypoint": ["/opt/batchgate/bin/batchgate"],
        "StopSignal": "SIGTERM",
        "WorkingDir": "/home/batchgate",
    }
    prefix = "org.opencontainers.image."
    labels = {key.removeprefix(prefix): value for key, value in config["Labels"].items() if key.startswith(prefix)}
    assert labels.pop("description")
    assert labels == {
        "title": name,
        "licenses": "Apache-2.0",
        "version": __version__,
        "revision": built.source.revision,
        "created": built.source.created,
    }
    assert str(whole["created"]).startswith(built.source.created.removesuffix("Z"))


@pytest.mark.parametrize(
    "words", [("webhook", "--help"), ("agent", "--help"), ("policy", "--help"), ("local", "--help")]
)
def test_the_programs_start(built: Built, words: tuple[str, ...]) -> None:
    assert built.run("batchgate", *words)[0].startswith("Usage: batchgate ")


def test_it_says_what_is_in_it(built: Built) -> None:
    told = json.loads("\n".join(built.run("batchgate", "version", "-o", "json")))

    assert (told["version"], told["revision"]) == (__version__, built.source.revision)
    # Every package is one that the tests run with too, in the same version.
    assert told["packages"].items() <= packages().items()
    assert {"batchgate", "kubernetes", "cel-expr-python"} <= told["packages"].keys()


def test_it_has_no_shell_no_compiler_and_no_set_id_program(built: Built) -> None:
    look = (
        "import os, pathlib\n"
        "found = [p for top in ('/usr', '/opt', '/etc', '/home') for p in pathlib.Path(top).rglob('*')]\n"
        "print(sorted({p.name for p in found if not p.is_dir()} & {'sh', 'bash', 'dash', 'perl', 'dpkg', 'apt', 'gcc', 'pip'}))\n"
        "print([str(p) for p in found if not p.is_symlink() and p.stat().st_mode & 0o6000])\n"
        "print([str(p) for p in found if os.access(p, os.W_OK)])\n"
        "print([str(p) for p in found if p.suffix == '.py' and not p.is_symlink() and p.parts[2] != 'share' and p.parts[1] != 'etc' and 'aio' not in p.parts and not\n"
        "       (p.parent / '__pycache__' / (p.stem + '.cpython-311.pyc')).exists()])\n"
        "print([str(p) for p in found if p.suffix == '.pyc' and p.read_bytes()[4:8] != bytes([1, 0, 0, 0])])\n"
    )

    # The last: byte code that names the time of its source, which differs in each build.
    assert built.run("batchgate", "-c", look, entry="/usr/bin/python3") == ["[]", "[]", "[]", "[]", "[]"]


def test_rules_are_read_and_judged(built: Built) -> None:
    """The rules' library is the one that needs C++'s."""
    mounts = tuple(f"--volume={ROOT / part}:/{part}:ro" for part in ("policies", "examples"))

    told = built.run("batchgate", "policy", "test", "/policies", options=mounts)

    assert told[-1].endswith(" passed, 0 failed")


def test_the_embedded_queue_runs_a_script(built: Built, tmp_path: Path) -> None:
    script = tmp_path / "job.sh"
    script.write_text(JOB)
    script.chmod(0o644)
    tmp_path.chmod(0o755)
    lines = (
        "batchgate local --directory /state/queue qsub -o /state/out -j oe /job/job.sh\n"
        "until [ -s /state/out ]; do sleep 0.2; done; cat /state/out\n"
        "batchgate local --directory /state/queue qstat -x -f | grep -o 'Exit_status = .*'\n"
        "batchgate local --directory /state/queue stop --delete >/dev/null\n"
    )
    writable = (f"--volume={tmp_path}:/job:ro", "--tmpfs=/tmp:rw,mode=1777", "--tmpfs=/state:rw,mode=1777")

    told = built.run("batchgate-local", "-c", lines, entry="/bin/bash", options=writable)

    job = told[0]
    assert told[1:3] == ["65532", f"/home/batchgate /bin/bash {job}"]
    assert [Path(line).name for line in told[3:-1]] == ["awk", "bash", "find", "ldd", "ps", "setsid", "stat", "timeout"]
    assert told[-1] == "Exit_status = 0"


@pytest.mark.parametrize(("name", "shell"), [("batchgate", False), ("batchgate-local", True)])
def test_the_bill_names_both_kinds_of_packages(built: Built, name: str, *, shell: bool) -> None:
    text = (built.out / f"{name}.cdx.json").read_text()
    bill = json.loads(text)
    urls = {one["purl"].split("@")[0] for one in bill["components"] if "purl" in one}

    assert bill["metadata"]["component"]["name"] == name
    assert bill["metadata"]["timestamp"] == built.source.created.replace("Z", "+00:00")
    assert {"pkg:deb/debian/libstdc%2B%2B6", "pkg:deb/debian/libssl3", "pkg:pypi/kubernetes"} <= urls
    assert ("pkg:deb/debian/bash" in urls) is shell
    # No path of the build.
    assert [word for word in ("file:", "/opt/", '"/source', '"/system', str(ROOT)) if word in text] == []


@pytest.mark.parametrize("name", IMAGES)
def test_each_file_has_the_time_of_the_commit(built: Built, name: str) -> None:
    """Docker's builder keeps the times that files have, so that the build itself sets them."""
    times = set()
    with tarfile.open(built.out / f"{name}.tar") as opened:
        (entry,) = json.loads(archive._member(opened, "manifest.json"))
        for path in entry["Layers"]:
            with tarfile.open(fileobj=io.BytesIO(archive._member(opened, path))) as layer:
                times |= {file.mtime for file in layer}

    assert times == {built.source.epoch}


def test_the_same_source_gives_the_same_bytes(built: Built, tmp_path: Path) -> None:
    """The last steps are done again here; a build without any step from before is `make image CACHE=no`, twice."""
    first = {path.name: path.read_bytes() for path in built.out.iterdir()}
    for target in IMAGES:
        command.make(built.builder, built.plan, target, tmp_path / f"{target}.tar")
    command.make(built.builder, built.plan, BILLS, tmp_path)

    assert {path.name for path in tmp_path.iterdir()} == set(first)
    assert [name for name, content in first.items() if (tmp_path / name).read_bytes() != content] == []
