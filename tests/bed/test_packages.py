"""Which packages lack, where they come from, and which machines can have a bed."""

from __future__ import annotations

import pytest

from bed import apptainer, packages
from bed.commands import BedError
from bed.layout import Variant

TARGETS = """http://mirror.invalid/debian/ bookworm
http://mirror.invalid/debian/ bookworm-updates
http://mirror.invalid/debian/ bookworm
http://mirror.invalid/debian-security/ bookworm-security
http://other.invalid/node nodistro
"""


def test_only_what_lacks_is_installed() -> None:
    status = "munge installed\nslurm-wlm not-installed\nsudo config-files\ngcc installed\n"

    assert packages.lacking(("munge", "slurm-wlm", "sudo", "gcc", "sshfs"), status) == ["slurm-wlm", "sudo", "sshfs"]


def test_the_database_belongs_to_one_variant() -> None:
    assert set(packages.wanted(Variant())) - set(packages.wanted(Variant(accounting=False))) == set(packages.ACCOUNTING)


def test_there_is_no_qsub_over_slurm() -> None:
    """Debian's wrappers in Perl would look like a PBS to whoever asks for one."""
    assert [name for name in packages.wanted(Variant()) if "torque" in name] == []


@pytest.mark.parametrize(
    ("root", "release", "machine", "words"),
    [
        (True, "bookworm", "x86_64", None),
        (False, "bookworm", "x86_64", "no root on bookworm"),
        (True, "trixie", "x86_64", "root on trixie"),
        (True, "", "x86_64", "no Debian"),
        (True, "bookworm", "aarch64", "aarch64"),
    ],
)
def test_which_machines_can_have_a_bed(root: bool, release: str, machine: str, words: str | None) -> None:
    said = packages.refusal(root=root, release=release, machine=machine)

    assert said is None if words is None else words in (said or "")
    assert said is None or said.count(".") == 1 or "\n" not in said


@pytest.mark.parametrize(
    ("text", "expected"),
    [("NAME=x\nVERSION_CODENAME=bookworm\n", "bookworm"), ('VERSION_CODENAME="jammy"\n', "jammy"), ("ID=arch\n", "")],
)
def test_codename(text: str, expected: str) -> None:
    assert packages.codename(text) == expected


def test_the_image_is_made_from_the_machines_own_sources() -> None:
    assert [line.split("] ")[1] for line in packages.sources(TARGETS)] == [
        "http://mirror.invalid/debian-security/ bookworm-security main",
        "http://mirror.invalid/debian/ bookworm main",
        "http://mirror.invalid/debian/ bookworm-updates main",
    ]

    assert [line.split("] ")[1] for line in packages.sources(TARGETS, "trixie")] == [
        "http://mirror.invalid/debian-security/ trixie-security main",
        "http://mirror.invalid/debian/ trixie main",
        "http://mirror.invalid/debian/ trixie-updates main",
    ]


def test_apptainer_comes_from_the_machines_own_mirror() -> None:
    assert packages.newer_source(TARGETS).endswith("] http://mirror.invalid/debian/ sid main")
    with pytest.raises(BedError, match="no mirror"):
        packages.newer_source("http://other.invalid/node nodistro\n")


def test_an_older_package_has_a_version_of_its_own() -> None:
    control = "Package: apptainer\nVersion: 1.4.5-2\nDepends: libc6 (>= 2.38), libfuse3 (>= 3)\n"

    assert apptainer.older_control(control) == (
        "Package: apptainer\nVersion: 1.4.5-2~bed\nDepends: libc6 (>= 2.36), libfuse3 (>= 3)\n"
    )
