"""Recognises Jobs in which one Pod's launcher is to start ranks in the others: one Pod a node, reached by name.

Pure. On a cluster, ``parallelism: 4`` gives such a Job four nodes, ``sshd`` and the names of its Pods. On HPC each Pod is
a batch job of its own, and a launcher gets its hosts from the batch system.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from router.workload.fields import Findings
from router.workload.launchernames import mention
from router.workload.model import Container, ContainerKind, Launch
from router.workload.shellbudget import ShellBudget, UnreadError
from router.workload.shellsets import walked

if TYPE_CHECKING:
    from tree_sitter import Node

_ADVICE: Final = "see docs/mpi.md: for several nodes write parallelism: 1 and {} -np RANKS without hosts"
_HOSTS: Final = frozenset(
    [
        "-H",
        "-host",
        "--host",
        "-hosts",
        "--hosts",
        "-hostfile",
        "--hostfile",
        "-machinefile",
        "--machinefile",
        "-f",
        "-w",
        "--nodelist",
    ]
)
_OWN: Final = re.compile(r"(?:localhost|127\.0\.0\.1|\$\(hostname\)|`hostname`|\$\{?HOSTNAME\}?)(?:[:*]\d+)?")
_OWN_AS_WRITTEN: Final = re.compile(
    r"-H[ =]*\"?(?:\$\(|`|\$\{?)hostname|-hosts?[ =]+\"?(?:\$\(|`|\$\{?)hostname", re.IGNORECASE
)
_SSHD: Final = re.compile(r"(?:^|[\s;&|(/])sshd(?:$|[\s;&|)])")
_INDEX: Final = b"JOB_COMPLETION_INDEX"
_BRANCHES: Final = frozenset(["if_statement", "case_statement", "list"])


def judge_pod_hosts(containers: Sequence[Container], pods: int, budget: ShellBudget, findings: Findings) -> None:
    """Keep a Job in the cloud whose Pods are the hosts of one launcher, and tell one that looks like it.

    :param pods: how many there are at once
    :param budget: of the Job's shell texts
    """
    if pods < 2:
        return
    main = [container for container in containers if container.kind is ContainerKind.MAIN]
    launchers = [named for container in main if (named := mention(_words(container)))]
    advice = _ADVICE.format(launchers[0] if launchers else "mpirun")
    each = f"here each of {pods} Pods is a batch job of its own"
    for container in main:
        if hosts := _hosts(container):
            findings.block(hosts[0], f"{advice}; {each}, and {hosts[1]} names hosts that only the cluster has")
        elif field := _field_of_sshd(container):
            findings.block(field, f"{advice}; {each}, and sshd waits for a launcher in another Pod")
        elif launchers and _is_one_pods(container, budget):
            why = f"and only the Pod with the right JOB_COMPLETION_INDEX starts {launchers[0]}"
            findings.warnings.append(f"{container.path}: {advice}; {each}, {why}")


def _words(container: Container) -> tuple[str, ...]:
    return (*(container.command or ()), *(container.args or ()))


def _hosts(container: Container) -> tuple[str, str] | None:
    """The field of a launcher that is given other hosts, and its option; None without one."""
    if container.launcher is not None:
        for option in container.launcher.dropped:
            name, _, value = option.replace("=", " ", 1).partition(" ")
            if name in _HOSTS and not _are_own(name, value):
                return container.launcher.source, f"{container.launcher.program} {name} {value[:40]}"
    own = any(map(_OWN_AS_WRITTEN.search, _words(container)))
    for launch in container.started.launches if container.started else ():
        for name, hosts in _options(launch):
            if not (own if hosts is None else _are_own(name, hosts)):
                return (
                    launch.field,
                    f"{launch.name} {name}{'' if hosts is None else f' {hosts[:40]}'} in line {launch.line}",
                )
    return None


def _options(launch: Launch) -> Iterator[tuple[str, str | None]]:
    """The launch's options for hosts, each with its value."""
    for index, word in enumerate(launch.words):
        name, equals, value = (word or "").partition("=")
        if name in _HOSTS:
            following = launch.words[index + 1] if index + 1 < len(launch.words) else None
            yield name, value if equals else following


def _are_own(name: str, value: str) -> bool:
    """Whether hosts are all the Pod itself."""
    return "file" not in name and name != "-f" and all(_OWN.fullmatch(host.strip()) for host in value.split(","))


def _field_of_sshd(container: Container) -> str:
    for name, words in (("command", container.command or ()), ("args", container.args or ())):
        for index, word in enumerate(words):
            if _SSHD.search(word):
                return f"{container.path}.{name}[{index}]"
    return ""


def _is_one_pods(container: Container, budget: ShellBudget) -> bool:
    """Whether a condition on the Pod's index decides alone whether its launcher is started."""
    texts = [word for word in _words(container) if _INDEX.decode() in word and mention([word])]
    try:
        roots = [root for text in texts if not isinstance(root := budget.tree(text), str)]
        return any(_decides(node) for root in roots for node, _ in walked(root, budget))
    except UnreadError:
        return False


def _decides(node: Node) -> bool:
    """Whether a node starts a launcher in some of its branches only, by the index."""
    if node.type not in _BRANCHES:
        return False
    head, *branches = node.named_children
    if _INDEX not in (head.text or b""):
        return False
    if node.type == "list":
        return any(_names(branch) for branch in branches) and not _names(head)
    if node.type == "case_statement":
        return len({_names(branch) for branch in branches}) > 1
    clauses = [branch for branch in branches if branch.type in ("elif_clause", "else_clause")]
    first = any(_names(branch) for branch in branches if branch not in clauses)
    return len({first, *map(_names, clauses), *([] if clauses else [False])}) > 1


def _names(node: Node) -> bool:
    return bool(mention([(node.text or b"").decode("utf-8", "replace")]))
