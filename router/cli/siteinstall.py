"""``batchgate site install``: the agent of a site on this login node, as a systemd unit.

Shell: this machine as root, and the cluster. ``router.joining`` says what is put where, and puts it there.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import click
from click.core import ParameterSource

from router import __version__, names
from router.agent import sites
from router.cli.output import as_yaml
from router.errors import ConfigError
from router.host import imagepull, sitehelper
from router.joining import entering, helpers, joinfile, machine, planning, sudoers, units
from router.joining.entering import Entered
from router.joining.joinfile import Join
from router.joining.layout import ACCOUNT, ETC, Layout
from router.joining.planning import ROOT, Directory, File, Record
from router.joining.units import Unit
from router.kube import tokens
from router.notation import durations
from router.site.schema import EACH_USER, Access, Site
from router.site.systems import SYSTEMS
from router.startup.settings import Address, parse_address

_SOURCES: Final = {
    "sitehelper": (sitehelper, helpers.HELPER_SETTINGS),
    "imagepull": (imagepull, helpers.IMAGEPULL_SETTINGS),
}
_REMEMBERED: Final = ("user", "group", "program", "listen", "address", "metrics", "self_signed")
_READY_SECONDS, _PAUSE = 45.0, 0.5
_OK: Final = 200
_HOSTS_PAGE: Final = "docs/hosts.md"


@dataclass(frozen=True, slots=True)
class _Wanted:
    """All that is put on this machine."""

    site: Site
    users: frozenset[str]
    layout: Layout
    account: str
    program: str
    metrics: Address
    directories: tuple[Directory, ...]
    files: tuple[File, ...]
    stale: tuple[str, ...]
    """Files of an earlier run that nothing needs any more."""


@click.command()
@click.argument("site")
@click.option(
    "--from",
    "source",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The join file; not needed where the agent is installed already.",
)
@click.option("--user", default="", metavar="NAME", help="The agent's account; else batchgate, which is made.")
@click.option("--group", default="", metavar="NAME", help="For sudo: the group of all HPC users; else each by name.")
@click.option("--program", metavar="FILE", help="The command batchgate, for the agent's account; else this one.")
@click.option("--listen", default=":10250", show_default=True, metavar="HOST:PORT", help="The kubelet API, for logs.")
@click.option("--address", metavar="IP", help="Where the API server reaches --listen; else this machine's towards it.")
@click.option("--metrics", default=":8080", show_default=True, metavar="HOST:PORT", help="For /readyz and /metrics.")
@click.option("--self-signed", is_flag=True, help="Make the kubelet API's certificate instead of asking the cluster.")
@click.option("--no-start", is_flag=True, help="Write the files only: nothing is enabled, started or checked.")
@click.option("--no-check", is_flag=True, help="Do not run `site check` at the end.")
@click.option("--dry-run", is_flag=True, help="Print every file and every command, and change nothing.")
def install(site: str, source: Path | None, **options: Any) -> None:
    """Make this machine run the agent of a SITE: an account, its files, a systemd unit. Run it as root.

    The policy is the cluster's own. The agent renews its credential by itself. Where the policy says access: sudo, the
    site helper and the rule for sudo are put in place too. Run it again after an upgrade, after a change of the site's
    access or accounts, or with another join file: options are remembered, and what is there as wanted stays untouched.

    \b
    Exit codes: 0 all is well, 1 `site check` has found what must be mended, 2 not all could be done.
    Example:  batchgate site install hpc --from hpc.join
    """
    dry, starts = options["dry_run"], not options["no_start"]
    demand_machine(dry=dry, starts=starts)
    layout = Layout(site)
    before = recorded(layout)
    options |= _remembered(before)
    found = machine.read(Path(layout.token)) if os.geteuid() == 0 else None
    join = _join(source, site) if source else _installed(layout, found)
    entered = entering.enter(join, str(source or layout.token), found, time.time())
    wanted = _wanted(join, layout, entered, before, options)
    if dry:
        _show(wanted, starts=starts, checks=not options["no_check"])
        return
    changed = _put(wanted, entered, join)
    _say_access(wanted)
    if not starts:
        click.echo("Nothing was started (--no-start)")
        return
    _start(wanted, changed=changed)
    _say_readiness(wanted)
    if source:
        click.echo(f"{source} is used up: delete it")
    sys.exit(0 if options["no_check"] else _check(wanted, join.namespace))


def demand_machine(*, dry: bool, starts: bool) -> None:
    """Raise ConfigError unless this is root on a machine that systemd runs; a dry run needs neither."""
    if os.geteuid() != 0 and not dry:
        raise ConfigError("this makes accounts and units: run it as root, or look with --dry-run")
    if starts and not dry and not machine.has_systemd():
        raise ConfigError("systemd does not run this machine; with --no-start only files are written")


def _join(source: Path, site: str) -> Join:
    try:
        text = source.read_text()
    except (OSError, UnicodeDecodeError) as error:
        words = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(f"{source}: the join file cannot be read: {words}") from None
    join = joinfile.parse(text, str(source))
    joinfile.demand_site(join, site, str(source))
    return join


def _installed(layout: Layout, token: str | None) -> Join:
    """The join file's content, from what an earlier run has made of it. Raises ConfigError if there was none."""
    texts = [machine.read(Path(path)) for path in (layout.kubeconfig, layout.public_keys)]
    if token is None or None in texts:
        raise ConfigError(
            f"no agent of site {layout.site} is installed here yet: name its join file with --from. An admin of the cluster "
            f"makes it with `batchgate site add {layout.site}`"
        )
    configuration, keys = map(str, texts)
    ca = machine.read(Path(layout.ca)) or ""
    return planning.installed_join(layout.site, configuration, ca, keys, token.strip())


def recorded(layout: Layout) -> Record | None:
    """What an earlier run has put here; None without one, and for other callers than root. Raises ConfigError."""
    text = machine.read(Path(layout.record)) if os.geteuid() == 0 else None
    return None if text is None else planning.read_record(text, layout.record)


def _remembered(before: Record | None) -> dict[str, Any]:
    """The options of an earlier run that this one does not give anew."""
    context = click.get_current_context()
    return {
        key: value
        for key, value in (before.options if before else {}).items()
        if key in _REMEMBERED and context.get_parameter_source(key) is ParameterSource.DEFAULT
    }


def files_of_others(site: str) -> tuple[str, ...]:
    """The files that agents of other sites need on this machine. Raises ConfigError."""
    others = {path.parent.name for path in Path(ETC).glob("*/installed.json")} - {site}
    found = [record for name in sorted(others) if (record := recorded(Layout(name)))]
    return tuple(file for record in found for file in record.files)


def _wanted(join: Join, layout: Layout, entered: Entered, before: Record | None, options: dict[str, Any]) -> _Wanted:
    site = sites.site_of(entered.policy, join.site)
    named = sites.users_of(site, entered.policy.accounts, options["user"] or ACCOUNT)
    account = planning.account_of(site, named, options["user"])
    if account != ACCOUNT and not machine.has_account(account):
        raise ConfigError(f"there is no account {account!r} on this machine")
    group = machine.group_of(account) if machine.has_account(account) else account
    program = _program(options["program"])
    unit = units.text(_unit(site, layout, join, account, program, options), layout)
    own = planning.own_files(join, layout, group, unit, as_yaml([planning.kubeconfig(join, layout)]))
    files = (*own, *_programs(site), *_sudoers(layout, site, account, named, options["group"]))
    told = {key: options[key] for key in _REMEMBERED if options[key] is not None}
    text = planning.write_record(Record(__version__, told, tuple(one.path for one in files)))
    record = File(layout.record, text, ROOT, ROOT, 0o600)
    directories = planning.directories(layout, account, group)
    metrics = parse_address(options["metrics"])
    needed = (*(one.path for one in files), *files_of_others(join.site))
    stale = planning.removable(layout, before.files, needed) if before else ()
    return _Wanted(site, named, layout, account, program, metrics, directories, (*files, record), stale)


def _unit(site: Site, layout: Layout, join: Join, account: str, program: str, options: dict[str, Any]) -> Unit:
    server = urlsplit(join.server)
    further = planning.further_options(
        site,
        layout,
        listen=str(parse_address(options["listen"])),
        address=options["address"] or machine.address_towards(str(server.hostname), server.port or 443),
        metrics=str(parse_address(options["metrics"])),
        self_signed=options["self_signed"],
    )
    return Unit(
        program=program,
        account=account,
        namespace=join.namespace,
        options=further,
        by_ssh=site.host != planning.LOCAL,
        home=planning.sees_homes(program, site),
        writable=planning.writable(site),
    )


def _program(named: str | None) -> str:
    """The absolute path of ``batchgate``. Raises ConfigError if this process was not started by it."""
    path = Path(named or sys.argv[0]).absolute()
    if not named and path.name != "batchgate":
        raise ConfigError(f"{path} is not the command batchgate; name that with --program")
    if not path.is_file() or not os.access(path, os.X_OK):
        raise ConfigError(f"{path} is no program")
    return str(path)


def _programs(site: Site) -> Iterator[File]:
    """Site helper and image puller, where the site wants them on this machine; settings that are there stay."""
    for name, path in planning.programs(site).items():
        module, settings = _SOURCES[name]
        assert module.__file__ is not None  # noqa: S101 - a module from a file
        text = helpers.merged(Path(module.__file__).read_text(), machine.read(Path(path)), settings, path)
        yield File(path, text, ROOT, ROOT, 0o755)


def _sudoers(layout: Layout, site: Site, account: str, users: frozenset[str], group: str) -> Iterator[File]:
    if site.host == planning.LOCAL and site.access is Access.SUDO:
        text = sudoers.text(site.name, account, site.helper, users, group)
        yield File(layout.sudoers, text, ROOT, ROOT, 0o440, checked=True)


def _show(wanted: _Wanted, *, starts: bool, checks: bool) -> None:
    if not machine.has_account(wanted.account):
        click.echo(f"$ {' '.join(machine.command_for(wanted.account))}")
    for one in wanted.directories:
        click.echo(f"{one.path}/  {one.owner}:{one.group} {one.mode:04o}")
    click.echo(f"{wanted.layout.token}  {wanted.account} 0600, the credential: not shown")
    programs = planning.programs(wanted.site).values()
    for file in wanted.files:
        known = file.path in programs
        click.echo(f"\n{file.path}  {file.owner}:{file.group} {file.mode:04o}{', of this release' if known else ''}")
        click.echo("" if known else file.text, nl=False)
    click.echo()
    for path in wanted.stale:
        click.echo(f"$ rm {path}")
    for command in _commands(wanted.layout) if starts else ():
        click.echo(f"$ {' '.join(command)}")
    if starts and checks:
        click.echo(f"$ batchgate site check {wanted.site.name}    # as {wanted.account}")
    click.echo("Nothing was done (--dry-run)")


def _commands(layout: Layout) -> tuple[tuple[str, ...], ...]:
    return (
        ("systemctl", "daemon-reload"),
        ("systemctl", "enable", "--quiet", layout.unit),
        ("systemctl", "restart", layout.unit),
    )


def _put(wanted: _Wanted, entered: Entered, join: Join) -> bool:
    """Put all in place, and say of each whether it is new; returns whether the agent must be started anew."""
    made = not machine.has_account(wanted.account)
    if made:
        machine.run(machine.command_for(wanted.account))
    told = {f"account {wanted.account}": "made" if made else "unchanged"}
    told |= {one.path: machine.put_directory(one) for one in wanted.directories}
    _demand_reach(wanted)
    token = _credential(wanted, entered, join)
    told |= {one.path: machine.put_file(one) for one in (token, *wanted.files)}
    told |= {path: "removed" for path in wanted.stale if machine.remove_file(path)}
    for what, how in told.items():
        click.echo(f"{what}: {how}")
    if set(told.values()) == {"unchanged"}:
        click.echo("All of it was there already")
        return False
    return True


def _credential(wanted: _Wanted, entered: Entered, join: Join) -> File:
    """The file of the agent's credential: as it is, or a new one. Raises ConfigError."""
    group = machine.group_of(wanted.account)
    text = machine.read(Path(wanted.layout.token)) if entered.kept else None
    if text is None:
        text = entering.credential(entered, join, durations.seconds(units.CREDENTIAL_LIFE)) + "\n"
        ends = tokens.shown(tokens.claims(text).expires)
        click.echo(f"credential until {ends}; the agent renews it at half its life")
    return File(wanted.layout.token, text, wanted.account, group, 0o600)


def _demand_reach(wanted: _Wanted) -> None:
    """Raise ConfigError if the account cannot run the program, or could change what sudo lets it start."""
    done = machine.succeeds([wanted.program, "version"], wanted.account)
    if done.returncode:
        folder = machine.closed_folder(wanted.program, wanted.account)
        why = f"it may not enter {folder}" if folder else " ".join(done.stderr.split()) or f"exit {done.returncode}"
        raise ConfigError(
            f"{wanted.account} cannot run {wanted.program}: {why}. Install batchgate where every user may read it, such as a "
            "virtual environment in /opt/batchgate"
        )
    for path in planning.programs(wanted.site).values():
        writer = machine.foreign_writers(path)
        if writer:
            raise ConfigError(f"{path}: others than root may write {writer}, and so replace what runs as each HPC user")


def _say_access(wanted: _Wanted) -> None:
    """What the agent needs to become its users, and what an admin has to do for it by hand."""
    site = wanted.site
    if site.observer != EACH_USER:
        click.echo(f"Observer {site.observer}: its rules are yours to write ({_HOSTS_PAGE}, One account that looks)")
    if site.host == planning.LOCAL:
        return
    needed = {site.known_hosts: "the login node's host keys"} if site.known_hosts else {}
    if site.access is Access.OWN_KEYS and site.keys:
        needed |= {f"{site.keys}/{user}": f"the private key of {user}" for user in sorted(wanted.users)}
    elif site.keys:
        needed[site.keys] = "the private key"
    else:
        click.echo(
            f"Warning: site {site.name} names no `keys`, and a unit has no ssh agent; name them in the policy", err=True
        )
    for path, what in needed.items():
        if machine.succeeds(["test", "-r", str(path)], wanted.account).returncode:
            words = f"{path}: {wanted.account} cannot read it; put {what} there, owner {wanted.account}, mode 0600"
            click.echo(f"Warning: {words} ({_HOSTS_PAGE}, ssh). No key is made here", err=True)


def _start(wanted: _Wanted, *, changed: bool) -> None:
    layout = wanted.layout
    running = machine.is_active(layout.unit)
    if running and not changed and not machine.has_changed(layout.unit):
        click.echo(f"{layout.unit}: runs")
        return
    for command in _commands(layout):
        machine.run(command)
    click.echo(
        f"{layout.unit}: {'restarted' if running else 'enabled and started'}; its log: journalctl -u {layout.unit}"
    )


def _say_readiness(wanted: _Wanted) -> None:
    """Say what the agent says of itself, once it is ready or the time is over."""
    until = time.monotonic() + _READY_SECONDS
    while True:
        code, said = machine.ask(wanted.metrics.host or "127.0.0.1", wanted.metrics.port, "/readyz")
        if code == _OK or time.monotonic() > until:
            break
        time.sleep(_PAUSE)
    if code == _OK:
        click.echo(f"agent of site {wanted.site.name}: {'leads' if said.get('leading') else 'stands by'}")
    else:
        words = said.get("problem") or f"does not answer on {wanted.metrics} after {_READY_SECONDS:.0f} s; see its log"
        click.echo(f"Warning: agent of site {wanted.site.name}: {words}", err=True)
    for key in ("certificate", "credential", "policy"):
        if key in said:
            click.echo(f"{key}: {said[key]}")


def _check(wanted: _Wanted, namespace: str) -> int:
    """Run ``site check`` as the agent's account; returns the exit code."""
    layout = wanted.layout
    embedded = (f"--local-state={layout.queue}",) if SYSTEMS[wanted.site.system].TRAITS.embedded else ()
    argv = [wanted.program, "site", "check", wanted.site.name, f"--policy-configmap={names.POLICIES_CONFIG_MAP}"]
    argv += [f"--kubeconfig={layout.kubeconfig}", f"--namespace={namespace}", *embedded]
    click.echo(f"\n{' '.join(argv)}    # as {wanted.account}")
    return machine.attached(argv, wanted.account)
