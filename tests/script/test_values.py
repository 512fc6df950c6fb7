"""Nothing of a manifest is ever code: argv and environment arrive byte for byte when a script is really run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.script.builders import container, site, text_of, workload
from tests.script.nasty import NASTY
from tests.script.running import Pod

HOST = site("local", runtime="host")


def written(value: str) -> str:
    """As a manifest spells it: to Kubernetes, ``$$`` is a dollar."""
    return value.replace("$", "$$")


def recorder(folder: Path) -> Path:
    """A runtime that keeps its argv and environment, and says where."""
    program = folder / "runtime"
    program.write_text(
        f"#!/bin/bash\nprintf '%s\\0' \"$@\" >{folder}/argv.$$\nenv -0 >{folder}/env.$$\nmv {folder}/argv.$$ {folder}/argv\n"
        f"mv {folder}/env.$$ {folder}/env\n"
    )
    program.chmod(0o755)
    return program


def fields(path: Path) -> list[bytes]:
    return path.read_bytes().split(b"\0")[:-1]


def variables(path: Path) -> dict[bytes, bytes]:
    return dict(entry.split(b"=", 1) for entry in fields(path))


ENV = [{"name": f"N{number}", "value": written(value)} for number, value in enumerate(NASTY)]


def test_argv_and_env_reach_a_command_on_the_host(pod: Pod) -> None:
    arguments = [written(value) for value in NASTY]
    status = pod.run(
        text_of(
            workload(
                container("/usr/bin/printf", r"%s\0", *arguments, env=ENV),
                container("/usr/bin/env", "-0", name="env", env=ENV),
            ),
            HOST,
        )
    )

    assert status == 0
    assert fields(pod.path / "log" / "main.0") == [value.encode() for value in NASTY]
    found = variables(pod.path / "log" / "env.0")
    assert {name: found[name] for name in found if name.startswith(b"N")} == {
        f"N{number}".encode(): value.encode() for number, value in enumerate(NASTY)
    }
    assert not list(pod.work.rglob("pwned"))


@pytest.mark.parametrize(("runtime", "prefix"), [("apptainer", b"APPTAINERENV_"), ("singularity", b"SINGULARITYENV_")])
def test_argv_and_env_reach_the_runtime(pod: Pod, runtime: str, prefix: bytes) -> None:
    where = site(runtime=runtime, runtimePath=str(recorder(pod.work)))
    arguments = [written(value) for value in NASTY]

    assert pod.run(text_of(workload(container("program", *arguments, env=ENV)), where)) == 0

    argv = fields(pod.work / "argv")
    assert argv[:2] == [b"--quiet", b"exec"]
    assert argv[-len(NASTY) - 2 :] == [b"docker://busybox:1.36", b"program", *[value.encode() for value in NASTY]]
    found = variables(pod.work / "env")
    assert {name: value for name, value in found.items() if name.startswith(prefix + b"N")} == {
        prefix + f"N{number}".encode(): value.encode() for number, value in enumerate(NASTY)
    }


def test_staged_files_win_over_what_the_script_holds(tmp_path: Path) -> None:
    values = [value.encode() for value in NASTY] + [b"\xff\xfe not UTF-8"]
    pod = Pod(tmp_path).make(
        argv={"main": [b"/usr/bin/printf", rb"%s\0", *values]},
        env={"env": [b"LATER=from file", b"BOTH=from file", b"EMPTY="]},
    )
    text = text_of(
        workload(
            container(
                "/bin/echo",
                "$(LATER)",
                env=[{"name": "LATER", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
            ),
            container("/usr/bin/env", "-0", name="env", env=[{"name": "BOTH", "value": "literal"}]),
        ),
        HOST,
    )

    assert pod.run(text) == 0
    assert fields(pod.path / "log" / "main.0") == values
    found = variables(pod.path / "log" / "env.0")
    assert (found[b"LATER"], found[b"BOTH"], found[b"EMPTY"]) == (b"from file", b"from file", b"")


def test_an_argv_that_should_have_been_staged_is_not_guessed(pod: Pod) -> None:
    later = {"name": "LATER", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}

    assert pod.run(text_of(workload(container("/bin/echo", "$(LATER)", env=[later])), HOST)) == 1
    assert "argv/main is missing" in pod.log()


def test_kubernetes_expands_literal_references_and_nothing_else(pod: Pod) -> None:
    env: list[dict[str, Any]] = [{"name": "A", "value": "1"}, {"name": "B", "value": "$(A)-$$(A)-$(NONE)-$A"}]

    pod.run(text_of(workload(container("/bin/echo", "$(B)", "${B}", "$B", env=env)), HOST))

    assert pod.log() == "1-$(A)-$(NONE)-$A ${B} $B\n"


TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=60)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(TEXT, min_size=1, max_size=20), st.lists(TEXT, min_size=1, max_size=20))
def test_any_text_arrives(tmp_path_factory: pytest.TempPathFactory, arguments: list[str], values: list[str]) -> None:
    pod = Pod(tmp_path_factory.mktemp("pod")).make()
    env = [{"name": f"N{number}", "value": written(value)} for number, value in enumerate(values)]
    text = text_of(
        workload(
            container("/usr/bin/printf", r"%s\0", *[written(value) for value in arguments]),
            container("/usr/bin/env", "-0", name="env", env=env),
        ),
        HOST,
    )

    assert pod.run(text) == 0
    assert fields(pod.path / "log" / "main.0") == [value.encode() for value in arguments]
    found = variables(pod.path / "log" / "env.0")
    assert [found[f"N{number}".encode()] for number in range(len(values))] == [value.encode() for value in values]


def test_names_that_the_runtime_cannot_set_are_set_inside(pod: Pod) -> None:
    where = site(runtimePath=str(recorder(pod.work)))
    env = [{"name": name, "value": "a b"} for name in ("HOME", "my.var", "UID", "-x", "PLAIN")]

    assert pod.run(text_of(workload(container("program", "arg", env=env)), where)) == 0

    argv = fields(pod.work / "argv")
    image = argv.index(b"docker://busybox:1.36")
    assert argv[image + 1 :] == [b"env", b"--", b"HOME=a b", b"my.var=a b", b"UID=a b", b"-x=a b", b"program", b"arg"]
    assert variables(pod.work / "env")[b"APPTAINERENV_PLAIN"] == b"a b"


def test_a_container_without_command_runs_the_image_s_own(pod: Pod) -> None:
    where = site(runtimePath=str(recorder(pod.work)))

    assert pod.run(text_of(workload(container(args=["one", "two three"])), where)) == 0

    argv = fields(pod.work / "argv")
    assert argv[:2] == [b"--quiet", b"run"]
    assert argv[-3:] == [b"docker://busybox:1.36", b"one", b"two three"]


def test_an_old_runtime_gets_values_that_survive_its_evaluation(pod: Pod) -> None:
    where = site(runtimePath=str(recorder(pod.work)), runtimeVersion="1.0.3")

    assert pod.run(text_of(workload(container("p", env=[{"name": "N", "value": r"\ $$HOME `x` &"}])), where)) == 0

    assert b"--no-eval" not in fields(pod.work / "argv")
    assert variables(pod.work / "env")[b"APPTAINERENV_N"] == rb"\\ \$HOME \`x\` &"


def test_variables_of_the_batch_job_are_not_passed_for_the_container_s(pod: Pod) -> None:
    where = site(runtimePath=str(recorder(pod.work)))

    pod.run(text_of(workload(container("p")), where), APPTAINERENV_STRAY="1", SINGULARITYENV_STRAY="1")

    assert not [name for name in variables(pod.work / "env") if b"STRAY" in name]
