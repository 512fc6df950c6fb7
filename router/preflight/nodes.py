"""Judges the notes of a probe on a node: files, clocks, the runtime.

Pure.
"""

from __future__ import annotations

import re
from typing import Final

from router.preflight import Line, Mark
from router.preflight.seen import Report, first
from router.script.containers import understands_no_eval
from router.site import globs
from router.site.nodelabels import ARCH, USUAL_ARCH
from router.site.schema import NodeValue, Queue, Runtime, Site
from router.site.systems import SYSTEMS

NEARLY: Final = 0.8
"""A delay above this share of fsDelay is too near to the limit."""
WORRYING_SKEW, WORST_SKEW = 5.0, 60.0
"""Seconds: above the first, times of logs and Pods are wrong; above the second, signs of life (180 s) are misjudged."""

_VERSION: Final = re.compile(r"\d{1,9}(?:\.\d{1,9})+")
_DATA_LIMIT: Final = (
    "write a larger memoryFloor, or `$ignmem true` into mom_priv/config of the nodes, where MoM sets RLIMIT_DATA to mem; "
    "else fix the image's path, or the error that the runtime reports"
)
_NO_LINKS: Final = "put workDir on a file system with hard links: the claim of a Pod is one"
_NO_RENAMES: Final = "put workDir on a file system whose renames replace a file at once"


def whole_line(user: str, site: Site, report: Report | None, ended: str) -> Line:
    """Whether the probe ran as the user, in the work directory, and its notes were seen.

    :param ended: how the job ended, in words; empty while it runs
    """
    name, expected = "probe", f"its notes in workDir, as {user}"
    if report is None:
        seen = f"no notes in {site.work_dir.replace('{user}', user)}{': ' + ended if ended else ''}"
        change = (
            "mount workDir on the nodes under the same path, writable for the user; see the job in the batch system"
        )
        return Line(name, user, Mark.MUST, seen, expected, change)
    runs_as, host = first(report, "user"), first(report, "host")
    if runs_as != user:
        change = "see `as` in accounts and `access`: Jobs would run as somebody else"
        return Line(name, user, Mark.MUST, f"ran as {runs_as} on {host}", expected, change)
    if problem := first(report, "modules"):
        return Line(name, user, Mark.MUST, problem, expected, "fix the site's modules")
    return Line(name, user, Mark.OK, f"ran as {runs_as} on {host}", expected)


def architecture_line(user: str, queue: Queue, report: Report) -> Line:
    """Whether a node of a queue has the architecture that the policy states, by which Jobs may choose nodes."""
    machine = first(report, "machine")
    known = _ARCHITECTURES.get(machine, machine)
    stated = [one.value for one in queue.node_labels.get(ARCH, (NodeValue(USUAL_ARCH),))]
    expected = f"{' or '.join(stated)} ({ARCH} of queue {queue.name})"
    seen = f"{machine or 'not known'} on {first(report, 'host')}"
    if not machine or globs.matches(tuple(stated), known):
        return Line("architecture", user, Mark.OK, seen, expected)
    change = f"write nodeLabels: {{{ARCH}: {known}}} for queue {queue.name}, else it gets Jobs for other machines"
    return Line("architecture", user, Mark.WARNING, seen, expected, change)


_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64", "i686": "386", "armv7l": "arm"}
"""What ``uname -m`` says, and Go's word for it, which Kubernetes uses. The others are equal (ppc64le, s390x, riscv64)."""


def link_lines(user: str, report: Report) -> tuple[Line, ...]:
    """Whether hard links refuse to replace a file, and renames replace it."""
    linked, over, count = (first(report, key) for key in ("link", "link-over", "link-count"))
    good = linked == "ok" and over == "first"
    words = linked if linked != "ok" else "a link replaced a file" if over == "replaced" else f"link count {count}"
    mark = Mark.OK if good else Mark.MUST
    links = Line("links", user, mark, words, "made; refused over a file", "" if good else _NO_LINKS)
    renamed, replaced = first(report, "rename"), first(report, "rename-over")
    good = renamed == "ok" and replaced == "new"
    words = "made; replaces a file" if good else f"{renamed}; over a file: {replaced}"
    mark = Mark.OK if good else Mark.MUST
    return links, Line("renames", user, mark, words, "made; replaces a file", "" if good else _NO_RENAMES)


def delay_line(name: str, user: str, seconds: float, site: Site, *, complete: bool) -> Line:
    """How late new names (or sizes) of a node become visible, compared with the policy's fsDelay."""
    expected = f"at most fsDelay, {site.fs_delay} s"
    words = f"{'' if complete else 'not seen after '}{seconds:.0f} s"
    if not complete or seconds > site.fs_delay:
        change = f"write fsDelay: {max(1, round(seconds * 1.5))}s or more"
        return Line(name, user, Mark.MUST, words, expected, change)
    if seconds > NEARLY * site.fs_delay:
        return Line(name, user, Mark.WARNING, words, expected, f"write fsDelay: {round(seconds * 1.5)}s")
    return Line(name, user, Mark.OK, words, expected)


def skew_line(name: str, user: str, seconds: float | None) -> Line:
    """How far a clock is from the file server's; positive if it is ahead."""
    expected = f"within {WORRYING_SKEW:.0f} s of the file server's"
    if seconds is None:
        return Line(name, user, Mark.WARNING, "not known", expected, "look at the clock of the nodes")
    mark = Mark.MUST if abs(seconds) > WORST_SKEW else Mark.WARNING if abs(seconds) > WORRYING_SKEW else Mark.OK
    words = f"{abs(seconds):.1f} s {'ahead' if seconds >= 0 else 'behind'}"
    change = "" if mark is Mark.OK else "set the clock by NTP, on this machine, the nodes and the file server"
    return Line(name, user, mark, words, expected, change)


def node_skew(report: Report) -> float | None:
    """How far the node's clock is ahead of the file server's, to a second; None if it is missing."""
    try:
        return float(int(first(report, "clock")) - int(first(report, "stamp")))
    except ValueError:
        return None


def runtime_lines(user: str, site: Site, report: Report) -> tuple[Line, ...]:
    """Whether the runtime exists, may make containers, and can start an image of the site."""
    if site.runtime is Runtime.HOST:
        return (Line("runtime", user, Mark.OK, "none: commands run on the host", "runtime: host"),)
    wanted, host = site.runtime_path or str(site.runtime), first(report, "host")
    path = first(report, "runtime-path")
    if not path:
        change = "fix runtimePath or modules, or install it on the nodes"
        return (Line("runtime", user, Mark.MUST, f"no {wanted} on {host}", wanted, change),)
    return _runtime(user, site, report, wanted), _rights(user, report), *_image(user, site, report)


def _runtime(user: str, site: Site, report: Report, wanted: str) -> Line:
    """A runtime that is older than the policy says reads environment values as shell text, or refuses the option."""
    said = first(report, "runtime-version")
    seen, number = f"{first(report, 'runtime-path')}: {said}", _VERSION.search(said)
    if number is None or understands_no_eval(site.runtime, number[0]):
        return Line("runtime", user, Mark.OK, seen, wanted)
    if not understands_no_eval(site.runtime, site.runtime_version):
        return Line("runtime", user, Mark.OK, seen, f"{wanted}, older than --no-eval")
    change = f"write runtimeVersion: '{number[0]}', or install Apptainer 1.1 or SingularityCE 3.10 at least"
    return Line("runtime", user, Mark.MUST, seen, f"{wanted} with --no-eval", change)


def _rights(user: str, report: Report) -> Line:
    setuid, namespaces = first(report, "setuid"), first(report, "namespaces")
    ways = ["setuid"] * (setuid == "yes") + ["user namespaces"] * (namespaces == "yes")
    name, expected = "runtime-rights", "setuid or user namespaces"
    if ways:
        return Line(name, user, Mark.OK, " and ".join(ways), expected)
    change = "allow user namespaces on the nodes (user.max_user_namespaces), or install the setuid starter"
    return Line(name, user, Mark.MUST, f"neither; {namespaces}", expected, change)


def _image(user: str, site: Site, report: Report) -> tuple[Line, ...]:
    if not site.images:
        return ()
    code, _, words = first(report, "image").partition(" ")
    path = site.images[0].path
    if code == "0" and (missing := report.get("image-missing", ())):
        seen, change = f"{path} starts; not to be read: {', '.join(missing)}", "fix the images' paths"
        return (Line("image", user, Mark.WARNING, seen, "exit code 0, and the others to be read", change),)
    if code == "0":
        return (Line("image", user, Mark.OK, f"{path} starts", "exit code 0"),)
    limit = first(report, "data-limit")
    if SYSTEMS[site.system].TRAITS.memory_floor and limit.isdecimal():
        seen = f"{path}: exit code {code or 'none'} with {limit} KiB of data (ulimit -d): {words}"
        return (Line("image", user, Mark.MUST, seen, "exit code 0", _DATA_LIMIT),)
    seen = f"{path}: exit code {code or 'none'}: {words}"
    return (
        Line(
            "image", user, Mark.MUST, seen, "exit code 0", "fix the image's path, or the error that the runtime reports"
        ),
    )
