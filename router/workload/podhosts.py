"""Recognises Jobs in which one Pod's launcher is to start ranks in the others: one Pod a node, reached by name.

Pure. On a cluster, ``parallelism: 4`` gives such a Job four nodes, ``sshd`` and the names of its Pods. On HPC each Pod is
a batch job of its own, and a launcher gets its hosts from the batch system.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from router.workload.fields import Findings
from router.workload.launcherline import names_hosts
from router.workload.launchernames import mention
from router.workload.model import Container, ContainerKind
from router.workload.shellbudget import ShellBudget, UnreadError
from router.workload.shellcommands import literal_spans
from router.workload.shellmentions import harmless, only_prints, outside
from router.workload.shellsets import walked
from router.workload.shellsource import ShellWord, Source
from router.workload.wrappers import base

if TYPE_CHECKING:
    from tree_sitter import Node

_ADVICE: Final = "see docs/mpi.md: for several nodes write parallelism: 1 and {} -np RANKS without hosts"
_OWN: Final = re.compile(r"(?:localhost|127\.0\.0\.1|\$\(hostname\)|`hostname`|\$\{?HOSTNAME\}?)(?:[:*]\d+)?")
_OWN_AS_WRITTEN: Final = re.compile(
    r"-H[ =]*\"?(?:\$\(|`|\$\{?)hostname|-hosts?[ =]+\"?(?:\$\(|`|\$\{?)hostname", re.IGNORECASE
)
_SSHD: Final = re.compile(rb"""(?:^|[\s;&|(/'"])sshd(?:$|[\s;&|)'"])""")
_LOOKS: Final = frozenset(
    ["chmod", "chown", "echo", "grep", "kill", "killall", "mkdir", "pgrep", "pidof", "pkill", "printf"]
)
"""Commands that start no ``sshd`` that they name."""
_NOWHERE: Final = Source("", b"")
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
        elif field := _field_of_sshd(container, budget):
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
            if names_hosts(container.launcher.program, name) and not _are_own(name, value):
                return container.launcher.source, f"{container.launcher.program} {name} {value[:40]}"
    own = any(map(_OWN_AS_WRITTEN.search, _words(container)))
    for launch in container.started.launches if container.started else ():
        for name, hosts in launch.hosts:
            if not (own if hosts is None else _are_own(name, hosts)):
                return (
                    launch.field,
                    f"{launch.name} {name}{'' if hosts is None else f' {hosts[:40]}'} in line {launch.line}",
                )
    return None


def _are_own(name: str, value: str) -> bool:
    """Whether hosts are all the Pod itself."""
    return "file" not in name and name != "-f" and all(_OWN.fullmatch(host.strip()) for host in value.split(","))


def _field_of_sshd(container: Container, budget: ShellBudget) -> str:
    """The field that starts ``sshd``; empty without one."""
    words = [
        (f"{container.path}.{name}[{index}]", word)
        for name, part in (("command", container.command), ("args", container.args))
        for index, word in enumerate(part or ())
    ]
    if words and base(words[0][1]) in _LOOKS:
        return ""
    return next((field for field, word in words if _runs_sshd(word, budget)), "")


def _runs_sshd(text: str, budget: ShellBudget) -> bool:
    """Whether a text names ``sshd`` elsewhere than in comments, tests and commands that print or look for it."""
    found = [(match.start(), "sshd") for match in _SSHD.finditer(text.encode("utf-8", "replace"))]
    if not found or isinstance(root := budget.tree(text), str):
        return bool(found)
    try:
        spans = harmless(root, budget)
        for node, _ in walked(root, budget):
            if node.type == "command" and _only_looks(node):
                spans += literal_spans(node, budget)
    except UnreadError:
        return True
    return bool(outside(found, spans))


def _only_looks(command: Node) -> bool:
    nodes = [node for node in command.named_children if node.type != "variable_assignment"]
    words = [ShellWord((node.text or b"").decode("utf-8", "replace"), _NOWHERE) for node in nodes]
    return bool(words) and (base(words[0].text or "") in _LOOKS or only_prints(words))


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
