"""Writes machine output: YAML and JSON that kubectl can read, always the same for the same input."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Final

import yaml


class _Dumper(yaml.CSafeDumper):
    """Writes texts of several lines as block scalars, so that a script in an annotation is readable."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - PyYAML gives it
        """Never write anchors: equal parts are written twice."""
        return True


def _text(dumper: yaml.CSafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Dumper.add_representer(str, _text)


def as_yaml(objects: Sequence[object]) -> str:
    """One YAML document per object, with keys in their order."""
    return "".join(
        "---\n" * (index > 0)
        + yaml.dump(
            value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=False, width=2**31 - 1
        )
        for index, value in enumerate(objects)
    )


class _Folding(_Dumper):
    """Writes texts that are longer than a line as folded scalars (``>-``), which readers join to one line again."""


_WIDTH: Final = 100
_Folding.add_representer(
    str,
    lambda dumper, value: dumper.represent_scalar(
        "tag:yaml.org,2002:str", value, style=">" if len(value) > _WIDTH else None
    ),
)


def as_folded_yaml(value: object) -> str:
    """One YAML document for people, with keys in their order and long texts folded."""
    return yaml.dump(value, Dumper=_Folding, sort_keys=False, allow_unicode=True, width=_WIDTH)


def as_json(value: object) -> str:
    """Indented JSON, with keys in their order."""
    return json.dumps(value, indent=2, ensure_ascii=False)


_COPIED: Final = ("labels", "annotations")
"""What the CronJob controller copies of a template's metadata."""


def placed_back(document: object, job: Mapping[str, object], root: str) -> object:
    """The document with ``job`` in its place: the document itself, or a CronJob's Job template."""
    if not root:
        return job
    assert isinstance(document, Mapping)  # noqa: S101 - job_of found a Job in it
    spec = document["spec"]
    assert isinstance(spec, Mapping)  # noqa: S101
    template = spec["jobTemplate"]
    own, made = template.get("metadata") or {}, job["metadata"]
    assert isinstance(made, Mapping)  # noqa: S101
    # Name and namespace are only those of the Job that the controller would make.
    metadata = {key: value for key, value in own.items() if key not in _COPIED}
    metadata |= {key: made[key] for key in _COPIED if key in made}
    return {**document, "spec": {**spec, "jobTemplate": {**template, "metadata": metadata, "spec": job["spec"]}}}


def as_document(value: object) -> object:
    """Dataclasses as objects with keys in Kubernetes' spelling: ``free_nodes`` becomes ``freeNodes``."""
    if is_dataclass(value) and not isinstance(value, type):
        return {_key(one.name): as_document(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): as_document(one) for key, one in value.items()}
    if isinstance(value, tuple | list):
        return [as_document(one) for one in value]
    return value


def _key(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(part.capitalize() for part in others)
