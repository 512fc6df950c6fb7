"""Warns of what a Job that can go to HPC has otherwise there: a sentence for each kind of thing, and few of them.

Pure. Texts are only searched: a warning may be wrong, and has no effect on the decision. Of long texts only the beginning is
searched, as a Job may bring a megabyte.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final

from router.notation import quantity
from router.values import unchanging
from router.workload.fields import Fields, Findings, integer, mapping, mappings, text
from router.workload.model import Container, Figure

_MOST_NAMED: Final = 4
_LONGEST: Final = 16 * 1024
"""Most characters of one text that are searched."""
_MOST_TEXT: Final = 64 * 1024
"""Most characters of a Job's texts together."""
_LOWEST_PORT: Final = 1024
"""Ports below it are opened by root alone (``net.ipv4.ip_unprivileged_port_start``)."""
_GROUPS: Final = ("initContainers", "containers")

_ROOT: Final = re.compile(
    r"(?:^|[;&|({`\n]|\b(?:then|do|else|exec|time|sudo)[ \t])[ \t]{0,40}(?:[A-Z_]{1,40}=[^\s]{0,40}[ \t]{1,9}){0,3}"
    r"(?:/usr)?(?:/s?bin/)?(?:(sudo|apt-get|yum|dnf|microdnf|zypper|useradd|adduser|groupadd|addgroup|modprobe|iptables|chown)"
    r"(?![\w.-])|(apt)[ \t]+(?:-\w+[ \t]+)?(?:update|install|upgrade)\b|(apk)[ \t]+(?:-\S{1,40}[ \t]+)?(?:add|update)\b|(sysctl)[ \t]+-w|(mount)[ \t]+[-/\w])"
)
_PROGRAMS: Final = (
    *("sudo", "apt", "apk", "yum", "dnf", "zypper", "mount", "chown", "sysctl", "modprobe", "iptables"),
    *("useradd", "adduser", "groupadd", "addgroup"),
)
"""One of these stands in each text that ``_ROOT`` matches: far quicker to look for, and nearly no Job has any."""
_URL: Final = re.compile(
    r"\b(?:https?|wss?|grpc|tcp|udp|rediss?|amqps?|postgres(?:ql)?|mysql|mongodb|nats|kafka|ldap)://"
    r"(?:[^\s/@]{1,80}@)?([a-z][a-z0-9-]{0,62})(?![\w.-])"
)
_HOST_AND_PORT: Final = re.compile(r"([a-z][a-z0-9-]{0,62})(:\d{2,5})?")
_OPTION: Final = re.compile(
    r"(?<![\w-])--?[a-z-]{0,30}?(?:host|hostname|server|addr|address|endpoint|brokers?)[= ]"
    r"([a-z][a-z0-9-]{0,62})(?::\d{2,5})?(?![\w./:=-])"
)
_NAMES_HOST: Final = re.compile(r"(?:HOST|HOSTNAME|ADDR|ADDRESS|SERVER|ENDPOINT|BROKERS?|_URL)$")
_IN_DNS: Final = re.compile(r"(?<![\w.-])([a-z][a-z0-9-]{0,62}(?:\.[a-z0-9-]{1,63})?)\.svc(?![\w-])")
_VARIABLE: Final = re.compile(r"(?<!\w)([A-Z][A-Z0-9_]{0,62}?)_SERVICE_HOST\b")
_TELLING: Final = re.compile(r":\d|://|\.svc|_SERVICE_HOST|(?:host|name|server|addr|address|endpoint|brokers?)[= ]")
"""Stands in each text that names a host, but for a plain name as a variable's value. Few texts have it."""
_OWN: Final = frozenset({"localhost", "none", "null", "true", "false", "host"})


def judge_cautions(
    pod: Fields, path: str, containers: Sequence[Container], pods: int, storage: Figure | None, findings: Findings
) -> None:
    """Add the warnings about a Pod's spec.

    :param pods: how many there are at once
    :param storage: ephemeral storage that a Pod asks for
    """
    texts = _texts(containers)
    findings.warnings.extend(
        [
            *_priority(pod, path),
            *_storage(storage),
            *_empty_dirs(pod, path),
            *_host_paths(pod, path),
            *_ports(pod, path, pods),
            *_root_programs(texts),
            *_services(texts),
        ]
    )


def _priority(pod: Fields, path: str) -> Iterator[str]:
    if name := text(pod, "priorityClassName", path):
        yield f"{path}.priorityClassName: PriorityClass {name[:63]} has no effect on HPC, where the queue orders the jobs"


def _storage(storage: Figure | None) -> Iterator[str]:
    if storage is not None and storage.value:
        yield (
            f"{storage.origin.partition(',')[0]}: {quantity.show_bytes(storage.value)} of disk are not asked of the "
            "batch system; the site's quotas hold"
        )


def _empty_dirs(pod: Fields, path: str) -> Iterator[str]:
    limited, in_memory = [], []
    for here, volume in mappings(pod, "volumes", path):
        source = mapping(volume, "emptyDir", here)
        if source.get("sizeLimit"):
            limited.append(f"{here}.emptyDir.sizeLimit")
        if source.get("medium") == "Memory":
            in_memory.append((volume.get("name"), f"{here}.emptyDir.medium"))
    places = _mount_paths(pod, path) if in_memory else {}
    memory = [where for name, where in in_memory if places.get(name, _SHARED) != _SHARED]
    if limited:
        yield f"{_few(limited)}: not enforced on HPC"
    if memory:
        yield f"{_few(memory)}: lies on disk on HPC, in the Pod's directory; only a mount at /dev/shm is memory there"


def _host_paths(pod: Fields, path: str) -> Iterator[str]:
    made = [
        f"{here}.hostPath.type"
        for here, volume in mappings(pod, "volumes", path)
        if text(mapping(volume, "hostPath", here), "type", f"{here}.hostPath") in _MADE
    ]
    if made:
        yield f"{_few(made)}: nothing is made on HPC, where the site must have the path already"


_MADE: Final = frozenset({"DirectoryOrCreate", "FileOrCreate"})
"""Types of a ``hostPath`` by which a kubelet makes what is missing."""
_SHARED: Final = frozenset({"/dev/shm"})  # noqa: S108 - a path inside containers


def _mount_paths(pod: Fields, path: str) -> dict[object, frozenset[str]]:
    """The paths at which each volume is mounted."""
    found: dict[object, set[str]] = {}
    for group in _GROUPS:
        for here, container in mappings(pod, group, path):
            for place, mount in mappings(container, "volumeMounts", here):
                found.setdefault(text(mount, "name", place), set()).add(text(mount, "mountPath", place).rstrip("/"))
    return {name: frozenset(paths) for name, paths in found.items()}


def _ports(pod: Fields, path: str, pods: int) -> Iterator[str]:
    low: list[str] = []
    other: list[str] = []
    for group in _GROUPS:
        for here, container in mappings(pod, group, path):
            for place, port in mappings(container, "ports", here):
                number = integer(port, "containerPort", place)
                if number:
                    (low if number < _LOWEST_PORT else other).append(f"{place}.containerPort {number}")
    if low:
        yield f"{_few(low)}: below {_LOWEST_PORT}, which only root may open; on HPC the process runs as the HPC user"
    if other and pods > 1:
        yield f"{_few(other)}: on HPC all jobs of a node share its network, so two of the {pods:,} Pods may want one port"


def _few(places: Sequence[str]) -> str:
    more = len(places) - _MOST_NAMED
    return f"{', '.join(places[:_MOST_NAMED])}{f' and {more} more' if more > 0 else ''}"


@unchanging
class _Text:
    """A text of a container: its path; whether it may be run by a shell, or is the program; whether it may name hosts."""

    path: str
    text: str
    runs: bool = False
    tells: bool = False
    variable: str = ""


def _texts(containers: Sequence[Container]) -> list[_Text]:
    found: list[_Text] = []
    left = _MOST_TEXT
    for one in chain.from_iterable(map(_texts_of, containers)):
        if left <= 0:
            break
        found.append(one)
        left -= len(one.text)
    return found


def _texts_of(container: Container) -> Iterator[_Text]:
    whole = "\n".join((*(container.command or ()), *(container.args or ())))
    telling = len(whole) > _LONGEST or _TELLING.search(whole) is not None  # seldom, so not each word is searched
    for name, part in (("command", container.command), ("args", container.args)):
        for index, word in enumerate(part or ()):
            runs = (name == "command" and index == 0) or " " in word or "\n" in word
            tells = telling and _TELLING.search(word, 0, _LONGEST) is not None
            if runs or tells:
                yield _Text(f"{container.path}.{name}[{index}]", word[:_LONGEST], runs, tells)
    for index, variable in enumerate(container.env):
        value = variable.value
        if value and (_TELLING.search(value, 0, _LONGEST) or _NAMES_HOST.search(variable.name)):
            yield _Text(f"{container.path}.env[{index}]", value[:_LONGEST], tells=True, variable=variable.name)


def _root_programs(texts: Sequence[_Text]) -> Iterator[str]:
    run = [one for one in texts if one.runs]
    whole = "\n".join([one.text for one in run])
    if not any(name in whole for name in _PROGRAMS):
        return
    for one in run:
        named = dict.fromkeys(next(filter(None, found.groups())) for found in _ROOT.finditer(one.text))
        if named:
            yield (
                f"{one.path}: runs {', '.join([*named][:_MOST_NAMED])}, for which it must be root; on HPC it runs as the HPC "
                "user: put it into the image"
            )
            return


def _services(texts: Sequence[_Text]) -> Iterator[str]:
    """One warning that names the hosts which look like the cluster's, at the first place that names one."""
    found: dict[str, str] = {}
    for one in [one for one in texts if one.tells]:
        for host in _hosts(one):
            found.setdefault(host, one.path)
    if found:
        hosts = [*found]
        yield (
            f"{found[hosts[0]]}: {_few(hosts)} look{'s' if len(hosts) == 1 else ''} like a Service of the cluster, and HPC "
            "nodes have no cluster DNS: see docs/judging.md"
        )


def _hosts(one: _Text) -> Iterator[str]:
    """Names that only a cluster knows: of URLs without a dot, below ``.svc``, and of Services' variables."""
    yield from (found[1] for found in _URL.finditer(one.text) if found[1] not in _OWN)
    yield from (f"{found[1]}.svc" for found in _IN_DNS.finditer(one.text))
    yield from (found[1].lower().replace("_", "-") for found in _VARIABLE.finditer(one.text))
    yield from (found[1] for found in _OPTION.finditer(one.text) if found[1] not in _OWN)
    alone = _HOST_AND_PORT.fullmatch(one.text)
    if alone and alone[1] not in _OWN and (alone[2] or _NAMES_HOST.search(one.variable)):
        yield alone[1]
