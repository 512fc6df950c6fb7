"""Checks the sites, accounts and tests of a policy beyond single values: duplicates, collisions, identities.

Pure. Every function returns problems instead of raising. ``router.policy.rulechecks`` checks rules.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from router import names
from router.errors import Problem
from router.names import SERVICE_ACCOUNT
from router.notation import quantity
from router.notation.durations import show as show_time
from router.policy import conditions, containers, walltimes, ways
from router.policy.identity import names_people
from router.policy.places import Spot
from router.policy.reading import KINDS, Placed, Reading, T
from router.policy.schema import Account, PolicyTest, Rule
from router.site import globs
from router.site.directives import directive_problems
from router.site.schema import Access, Queue, Runtime, Site
from router.site.systems import SYSTEMS

SYSTEM_USERS: Final = frozenset(
    [
        "root",
        "daemon",
        "bin",
        "sys",
        "sync",
        "games",
        "man",
        "lp",
        "mail",
        "news",
        "uucp",
        "proxy",
        "www-data",
        "backup",
        "list",
        "irc",
        "gnats",
        "nobody",
        "messagebus",
        "sshd",
        "polkitd",
        "dbus",
        "adm",
        "shutdown",
        "halt",
        "operator",
        "ftp",
        "avahi",
        "chrony",
        "ntp",
        "rpc",
        "rpcuser",
        "tss",
        "apache",
        "nginx",
        "postfix",
        "postgres",
        "mysql",
        "redis",
        "slurm",
        "munge",
        "pbs",
        "pbsadmin",
        "pbsdata",
        "torque",
        "systemd-network",
        "systemd-resolve",
        "systemd-timesync",
        "systemd-coredump",
        "systemd-oom",
        "_apt",
        "sssd",
        "nslcd",
        "slapd",
        "ldap",
        "nfsnobody",
        "docker",
        "kube",
        "etcd",
    ]
)


def unique(reading: Reading, kind: str) -> Iterator[Problem]:
    """Entries that share a name, even if they have other problems."""
    first: dict[str, Spot] = {}
    for name, spot in reading.named[kind]:
        if name in first:
            message = f"{KINDS[kind][0]} {name} already exists, in {first[name].line}; names must be unique"
            yield spot.problem(message, "name")
        else:
            first[name] = spot


def check_sites(reading: Reading) -> Iterator[Problem]:
    """Problems of sites beyond single values."""
    sites = reading.sites
    yield from unique(reading, "sites")
    yield from _node_names(sites)
    yield from _gpu_resources(sites)
    for placed in sites:
        yield from _site(placed)


def _site(placed: Placed[Site]) -> Iterator[Problem]:
    site, spot = placed.value, placed.spot
    if site.runtime is Runtime.HOST and not SYSTEMS[site.system].TRAITS.embedded:
        yield spot.problem(
            "runtime host runs commands without containers and is only for system local; use apptainer or singularity",
            "runtime",
        )
    if problem := conditions.zone_problem(site.time_zone):
        yield spot.problem(f"timeZone: {problem}", "timeZone")
    yield from ways.check(placed)
    yield from containers.check(placed)
    yield from placeholders(placed, site.work_dir, ("{user}",), "workDir")
    yield from placeholders(placed, site.image_cache or "", ("{user}",), "imageCache")
    yield from _duplicates(placed, "queues", [queue.name for queue in site.queues], "queue")
    yield from _duplicates(placed, "mpi", [profile.name for profile in site.mpi], "MPI profile")
    yield from directives(placed, site.system, site.directives)
    yield from walltimes.too_short(placed)
    for index, queue in enumerate(site.queues):
        yield from _queue(placed, index, queue)


def placeholders(placed: Placed[T], path: str, known: tuple[str, ...], *below: str | int) -> Iterator[Problem]:
    """Placeholders in a path that are not known."""
    rest = path
    for name in known:
        rest = rest.replace(name, "")
    if found := _BRACES.search(rest):
        instead = f"write {' or '.join(known)}" if known else "there is none for such an entry"
        yield placed.spot.problem(f"{below[-1]}: unknown placeholder {found[0]}; {instead}", *below)


_BRACES: Final = re.compile(r"\{[^{}]*\}?|\}")


def _duplicates(placed: Placed[Site], key: str, found: list[str], kind: str) -> Iterator[Problem]:
    for index, name in enumerate(found):
        if name in found[:index]:
            message = f"{kind} {name} already exists in site {placed.value.name}; names must be unique"
            yield placed.spot.problem(message, key, index, "name")


_LEAST_MEMORY: Final = 64 * 1024**2  # a node has more: the unit was forgotten


def _queue(placed: Placed[Site], index: int, queue: Queue) -> Iterator[Problem]:
    at = ("queues", index)
    if queue.walltime_default and queue.walltime_max and queue.walltime_default > queue.walltime_max:
        yield placed.spot.problem(
            f"queue {queue.name}: walltimeDefault {show_time(queue.walltime_default)} is beyond walltimeMax "
            f"{show_time(queue.walltime_max)}, so no Job without a walltime fits",
            *at,
            "walltimeDefault",
        )
    if queue.memory_per_node is not None and queue.memory_per_node < _LEAST_MEMORY:
        digits = re.match(r"\d*", str(placed.spot.raw(*at, "memoryPerNode")))
        yield placed.spot.problem(
            f"queue {queue.name}: memoryPerNode is {quantity.show_bytes(queue.memory_per_node)}; "
            f"did you mean {digits[0] if digits and digits[0] else 64}Gi?",
            *at,
            "memoryPerNode",
        )
    if queue.gpu_vendor is not None and not queue.gpus_per_node:
        message = f"queue {queue.name}: gpuVendor is {queue.gpu_vendor}, but gpusPerNode is 0; give it or remove it"
        yield placed.spot.problem(message, *at, "gpuVendor")
    yield from directives(placed, placed.value.system, queue.directives, *at)


def exactly_one(placed: Placed[T], given: Mapping[str, object], *below: str | int) -> Iterator[Problem]:
    """Problems unless exactly one of the keys is given."""
    found = [key for key, value in given.items() if value is not None]
    if not found:
        yield placed.spot.problem(f"needs exactly one of {', '.join(given)}", *below)
    for key in found[1:]:
        yield placed.spot.key_problem(f"{key} beside {found[0]}: give exactly one of {', '.join(given)}", *below, key)


def directives(placed: Placed[T], system: str, given: Mapping[str, str], *below: str | int) -> Iterator[Problem]:
    """Extra directives that the batch system's dialect does not allow."""
    for key in sorted({"account", "project"} & given.keys()):
        message = f"directives: {key} depends on the user; write it as {key} of an entry in accounts"
        yield placed.spot.key_problem(message, *below, "directives", key)
    for problem in directive_problems(system, given) if given else ():
        yield placed.spot.key_problem(f"directives: {problem}", *below, "directives")


def _node_names(sites: list[Placed[Site]]) -> Iterator[Problem]:
    first: dict[str, str] = {}
    for placed in sites:
        for index, queue in enumerate(placed.value.queues):
            name = names.node_name(placed.value.name, queue.name)
            label = f"{placed.value.name}/{queue.name}"
            if first.setdefault(name, label) != label:
                message = f"queue {label} and queue {first[name]} would be the same Node {name}; rename one of them"
                yield placed.spot.problem(message, "queues", index, "name")


def _gpu_resources(sites: list[Placed[Site]]) -> Iterator[Problem]:
    first: dict[str, tuple[str, str]] = {}
    for placed in sites:
        for resource, vendor in placed.value.gpu_resources.items():
            known, where = first.setdefault(resource, (vendor, placed.spot.line))
            if known != vendor:
                message = f"gpuResources: {resource} is {vendor} here and {known} in {where}; a Job has one vendor"
                yield placed.spot.key_problem(message, "gpuResources", resource)


# --- accounts ---------------------------------------------------------------------------------------------------


def check_accounts(reading: Reading) -> Iterator[Problem]:
    """Problems of accounts beyond single values."""
    for placed in reading.accounts:
        entry = placed.value
        if not names_people(entry) and not entry.namespaces:
            yield placed.spot.problem("matches nobody: give users, groups, serviceAccounts or namespaces")
        yield from _whom(placed, reading)
        yield from _shared(placed)
        yield from _account_site(placed, reading)


def _whom(placed: Placed[Account], reading: Reading) -> Iterator[Problem]:
    entry, spot = placed.value, placed.spot
    if entry.controller:
        if entry.as_ is not None:
            yield spot.key_problem(
                "a controller creates Jobs for others, so it has no HPC user of its own; remove 'as'", "as"
            )
        if not names_people(entry):
            yield spot.problem("a controller is a user, group or service account; give its name")
        if entry.namespaces:
            message = (
                "a controller counts in all namespaces; remove 'namespaces', and write an entry of its own for them"
            )
            yield spot.key_problem(message, "namespaces")
    elif entry.as_ is None:
        yield spot.problem("as is missing: the HPC user to run as")
    elif (entry.as_ in SYSTEM_USERS or entry.as_.startswith("systemd-")) and not _is_embedded_only(entry, reading):
        yield spot.problem(f"as is {entry.as_}, a system user; give the account of a person or of a project", "as")


def _is_embedded_only(entry: Account, reading: Reading) -> bool:
    """Whether all its sites are embedded queues, which run jobs as the agent's own user: root, in a container."""
    systems = {placed.value.system for placed in reading.sites if globs.matches((entry.site,), placed.value.name)}
    return bool(systems) and all(SYSTEMS[system].TRAITS.embedded for system in systems)


def _shared(placed: Placed[Account]) -> Iterator[Problem]:
    """Accounts that more people can use than the entry seems to name, without ``shared: true``."""
    entry = placed.value
    if entry.shared or entry.controller:
        return
    reached = ""
    if entry.service_accounts:
        reached = "serviceAccounts"
    elif any(may_be_service_account(user) for user in entry.users):
        reached = "users"
    elif any(group.startswith("system:") or globs.matches((group,), "system:authenticated") for group in entry.groups):
        reached = "groups"
    elif entry.namespaces and not names_people(entry):
        reached = "namespaces"
    elif system := next(filter(may_be_of_the_cluster, entry.users), ""):
        message = (
            f"users: {system!r} matches components of Kubernetes, which create Jobs for everyone; write an entry "
            f"with 'controller: true' and without 'as', or write 'shared: true' if everyone may run as {entry.as_}"
        )
        yield placed.spot.problem(message, "users", entry.users.index(system))
    if reached:
        yield placed.spot.key_problem(
            f"reached through {reached}: everyone with 'edit' in the namespace can run as {entry.as_}, because they may "
            "create tokens of its service accounts, Jobs and CronJobs; write 'shared: true' if that is intended",
            reached,
        )


_SERVICE_ACCOUNT_TEXT: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789.-:*?[]!")


_CLUSTERS_OWN: Final = "system:"


def may_be_service_account(pattern: str) -> bool:
    """Whether a glob over user names can match a service account's (``system:serviceaccount:NAMESPACE:NAME``)."""
    return _may_begin_with(pattern, SERVICE_ACCOUNT)


def may_be_of_the_cluster(pattern: str) -> bool:
    """Whether a glob over user names can match a component of Kubernetes (``system:kube-controller-manager``)."""
    return _may_begin_with(pattern, _CLUSTERS_OWN)


def _may_begin_with(pattern: str, head: str) -> bool:
    prefix = globs.literal_prefix(pattern)
    if globs.is_literal(pattern):
        return pattern.startswith(head)
    return set(pattern) <= _SERVICE_ACCOUNT_TEXT and (prefix.startswith(head) or head.startswith(prefix))


def shared_directories(reading: Reading) -> Iterator[str]:
    """Warnings about sites where several HPC users would write into one directory."""
    for placed in reading.sites:
        site = placed.value
        shared = [(key, path) for key, path in _users_own(site) if "{user}" not in path]
        if not shared or SYSTEMS[site.system].TRAITS.embedded:  # in the embedded queue all files belong to one user
            continue
        entries = [entry.value for entry in reading.accounts if globs.matches((entry.value.site,), site.name)]
        users = sorted({entry.as_ for entry in entries if entry.as_ is not None})
        if site.access is not Access.OWN or len(users) > 1:
            named = f" ({', '.join(users)})" if users else ""
            for key, path in shared:
                own = f"{path.rstrip('/')}/{{user}}"
                yield f"{placed.spot.line}: {placed.spot.where}: {key} is the same directory for all HPC users{named}; write {own}"


def _users_own(site: Site) -> Iterator[tuple[str, str]]:
    """The directories of a site that each of its users should have separately."""
    yield "workDir", site.work_dir
    if site.image_cache is not None:
        yield "imageCache", site.image_cache


def _account_site(placed: Placed[Account], reading: Reading) -> Iterator[Problem]:
    entry = placed.value
    if "sites" in reading.broken:
        return
    reached = [site.value for site in reading.sites if globs.matches((entry.site,), site.value.name)]
    if not reached:
        known = ", ".join(site.value.name for site in reading.sites) or "none"
        yield placed.spot.problem(f"site {entry.site!r} matches no site; there are: {known}", "site")
    for site in reached:
        if site.observer == entry.as_:
            message = f"as is {entry.as_}, the observer of site {site.name}, which may only look; give another HPC user"
            yield placed.spot.problem(message, "as")
    for system in dict.fromkeys(site.system for site in reached):
        yield from directives(placed, system, entry.directives)
        for key, value in (("account", entry.account), ("project", entry.project)):
            for problem in directive_problems(system, {key: value}) if value is not None else ():
                yield placed.spot.problem(problem, key)


# --- tests ------------------------------------------------------------------------------------------------------


def check_tests(reading: Reading, queues: Mapping[str, tuple[Site, Queue]]) -> Iterator[Problem]:
    """Problems of tests: a missing Job, or an unknown rule, site or queue."""
    yield from unique(reading, "tests")
    rules = {rule.value.name for rule in reading.rules}
    for placed in reading.tests:
        test = placed.value
        yield from exactly_one(placed, {"job": test.job, "file": test.file})
        if test.file is not None and test.file not in reading.manifests:
            message = (
                f"file {test.file!r} is not a manifest in the policy's directory (*.yaml with apiVersion and kind)"
            )
            yield placed.spot.problem(message, "file")
        if test.expect.rule is not None and rules and test.expect.rule not in rules and "rules" not in reading.broken:
            yield placed.spot.problem(f"expects rule {test.expect.rule}, but there is no such rule", "expect", "rule")
        if "sites" not in reading.broken:
            yield from _expected_place(placed, queues)


def _expected_place(placed: Placed[PolicyTest], queues: Mapping[str, tuple[Site, Queue]]) -> Iterator[Problem]:
    expect = placed.value.expect
    known = {(site.name, queue.name) for site, queue in queues.values()}
    if expect.site is not None and expect.site not in {site for site, _ in known}:
        yield placed.spot.problem(f"expects site {expect.site}, but there is no such site", "expect", "site")
    if expect.queue is not None and expect.queue not in {queue for _, queue in known}:
        yield placed.spot.problem(f"expects queue {expect.queue}, but there is no such queue", "expect", "queue")
    for key in placed.value.queues:
        if key not in queues:
            yield placed.spot.key_problem(
                f"queues: no site has a queue {key!r}; there are: {', '.join(queues)}", "queues", key
            )


def rule_directives(placed: Placed[Rule], sites: list[Site]) -> Iterator[Problem]:
    """Problems of a rule's directives in the dialect of every site that it may choose."""
    for system in dict.fromkeys(site.system for site in sites):
        yield from directives(placed, system, placed.value.directives)
