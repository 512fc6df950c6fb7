"""What a site tells everybody: its queues with limits and figures, mapped images, and who runs as whom there.

Pure. An agent writes one notice a site, with what the site's ``public`` names, into the ConfigMap ``batchgate-public``;
``batchgate queues`` and ``batchgate images`` read it. It holds texts of the policy and figures of the batch system.
Paths, hosts, keys and directives of the policy stay out of it, like anything of Jobs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from router import names
from router.errors import InputError
from router.policy.schema import Account
from router.site import globs
from router.site.schema import Site

LARGEST: Final = 64 * 1024
"""Most bytes of a notice: a ConfigMap holds 1 MiB, for all sites together (kubernetes.io/docs/concepts/configuration/configmap)."""
_FIGURES: Final = ("up", "freeNodes", "queuedJobs", "runningJobs", "waitSeconds")
_LONGEST_TEXT: Final = 4096


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
    """The notice without the last entries of its longest list, as far as it would be too large.

    Of the controllers all are told or none: without one of them, the accounts would say what is wrong.
    """
    told = whole
    while len((text := told.model_dump_json(by_alias=True, exclude_none=True)).encode()) > LARGEST:
        lists = {name: getattr(told, name) for name in ("images", "accounts", "queues") if getattr(told, name)}
        longest = max(lists, key=lambda name: sum(len(repr(one)) for one in lists[name]), default="")
        if told.controllers and (not longest or len(repr(told.controllers)) > len(repr(lists[longest]))):
            told = told.model_copy(update={"controllers": None, "left_out": told.left_out + 1})
            continue
        kept = lists[longest][: len(lists[longest]) // 2]
        told = told.model_copy(update={longest: kept, "left_out": told.left_out + len(lists[longest]) - len(kept)})
    return text


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
