"""Further images and launchers: made once, and anew where what they are made of has changed."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from bed import programs
from bed.layout import Layout


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(state=tmp_path / "state", shared=tmp_path / "shared", launchers=tmp_path / "opt")


def everything(layout: Layout) -> list[Path]:
    images = [programs.path_of(layout, one) for one in programs.IMAGES]
    return images + [programs.launcher_of(layout, one) for one in programs.LAUNCHERS]


def have(layout: Layout) -> None:
    """As ``make`` leaves it, without what is in it."""
    for path in everything(layout):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    for image in programs.IMAGES:
        programs.path_of(layout, image).with_suffix(".recipe").write_text(image.recipe())
    for launcher in programs.LAUNCHERS:
        (layout.launchers / f"{launcher.name}.recipe").write_text(launcher.requirement)


def test_where_nothing_is_all_lacks(layout: Layout) -> None:
    assert programs.lacking(layout) == everything(layout)


def test_what_is_made_stays(layout: Layout) -> None:
    have(layout)
    said: list[str] = []

    programs.make(layout, said.append)

    assert (programs.lacking(layout), said) == ([], [])


def test_what_was_made_of_another_recipe_lacks(layout: Layout) -> None:
    have(layout)
    programs.path_of(layout, programs.MPICH).with_suffix(".recipe").write_text(programs.OPENMPI.recipe())
    (layout.launchers / "hydra.recipe").write_text("mpich==4.0\n")

    assert programs.lacking(layout) == [
        programs.path_of(layout, programs.MPICH),
        programs.launcher_of(layout, programs.HYDRA),
    ]


@pytest.mark.parametrize(
    "other",
    [
        replace(programs.OPENMPI, release="trixie"),
        replace(programs.OPENMPI, packages=("hpcc",)),
        replace(programs.OPENMPI, compiler="mpicc.mpich"),
        replace(programs.OPENMPI, tests=False),
        replace(programs.OPENMPI, wheels=programs.INTEL.wheels),
        replace(programs.OPENMPI, sources=programs.INTEL.sources),
    ],
)
def test_a_recipe_says_all_that_an_image_is_made_of(other: programs.Image) -> None:
    assert other.recipe() != programs.OPENMPI.recipe()


def test_every_wheel_is_pinned_to_one_file() -> None:
    lines = [one.requirement for one in programs.LAUNCHERS] + [line for one in programs.IMAGES for line in one.wheels]
    for line in lines:
        assert re.fullmatch(r"[a-z-]+==[0-9.]+ --hash=sha256:[0-9a-f]{64}", line)
