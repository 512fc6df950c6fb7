"""The largest words and variables that ``router.workload.limits`` lets through really arrive in a container."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from router.demo import sandbox
from router.workload import limits
from tests.script.builders import IMAGE, container, site, text_of, workload
from tests.script.running import Pod

pytestmark = [
    pytest.mark.apptainer,
    pytest.mark.skipif(shutil.which("apptainer") is None, reason="no apptainer on this machine"),
]
LINE = "for word; do echo ${#word}; done; echo ${#A}"
FIRST = ("/bin/sh", "-c", LINE, "sh")


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("image") / "sandbox"
    sandbox.build(path)
    return path


@pytest.mark.parametrize(
    ("words", "value"),
    [
        (["x" * 131_071], ""),
        ([], "x" * (131_071 - len("SINGULARITYENV_A="))),
        (["x" * 65_500] * 15, "x" * 150),
        (["<" * 54_500] * 3, ""),
    ],
    ids=["a word", "a variable", "all together", "six bytes each"],
)
def test_the_largest(pod: Pod, image: Path, words: list[str], value: str) -> None:
    (main,) = workload(container("true")).containers
    limits.check(main, "c", [*FIRST, *words], {"A": value})
    pod.make(argv={"main": [word.encode() for word in (*FIRST, *words)]}, env={"main": [f"A={value}".encode()]})

    assert pod.run(text_of(workload(container("true")), site(images=[{"match": IMAGE, "path": str(image)}]))) == 0

    assert pod.log().split() == [str(len(one)) for one in (*words, value)]
