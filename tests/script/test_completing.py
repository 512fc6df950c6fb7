"""A Job's own part and the runtime behind it: what is put together, and what is not taken."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from router import script
from router.errors import OtherRelease
from router.script.completing import FORMAT, complete, part_text, runtime_line
from tests.script.golden import CASES, FOLDER

RUNTIME = Path(script.__file__).parent / "runtime"
OWN = "#!/bin/bash\nkinds=(main)\n\n"
NEWER = "so it is older than the webhook that wrote the script: upgrade the agent, and the Pod is submitted by itself"


@pytest.mark.parametrize("name", CASES)
def test_a_script_is_its_own_part_and_the_parts_that_this_names(name: str) -> None:
    text = CASES[name].text()
    (line,) = re.findall(r"^# runtime .*$", text, re.MULTILINE)
    own, behind = text.split(f"{line}\n")
    parts = line.removeprefix(f"# runtime {FORMAT}: ").split()

    assert line == runtime_line(parts)
    files = "".join([(RUNTIME / "1" / f"{part}.sh").read_text() for part in parts])
    carried = [line for line in files.splitlines(keepends=True) if not line.lstrip("\t").startswith("##")]
    assert behind == "".join(carried) + '\nmain "$@"\n'
    assert complete(f"{own}{line}\n") == text


def test_each_part_of_the_runtime_is_needed_by_some_script() -> None:
    named = {
        part
        for path in FOLDER.glob("*.sh")
        for line in re.findall(r"^# runtime 1: (.*)$", path.read_text(), re.MULTILINE)
        for part in line.split()
    }

    assert named == {path.stem for path in (RUNTIME / "1").glob("*.sh")}


def test_there_is_a_runtime_of_this_format_and_at_most_of_the_one_before() -> None:
    assert {path.name for path in RUNTIME.iterdir()} <= {str(FORMAT - 1), str(FORMAT)}


def test_a_script_from_before_there_were_formats_is_complete() -> None:
    text = f'{OWN}main() {{ :; }}\n\nmain "$@"\n'

    assert complete(text) == text


@pytest.mark.parametrize(
    ("last", "words"),
    [
        ("# runtime 2: base host plain\n", f"the script has format 2; this agent completes 1, {NEWER}"),
        (
            "# runtime 0: base host plain\n",
            "the script has format 0, and this agent completes 1: the webhook that wrote it is older; create the Job anew",
        ),
        (
            "# runtime 1: base ghost\n",
            f"the runtime of format 1 has no part 'ghost' here; this agent completes fewer, {NEWER}",
        ),
        (
            "# runtime 1: base ../../secret\n",
            f"the script's last line names no runtime that this agent knows; this agent completes others, {NEWER}",
        ),
        (
            "echo\n",
            f"the script's last line names no runtime that this agent knows; this agent completes others, {NEWER}",
        ),
        ("", f"the script's last line names no runtime that this agent knows; this agent completes others, {NEWER}"),
    ],
)
def test_another_releases_script_waits_with_a_sentence(last: str, words: str) -> None:
    with pytest.raises(OtherRelease) as error:
        complete(f"{OWN}{last}")

    assert str(error.value) == words


def test_only_the_last_line_names_the_runtime() -> None:
    own = "# runtime 9: base\necho '\n# runtime 9: x\n'\n# runtime 1: base host plain\n"

    assert complete(own).startswith(f"{own}{part_text(1, 'base')}")
