"""Lays out the files of configMap, secret, downwardAPI and projected volumes, as the kubelet would.

Pure. Returns contents and modes by path below the volume, and refuses paths that leave it. Modes are those of the
manifest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import Any, Final

from router.errors import JobError, TooLarge
from router.pod.env import Sources, field_value, resource_value

Contents = dict[str, tuple[bytes, int]]
_DEFAULT_MODE: Final = 0o644
MOST_BYTES: Final = 32 * 1024 * 1024
"""Most bytes of one Pod's files.

A ConfigMap has 1 MiB at most, but a volume can repeat its keys any number of times. A kubelet writes the files to its
own disk; here they go to the file system that all users of a site share.
"""
MOST_FILES: Final = 2000
"""Most files and directories of one Pod: all users of a site share its file system's inodes."""
_DEEPEST: Final = 32
"""Most parts of one file's path."""


def volume_files(volume: Mapping[str, Any], sources: Sources) -> Contents:
    """Path -> (content, mode) of a volume; empty for volumes of other kinds. JobError names the field.

    A volume without files has the single path ``""``: an empty directory.
    """
    where = f"spec.volumes[{volume.get('name')}]"
    for kind, source in _KINDS.items():
        if kind in volume:
            definition = volume[kind] or {}
            files = source(definition, f"{where}.{kind}", definition.get("defaultMode", _DEFAULT_MODE), sources, volume)
            check_amount(f"{where}.{kind}", sum([len(content) for content, _ in files.values()]), len(files))
            _check(files, f"{where}.{kind}")
            return files or {"": (b"", _DEFAULT_MODE)}
    return {}


def entries(files: Contents) -> int:
    """The number of files and directories of a volume."""
    return len(files) + len({parent for name in files for parent in PurePosixPath(name).parents})


def check_amount(path: str, size: int, count: int) -> None:
    """Raise TooLarge if a Pod's files exceed ``MOST_BYTES`` or ``MOST_FILES``.

    :param path: the field whose files exceed the limit
    """
    advice = "put large data into a volume claim or a directory of the site"
    if size > MOST_BYTES:
        raise TooLarge(path, f"brings the Pod's files to {size} bytes; at most {MOST_BYTES}, so {advice}")
    if count > MOST_FILES:
        raise TooLarge(path, f"brings the Pod to {count} files and directories; at most {MOST_FILES}, so {advice}")


def _config_map(
    definition: Mapping[str, Any], path: str, mode: int, sources: Sources, _: Mapping[str, Any]
) -> Contents:
    return _chosen(sources.config_map(definition, path), definition, path, mode)


def _secret(definition: Mapping[str, Any], path: str, mode: int, sources: Sources, _: Mapping[str, Any]) -> Contents:
    return _chosen(sources.secret(definition, path), definition, path, mode)


def _chosen(contents: Mapping[str, bytes] | None, definition: Mapping[str, Any], path: str, mode: int) -> Contents:
    """The files of all keys, or of the keys that ``items`` names, under the paths that it gives them."""
    if contents is None:
        return {}
    if not definition.get("items"):
        return {key: (value, mode) for key, value in contents.items()}
    files: Contents = {}
    for index, item in enumerate(definition["items"]):
        key = item.get("key", "")
        if key in contents:
            files[item.get("path", "")] = (contents[key], item.get("mode") or mode)
        elif not definition.get("optional"):
            raise JobError(f"{path}.items[{index}].key", f"there is no key {key!r}; add it or mark the volume optional")
    return files


def _downward(definition: Mapping[str, Any], path: str, mode: int, sources: Sources, _: Mapping[str, Any]) -> Contents:
    files: Contents = {}
    size = 0
    for index, item in enumerate(definition.get("items") or ()):
        where = f"{path}.items[{index}]"
        if item.get("fieldRef"):
            text = field_value(item["fieldRef"], f"{where}.fieldRef", sources)
        else:
            reference = item.get("resourceFieldRef") or {}
            text = resource_value(reference, f"{where}.resourceFieldRef", "", sources)
        content = text.encode(errors="surrogateescape")
        files[item.get("path", "")] = (content, item.get("mode") or mode)
        size += len(content)
        check_amount(where, size, len(files))
    return files


def _projected(
    definition: Mapping[str, Any], path: str, mode: int, sources: Sources, volume: Mapping[str, Any]
) -> Contents:
    files: Contents = {}
    size = count = 0
    for index, entry in enumerate(definition.get("sources") or ()):
        for kind, source in entry.items():
            where = f"{path}.sources[{index}].{kind}"
            reader = _PROJECTIONS.get(kind)
            if reader is None:
                raise JobError(where, f"a projected volume cannot have {kind} on HPC: remove it")
            found = reader(source or {}, where, mode, sources, volume)
            files.update(found)
            # Files that a later source overrides count too: they are made before it is known that they are overridden.
            size, count = size + sum([len(content) for content, _ in found.values()]), count + len(found)
            check_amount(where, size, count)
    return files


def _token(
    definition: Mapping[str, Any], path: str, mode: int, sources: Sources, volume: Mapping[str, Any]
) -> Contents:
    name = definition.get("path", "")
    token = sources.tokens.get(f"{volume.get('name')}/{name}")
    if token is None:
        raise JobError(path, "the site gives Pods no service account tokens: remove this source")
    return {name: (token.encode(), mode)}


_Reader = Callable[[Mapping[str, Any], str, int, Sources, Mapping[str, Any]], Contents]
_PROJECTIONS: Final[Mapping[str, _Reader]] = {
    "configMap": _config_map,
    "secret": _secret,
    "downwardAPI": _downward,
    "serviceAccountToken": _token,
}
_KINDS: Final[Mapping[str, _Reader]] = {
    "configMap": _config_map,
    "secret": _secret,
    "downwardAPI": _downward,
    "projected": _projected,
}


def _check(files: Contents, path: str) -> None:
    """Refuse paths that leave the volume, and a file where another needs a directory."""
    for name in files:
        pure = PurePosixPath(name)
        if not name or pure.is_absolute() or ".." in pure.parts or "\0" in name or str(pure) != name:
            raise JobError(path, f"the path {name[:200]!r} is not a plain relative path inside the volume")
        if len(pure.parts) > _DEEPEST:
            raise TooLarge(path, f"the path {name[:200]!r} has {len(pure.parts)} parts; at most {_DEEPEST}")
        for parent in pure.parents:
            if str(parent) in files:
                raise JobError(path, f"the path {name!r} needs a directory where {str(parent)!r} is a file")
