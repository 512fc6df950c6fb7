"""Reads how a Pod finds other hosts: lines that it adds to ``/etc/hosts``, and its settings of DNS.

Pure. The rules are those of the API server's validation: what it will refuse raises JobError here, as the values become
lines of files.
"""

from __future__ import annotations

import re
from typing import Final

from router.errors import JobError
from router.workload.fields import Fields, items, mapping, mappings, text, texts
from router.workload.naming import Naming

_ADDRESS: Final = re.compile(r"[0-9A-Fa-f:.]{2,45}(?:%[0-9A-Za-z._-]{1,32})?")
_HOST: Final = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")
_SEARCH: Final = re.compile(r"[A-Za-z0-9_.-]{1,254}")
_OPTION: Final = re.compile(r"[!-9;-~]{1,255}")
"""Printable, without a blank or a colon, which divides an option's name from its value."""
_MOST_SERVERS: Final = 3
"""resolv.conf(5) takes no more: MAXNS."""
_NOTHING: Final = Naming()


def read_naming(pod: Fields, path: str) -> Naming:
    """The names of a Pod's spec. Raises JobError for what the API server refuses."""
    if not (pod.get("hostAliases") or pod.get("dnsConfig") or pod.get("dnsPolicy") == "None"):
        return _NOTHING
    config, here = mapping(pod, "dnsConfig", path), f"{path}.dnsConfig"
    alone = text(pod, "dnsPolicy", path) == "None"
    servers = _texts(config, "nameservers", here, _ADDRESS, "is no IP address")
    if alone and not servers:
        raise JobError(f"{here}.nameservers", "must name a server if dnsPolicy is None")
    if len(servers) > _MOST_SERVERS:
        raise JobError(f"{here}.nameservers", f"has {len(servers)} servers; resolv.conf takes {_MOST_SERVERS}")
    return Naming(
        hosts=tuple([_line(alias, where) for where, alias in mappings(pod, "hostAliases", path)]),
        alone=alone,
        servers=servers,
        searches=_texts(config, "searches", here, _SEARCH, "is no domain"),
        options=tuple([_option(one, where) for where, one in mappings(config, "options", here)]),
    )


def _line(alias: Fields, path: str) -> str:
    address = text(alias, "ip", path)
    if not _ADDRESS.fullmatch(address):
        raise JobError(f"{path}.ip", f"{address[:80]!r} is no IP address")
    return "\t".join((address, *_texts(alias, "hostnames", path, _HOST, "is no host name")))


def _texts(owner: Fields, key: str, path: str, form: re.Pattern[str], wrong: str) -> tuple[str, ...]:
    items(owner, key, path)  # says what is wrong with another type
    found = texts(owner, key, path) or ()
    for index, word in enumerate(found):
        if not form.fullmatch(word):
            raise JobError(f"{path}.{key}[{index}]", f"{word[:80]!r} {wrong}")
    return found


def _option(option: Fields, path: str) -> str:
    name, value = text(option, "name", path), text(option, "value", path)
    for key, word in (("name", name), ("value", value)):
        if not _OPTION.fullmatch(word) and (word or key == "name"):
            raise JobError(f"{path}.{key}", f"{word[:80]!r} is no word of resolv.conf")
    return f"{name}:{value}" if value else name
