"""Makes a bed from nothing, and ends it.

Shell: the order of the steps, two at a time if they are independent. Reports each step.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from bed import (
    accounts,
    apptainer,
    commands,
    daemons,
    environment,
    files,
    image,
    login,
    packages,
    site,
    slurmconf,
    standing,
)
from bed.commands import BedError
from bed.layout import Layout, Variant

BUILD: Final = site.SOURCE / "build"


def check(layout: Layout) -> None:
    """Check, without changes, whether this machine can have a bed.

    :raises BedError: it cannot, or belongs to a cluster, or has real GPUs, or has users with the bed's names
    """
    reason = packages.refusal(root=commands.is_root(), release=packages.codename(), machine=packages.architecture())
    if reason:
        raise BedError(reason)
    files.check(layout)
    accounts.check()
    if site.real_gpus():
        raise BedError(
            "this machine has an NVIDIA driver; the bed's GPUs are plain device files that would be in its way"
        )


def up(layout: Layout, *, accounting: bool, cores: int, with_image: bool, tell: Callable[[str], None]) -> Path:
    """Make all missing parts of the bed and start the daemons that do not run.

    :param cores: of each node
    :return: the file of variables
    :raises BedError: the message says what is wrong and what to do
    """
    began = time.monotonic()

    def say(sentence: str) -> None:
        tell(f"[{time.monotonic() - began:4.0f} s] {sentence}")

    check(layout)
    cgroups = slurmconf.controllers_mounted(Path("/proc/mounts").read_text())
    variant = Variant(accounting=accounting, cgroups=cgroups, cores=cores)
    files.directory(layout.state)
    files.directory(layout.logs)
    files.expect_munge_key(layout)
    _install(layout, variant, with_image=with_image, say=say)
    files.claim_munge_key(layout)
    restart = _changed(layout, variant)
    if restart:
        say("Another variant of the bed runs; it is ended, and its jobs with it.")
        site.stop(layout)
    site.configure(layout, variant)
    standing.note(layout, variant)
    started = site.start(layout, variant)
    say(f"Started: {', '.join(started)}." if started else "All daemons ran already.")
    path = environment.write(layout, variant, BUILD)
    for sentence in environment.sentences(layout, variant, path):
        tell(sentence)
    return path


def _changed(layout: Layout, variant: Variant) -> bool:
    """Whether another variant runs, or the same variant on other ports."""
    try:
        before = standing.variant(layout)
    except BedError:
        return False
    moved = standing.layout(layout) != layout
    return (moved or before != variant) and daemons.running(layout, daemons.controller()) is not None


def _install(layout: Layout, variant: Variant, *, with_image: bool, say: Callable[[str], None]) -> None:
    wanted = packages.wanted(variant)
    if packages.install_needed(wanted):
        say("Fetching apt's lists.")
        packages.update(layout)
        packages.install(layout, packages.FIRST)
    with ThreadPoolExecutor(max_workers=1) as beside:
        made = (
            beside.submit(image.make_root, layout)
            if with_image and shutil.which("mmdebstrap", path=commands.PATH)
            else None
        )
        new = packages.install(layout, wanted)
        say(f"Installed {len(new)} packages and what they need." if new else "All packages are there.")
        if apptainer.install(layout):
            say("Installed Apptainer.")
        apptainer.configure()
        if made:
            made.result()
    if with_image and image.pack(layout):
        say(f"Made the image {layout.image}.")


def down(layout: Layout, *, clean: bool, tell: Callable[[str], None]) -> None:
    """End the bed; ``clean`` also removes its files, users and devices. Packages stay."""
    if not commands.is_root():
        raise BedError("the bed is ended by root, who made it")
    ended = site.stop(layout)
    tell(f"Ended: {', '.join(ended)}." if ended else "Nothing ran.")
    (BUILD / environment.NAME).unlink(missing_ok=True)
    if clean:
        site.clean(layout)
        tell("Removed the bed's files, users and devices; the packages stay.")


def status(layout: Layout) -> dict[str, int | None]:
    """The process id of every daemon of the existing variant; None for daemons that are down."""
    return {
        daemon.name: daemons.running(layout, daemon) for daemon in daemons.daemons(layout, standing.variant(layout))
    }


def mounts(layout: Layout) -> list[str]:
    """The present slow mounts."""
    return [point for point in login.mounted() if point.startswith(f"{layout.slow}/")]
