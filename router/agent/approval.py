"""Decides whether a Pod may be run, from its signature, its Job, and the additions that other webhooks made to it.

Pure. Judges what the API server's guards cannot: signatures, and whether the Pod is the signed one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from router import names
from router.errors import SignatureError
from router.placement import signing
from router.pod import template as podtemplate
from router.pod.env import INDEX_VARIABLE

Fields = Mapping[str, Any]

_PROOF: Final = (names.KEY_SCRIPT, names.KEY_REQUESTER, names.KEY_ACCOUNT, names.KEY_SIGNATURE)
_PLACE: Final = (names.KEY_SITE, names.KEY_QUEUE)
_GROUPS: Final = podtemplate.GROUPS
_OF_PODS: Final = frozenset({"imagePullSecrets", "serviceAccountName"})
"""Fields that a Pod gets from its service account if the template leaves them out."""
_PULL_POLICY: Final = "imagePullPolicy"
_ALWAYS: Final = "Always"
"""The value that the admission plugin AlwaysPullImages sets in all containers of a Pod."""
_ENDED: Final = frozenset({"Complete", "Failed"})


class UnknownKey(SignatureError):
    """The signature's key is not in force now, or its format is newer: programs are upgraded one after the other."""


@dataclass(frozen=True, slots=True)
class Approved:
    """The signed values of a Pod that may be run: the HPC user, the script, and the results to bring back."""

    user: str
    script: str
    results: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Needs:
    """The names of objects in the Pod's namespace that its files are made from."""

    config_maps: tuple[str, ...]
    secrets: tuple[str, ...]


def controller(pod: Fields) -> tuple[str, str] | None:
    """Name and uid of the Job that controls a Pod; None for Pods of other controllers."""
    for owner in _metadata(pod).get("ownerReferences") or ():
        if owner.get("controller"):
            is_job = owner.get("kind") == "Job" and str(owner.get("apiVersion", "")).startswith("batch/")
            return (owner["name"], owner["uid"]) if is_job else None
    return None


def is_living(job: Fields) -> bool:
    """Whether a Job still wants its Pods: True until it ends or is being deleted."""
    conditions = (job.get("status") or {}).get("conditions") or ()
    ended = any(one.get("type") in _ENDED and one.get("status") == "True" for one in conditions)
    return not ended and not _metadata(job).get("deletionTimestamp")


def approve(pod: Fields, job: Fields, site: str, keys: Mapping[str, Ed25519PublicKey]) -> Approved:
    """Compare a Pod with its Job, and both with the signature.

    :param job: the Pod's controller, as the API server has it now
    :param site: the site of this agent
    :param keys: the public keys in force
    :raises SignatureError: a value is missing or differs; the message names it
    """
    own, template = _metadata(pod), _metadata((job.get("spec") or {}).get("template") or {})
    annotations, labels = template.get("annotations") or {}, template.get("labels") or {}
    _demand_same(own, template)
    place = tuple(str(labels.get(key, "")) for key in _PLACE)
    if place[0] != site:
        raise SignatureError(f"the Job was sent to site {place[0]!r}, and this is the agent of {site!r}")
    node = names.node_name(*place)
    if (pod.get("spec") or {}).get("nodeName") != node:
        raise SignatureError(f"the Pod is on node {pod['spec'].get('nodeName')!r}, and queue {place[1]} is {node}")
    signed = _read(signing.text_under(names.KEY_SIGNATURE, annotations), keys)
    namespace = signing.text_under("namespace", _metadata(job))
    signing.compare(signed, signing.claims_of(job, namespace, signed))
    return Approved(_user(signed.account), signing.text_under(names.KEY_SCRIPT, annotations), signed.results)


def owner_of(pod: Fields, site: str, keys: Mapping[str, Ed25519PublicKey]) -> str:
    """The HPC user for whom a Pod was signed, who owns its files and batch job. The Pod may still be refused to run.

    :raises SignatureError: the user is not proven; UnknownKey if the key is not in force now
    """
    own, found = _metadata(pod), controller(pod)
    signed = _read(signing.text_under(names.KEY_SIGNATURE, own.get("annotations") or {}), keys)
    job_uid = found[1] if found else ""
    if (signed.namespace, signed.site, signed.job_uid or job_uid) != (own.get("namespace"), site, job_uid):
        raise SignatureError("the signature is that of another namespace, site or Job")
    return _user(signed.account)


def named_user(account: str) -> str:
    """The HPC user whom an account's annotation names, without proof; empty if the annotation is invalid."""
    try:
        return _user(account)
    except SignatureError:
        return ""


def _read(signature: str, keys: Mapping[str, Ed25519PublicKey]) -> signing.Claims:
    try:
        return signing.read(signature, keys)
    except signing.UnknownFormat as error:
        raise UnknownKey(f"{error}; upgrade the agent, and the Pod is submitted by itself") from None
    except SignatureError as error:
        if signature.count(".") == 3 and signature.split(".")[1] not in keys:
            raise UnknownKey(str(error)) from None
        raise


def _demand_same(own: Fields, template: Fields) -> None:
    """Raise SignatureError unless the Pod's proof is its template's: rights on Pods do not allow changes of Jobs."""
    for kind, keys in (("annotations", _PROOF), ("labels", _PLACE)):
        mine, theirs = own.get(kind) or {}, template.get(kind) or {}
        for key in keys:
            if not theirs.get(key):
                raise SignatureError(f"its Job's template lacks {key}: Batchgate did not route or sign the Job")
            if mine.get(key) != theirs[key]:
                raise SignatureError(f"its {key} is not that of its Job's template")


def additions(pod: Fields, job: Fields) -> tuple[str, ...]:
    """The parts of a Pod that differ from its Job's template, so that the script would not run them.

    For example ``container sidecar``, ``volume token``, ``command of container main``. Left out are values that
    Kubernetes sets in Pods only: amounts of a LimitRange, the completion index, the pull policy Always, and fields of
    the service account.
    """
    found = podtemplate.differences(_template(job), _as_written(pod.get("spec") or {}, _template(job)))
    return tuple(dict.fromkeys([_named(one) for one in found if not _is_of_pods(one)]))


def as_signed(pod: Fields, job: Fields) -> dict[str, Any]:
    """The Pod with the signed spec of its Job's template, and with the values that only Pods have.

    These are metadata, node, host name (of an index), amounts, the pull policy Always, and fields of the service account
    that the template leaves out. Additions by other webhooks have no effect.
    """
    own, template = pod.get("spec") or {}, _template(job)
    of_index = {"hostname": own["hostname"]} if own.get("hostname") else {}
    from_account = {field: own[field] for field in sorted(_OF_PODS) if field in own and not template.get(field)}
    groups = {
        group: [_with_pods_own(one, own.get(group) or ()) for one in template[group]]
        for group in _GROUPS
        if template.get(group)
    }
    return {**pod, "spec": {**template, **from_account, **of_index, **groups, "nodeName": own.get("nodeName")}}


def _with_pods_own(container: Fields, of_pod: Iterable[Fields]) -> Fields:
    mine = next((one for one in of_pod if one.get("name") == container.get("name")), container)
    amounts = {"resources": mine["resources"]} if "resources" in mine else {}
    pulled = {_PULL_POLICY: _ALWAYS} if mine.get(_PULL_POLICY) == _ALWAYS else {}
    return {**container, **amounts, **pulled}


def _template(job: Fields) -> Fields:
    return ((job.get("spec") or {}).get("template") or {}).get("spec") or {}


def _is_of_pods(one: podtemplate.Difference) -> bool:
    return one.field in _OF_PODS and one.added


def _as_written(spec: Fields, template: Fields) -> Fields:
    """A Pod's spec without values that Kubernetes sets in all containers: the index variable, and the pull policy."""
    groups = {group: [_own(one, template.get(group) or ()) for one in spec.get(group) or ()] for group in _GROUPS}
    return {**spec, **groups}


def _own(container: Fields, theirs: Iterable[Fields]) -> Fields:
    written = next((one for one in theirs if one.get("name") == container.get("name")), {})
    if container.get(_PULL_POLICY) == _ALWAYS:
        container = {**container, _PULL_POLICY: written.get(_PULL_POLICY)}
    if any(one.get("name") == INDEX_VARIABLE for one in written.get("env") or ()):
        return container
    return {**container, "env": [one for one in container.get("env") or () if one.get("name") != INDEX_VARIABLE]}


def _named(one: podtemplate.Difference) -> str:
    kind = {"": "", "volumes": "volume"}.get(one.group, "container")
    whole = " ".join(word for word in ("no" if one.removed else "", kind, one.name) if word)
    if not kind:
        return one.field
    return whole if not one.field else f"{one.field} of {kind} {one.name}"


def needs(pod: Fields) -> Needs:
    """The ConfigMaps and Secrets that a Pod's environment and volumes name, optional ones included."""
    config_maps: dict[str, None] = {}
    secrets: dict[str, None] = {}
    for reference in _references(pod.get("spec") or {}):
        for key, into in _SOURCES.items():
            source = reference.get(key)
            name = (source or {}).get("name") or (source or {}).get("secretName")
            if name:
                (config_maps if into else secrets)[name] = None
    return Needs(tuple(config_maps), tuple(secrets))


_SOURCES: Final = {
    "configMapKeyRef": True,
    "configMapRef": True,
    "configMap": True,
    "secretKeyRef": False,
    "secretRef": False,
    "secret": False,
}
"""Fields that name an object: True for a ConfigMap, False for a Secret."""


def _references(spec: Fields) -> Iterator[Fields]:
    for group in _GROUPS:
        for container in spec.get(group) or ():
            yield from container.get("envFrom") or ()
            yield from (one["valueFrom"] for one in container.get("env") or () if one.get("valueFrom"))
    for volume in spec.get("volumes") or ():
        yield volume
        yield from (volume.get("projected") or {}).get("sources") or ()


def _user(account: str) -> str:
    """The HPC user in an identity's text. The text is signed, so only another release can have a different format."""
    try:
        user = json.loads(account).get("user")
    except (ValueError, AttributeError, RecursionError):
        user = None
    if not isinstance(user, str) or not user:
        raise SignatureError(f"names no HPC user: {account[:200]!r}")
    return user


def _metadata(value: Fields) -> Fields:
    return value.get("metadata") or {}
