"""What a site tells everybody: its queues with limits and figures, mapped images, and who runs as whom there.

Pure. An agent writes one notice a site, with what the site's ``public`` names, into the ConfigMap ``batchgate-public``;
``batchgate queues`` and ``batchgate images`` read it. It holds texts of the policy and figures of the batch system.
Paths, hosts, keys and directives of the policy stay out of it, like anything of Jobs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel

from router import names
from router.errors import InputError
from router.policy.schema import Account
from router.site import globs
from router.site.schema import Site

LARGEST: Final = 64 * 1024
"""Most bytes of a notice: a ConfigMap holds 1 MiB, for all sites together (kubernetes.io/docs/concepts/configuration/configmap)."""
_FIGURES: Final = ("up", "freeNodes", "queuedJobs", "runningJobs", "waitSeconds")
_LISTS: Final = ("images", "accounts", "queues")
_ANY: Final = TypeAdapter(Any)


class _Part(BaseModel):
    """Base of a notice's parts. A newer agent may write further keys."""

    model_config = ConfigDict(frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True)


class QueueNotice(_Part):
    """A queue: what a job may ask for, and what the batch system says of it now. None: unlimited, or unknown.

    Sizes in bytes, times in seconds, as in the policy and in ``QueueState``.
    """

    name: str
    nodes: int
    cpus_per_node: int
    memory_per_node: int | None = None
    gpus_per_node: int = 0
    gpu_vendor: str | None = None
    walltime_default: int | None = None
    walltime_max: int | None = None
    up: bool | None = None
    free_nodes: int | None = None
    queued_jobs: int | None = None
    running_jobs: int | None = None
    wait_seconds: int | None = None


class AccountNotice(_Part):
    """An entry of ``accounts``: who runs as which HPC user, with which account and project."""

    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    service_accounts: tuple[str, ...] = ()
    user: str
    account: str | None = None
    project: str | None = None


class ControllersNotice(_Part):
    """Who creates Jobs for others, at any site: globs of all entries of ``accounts`` with ``controller``."""

    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    service_accounts: tuple[str, ...] = ()


class Notice(_Part):
    """What one site tells. None: left untold by the site. ``time``: when its figures were asked for.

    :param images: globs over images that run from files of the site
    :param pull: who brings other images: ``host``, ``job``, or ``never`` anybody
    :param controllers: None also where they are too many, or an older agent wrote the notice
    :param left_out: entries of the lists above that had no room
    :param left_out_of: the same by list; None where all had room, and from an older agent
    """

    time: str
    site: str
    system: str
    queues: tuple[QueueNotice, ...] | None = None
    images: tuple[str, ...] | None = None
    pull: Literal["host", "job", "never"] | None = None
    accounts: tuple[AccountNotice, ...] | None = None
    controllers: ControllersNotice | None = None
    left_out: int = 0
    left_out_of: dict[str, int] | None = None

    def lacks(self, what: Literal["images", "accounts"]) -> bool:
        """Whether entries of a list may have had no room."""
        return self.left_out > 0 if self.left_out_of is None else self.left_out_of.get(what, 0) > 0


def notice(site: Site, accounts: Sequence[Account], figures: Sequence[Mapping[str, Any]], moment: str) -> str:
    """The notice of a site as JSON of at most ``LARGEST`` bytes.

    :param figures: of its queues, as the agent publishes them for rules
    :param moment: when they were asked for, in RFC 3339
    """
    wanted = frozenset(site.public)
    now = {str(one["queue"]): {key: one[key] for key in _FIGURES if key in one} for one in figures}
    own = [one for one in accounts if one.as_ is not None and globs.matches((one.site,), site.name)]
    whole = Notice(
        time=moment,
        site=site.name,
        system=str(site.system),
        queues=_queues(site, now) if "queues" in wanted else None,
        images=tuple(one.match for one in site.images) if "images" in wanted else None,
        pull=site.pull if "images" in wanted else None,
        accounts=tuple(map(_account, own)) if "accounts" in wanted else None,
        controllers=_controllers(accounts) if "accounts" in wanted else None,
    )
    return _bounded(whole)


def _queues(site: Site, now: Mapping[str, Mapping[str, Any]]) -> tuple[QueueNotice, ...]:
    limits = (
        "nodes",
        "cpus_per_node",
        "memory_per_node",
        "gpus_per_node",
        "gpu_vendor",
        "walltime_default",
        "walltime_max",
    )
    return tuple(
        QueueNotice.model_validate(
            {"name": one.name, **{key: getattr(one, key) for key in limits}, **now.get(one.name, {})}
        )
        for one in site.queues
    )


def _account(entry: Account) -> AccountNotice:
    alike = ("users", "groups", "namespaces", "service_accounts", "account", "project")
    return AccountNotice.model_validate({"user": entry.as_, **{key: getattr(entry, key) for key in alike}})


def _controllers(accounts: Sequence[Account]) -> ControllersNotice:
    found = [one for one in accounts if one.controller]
    alike = ("users", "groups", "service_accounts")
    return ControllersNotice.model_validate(
        {key: tuple(n for one in found for n in getattr(one, key)) for key in alike}
    )


def _bounded(whole: Notice) -> str:
    """The notice, or as much of it as has room: lists that are too long end at the same number of bytes.

    Of the controllers all are told or none: without one of them, the accounts would say what is wrong.
    """
    text = _text(whole)
    if len(text) <= LARGEST:
        return text.decode()
    ends = {name: list(accumulate(_size(one) for one in getattr(whole, name) or ())) for name in _LISTS}
    # The most bytes of each list with which the notice has room; below zero if it is too large with empty ones.
    most = bisect_right(range(LARGEST), LARGEST, key=lambda each: len(_text(_within(whole, ends, each)))) - 1
    longest = max(found[-1] if found else 0 for found in ends.values())
    if whole.controllers and (most < 0 or _size(whole.controllers) > longest):
        return _bounded(_leaving_out(whole, {"controllers": None}, {"controllers": 1}))
    return _text(_within(whole, ends, most)).decode()


def _text(told: Notice) -> bytes:
    return told.model_dump_json(by_alias=True, exclude_none=True).encode()


def _size(part: str | _Part) -> int:
    """The bytes of an entry in a list, with its comma."""
    return len(_ANY.dump_json(part, by_alias=True, exclude_none=True)) + 1


def _within(whole: Notice, ends: Mapping[str, Sequence[int]], most: int) -> Notice:
    """A notice whose lists have at most so many bytes each.

    :param ends: of each list, how many bytes it has up to the end of each entry
    """
    kept = {name: bisect_right(found, most) for name, found in ends.items() if found and found[-1] > most}
    return _leaving_out(
        whole,
        {name: getattr(whole, name)[:count] for name, count in kept.items()},
        {name: len(ends[name]) - count for name, count in kept.items()},
    )


def _leaving_out(whole: Notice, told: Mapping[str, Any], left_out: Mapping[str, int]) -> Notice:
    counts = {**(whole.left_out_of or {}), **left_out}
    return whole.model_copy(update={**told, "left_out": sum(counts.values()), "left_out_of": counts})


def read(texts: Mapping[str, str]) -> tuple[list[Notice], list[str]]:
    """The notices of a ConfigMap's data in the order of the sites, and a sentence for each that cannot be read."""
    found, problems = [], []
    for key in sorted(texts):
        try:
            found.append(_read(key, texts[key]))
        except InputError as error:
            problems.append(str(error))
    return found, problems


def _read(key: str, text: str) -> Notice:
    try:
        one = Notice.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise InputError(f"ConfigMap {names.PUBLIC_CONFIG_MAP}, {key}: {where or 'document'}: {first['msg']}") from None
    if names.site_key(one.site) != key:
        raise InputError(
            f"ConfigMap {names.PUBLIC_CONFIG_MAP}, {key}: tells of site {one.site!r}, which has another key"
        )
    return one


def entries(one: Notice) -> tuple[Account, ...]:
    """The accounts and controllers of a notice as entries of a policy, for ``router.policy.identity``."""
    controllers = {} if one.controllers is None else one.controllers.model_dump()
    return (
        *([Account.model_validate({**controllers, "controller": True})] if any(controllers.values()) else ()),
        *(
            Account.model_validate({**entry.model_dump(exclude={"user"}), "as_": entry.user, "site": one.site})
            for entry in one.accounts or ()
        ),
    )
