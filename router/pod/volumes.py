"""The files of configMap, secret, downwardAPI and projected volumes, as the kubelet would lay them out.

Pure. Contents and modes by path below the volume; no path leaves it. Modes are as written in the manifest.
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
"""Of one Pod's files. A ConfigMap has 1 MiB at most, but its keys can be laid out any number of times, and what a kubelet
writes on a disk of its own is written here where all users of a site have theirs."""
MOST_FILES: Final = 2000
"""Files and directories of one Pod: users of a site share what its file system has of them."""
_DEEPEST: Final = 32
"""Directories of one file's path."""


def volume_files(volume: Mapping[str, Any], sources: Sources) -> Contents:
    """Path -> (content, mode) of a volume; nothing for a volume of another kind. JobError names the field.

    A volume without files is the path ``""``: an empty directory.
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
    """Files and directories that a volume is made of."""
    return len(files) + len({parent for name in files for parent in PurePosixPath(name).parents})


def check_amount(path: str, size: int, count: int) -> None:
    """TooLarge where one Pod would have more bytes or files than are written for it.

    :param path: the field that brings them to so many
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
    """All keys, or those that ``items`` name under the paths that it gives them."""
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
                raise JobError(where, f"{kind} is not available on HPC")
            found = reader(source or {}, where, mode, sources, volume)
            files.update(found)
            # What a later source overrides counts too: it has to be made before it is known to be overridden.
            size, count = size + sum([len(content) for content, _ in found.values()]), count + len(found)
            check_amount(where, size, count)
    return files


def _token(
    definition: Mapping[str, Any], path: str, mode: int, sources: Sources, volume: Mapping[str, Any]
) -> Contents:
    name = definition.get("path", "")
    token = sources.tokens.get(f"{volume.get('name')}/{name}")
    if token is None:
        raise JobError(path, "this site does not stage service account tokens")
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
