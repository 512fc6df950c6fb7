"""A Pod's files: the kubelet's rules for environment and volumes, and a directory that appears whole."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from router.errors import JobError, TooLarge
from router.host import writing
from router.pod import files as podfiles
from router.pod.env import Sources, environment
from router.pod.files import Staged
from router.pod.image import READY, Config, ImageState, Used
from router.workload.model import Container, ContainerKind, EnvVar, Figure, Mount, Workload

POD_META = {
    "name": "train-0-abcde",
    "namespace": "lab",
    "uid": "uid-1",
    "labels": {"app": "train", "b": 'qu"ote'},
    "annotations": {"note": "two\nlines"},
}


def _b64(value: bytes) -> str:
    return base64.b64encode(value).decode()


CONFIG_MAPS = {
    "settings": {"data": {"RATE": "10", "1bad": "x", "with.dot": "y"}, "binaryData": {"blob": _b64(b"\0\xff")}},
    "more": {"data": {"RATE": "20", "EXTRA": "e"}},
}
NO_IMAGE: Mapping[str, Any] = {}
SECRETS = {"login": {"data": {"user": _b64(b"ada"), "key": _b64(b"\xff\xfe")}}}


def _workload(container: Container) -> Workload:
    return Workload(
        namespace="lab", name="train", labels={}, containers=(container,), volumes=(),
        parallelism=Figure(1, "spec.parallelism"), completions=None, indexed=False, suspended=False,
        restart_policy="Never", grace=30,
    )  # fmt: skip


def _container(manifest: Mapping[str, Any]) -> Container:
    return Container(
        name="main",
        kind=ContainerKind.MAIN,
        path="spec.template.spec.containers[0]",
        image="i",
        command=tuple(manifest["command"]) if "command" in manifest else None,
        args=tuple(manifest["args"]) if "args" in manifest else None,
        env=tuple(
            EnvVar(item["name"], None, next(iter(item["valueFrom"])))
            if "valueFrom" in item
            else EnvVar(item["name"], item.get("value", ""))
            for item in manifest.get("env", ())
        ),
        env_from=bool(manifest.get("envFrom")),
        mounts=tuple(Mount(name, f"/{name}") for name in manifest.get("mounted", ())),
    )


def _staged(
    manifest: Mapping[str, Any], traceparent: str = "", image: Mapping[str, Any] = NO_IMAGE, **pod: Any
) -> Staged:
    whole = {
        "metadata": {**POD_META, **pod.pop("metadata", {})},
        "spec": {"containers": [{"name": "main", **manifest}], "nodeName": "workq.local.batchgate", **pod},
    }
    return podfiles.stage(
        whole,
        _workload(_container(manifest)),
        config_maps=CONFIG_MAPS,
        secrets=SECRETS,
        allocatable={"cpu": "8", "memory": "16Gi"},
        traceparent=traceparent,
        images=image,
    )


def _env(**manifest: Any) -> dict[str, str]:
    content = _staged(manifest).files.get("env/main", b"")
    words = content.decode(errors="surrogateescape").split("\0")
    assert words.pop() == ""
    return dict(word.split("=", 1) for word in words)


def test_what_the_manifest_says_literally_is_not_staged() -> None:
    manifest = {"command": ["run", "$(A)"], "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "$(A)2"}]}

    assert _staged(manifest).files == {}


def test_env_from_in_order_with_prefix_and_overridden_by_env() -> None:
    found = _env(
        envFrom=[
            {"configMapRef": {"name": "settings"}},
            {"configMapRef": {"name": "more"}},
            {"prefix": "S_", "secretRef": {"name": "login"}},
            {"secretRef": {"name": "absent", "optional": True}},
        ],
        env=[{"name": "EXTRA", "value": "own"}, {"name": "SEEN", "value": "$(RATE)-$(EXTRA)-$$(RATE)-$(NONE)"}],
    )

    assert found == {
        "RATE": "20",
        "with.dot": "y",
        "1bad": "x",
        "S_user": "ada",
        "S_key": "\udcff\udcfe",
        "SEEN": "20-own-$(RATE)-$(NONE)",
    }


def test_names_that_cannot_be_are_skipped_with_a_warning() -> None:
    staged = _staged({"envFrom": [{"prefix": "=", "configMapRef": {"name": "more"}}]})

    assert staged.warnings == (
        "spec.containers[0].envFrom[0]: skipped =EXTRA, =RATE: not valid as names of environment variables",
    )


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"fieldRef": {"fieldPath": "metadata.name"}}, "train-0-abcde"),
        ({"fieldRef": {"fieldPath": "metadata.namespace"}}, "lab"),
        ({"fieldRef": {"fieldPath": "metadata.uid"}}, "uid-1"),
        ({"fieldRef": {"fieldPath": "metadata.labels['app']"}}, "train"),
        ({"fieldRef": {"fieldPath": "metadata.annotations['note']"}}, "two\nlines"),
        ({"fieldRef": {"fieldPath": "metadata.labels['none']"}}, ""),
        ({"fieldRef": {"fieldPath": "spec.nodeName"}}, "workq.local.batchgate"),
        ({"fieldRef": {"fieldPath": "spec.serviceAccountName"}}, "default"),
        ({"configMapKeyRef": {"name": "settings", "key": "RATE"}}, "10"),
        ({"secretKeyRef": {"name": "login", "key": "user"}}, "ada"),
        ({"resourceFieldRef": {"resource": "limits.cpu"}}, "2"),
        ({"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}, "1500"),
        ({"resourceFieldRef": {"resource": "requests.cpu", "divisor": "0"}}, "1"),
        ({"resourceFieldRef": {"resource": "limits.memory"}}, str(16 * 2**30)),
        ({"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}, str(16 * 2**10)),
        ({"resourceFieldRef": {"resource": "requests.memory"}}, "0"),
    ],
)
def test_values_from_elsewhere(source: dict[str, Any], expected: str) -> None:
    resources = {"limits": {"cpu": "1500m"}, "requests": {"cpu": "250m"}}

    assert _env(env=[{"name": "X", "valueFrom": source}], resources=resources) == {"X": expected}


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ({"configMapKeyRef": {"name": "absent", "key": "k"}}, "ConfigMap 'absent' does not exist"),
        ({"configMapKeyRef": {"name": "settings", "key": "k"}}, "'settings' has no key 'k'"),
        ({"secretKeyRef": {"name": "absent", "key": "k"}}, "Secret 'absent' does not exist"),
        ({"fieldRef": {"fieldPath": "status.podIP"}}, "is not known on HPC"),
        ({"fieldRef": {"fieldPath": "spec.nope"}}, "the downward API offers no field"),
        ({"resourceFieldRef": {"resource": "limits.ephemeral-storage"}}, "set a limit of ephemeral-storage"),
        ({"resourceFieldRef": {"resource": "pods"}}, "the downward API offers no resource"),
        ({"fileKeyRef": {"path": "x"}}, "not supported on HPC"),
    ],
)
def test_what_is_missing_is_an_error_at_its_field(source: dict[str, Any], words: str) -> None:
    with pytest.raises(JobError, match="spec\\.containers\\[0\\]\\.env\\[0\\]\\.valueFrom") as error:
        _staged({"env": [{"name": "X", "valueFrom": source}]})

    assert words in error.value.message


def test_a_value_of_a_secret_stands_in_no_command_line() -> None:
    """What the manifest alone does not tell: which variables a Secret's keys make."""
    fields = {"command": ["sh", "-c", "echo $(date) $(user)"], "envFrom": [{"secretRef": {"name": "login"}}]}

    with pytest.raises(JobError) as error:
        _staged(fields)
    assert str(error.value).endswith(
        "command[2]: would put user, a value of a Secret, into a command line that others on the node can read; have "
        "the program read a variable or a file"
    )


def test_keys_that_only_a_command_line_could_set_are_skipped_with_a_warning() -> None:
    secret = {"data": {"tls.crt": "eA==", "HOME": "eA==", "OK": "eA==", "1": "eA=="}}
    container = {"name": "main", "image": "x", "envFrom": [{"secretRef": {"name": "s", "optional": False}}]}
    sources = Sources({"spec": {"containers": [container]}}, {}, {"s": secret}, {}, {})

    values, warnings = environment("main", sources)

    assert values == {"OK": "x"}
    here = "spec.containers[0].envFrom[0]: skipped"
    assert warnings == [
        f"{here} 1, HOME, tls.crt: on HPC only a command line could set such a variable, and others on the node read it",
    ]


def test_optional_values_are_left_out() -> None:
    sources = [
        {"configMapKeyRef": {"name": "absent", "key": "k", "optional": True}},
        {"configMapKeyRef": {"name": "settings", "key": "blob", "optional": True}},  # of binaryData: no variable's
        {"secretKeyRef": {"name": "login", "key": "none", "optional": True}},
    ]

    assert _env(env=[{"name": f"X{n}", "valueFrom": source} for n, source in enumerate(sources)]) == {}


def test_a_value_from_elsewhere_is_never_expanded_but_seen_by_later_ones() -> None:
    container = {
        "env": [
            {"name": "NOTE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['ref']"}}},
            {"name": "COPY", "value": "<$(NOTE)>"},
        ]
    }
    staged = _staged(container, metadata={"annotations": {"ref": "$(COPY)"}})

    assert staged.files["env/main"] == b"NOTE=$(COPY)\0COPY=<$(COPY)>\0"


def test_the_completion_index_is_known_to_command_and_environment() -> None:
    index = {"batch.kubernetes.io/job-completion-index": "7"}

    staged = _staged({"command": ["run", "--part=$(JOB_COMPLETION_INDEX)", ""]}, metadata={"annotations": index})

    assert staged.files == {"env/main": b"JOB_COMPLETION_INDEX=7\0", "argv/main": b"run\0--part=7\0\0"}


def _doubling(levels: int) -> dict[str, Any]:
    first = {"name": "X0", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    return {"env": [first, *({"name": f"X{n}", "value": f"$(X{n - 1})$(X{n - 1})"} for n in range(1, levels))]}


def _large(number: int) -> dict[str, Any]:
    return {"configMapRef": {"name": "large"}, "prefix": f"P{number}_"}


MAIN = "spec.containers[0]"


@pytest.mark.parametrize(
    ("manifest", "path"),
    [
        (_doubling(45), f"{MAIN}.env[14].value"),  # 13 characters, doubled
        ({"env": [{"name": "A", "value": "x" * 131_072}]}, f"{MAIN}.env[0].value"),
        ({"envFrom": [{"configMapRef": {"name": "long"}}]}, f"{MAIN}.envFrom[0]"),
        (
            {"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "long", "key": "K"}}}]},
            f"{MAIN}.env[0].valueFrom.configMapKeyRef",
        ),
        ({"envFrom": [_large(number) for number in range(1000)]}, f"{MAIN}.envFrom[2]"),
        ({"envFrom": [{"configMapRef": {"name": "large"}}] * 1000}, f"{MAIN}.envFrom[2]"),
        (
            {"envFrom": [_large(0), _large(1)], "env": [{"name": f"E{n}", "value": "$(P0_K1)"} for n in range(9)]},
            f"{MAIN}.env[2]",
        ),
        ({"envFrom": [_large(0), _large(1)], "command": ["echo", *["$(P1_K1)"] * 9]}, f"{MAIN}.command"),
        ({"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "wide", "key": "K"}}}]}, f"{MAIN}.env"),
    ],
)
def test_what_no_process_can_be_given_is_an_error_before_it_is_built(manifest: dict[str, Any], path: str) -> None:
    maps = {
        "large": {"data": {f"K{n}": "x" * 100_000 for n in range(9)}},
        "long": {"data": {"K": "x" * 131_072}},
        "wide": {"data": {"K": "é" * 65_534 + "abc"}},  # 131,071 bytes, and two more for the name
    }
    pod = {"metadata": POD_META, "spec": {"containers": [{"name": "main", **manifest}]}}
    workload = _workload(_container(manifest | {"env": manifest.get("env", [])[:1]}))

    with pytest.raises(TooLarge) as error:
        podfiles.stage(pod, workload, config_maps=maps)

    assert error.value.path == path
    assert "bytes" in error.value.message


@pytest.mark.parametrize(
    ("manifest", "path"),
    [
        ({"env": [{"name": "A", "value": "x" * 131_055}]}, "spec.containers[0].env[0]"),
        ({"command": ["true", "x" * 131_072]}, "spec.containers[0].command[1]"),
    ],
)
def test_what_the_script_has_counts_too(manifest: dict[str, Any], path: str) -> None:
    pod = {"metadata": POD_META, "spec": {"containers": [{"name": "main", **manifest}]}}

    with pytest.raises(TooLarge) as error:
        podfiles.stage(pod, _workload(_container(manifest)))

    assert error.value.path == path


def test_keys_that_cannot_be_names_are_not_told_without_end() -> None:
    maps = {"bad": {"data": {f"{n}x": "" for n in range(30_000)}}}
    manifest = {"envFrom": [{"prefix": "=", "configMapRef": {"name": "bad"}}]}
    pod = {"metadata": POD_META, "spec": {"containers": [{"name": "main", **manifest}]}}

    (warning,) = podfiles.stage(pod, _workload(_container(manifest)), config_maps=maps).warnings

    assert "and 29990 more: not valid" in warning
    assert len(warning) < 200


def test_a_value_with_nul_is_refused() -> None:
    maps = {"nul": {"data": {"A": "x\0y"}}}
    manifest = {"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "nul", "key": "A"}}}]}
    pod = {"metadata": POD_META, "spec": {"containers": [{"name": "main", **manifest}]}}

    with pytest.raises(JobError, match="NUL"):
        podfiles.stage(pod, _workload(_container(manifest)), config_maps=maps)


def _volume(**volume: Any) -> Staged:
    return _staged({"mounted": ["v"]}, volumes=[{"name": "v", **volume}])


def test_a_volume_that_nobody_mounts_is_not_made() -> None:
    volumes = [{"name": "v", "configMap": {"name": "absent"}}, {"name": "w", "configMap": {"name": "more"}}]

    assert set(_staged({"mounted": ["w"]}, volumes=volumes).files) == {"files/w/RATE", "files/w/EXTRA"}


def _many(count: int, name: str = "large", path: str = "") -> dict[str, Any]:
    return {"configMap": {"name": name, "items": [{"key": "K", "path": f"{path}{n}"} for n in range(count)]}}


NOTES = [{"path": str(n), "fieldRef": {"fieldPath": "metadata.annotations"}} for n in range(200)]


@pytest.mark.parametrize(
    ("volumes", "path", "words"),
    [
        ([_many(500)] * 5, "spec.volumes[v0].configMap", "500000000 bytes; at most 33554432"),
        ([_many(30)] * 5, "spec.volumes[v1]", "60000000 bytes; at most 33554432"),
        ([_many(999, "small")] * 3, "spec.volumes[v2]", "3000 files and directories; at most 2000"),
        ([_many(33, "small", "/".join("abcdefghij") + f"/{n}") for n in range(61)], "spec.volumes[v45]", "2024 files"),
        ([_many(1, "small", "a/" * 32)], "spec.volumes[v0].configMap", "33 parts; at most 32"),
        ([{"configMap": {"name": "keys"}}], "spec.volumes[v0].configMap", "5000 files"),
        (
            [{"projected": {"sources": [_many(30)] * 1000}}],
            "spec.volumes[v0].projected.sources[1].configMap",
            "60000000",
        ),
        ([{"downwardAPI": {"items": NOTES}}], "spec.volumes[v0].downwardAPI.items[167]", "33600"),
    ],
)
def test_no_pod_fills_the_disk_of_a_site(volumes: list[dict[str, Any]], path: str, words: str) -> None:
    maps = {
        "large": {"data": {"K": "x" * 1_000_000}},
        "small": {"data": {"K": "x"}},
        "keys": {"data": {f"k{n}": "" for n in range(5000)}},
    }
    named = [{"name": f"v{number}", **volume} for number, volume in enumerate(volumes)]
    manifest = {"mounted": [volume["name"] for volume in named]}
    metadata = {**POD_META, "annotations": {"a": "x" * 200_000}}
    pod = {"metadata": metadata, "spec": {"containers": [{"name": "main"}], "volumes": named}}

    with pytest.raises(TooLarge) as error:
        podfiles.stage(pod, _workload(_container(manifest)), config_maps=maps)

    assert (error.value.path, words in error.value.message) == (path, True), error.value


def test_contents_that_are_laid_out_many_times_are_there_once() -> None:
    maps = {"large": {"data": {"K": "x" * 1_000_000}}}
    pod = {
        "metadata": POD_META,
        "spec": {"containers": [{"name": "main"}], "volumes": [{"name": "v", **_many(33)}, {"name": "w"}]},
    }

    staged = podfiles.stage(pod, _workload(_container({"mounted": ["v"]})), config_maps=maps)

    assert len(staged.files) == 33
    assert len({id(content) for content in staged.files.values()}) == 1


def test_volumes() -> None:
    assert _volume(configMap={"name": "settings"}).files == {
        "files/v/RATE": b"10", "files/v/1bad": b"x", "files/v/with.dot": b"y", "files/v/blob": b"\0\xff"
    }  # fmt: skip
    chosen = _volume(secret={"secretName": "login", "defaultMode": 0o400, "items": [
        {"key": "user", "path": "a/b", "mode": 0o755}, {"key": "key", "path": "c"},
    ]})  # fmt: skip
    assert chosen.files == {"files/v/a/b": b"ada", "files/v/c": b"\xff\xfe"}
    assert chosen.modes == {"files/v/a/b": 0o700, "files/v/c": 0o400}
    assert _volume(secret={"secretName": "absent", "optional": True}).files == {"files/v/": b""}
    assert _volume(emptyDir={}).files == {}


def test_a_downward_volume() -> None:
    items = [
        {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
        {"path": "notes", "fieldRef": {"fieldPath": "metadata.annotations"}},
        {"path": "cpus", "resourceFieldRef": {"containerName": "main", "resource": "limits.cpu"}},
    ]

    assert _volume(downwardAPI={"items": items}).files == {
        "files/v/labels": b'app="train"\nb="qu\\"ote"',
        "files/v/notes": b'note="two\\nlines"',
        "files/v/cpus": b"8",
    }


def test_a_projected_volume_joins_its_sources() -> None:
    sources = [
        {"configMap": {"name": "more"}},
        {"secret": {"name": "login", "items": [{"key": "user", "path": "who"}]}},
        {"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
        {"configMap": {"name": "absent", "optional": True}},
    ]

    assert _volume(projected={"sources": sources}).files == {
        "files/v/RATE": b"20", "files/v/EXTRA": b"e", "files/v/who": b"ada", "files/v/name": b"train-0-abcde"
    }  # fmt: skip


@pytest.mark.parametrize("path", ["../x", "a/../../x", "/etc/x", "", "a//b", "./a", "a/", "x\0"])
def test_no_path_leaves_its_volume(path: str) -> None:
    with pytest.raises(JobError, match="plain relative path"):
        _volume(configMap={"name": "more", "items": [{"key": "RATE", "path": path}]})


def test_a_file_where_a_directory_is_needed() -> None:
    items = [{"key": "RATE", "path": "a"}, {"key": "EXTRA", "path": "a/b"}]

    with pytest.raises(JobError, match="needs a directory"):
        _volume(configMap={"name": "more", "items": items})


@pytest.mark.parametrize(
    ("volume", "words"),
    [
        ({"configMap": {"name": "absent"}}, "does not exist"),
        ({"configMap": {"name": "more", "items": [{"key": "none", "path": "a"}]}}, "no key 'none'"),
        ({"projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}, "no service account tokens"),
        ({"projected": {"sources": [{"clusterTrustBundle": {"path": "ca"}}]}}, "cannot have clusterTrustBundle on HPC"),
    ],
)
def test_volumes_that_cannot_be(volume: dict[str, Any], words: str) -> None:
    with pytest.raises(JobError, match="spec\\.volumes\\[v\\]") as error:
        _volume(**volume)

    assert words in error.value.message


def test_a_token_where_the_site_stages_it() -> None:
    volume = {"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}
    pod = {"metadata": POD_META, "spec": {"containers": [{"name": "main"}], "volumes": [volume]}}

    staged = podfiles.stage(pod, _workload(_container({"mounted": ["v"]})), tokens={"v/token": "secret"})

    assert staged.files == {"files/v/token": b"secret"}


@pytest.mark.parametrize(
    ("services", "files"),
    [
        (
            {"KUBERNETES_SERVICE_HOST": "k.example.org"},
            {
                "env/main": b"API=https://k.example.org\0KUBERNETES_SERVICE_HOST=k.example.org\0",
                "argv/main": b"run\0k.example.org\0$(KUBERNETES_SERVICE_HOST)\0",
            },
        ),
        (
            {},
            {
                "env/main": b"API=https://$(KUBERNETES_SERVICE_HOST)\0",
                "argv/main": b"run\0$(KUBERNETES_SERVICE_HOST)\0$(KUBERNETES_SERVICE_HOST)\0",
            },
        ),
    ],
)
def test_variables_of_services_are_expanded_as_a_kubelet_does(
    services: dict[str, str], files: dict[str, bytes]
) -> None:
    manifest = {
        "command": ["run", "$(KUBERNETES_SERVICE_HOST)", "$$(KUBERNETES_SERVICE_HOST)"],
        "env": [{"name": "API", "value": "https://$(KUBERNETES_SERVICE_HOST)"}],
    }
    pod = {"metadata": POD_META, "spec": {"containers": [{"name": "main", **manifest}]}}

    assert podfiles.stage(pod, _workload(_container(manifest)), services=services).files == files


def test_the_directory_appears_whole_and_private(tmp_path: Path) -> None:
    target = tmp_path / "pods" / "job" / "0" / "uid"
    staged = Staged({"env/main": b"A=1\0", "files/v/a/b": b"x", "files/w/": b""}, {"files/v/a/b": 0o700})

    assert writing.write(target, staged.add("script", b"true\n"))

    modes = {str(path.relative_to(tmp_path)): path.stat().st_mode & 0o777 for path in tmp_path.rglob("*")}
    inside = "pods/job/0/uid"
    directories = ["", "/argv", "/env", "/files", "/files/v", "/files/v/a", "/files/w", "/log", "/exit"]
    assert modes == {
        **dict.fromkeys(["pods", "pods/job", "pods/job/0"], 0o700),
        **{f"{inside}{name}": 0o700 for name in directories},
        f"{inside}/env/main": 0o600, f"{inside}/script": 0o600, f"{inside}/files/v/a/b": 0o700,
    }  # fmt: skip
    assert (target / "script").read_bytes() == b"true\n"


def test_a_directory_that_is_there_is_left_as_it_is(tmp_path: Path) -> None:
    target = tmp_path / "uid"
    assert writing.write(target, Staged({"env/a": b"1"}))

    assert not writing.write(target, Staged({"env/a": b"2"}))

    assert (target / "env" / "a").read_bytes() == b"1"
    assert [path.name for path in tmp_path.iterdir()] == ["uid"]


def test_nothing_stays_of_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="File name too long"):
        writing.write(tmp_path / "uid", Staged({f"env/{'x' * 300}": b""}))
    with pytest.raises(ValueError, match="leaves the Pod's directory"):
        writing.write(tmp_path / "uid", Staged({"../x": b""}))

    assert list(tmp_path.iterdir()) == []


PLACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        ({}, f"TRACEPARENT={PLACE}\0"),
        ({"envFrom": [{"configMapRef": {"name": "more"}}]}, f"EXTRA=e\0RATE=20\0TRACEPARENT={PLACE}\0"),
        ({"env": [{"name": "TRACEPARENT", "value": "the user's own"}]}, None),
        ({"env": [{"name": "TRACEPARENT", "value": ""}]}, None),
        ({"env": [{"name": "TRACEPARENT", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]},
         "TRACEPARENT=train-0-abcde\0"),
    ],
)  # fmt: skip
def test_containers_are_told_their_place_in_a_trace_unless_they_have_one(
    manifest: dict[str, Any], expected: str | None
) -> None:
    found, before = _staged(manifest, PLACE).files, _staged(manifest).files

    assert found == {
        **before,
        "traceparent": f"{PLACE}\n".encode(),
        **({} if expected is None else {"env/main": expected.encode()}),
    }


def test_an_image_that_sets_the_place_in_a_trace_keeps_it() -> None:
    config = Config(env=(f"TRACEPARENT={PLACE}x",), entrypoint=("run",))
    image = {"main": Used(ImageState(READY, path="/i.sif", config=config))}

    assert "env/main" not in _staged({}, PLACE, image).files
