"""Drawn volumes of the kinds that are honoured on HPC, and places where they are mounted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from hypothesis import strategies as st

from tests.e2e.jobs import WORDS

Json = dict[str, Any]

DATA: Final[dict[str, dict[str, Json]]] = {
    "ConfigMap": {
        "words": {"data": WORDS},
        "odd": {"data": {"1st": "digit", "UPPER-dash": "dash", "_low": "under"}, "binaryData": {"bytes": "AAH//gp4"}},
    },
    "Secret": {"keys": {"stringData": {"user": "ada", "word": "p'a\"ss $(A) \\w", "lines": "k\nl\n", "EMPTY": ""}}},
}  # fmt: skip
"""Objects of both namespaces by kind and name."""
KEYS: Final = {
    name: sorted({*one.get("data", {}), *one.get("binaryData", {}), *one.get("stringData", {})})
    for kind in DATA.values()
    for name, one in kind.items()
}
MODES: Final = (0o400, 0o440, 0o444, 0o500, 0o600, 0o644, 0o755, 0o777)
FIELDS: Final = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "metadata.labels['who']",
    "metadata.labels['none']",
    "metadata.annotations['what']",
    "metadata.annotations['lines']",
)
RESOURCES: Final = ("limits.cpu", "limits.memory", "requests.cpu", "requests.memory")
_PLACES: Final = (
    "/v", "/data/in/deep", "/etc/conf.d", "/mnt/a b", "/mnt/a,b", "/mnt/it's", "/mnt/$x", '/mnt/"q"', "/opt/x/", "/tmp/inner",
    "/usr/share/x", "/root", "/mnt/ü", "/mnt/a=b", "/mnt/-n",
)  # fmt: skip
_FILES: Final = ("/etc/one.conf", "/opt/file", "/v-one", "/mnt/one file")


@dataclass(frozen=True)
class Volume:
    """A volume, and what is known of it."""

    source: Json
    name: str
    empty: bool
    """Whether it is a directory that containers may write to."""
    files: tuple[str, ...] = ()
    """Files of it that are surely there."""


@st.composite
def items(draw: st.DrawFn, name: str, *, optional: bool) -> list[Json]:
    """Keys of an object, each at a path of its own. Where the object is optional, a key may be missing."""
    keys = draw(st.lists(st.sampled_from([*KEYS[name], *(["none"] if optional else [])]), min_size=1, unique=True))
    return [
        {"key": key, "path": draw(st.sampled_from((f"{key}", f"deep/{key}", f"deep/er/x {number}", f".hidden{number}")))}
        | draw(st.sampled_from(({}, *({"mode": mode} for mode in MODES))))
        for number, key in enumerate(keys)
    ]  # fmt: skip


@st.composite
def named(draw: st.DrawFn, kind: str, key: str = "name") -> tuple[Json, tuple[str, ...]]:
    """A reference to an object, whole or by items, or to one that is missing and optional; the files that are there."""
    name = draw(st.sampled_from(tuple(DATA[kind])))
    optional = draw(st.booleans())
    if optional and draw(st.integers(0, 3)) == 0:
        return {key: "none", "optional": True}, ()
    found: Json = {key: name} | ({"optional": True} if optional else {})
    if draw(st.booleans()):
        found["items"] = draw(items(name, optional=optional))
        return found, tuple(one["path"] for one in found["items"] if one["key"] != "none")
    return found, tuple(KEYS[name])


@st.composite
def downward(draw: st.DrawFn, container: str) -> list[Json]:
    """Items of the downward API."""
    paths = draw(st.lists(st.sampled_from(("f", "deep/f", "deep/g", "x y")), min_size=1, unique=True))
    return [
        {"path": path}
        | draw(
            st.one_of(
                st.sampled_from(FIELDS).map(lambda field: {"fieldRef": {"fieldPath": field}}),
                resource().map(lambda found: {"resourceFieldRef": {"containerName": container, **found}}),
            )
        )
        | draw(st.sampled_from(({}, {"mode": 0o400}, {"mode": 0o755})))
        for path in paths
    ]


@st.composite
def resource(draw: st.DrawFn) -> Json:
    """One of a container's resources, with a divisor that fits."""
    name = draw(st.sampled_from(RESOURCES))
    fit = ("1", "1m") if name.endswith("cpu") else ("1", "1k", "1Ki", "1Mi", "1M")
    return {"resource": name} | draw(st.sampled_from(({}, *({"divisor": one} for one in fit))))


@st.composite
def projected(draw: st.DrawFn, container: str) -> Json:
    """Sources in one directory; each object once, so that no path is given twice."""
    sources: list[Json] = []
    for kind, field in draw(st.permutations((("ConfigMap", "configMap"), ("Secret", "secret"), ("", "downwardAPI")))):
        if not draw(st.booleans()):
            continue
        if kind:
            found, _ = draw(named(kind))
            found["items"] = [one | {"path": f"{field}/{one['path']}"} for one in found.get("items", ())]
            sources.append({field: found if found["items"] or "optional" in found else found | {"items": []}})
        else:
            entries = [one | {"path": f"own/{one['path']}"} for one in draw(downward(container))]
            sources.append({field: {"items": entries}})
    return {"projected": {"sources": sources} | draw(_mode())}


def _mode() -> st.SearchStrategy[Json]:
    return st.sampled_from(({}, *({"defaultMode": mode} for mode in MODES)))


@st.composite
def volume(draw: st.DrawFn, name: str, container: str) -> Volume:
    """A volume of any kind. ``container`` is the one whose resources may be shown."""
    kind = draw(st.sampled_from(("empty", "map", "secret", "downward", "projected")))
    files: tuple[str, ...] = ()
    if kind == "empty":
        source: Json = {"emptyDir": draw(st.sampled_from(({}, {"medium": "Memory"})))}
    elif kind == "map":
        found, files = draw(named("ConfigMap"))
        source = {"configMap": found | draw(_mode())}
    elif kind == "secret":
        found, files = draw(named("Secret", "secretName"))
        source = {"secret": found | draw(_mode())}
    elif kind == "downward":
        source = {"downwardAPI": {"items": draw(downward(container))} | draw(_mode())}
        files = tuple(one["path"] for one in source["downwardAPI"]["items"])
    else:
        source = draw(projected(container))
    return Volume({"name": name, **source}, name, kind == "empty", files)


@st.composite
def mounts(draw: st.DrawFn, volumes: list[Volume], *, alone: bool) -> list[Json]:
    """Mounts of volumes at places of their own.

    :param alone: whether no other container runs meanwhile, which would see what appears in a shared directory
    """
    places = draw(st.permutations(_PLACES))
    files = draw(st.permutations(_FILES))
    found: list[Json] = []
    for one, place, file in zip(volumes, places, files, strict=False):
        way = draw(st.integers(0, 3))
        only = {"readOnly": True} if draw(st.booleans()) else {}
        if way == 0 and one.files:
            found.append({"name": one.name, "mountPath": file, "subPath": draw(st.sampled_from(one.files)), **only})
        elif way == 1 and one.empty and alone:
            below = draw(st.sampled_from(("in/side", "a b", "x,y", "it's")))
            found.append({"name": one.name, "mountPath": place, "subPath": below, **only})
        elif one.empty and not alone:
            found.append({"name": one.name, "mountPath": place, "readOnly": True})
        else:
            found.append({"name": one.name, "mountPath": place, **only})
    return found
