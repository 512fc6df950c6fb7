"""Reads the examples that a demo runs: each has a Job and its expected outcome.

Shell: reads files, prints.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from router.cli.manifests import read_text
from router.demo.outcome import Expected, read_expected
from router.errors import ConfigError
from router.notation import documents


@dataclass(frozen=True, slots=True)
class Example:
    """One example directory; ``file`` is its Job's manifest."""

    name: str
    file: Path
    job: dict[str, Any]
    expected: Expected


def runnable(examples: Path) -> list[Example]:
    """The examples whose programs the demo's image has; prints which are left out."""
    found = read_examples(examples)
    for one in found:
        if one.expected.program:
            click.echo(f"Left out: {one.name}, which needs the program {one.expected.program} in its image.")
    return [one for one in found if not one.expected.program]


def read_examples(examples: Path) -> list[Example]:
    """Every example below a directory, sorted by name. Raises ConfigError or InputError that names the file."""
    found = [
        Example(file.parent.name, file, _read(file), read_expected(_read(expected), str(expected)))
        for file in sorted(examples.glob("*/job.yaml"))
        for expected in [file.parent / "expected.yaml"]
    ]
    if not found:
        raise ConfigError(f"{examples}: holds no examples (NAME/job.yaml); name their directory: --examples DIR")
    return found


def _read(file: Path) -> dict[str, Any]:
    """The one object of a file. Raises InputError or ConfigError that names the file."""
    values = [document.value for document in documents.parse(read_text(str(file)), str(file))]
    if len(values) != 1 or not isinstance(values[0], dict):
        raise ConfigError(f"{file}: is not one object")
    return values[0]
