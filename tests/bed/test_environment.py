"""What a bed tells programs and people."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from bed import environment
from bed.layout import Layout, Variant

LAYOUT = Layout(state=Path("/s t"), running=Path("/r"), shared=Path("/nowhere"), ssh_port=2200)


def test_a_shell_reads_the_variables(tmp_path: Path) -> None:
    path = environment.write(LAYOUT, Variant(), tmp_path / "build")

    done = subprocess.run(
        ["/bin/sh", "-ec", '. "$1"; env', "sh", path], env={}, capture_output=True, text=True, check=True
    )

    read = dict(line.split("=", 1) for line in done.stdout.splitlines())
    expected = {f"BATCHGATE_BED_{name}": value for name, value in environment.variables(LAYOUT, Variant()).items()}
    assert {name: value for name, value in read.items() if name in expected} == expected
    assert read["BATCHGATE_BED_KEYS"] == "/s t/keys"
    assert read["BATCHGATE_BED_SSH_PORT"] == "2200"


def test_only_accounting_has_an_operator() -> None:
    with_it, without = (environment.variables(LAYOUT, Variant(accounting=accounting)) for accounting in (True, False))

    assert (with_it["OPERATOR"], with_it["ACCOUNTING"]) == ("hpc-watch", "slurmdbd")
    assert (without["OPERATOR"], without["ACCOUNTING"]) == ("", "none")


def test_what_is_missing_is_said() -> None:
    said = " ".join(environment.sentences(LAYOUT, Variant(accounting=False, cgroups=False), Path("build/bed.env")))

    assert "No cgroup v1 controllers are mounted here" in said
    assert "there is no operator" in said
    assert "No image was made." in said


def test_the_page_names_no_variable_that_is_not_there() -> None:
    page = (Path(__file__).parents[2] / "docs" / "bed.md").read_text()
    named = set(re.findall(r"BATCHGATE_BED_([A-Z_]+)", page))

    assert named <= set(environment.variables(LAYOUT, Variant()))
    assert named
