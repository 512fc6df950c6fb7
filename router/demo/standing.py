"""``make control-plane``: a control plane that keeps running, with the webhook, the agent and the embedded queue.

Shell: starts the same programs as the demo and leaves them running. A file beside the plane's directory records how to
end them. It is written first, so that the remains of an interrupted start are found and removed too.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import click

from router.controlplane import building, cloudnode, packages
from router.controlplane import start as starting
from router.controlplane.options import ADA, BEN, EVE
from router.controlplane.plane import ControlPlane
from router.demo import site, stack
from router.errors import BatchgateError, ConfigError
from router.hpc import Commands, local

DIRECTORY: Final = Path("build/control-plane")
EXPORTS: Final = Path("build/control-plane.env")
_STATE: Final = Path("build/control-plane.json")
_SECONDS: Final = 60
_END_SECONDS: Final = 90.0
_PAUSE: Final = 0.1


@dataclass(frozen=True, slots=True)
class Standing:
    """The record for ending a plane: a process, when it was started (clock ticks), and the queue's state directory.

    The process is first the one that starts the plane, later the plane's keeper; SIGTERM ends everything in both cases.
    """

    pid: int
    started: int
    queue: str

    def is_alive(self) -> bool:
        """Whether this very process still runs, as pids are reused."""
        return _started(self.pid) == self.started


@click.group()
def commands() -> None:
    """A control plane that keeps running, for trying things out."""


@commands.command()
@click.option("--examples", default="examples", show_default=True, type=click.Path(path_type=Path), metavar="DIR")
def up(examples: Path) -> None:
    """Start a control plane and leave it running; print the shell variables to export."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # like Ctrl-C: ends everything that was started
    found = _read()
    if found is not None and found.is_alive():
        if not EXPORTS.exists():
            raise ConfigError(f"process {found.pid} is starting one; `make control-plane-down` ends it")
        click.echo("A control plane runs already; `make control-plane-down` ends it.")
        click.echo(EXPORTS.read_text(), nl=False)
        return
    if found is None and os.path.lexists(DIRECTORY):
        raise ConfigError(f"{DIRECTORY}: was not made by `make control-plane`, or is older than {_STATE}: remove it")
    _clear(found)
    building.ensure(click.echo)
    packages.ensure(click.echo)
    DIRECTORY.parent.mkdir(parents=True, exist_ok=True)
    _start(examples, DIRECTORY.resolve())
    click.echo(f"\nUse it with: . {EXPORTS}\n")
    click.echo(EXPORTS.read_text(), nl=False)


@commands.command()
def down() -> None:
    """End the control plane, with everything that runs on it."""
    found = _read()
    if found is None:
        click.echo("No control plane was left running.")
        return
    _clear(found)
    click.echo("The control plane has ended.")


def _start(examples: Path, directory: Path) -> None:
    machine = site.look()
    work = directory / "work"
    with ExitStack() as undone:
        # A socket's path may have about 100 characters, so the queue's state has a short path.
        queue = Path(tempfile.mkdtemp(prefix="batchgate-")) / "queue"
        undone.callback(shutil.rmtree, queue.parent, ignore_errors=True)
        mine = Standing(os.getpid(), _started(os.getpid()), str(queue))
        _claim(mine)
        undone.callback(_delete, mine)
        click.echo("Starting etcd, kube-apiserver, kube-controller-manager, kube-scheduler …")
        plane = starting.start(directory)
        undone.callback(plane.keeper.close)
        standing = Standing(plane.keeper.pid, _started(plane.keeper.pid), str(queue))
        _write(standing)
        undone.callback(_clear, standing)
        node = cloudnode.join(plane)
        click.echo("Starting the webhook, the agent and the embedded queue …")
        site.prepare(examples, work / "policy", machine, work)
        defined = _define(queue, site.queue_definitions(work / "policy"))
        running = stack.start(plane, stack.Places(work, queue, work / "policy"), defined)
        _write_exports(plane, running, queue, node, work / "policy")
        undone.pop_all()
    plane.keeper.leave(again=(running.webhook, running.agent))


def _define(queue: Path, definitions: str) -> Commands:
    defined = _commands(queue)
    _run(defined.argv("queues", "--define", "-"), definitions)
    return defined


def _commands(queue: Path) -> Commands:
    return local.commands_of(str(queue), prefix=(sys.executable, "-m", "router.local"))


def _write_exports(
    plane: ControlPlane, running: stack.Stack, queue: Path, node: cloudnode.CloudNode, policy: Path
) -> None:
    files = [str(plane.kubeconfig(name)) for name in (ADA.name, BEN.name, EVE.name, "admin")]
    merged = _run([str(plane.programs.kubectl), "config", "view", "--flatten"], KUBECONFIG=os.pathsep.join(files))
    kubeconfig = plane.directory / "kubeconfig" / "all.yaml"
    kubeconfig.touch(mode=0o600)
    kubeconfig.write_text(merged)
    what = "runs them" if node.real else f"does not run them: {node.obstacle.splitlines()[0]}"
    lines = [
        "# Contexts: ada (the current one), ben, eve, admin: `kubectl --context admin get nodes`.",
        f"# Jobs that stay in the cloud are bound to node {node.name}, which {what}.",
        f"export KUBECONFIG={shlex.quote(str(kubeconfig))}",
        f"export BATCHGATE_LOCAL={shlex.quote(str(queue))}",
        f"export BATCHGATE_RESULTS={shlex.quote(str(running.results))}",
        f"export BATCHGATE_POLICY={shlex.quote(str(policy))}",
        f'export PATH={shlex.quote(str(Path(sys.executable).parent))}:"$PATH"',
        f"# Logs: {running.webhook.log}",
        f"#       {running.agent.log}",
        f"#       {plane.place.logs}",
    ]
    EXPORTS.write_text("\n".join(lines) + "\n")


def _clear(found: Standing | None) -> None:
    """End the recorded plane, and delete its files."""
    if found is None:
        return
    if Path(found.queue).exists():
        _run(_commands(Path(found.queue)).argv("stop", "--delete"))
    if found.is_alive():
        os.kill(found.pid, signal.SIGTERM)
        until = time.monotonic() + _END_SECONDS
        while found.is_alive():
            if time.monotonic() > until:
                raise ConfigError(f"process {found.pid} has not ended {_END_SECONDS:.0f} s after SIGTERM")
            time.sleep(_PAUSE)
    _delete(found)


def _delete(standing: Standing) -> None:
    """Delete the plane's files, the record last."""
    shutil.rmtree(Path(standing.queue).parent, ignore_errors=True)
    with suppress(FileNotFoundError):  # an `up` that `down` has ended deletes them too
        shutil.rmtree(DIRECTORY)
    EXPORTS.unlink(missing_ok=True)
    _STATE.unlink(missing_ok=True)


def _claim(standing: Standing) -> None:
    """Write the record, unless another process has. Of several starts at once, all but the first get a ConfigError."""
    draft = _draft(standing)
    try:
        os.link(draft, _STATE)
    except FileExistsError as error:
        raise ConfigError(f"{_STATE}: another process is starting one") from error
    finally:
        draft.unlink()


def _write(standing: Standing) -> None:
    _draft(standing).replace(_STATE)


def _draft(standing: Standing) -> Path:
    """Write the record to a draft file, so that the final file is always whole."""
    draft = _STATE.with_suffix(f".{os.getpid()}")
    draft.write_text(json.dumps(asdict(standing)))
    return draft


def _read() -> Standing | None:
    try:
        return Standing(**json.loads(_STATE.read_text()))
    except FileNotFoundError:
        return None


def _started(pid: int) -> int:
    """When a process was started, in clock ticks since boot; 0 if it does not run."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return 0 if fields[0] == "Z" else int(fields[19])


def _run(argv: tuple[str, ...] | list[str], stdin: str = "", **environment: str) -> str:
    done = subprocess.run(
        argv,
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=_SECONDS,
        env={**os.environ, **environment},
    )
    if done.returncode:
        raise ConfigError(f"{' '.join(argv)}: exit code {done.returncode}: {done.stderr.strip()}")
    return done.stdout


if __name__ == "__main__":
    try:
        commands()
    except BatchgateError as error:
        sys.exit(f"Error: {error}")
