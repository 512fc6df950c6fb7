#!/usr/bin/python3 -I
"""The image puller: brings the image of a Job from its registry to this machine, as one of its users.

One file for an admin to read and to install beside the site helper: Python 3.6 and its standard library. It reads one
JSON object from stdin, writes one to stdout, and takes no arguments. It answers within seconds: a pull runs in a
process of its own, and a later request gets its progress. Of many requests, also on several machines, one pulls.

A cache holds files named by the digest of the image's manifest: the image (``.sif``), its configuration (``.json``),
the current puller (``.claim``), the last failure (``.failed``); and below ``refs`` the digest that each name had.
"""

# Paths are plain text here, so pathlib does not fit.
# ruff: noqa: PTH101, PTH102, PTH103, PTH104, PTH108, PTH110, PTH115, PTH116, PTH117, PTH118, PTH119
# ruff: noqa: PTH120, PTH123, PTH208

import base64
import contextlib
import ctypes
import errno
import hashlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import ssl
import stat
import struct
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, NamedTuple

# What an admin may set for a site.
CORES = 2  # the last cores of this machine, shared by all pulls of all users
PULLS = 4  # of one user at once; further ones wait
MOST_BYTES = 64 << 30  # of an image's packed layers, as its registry states
MOST_DISK = 192 << 30  # of one pull: packed layers, unpacked layers and the image
SCRATCH = "/tmp"  # a local disk with room to unpack an image  # noqa: S108
FURTHER_ENVIRONMENT = {}  # type: dict[str, str]  # e.g. {"https_proxy": "http://proxy:3128"}

VERSION, OLDEST = 1, 1  # of questions and answers; an older agent gets answers of its own version.
HEARTBEAT = 10  # seconds between two heartbeats of a puller
STALE = 120  # seconds without a heartbeat after which a puller counts as dead
FAILED_SECONDS = 30  # how long a failure is reported; a later request tries again
PULL_SECONDS = 4 * 3600
STILL_SECONDS = 300  # a pull whose files keep their size for this long is ended
ANSWER_SECONDS, ALARM_SECONDS = 30, 5  # for an answer; until the next alarm after that
REGISTRY_SECONDS = 10  # for the next bytes of a registry
MOST_JSON = 4 << 20  # bytes of a manifest or configuration, as registries limit them
MOST_WORDS, MOST_WORD_BYTES = 2000, 256 << 10  # of a configuration, which the agent keeps in memory
MOST_MESSAGE = 1000  # characters
BLOCK = 4096  # bytes
PLATFORMS = {"x86_64": "amd64", "aarch64": "arm64", "ppc64le": "ppc64le", "s390x": "s390x", "riscv64": "riscv64"}

COMPONENT = r"[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*"
NAME = re.compile(
    r"(?:(?P<host>[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::[0-9]{1,5})?|\[[0-9A-Fa-f:]+\](?::[0-9]{1,5})?)/)?"
    rf"(?P<repository>{COMPONENT}(?:/{COMPONENT})*)"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)
LONGEST_NAME = 512
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
CHALLENGE = re.compile(r'(\w+)="([^"]*)"')
INDEXES = ("application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json")
MANIFESTS = ("application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json")

SIF_MAGIC = b"SIF_MAGIC\0"
# launch script, magic, version, architecture, id, times, descriptors, data
SIF_HEADER = struct.Struct("<32s10s3s3s16s8q")
SIF_DESCRIPTOR = struct.Struct("<i?IIIqqqqqqq128s384s")
SIF_JSON = 0x4006
MOST_DESCRIPTORS = 512

PULL, UNAVAILABLE, NEVER, BAD_NAME = "ErrImagePull", "RegistryUnavailable", "ErrImageNeverPull", "InvalidImageName"


class Refused(Exception):
    """Why there is no image: a kubelet's reason, sentences, and whether the failure is permanent."""

    def __init__(self, reason: "str", message: "str", *, permanent: "bool" = False, denied: "bool" = False) -> None:
        super().__init__(message)
        self.reason, self.message, self.permanent, self.denied = reason, message, permanent, denied


class Name(NamedTuple):
    """An image's complete name: registry, repository, tag or digest."""

    host: str
    repository: str
    reference: str

    @property
    def full(self) -> "str":
        """The name without tag and digest."""
        return f"{self.host}/{self.repository}"


class Found(NamedTuple):
    """An image for this machine, as its registry describes it."""

    digest: str
    config: "dict[str, Any]"
    auth: "dict[str, str] | None"


def name_of(image: "str") -> "Name":
    """The name as Docker and containerd complete it. Raises Refused for an invalid name."""
    found = NAME.fullmatch(image) if len(image) <= LONGEST_NAME else None
    if found is None:
        why = f"{image[:LONGEST_NAME]!r} is no name of an image"
        do = "write registry/path:tag or registry/path@sha256:digest, the path in small letters"
        raise Refused(BAD_NAME, f"{why}: {do}", permanent=True)
    host, path = found.group("host") or "", found.group("repository")
    if host and not ("." in host or ":" in host or host == "localhost" or host != host.lower()):
        host, path = "", f"{host}/{path}"
    if host in ("", "docker.io", "index.docker.io"):
        host, path = "docker.io", path if "/" in path else f"library/{path}"
    return Name(host, path, found.group("digest") or found.group("tag") or "latest")


# The registry.


class Redirects(urllib.request.HTTPRedirectHandler):
    """Follows a registry's redirects to its blobs, but sends credentials only to the same host."""

    def redirect_request(self, req: "Any", fp: "Any", code: "int", msg: "str", headers: "Any", newurl: "str") -> "Any":  # noqa: ARG002
        """The redirected request."""
        old, new = urllib.parse.urlsplit(req.full_url), urllib.parse.urlsplit(newurl)
        if new.scheme not in (old.scheme, "https"):
            raise Refused(UNAVAILABLE, f"{old.netloc} leads from {old.scheme} to {new.scheme}, which is not followed")
        again = urllib.request.Request(newurl, headers=dict(req.headers), method=req.get_method())  # noqa: S310
        if (old.scheme, old.netloc) == (new.scheme, new.netloc) and req.has_header("Authorization"):
            again.add_unredirected_header("Authorization", req.get_header("Authorization"))
        return again

    http_error_308 = urllib.request.HTTPRedirectHandler.http_error_302


class Registry:
    """One registry, asked about one repository with one pair of credentials or none."""

    def __init__(self, name: "Name", auth: "dict[str, str] | None", *, insecure: "bool") -> None:
        self.name = name
        self.auth = auth
        self.insecure = insecure
        self.header = ""
        host = "registry-1.docker.io" if name.host == "docker.io" else name.host
        self.base = f"{'http' if insecure else 'https'}://{host}/v2/{name.repository}"

    def ask(self, what: "str", kinds: "tuple[str, ...]" = ("*/*",), method: "str" = "GET") -> "tuple[Any, bytes]":
        """Headers and body of an answer, with the credentials that the registry asks for. Raises Refused."""
        url = f"{self.base}/{what}"
        status, headers, body = self.send(url, kinds, method, self.header)
        if status == 401 and not self.header:
            self.header = self.authorization(headers.get_all("WWW-Authenticate") or [])
            if self.header:
                status, headers, body = self.send(url, kinds, method, self.header)
        if status != 200:
            raise self.refusal(status, headers)
        return headers, body

    def send(self, url: "str", kinds: "tuple[str, ...]", method: "str", header: "str") -> "tuple[int, Any, bytes]":
        """Status, headers and body of one answer. Raises Refused if there is none."""
        request = urllib.request.Request(url, headers={"Accept": ", ".join(kinds)}, method=method)  # noqa: S310
        if header:
            request.add_unredirected_header("Authorization", header)
        try:
            try:
                with urllib.request.build_opener(Redirects).open(request, timeout=REGISTRY_SECONDS) as answer:
                    status, headers, body = answer.getcode(), answer.headers, answer.read(MOST_JSON + 1)
            except urllib.error.HTTPError as error:
                status, headers, body = error.code, error.headers, b""
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise Refused(UNAVAILABLE, self.words(urllib.parse.urlsplit(url).netloc, error)) from error
        if len(body) > MOST_JSON:
            why = f"{self.name.host} answered with more than {MOST_JSON} bytes where a description was asked for"
            raise Refused(PULL, why)
        return status, headers, body

    def words(self, host: "str", error: "Exception") -> "str":
        """Why there was no answer, and what to do."""
        why = error.reason if isinstance(error, urllib.error.URLError) else error
        if isinstance(why, ssl.SSLError) and "WRONG_VERSION_NUMBER" in str(why):
            return f"{host} does not speak TLS; the site's insecureRegistries may list it"
        if isinstance(why, ssl.SSLError):
            said = getattr(why, "verify_message", "") or why.reason or str(why)
            return f"the certificate of {host} is not trusted on {here()} ({said}); install the CA that signed it there"
        if isinstance(why, socket.gaierror):
            return f"{here()} finds no address of {host}; look at the registry in the image's name"
        if isinstance(why, ConnectionRefusedError):
            return f"nothing listens at {host}; look at the registry in the image's name, or whether the registry is up"
        if isinstance(why, socket.timeout):
            return f"{host} gave no answer within {REGISTRY_SECONDS} seconds to {here()}"
        return f"{host} cannot be asked from {here()}: {getattr(why, 'strerror', None) or why}"

    def authorization(self, challenges: "list[str]") -> "str":
        """The header that answers a challenge; empty without suitable credentials."""
        pair = basic(self.auth) if self.auth else ""
        for challenge in challenges:
            if challenge.lower().startswith("bearer "):
                return "Bearer " + self.token(dict(CHALLENGE.findall(challenge)), pair)
        return pair if any(challenge.lower().startswith("basic") for challenge in challenges) else ""

    def token(self, asked: "dict[str, str]", pair: "str") -> "str":
        """A token from the server that the registry names. Raises Refused."""
        realm = asked.get("realm", "")
        if not realm.startswith("https://") and not (self.insecure and realm.startswith("http://")):
            why = f"{self.name.host} wants its credentials at {realm[:200]!r}, which is no https address"
            raise Refused(UNAVAILABLE, why)
        query = {"scope": asked.get("scope") or f"repository:{self.name.repository}:pull"}
        if "service" in asked:
            query["service"] = asked["service"]
        url = f"{realm}{'&' if '?' in realm else '?'}{urllib.parse.urlencode(query)}"
        status, headers, body = self.send(url, ("application/json",), "GET", pair)
        if status != 200:
            raise self.refusal(status, headers)
        answer = parsed(body, f"the token of {self.name.host}")
        token = answer.get("token") or answer.get("access_token")
        if not isinstance(token, str) or not re.fullmatch(r"[!-~]+", token):
            raise Refused(UNAVAILABLE, f"{self.name.host} gives no token")
        return token

    def refusal(self, status: "int", headers: "Any") -> "Refused":
        """The error that an HTTP status means."""
        name, host = self.name, self.name.host
        image = f"{name.full}{'@' if ':' in name.reference else ':'}{name.reference}"
        if status in (401, 403):
            how = "these credentials" if self.auth else "anybody without credentials"
            what = "look at the Pod's pull secret and at the image's name"
            return Refused(PULL, f"{host} refuses {image} to {how} ({status}); {what}", denied=True)
        if status == 404:
            return Refused(PULL, f"{host} has no image {image}; look at its name and tag", denied=True)
        if status == 429:
            after = headers.get("Retry-After") or ""
            wait = f" for {after} seconds" if after.isdigit() else " for now"
            why = f"{host} gives no more images to {here()}{wait} (429, too many requests); a pull secret may help"
            return Refused(PULL, why)
        if status >= 500:
            return Refused(UNAVAILABLE, f"{host} cannot answer now: it says {status}")
        return Refused(PULL, f"{host} answered {status} when asked for {image}")


def basic(auth: "dict[str, str]") -> "str":
    """A user's name and password as a header."""
    return "Basic " + base64.b64encode(f"{auth['username']}:{auth['password']}".encode()).decode()


def parsed(body: "bytes", what: "str") -> "dict[str, Any]":
    """The JSON object in these bytes. Raises Refused."""
    with contextlib.suppress(ValueError, RecursionError):
        value = json.loads(body.decode())
        if isinstance(value, dict):
            return value
    raise Refused(PULL, f"{what} is no JSON object")


def resolved(registry: "Registry", cache: "str") -> "Found":
    """The image for this machine. If its digest is known, only a HEAD request is sent, which counts as no pull."""
    name = registry.name
    headers, _ = registry.ask(f"manifests/{name.reference}", INDEXES + MANIFESTS, "HEAD")
    top = headers.get("Docker-Content-Digest") or ""
    if DIGEST.fullmatch(top):
        digest = referred(cache, f"{name.full}@{top}")
        config = stored_config(cache, digest) if digest else None
        if digest and config is not None:
            return Found(digest, config, registry.auth)
    digest, manifest = described(registry, name.reference)
    top = digest
    if "manifests" in manifest:
        digest, manifest = described(registry, chosen(name, manifest["manifests"]))
    weighed(name, manifest)
    config = configured(registry, manifest)
    refer(cache, f"{name.full}@{top}", digest)
    write(config_path(cache, digest), json.dumps(config))
    return Found(digest, config, registry.auth)


def described(registry: "Registry", reference: "str") -> "tuple[str, dict[str, Any]]":
    """Digest and content of a manifest or an index."""
    _, body = registry.ask(f"manifests/{reference}", INDEXES + MANIFESTS)
    digest = "sha256:" + hashlib.sha256(body).hexdigest()
    if ":" in reference and digest != reference:
        raise Refused(PULL, f"{registry.name.host} gave another content for {registry.name.full}@{reference}")
    return digest, parsed(body, f"the manifest of {registry.name.full}")


def weighed(name: "Name", manifest: "dict[str, Any]") -> "None":
    """Raise Refused if the image is larger than the site allows."""
    layers = manifest.get("layers")
    sizes = [one.get("size") for one in layers if isinstance(one, dict)] if isinstance(layers, list) else []
    total = sum(size for size in sizes if isinstance(size, int) and size > 0)
    if total > MOST_BYTES:
        limit = f"{here()} pulls images of at most {MOST_BYTES} (MOST_BYTES)"
        do = "make it smaller, or ask the site's admins"
        raise Refused(PULL, f"{name.full} has layers of {total} bytes, and {limit}; {do}", permanent=True)


def chosen(name: "Name", manifests: "Any") -> "str":
    """The digest of the index's manifest for this machine. Raises Refused."""
    offered = []
    for one in manifests if isinstance(manifests, list) else [None]:
        if not isinstance(one, dict):
            raise rubbish(name, "index of an image")
        platform = one["platform"] if isinstance(one.get("platform"), dict) else {}
        offered.append(f"{platform.get('os')}/{platform.get('architecture')}")
        if offered[-1] == platform_here() and DIGEST.fullmatch(str(one.get("digest"))):
            return str(one["digest"])
    raise unsuitable(name, sorted(set(offered) - {"unknown/unknown", "None/None"}))


def rubbish(name: "Name", what: "str") -> "Refused":
    """The error for a wrong kind of answer, e.g. of a proxy or a registry under repair; a later request may succeed."""
    why = f"{name.host} gave what is no {what} for {name.full}; look at the registry, or a proxy before it"
    return Refused(PULL, why)


def unsuitable(name: "Name", offered: "list[str]") -> "Refused":
    """The error for an image that is for other machines."""
    what = f"is for {' and '.join(offered)[:200]}" if offered else "is for no machine that it names"
    do = f"push it for {platform_here()} too, or name another image"
    return Refused(PULL, f"{name.full} {what}, and this site is {platform_here()}; {do}", permanent=True)


def configured(registry: "Registry", manifest: "dict[str, Any]") -> "dict[str, Any]":
    """The configuration of an image for this machine. Raises Refused."""
    name = registry.name
    version, config = manifest.get("schemaVersion"), manifest.get("config")
    if version != 1 and not (version == 2 and isinstance(config, dict)):
        raise rubbish(name, "manifest of an image")
    digest = str(config.get("digest")) if isinstance(config, dict) else ""
    if version == 1 or not DIGEST.fullmatch(digest):
        what = "has a manifest of the oldest kind" if version == 1 else "has no configuration"
        raise Refused(PULL, f"{name.full} {what}: it is no image that can be run; push it anew", permanent=True)
    _, body = registry.ask(f"blobs/{digest}")
    if "sha256:" + hashlib.sha256(body).hexdigest() != digest:
        raise Refused(PULL, f"{name.host} gave another content for {name.full}@{digest}")
    found = parsed(body, f"the configuration of {name.full}")
    platform = f"{found.get('os')}/{found.get('architecture')}"
    if platform != platform_here():
        raise unsuitable(name, [platform] if "architecture" in found else [])
    return normalised(found.get("config"), name.full)


def normalised(config: "Any", image: "str") -> "dict[str, Any]":
    """The part of an image's configuration that a container needs; values of a wrong type are dropped. Refused."""
    found = config if isinstance(config, dict) else {}

    def words(key: "str") -> "list[str]":
        value = found.get(key)
        return [word for word in value if isinstance(word, str)] if isinstance(value, list) else []

    lists = {"env": words("Env"), "entrypoint": words("Entrypoint"), "cmd": words("Cmd")}  # type: dict[str, Any]
    for key, name in (("workdir", "WorkingDir"), ("user", "User")):
        lists[key] = found[name] if isinstance(found.get(name), str) else ""
    said = [*lists["env"], *lists["entrypoint"], *lists["cmd"], lists["workdir"], lists["user"]]
    try:
        size = sum(len(word.encode("utf-8", "surrogateescape")) for word in said)
    except UnicodeEncodeError:
        size = -1
    if size < 0 or "\0" in "".join(said):
        what = "has a NUL or half a character in its configuration, which no process can be given; build it without"
        raise Refused(PULL, f"{image} {what}", permanent=True)
    if len(said) - 2 > MOST_WORDS or size > MOST_WORD_BYTES:
        what = f"has more than {MOST_WORDS} words or {MOST_WORD_BYTES} bytes of variables, entrypoint and command"
        raise Refused(PULL, f"{image} {what} in its configuration; build it with fewer", permanent=True)
    return lists


def platform_here() -> "str":
    """The platform of the machine, as images name it."""
    machine = os.uname().machine
    return f"linux/{PLATFORMS.get(machine, machine)}"


def here() -> "str":
    """The name of this machine."""
    return os.uname().nodename


# Image files.


def sif_config(path: "str") -> "dict[str, Any] | None":
    """The configuration that the runtime stored in an image file, or None. Raises OSError."""
    with open(path, "rb") as file:
        raw = file.read(SIF_HEADER.size)
        if len(raw) < SIF_HEADER.size or raw[32:42] != SIF_MAGIC:
            return None
        _, total, offset = SIF_HEADER.unpack(raw)[7:10]
        for number in range(min(total, MOST_DESCRIPTORS)):
            file.seek(offset + number * SIF_DESCRIPTOR.size)
            raw = file.read(SIF_DESCRIPTOR.size)
            if len(raw) < SIF_DESCRIPTOR.size:
                return None
            fields = SIF_DESCRIPTOR.unpack(raw)
            if fields[0] == SIF_JSON and fields[1] and fields[12].rstrip(b"\0") == b"oci-config.json":
                file.seek(fields[5])
                with contextlib.suppress(ValueError, RecursionError):
                    return normalised(json.loads(file.read(min(fields[6], MOST_JSON)).decode()), path)
    return None


def mapped(path: "str") -> "dict[str, Any]":
    """The answer about an image in a file or a directory of the site. Raises Refused."""
    try:
        config = None if stat.S_ISDIR(os.stat(path).st_mode) else sif_config(path)
    except FileNotFoundError:  # it may exist only on the nodes
        return told("ready", path=path, message=f"{path} is not on {here()}: what it holds is not known before it runs")
    except OSError as error:
        why = f"the site's image {path} cannot be read on {here()}: {error.strerror}; tell the site's admins"
        raise Refused(PULL, why) from error
    return told("ready", path=path, config=config)


# The cache.


def write(path: "str", text: "str") -> "None":
    """Write a file, whole or not at all. Raises OSError."""
    half = f"{path}.{os.urandom(8).hex()}"
    try:
        with open(half, "w", encoding="utf-8") as file:
            file.write(text)
        os.rename(half, path)
    except OSError:
        forget(half)
        raise


def read(path: "str") -> "str":
    """The text of a file; empty if it is missing."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(MOST_JSON)
    except FileNotFoundError:
        return ""


def forget(path: "str") -> "None":
    """Remove a file, if it exists."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def image_path(cache: "str", digest: "str") -> "str":
    """The file of an image, present or future."""
    return os.path.join(cache, digest.partition(":")[2] + ".sif")


def config_path(cache: "str", digest: "str") -> "str":
    """The file of an image's configuration."""
    return os.path.join(cache, digest.partition(":")[2] + ".json")


def reference_path(cache: "str", name: "str") -> "str":
    """The file with the digest that a name had."""
    return os.path.join(cache, "refs", hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest())


def referred(cache: "str", name: "str") -> "str":
    """The digest that a name had; empty if unknown."""
    text = read(reference_path(cache, name)).strip()
    return text if DIGEST.fullmatch(text) else ""


def refer(cache: "str", name: "str", digest: "str") -> "None":
    """Store the digest that a name has."""
    if referred(cache, name) != digest:
        write(reference_path(cache, name), digest + "\n")


def stored_config(cache: "str", digest: "str") -> "dict[str, Any] | None":
    """The stored configuration of an image, or None."""
    with contextlib.suppress(ValueError, RecursionError):
        found = json.loads(read(config_path(cache, digest)))
        if isinstance(found, dict):
            return found
    with contextlib.suppress(FileNotFoundError):
        return sif_config(image_path(cache, digest))
    return None


def sure(cache: "str") -> "None":
    """Make the cache's directory, for the user alone. Raises Refused, OSError."""
    if not os.path.isabs(cache):
        why = f"the image cache {cache!r} is no absolute path; mend it in the site's policy"
        raise Refused(PULL, why, permanent=True)
    os.makedirs(os.path.join(cache, "refs"), 0o700, exist_ok=True)
    seen = os.stat(cache)
    if seen.st_uid != os.getuid():
        why = f"the image cache {cache} on {here()} belongs to uid {seen.st_uid}, and not to its user"
        raise Refused(PULL, why, permanent=True)
    if seen.st_mode & 0o077:
        os.chmod(cache, 0o700)


def server_time(cache: "str") -> "float":
    """The file server's time, as machines' clocks may differ. Raises OSError, also if a block does not fit."""
    path = os.path.join(cache, f".clock.{os.urandom(8).hex()}")
    try:
        with open(path, "wb") as file:
            file.write(bytes(BLOCK))
        return os.stat(path).st_mtime
    finally:
        forget(path)


def age(cache: "str", path: "str") -> "float":
    """Seconds since a file was touched. Raises FileNotFoundError."""
    touched = os.stat(path).st_mtime
    return server_time(cache) - touched


# The puller holds a claim, taken by link(2), which is atomic also on file systems without locks.

NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV)


def take(path: "str", token: "str") -> "bool":
    """Take a claim; returns whether this token holds it. The files' state counts, as link's answer may be lost."""
    mine, text = f"{path}.{token}", f"{token}\n{json.dumps(whereabouts())}\n"
    write(mine, text)
    try:
        os.link(mine, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            if os.stat(mine).st_nlink == 2:
                return True
        if error.errno in NO_LINKS and not os.path.exists(path):
            return created(path, text) or holder(path) == token
        return holder(path) == token
    finally:
        forget(mine)
    return True


def created(path: "str", text: "str") -> "bool":
    """Make a new file, where the file system lacks links; returns whether this call made it."""
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text)
    except OSError:  # any failure, as the server may give no exact reason
        return False
    return True


def holder(path: "str") -> "str":
    """The token in a claim; empty if there is no claim."""
    return read(path).partition("\n")[0].strip()


def take_over(path: "str", held: "str", token: "str", cache: "str") -> "bool":
    """Replace a dead puller's claim. A second claim, on that claim, lets only one process do so."""
    over = f"{path}.{hashlib.sha256(held.encode()).hexdigest()[:16]}.over"
    with contextlib.suppress(FileNotFoundError):
        if age(cache, over) > STALE:
            forget(over)
    if not take(over, token):
        return False
    try:
        if holder(path) != held:
            return False
        write(path, f"{token}\n{json.dumps(whereabouts())}\n")
        return True
    finally:
        forget(over)


def lives(cache: "str", path: "str") -> "bool":
    """Whether a live puller holds a claim."""
    try:
        old = age(cache, path) > STALE
    except FileNotFoundError:
        return False
    said = {}  # type: Any
    with contextlib.suppress(ValueError, RecursionError):
        said = json.loads(read(path).partition("\n")[2] or "{}")
    if isinstance(said, dict) and said.get("place") == place() and begun(said.get("pid", 0)) != said.get("begun"):
        return False  # it was killed on this machine
    return not old


def whereabouts() -> "dict[str, object]":
    """The identity of this process, by which others see whether it still runs."""
    return {"place": place(), "host": here(), "pid": os.getpid(), "begun": begun(os.getpid())}


def place() -> "str":
    """The scope of a process id: one boot of one machine, one PID namespace."""
    with open("/proc/sys/kernel/random/boot_id") as file:
        return f"{file.read().strip()} {os.readlink('/proc/self/ns/pid')}"


def begun(pid: "int") -> "str":
    """When a process began, in clock ticks since boot; empty if it does not run."""
    found = read(f"/proc/{int(pid)}/stat").rpartition(")")[2].split()
    return found[19] if len(found) > 19 and found[0] not in "ZX" else ""


def signs(path: "str", token: "str") -> "bool":
    """Touch the claim as a heartbeat; false if another token holds it now."""
    if holder(path) != token:
        return False
    with contextlib.suppress(FileNotFoundError):
        os.utime(path)
    return True


# The pull.


def work(asked: "dict[str, Any]", source: "str", found: "Found") -> "None":
    """Pull an image, unless another process does. This is the whole life of the process that outlives the answer."""
    cache, token = asked["cache"], os.urandom(16).hex()
    stem = os.path.join(cache, found.digest.partition(":")[2])
    claim, held = stem + ".claim", holder(stem + ".claim")
    if not (take(claim, token) or (not lives(cache, claim) and take_over(claim, held, token, cache))):
        return
    try:
        if not os.path.exists(stem + ".sif"):
            clear(cache, stem, held)  # left by a killed puller; this process now owns all files of this image
            forget(stem + ".failed")
            pull(asked, source, found, stem, token)
            refer(cache, asked["image"], found.digest)
    except (Refused, OSError, ValueError) as error:
        if holder(claim) == token:
            why = error if isinstance(error, Refused) else trouble(error, cache)
            with contextlib.suppress(OSError):
                said = {"reason": why.reason, "message": why.message, "permanent": why.permanent}
                write(stem + ".failed", json.dumps(said))
    finally:
        forget(half_of(stem, token))
        shutil.rmtree(scratch_of(token), ignore_errors=True)
        if holder(claim) == token:
            forget(claim)


def clear(cache: "str", stem: "str", token: "str") -> "None":
    """Remove what a killed pull left. Only for the claim's holder, as only a holder writes these files."""
    for name in os.listdir(cache):
        if name.startswith(f".{os.path.basename(stem)}."):
            with contextlib.suppress(OSError):
                forget(os.path.join(cache, name))
    if token:
        shutil.rmtree(scratch_of(token), ignore_errors=True)


def half_of(stem: "str", token: "str") -> "str":
    """The file into which a pull writes the image."""
    return os.path.join(os.path.dirname(stem), f".{os.path.basename(stem)}.{token}.sif")


def scratch_of(token: "str") -> "str":
    """The directory in which a pull unpacks the layers."""
    return os.path.join(SCRATCH, f"batchgate-imagepull-{hashlib.sha256(token.encode()).hexdigest()[:32]}")


def pull(asked: "dict[str, Any]", source: "str", found: "Found", stem: "str", token: "str") -> "None":
    """Have the runtime pull the image, and give it its name when it is whole. Raises Refused, OSError."""
    half, scratch = half_of(stem, token), scratch_of(token)
    os.mkdir(scratch, 0o700)
    words = [asked["runtime"], "pull", "--disable-cache", *(["--no-https"] if asked["insecure"] else []), half, source]
    with open(os.path.join(scratch, "said"), "w+b") as said:
        environment = environment_of(found.auth, scratch)
        process = subprocess.Popen(  # type: Any
            words,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            cwd=scratch,
            start_new_session=True,
            preexec_fn=dying_too(),  # noqa: PLW1509
        )
        code = awaited(process, stem + ".claim", token, (half, scratch))
        said.seek(0)
        text = said.read(MOST_JSON).decode("utf-8", "replace")
    if code:
        raise failure(code, without_secrets(text, [found.auth]), asked, scratch)
    with open(half, "rb") as file:
        os.fsync(file.fileno())
    if not os.path.exists(config_path(asked["cache"], found.digest)):
        write(config_path(asked["cache"], found.digest), json.dumps(found.config))
    publish(half, stem + ".sif")


def publish(half: "str", path: "str") -> "None":
    """Give a whole image its name. An existing image stays, as it may be mounted."""
    try:
        os.link(half, path)
    except FileExistsError:
        pass
    except OSError:
        if not os.path.exists(path):
            os.rename(half, path)
    forget(half)


def environment_of(auth: "dict[str, str] | None", scratch: "str") -> "dict[str, str]":
    """The runtime's environment, which carries the credentials, as only the user can see it."""
    found = {name: os.environ[name] for name in ("PATH", "HOME", "USER", "LOGNAME") if name in os.environ}
    found.update(FURTHER_ENVIRONMENT, LC_ALL="C")
    values = {
        "TMPDIR": scratch,
        "CONFIGDIR": os.path.join(scratch, "config"),
        "CACHEDIR": os.path.join(scratch, "cache"),
    }
    if auth is not None:
        values.update(DOCKER_USERNAME=auth["username"], DOCKER_PASSWORD=auth["password"])
    for name, value in values.items():
        found.update({f"APPTAINER_{name}": value, f"SINGULARITY_{name}": value})
    return found


def dying_too() -> "Any":
    """A function for the runtime's new process: the kernel kills that process when its parent dies."""
    library, parent = ctypes.CDLL(None), os.getpid()

    def prepare() -> "None":
        library.prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG
        if os.getppid() != parent:  # the parent died before prctl
            os._exit(1)

    return prepare


def awaited(process: "Any", claim: "str", token: "str", places: "tuple[str, str]") -> "int":
    """The runtime's exit code. While it runs, the claim gets heartbeats. Kills it and raises Refused after too long.

    It is also killed if the claim is lost, or if the files in ``places`` stop growing (the registry hangs) or grow too
    large: the sizes that a registry states are not trusted.
    """
    began = moved = time.monotonic()
    size, pause, large, slow = -1, min(1.0, HEARTBEAT), False, "the network may be too slow there"
    why = f"the image was not pulled on {here()} within {PULL_SECONDS} seconds; {slow}"
    while time.monotonic() - began < PULL_SECONDS:
        code = None
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = int(process.wait(pause))
        now = time.monotonic()
        before, size = size, size_of(places)
        pause = min(HEARTBEAT, max(1, 10 * (time.monotonic() - now)))  # measuring many files takes time
        large = size > MOST_DISK
        if code is not None and not large:
            return code
        moved = now if size != before else moved
        if large:
            why = f"the image takes more than {MOST_DISK} bytes of disk on {here()} (MOST_DISK) while it is pulled"
            why += "; make it smaller, or ask the site's admins"
        elif now - moved >= STILL_SECONDS:
            why = f"the pull made no progress on {here()} for {STILL_SECONDS} seconds; the registry may hang, try again later"
        if large or now - moved >= STILL_SECONDS or not signs(claim, token):
            break
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    raise Refused(PULL, why, permanent=large)


def size_of(places: "tuple[str, ...]") -> "int":
    """Bytes of these files and directories, plus a block for each name; counting stops above ``MOST_DISK``."""
    total, waiting = 0, list(places)
    while waiting and total <= MOST_DISK:
        path = waiting.pop()
        with contextlib.suppress(OSError):
            seen = os.lstat(path)
            total += seen.st_size + BLOCK
            if stat.S_ISDIR(seen.st_mode):
                waiting += [os.path.join(path, name) for name in os.listdir(path)]
    return total


REASONS = (
    (r"toomanyrequests|too many requests|\b429\b", PULL, "gives no more images for now (429); a pull secret may help"),
    (
        r"unauthorized|authentication required|denied: |\bstatus(?: code)?:? 40[13]\b",
        PULL,
        "refuses the image; look at the Pod's pull secret",
    ),
    (
        r"manifest unknown|name unknown|blob unknown|\bstatus(?: code)?:? 404\b",
        PULL,
        "has the image no more, or not whole; push it anew",
    ),
    ("x509|certificate|tls:", UNAVAILABLE, "is not trusted by the runtime; install the CA that signed its certificate"),
    (
        r"connection refused|no such host|i/o timeout|connection reset|no route|unexpected EOF|\bstatus(?: code)?:? 5\d\d\b",
        UNAVAILABLE,
        "could not be reached while the image was pulled",
    ),
)


def failure(code: "int", text: "str", asked: "dict[str, Any]", scratch: "str") -> "Refused":
    """The error that the runtime's output means."""
    lines = [re.sub(r"^\S*(FATAL|ERROR):\s*", "", line) for line in text.splitlines() if line.strip()]
    low, last = text.lower(), lines[-1][-400:] if lines else f"{asked['runtime']} ended with code {code}"
    where = SCRATCH if scratch in last else asked["cache"]
    for words, number in (("no space left on device", errno.ENOSPC), ("disk quota exceeded", errno.EDQUOT)):
        if words in low:
            return trouble(OSError(number, words), where)
    if "mksquashfs" in low and "not found" in low:
        why = f"the runtime finds no mksquashfs on {here()}; the site's admins must install squashfs-tools"
        return Refused(PULL, why)
    if code < 0:
        why = f"the pull was killed on {here()} by {signal.Signals(-code).name}; it may lack memory there"
        return Refused(PULL, why)
    for pattern, reason, words in REASONS:
        if re.search(pattern, last, re.IGNORECASE):
            return Refused(reason, f"{name_of(asked['image']).host} {words}: {last}")
    return Refused(PULL, f"{asked['runtime']} could not make the image on {here()}: {last}")


def trouble(error: "Exception", where: "str") -> "Refused":
    """A file system's error as a sentence."""
    if not isinstance(error, OSError):
        return Refused(PULL, f"the runtime cannot be started on {here()}: {error}")
    if error.errno == errno.ENOSPC:
        return Refused(PULL, f"the disk with {where} on {here()} is full; free space there, or tell the site's admins")
    if error.errno == errno.EDQUOT:
        why = f"the user's disk quota for {where} on {here()} is used up; remove files there, or ask for more"
        return Refused(PULL, why)
    return Refused(
        PULL, f"{error.filename or where} on {here()} cannot be used: {error.strerror or error}; see its permissions"
    )


def without_secrets(text: "str", auths: "Any") -> "str":
    """The text with all passwords replaced, also as encoded in headers and URLs."""
    for auth in auths:
        if auth and auth["password"]:
            for secret in (
                auth["password"],
                basic(auth).partition(" ")[2],
                urllib.parse.quote(auth["password"], safe=""),
            ):
                text = text.replace(secret, "...")
    return text


# The answer.


def told(state: "str", **fields: "object") -> "dict[str, Any]":
    """An answer with all its fields."""
    answer = {"version": VERSION, "state": state, "path": None, "source": None, "digest": None, "config": None}
    answer.update({"reason": "", "message": "", "permanent": False, **fields})
    return answer


def answered(asked: "dict[str, Any]") -> "dict[str, Any]":
    """The answer to a request; starts a pull if none runs. Raises Refused, OSError."""
    if asked.get("version") not in range(OLDEST, VERSION + 1):
        other = f"this is version {VERSION} of imagepull, and version {asked.get('version')!r} is asked for"
        raise Refused(PULL, f"{other}; install the one that belongs to the agent on {here()}")
    if asked.get("file") is not None:
        return mapped(asked["file"])
    name, cache = name_of(asked["image"]), asked["cache"]
    sure(cache)
    known = referred(cache, asked["image"]) if asked["policy"] != "Always" else ""
    if known and os.path.exists(image_path(cache, known)):
        return ready(asked, name, Found(known, stored_config(cache, known) or {}, None))
    if asked["policy"] == "Never":
        words = f"{asked['image']} is not in {cache}, and its pull policy is Never; let another Job pull it, or change the policy"
        raise Refused(NEVER, words, permanent=True)
    found = looked_up(asked, name)
    if asked["when"] == "job" or os.path.exists(image_path(cache, found.digest)):
        return ready(asked, name, found)
    return pulling(asked, name, found)


def ready(asked: "dict[str, Any]", name: "Name", found: "Found") -> "dict[str, Any]":
    """The answer that the image is there, or that the job pulls it; the name's digest is stored."""
    path = image_path(asked["cache"], found.digest)
    if asked["when"] == "job" or os.path.exists(path):
        refer(asked["cache"], asked["image"], found.digest)
    return told("ready", path=path, source=source_of(name, found), digest=found.digest, config=found.config or None)


def source_of(name: "Name", found: "Found") -> "str":
    """The image's name for the runtime."""
    return f"docker://{name.full}@{found.digest}"


def looked_up(asked: "dict[str, Any]", name: "Name") -> "Found":
    """The image as the registry describes it, with the first credentials that it accepts. Raises Refused."""
    refused = None
    for auth in [*asked["auths"], None]:
        try:
            return resolved(Registry(name, auth, insecure=asked["insecure"]), asked["cache"])
        except Refused as error:
            if not error.denied:
                raise
            refused = refused or error
    raise refused or Refused(PULL, "no credentials were tried")


def pulling(asked: "dict[str, Any]", name: "Name", found: "Found") -> "dict[str, Any]":
    """The state of an image's pull; starts the pull if none runs. Raises Refused."""
    cache = asked["cache"]
    stem = os.path.join(cache, found.digest.partition(":")[2])
    program = shutil.which(asked["runtime"], path=os.environ.get("PATH", os.defpath))
    if program is None:
        why = f"there is no {asked['runtime']} on {here()} to pull images with; the site's admins must install it there"
        raise Refused(PULL, why)
    answer = told(
        "pulling", path=stem + ".sif", source=source_of(name, found), digest=found.digest, config=found.config
    )
    if not lives(cache, stem + ".claim"):
        failed(cache, stem)
        others = [one for one in os.listdir(cache) if one.endswith(".claim") and lives(cache, os.path.join(cache, one))]
        if len(others) >= PULLS:
            answer["message"] = f"waits on {here()} until one of {len(others)} other pulls has ended"
            return answer
        apart(dict(asked, runtime=program), answer["source"], found)
    answer["message"] = f"is being pulled to {cache} on {here()}"
    return answer


def failed(cache: "str", stem: "str") -> "None":
    """Raise Refused if a pull has failed in the last ``FAILED_SECONDS``."""
    try:
        if age(cache, stem + ".failed") > FAILED_SECONDS:
            return
    except FileNotFoundError:
        return
    said = parsed(read(stem + ".failed").encode(), stem + ".failed")
    raise Refused(said.get("reason", PULL), said.get("message", ""), permanent=said.get("permanent", False))


def apart(asked: "dict[str, Any]", source: "str", found: "Found") -> "None":
    """Pull in a detached process, which outlives the connection."""
    sys.stdout.flush()
    if os.fork():
        return
    code = 1
    try:
        os.setsid()
        signal.alarm(0)
        os.chdir("/")
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nothing, descriptor)
        os.nice(10)
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-CORES:])
        work(asked, source, found)
        code = 0
    finally:
        os._exit(code)


def slow(_number: "int", _frame: "Any") -> "None":
    """Handle SIGALRM: raise Refused, as the answer takes too long."""
    why = f"no answer was found on {here()} within {ANSWER_SECONDS} seconds: the registry or a disk is slow"
    raise Refused(UNAVAILABLE, why)


def main() -> "None":
    """Answer the request on stdin."""
    os.umask(0o077)
    os.environ.update(FURTHER_ENVIRONMENT)
    signal.signal(signal.SIGALRM, slow)
    signal.setitimer(signal.ITIMER_REAL, ANSWER_SECONDS, ALARM_SECONDS)  # again, as Python may drop what it raises
    asked = {}  # type: dict[str, Any]
    try:
        asked = parsed(sys.stdin.buffer.read(MOST_JSON), "the question")
        answer = answered(asked)
    except Refused as error:
        answer = told("failed", reason=error.reason, message=error.message, permanent=error.permanent)
    except OSError as error:
        why = trouble(error, str(asked.get("cache")))
        answer = told("failed", reason=why.reason, message=why.message)
    except (KeyError, TypeError, AttributeError, ValueError):
        answer = told("failed", reason=PULL, message="the question is not understood", permanent=True)
    signal.alarm(0)
    auths = asked.get("auths")
    answer["version"] = asked["version"] if asked.get("version") in range(OLDEST, VERSION) else VERSION
    answer["message"] = without_secrets(answer["message"], auths if isinstance(auths, list) else [])[:MOST_MESSAGE]
    sys.stdout.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
