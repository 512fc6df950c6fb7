"""An OCI image as a site has it: what imagepull is asked and answers, how long that is believed, what a container runs.

Pure. The program (docs/images.md) reads one JSON object and writes one; what it hands on comes from a registry, so it is
believed only where it has the form it should have. Pauses and reasons are a kubelet's (pkg/kubelet/images).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, TypeGuard

from router.names import (
    REASON_ERR_IMAGE_NEVER_PULL,
    REASON_ERR_IMAGE_PULL,
    REASON_IMAGE_PULL_BACK_OFF,
    REASON_INVALID_IMAGE_NAME,
    REASON_REGISTRY_UNAVAILABLE,
)

READY: Final = "ready"
PULLING: Final = "pulling"
FAILED: Final = "failed"
VERSION: Final = 1
FIRST_PAUSE: Final = 10.0
"""Seconds after the first failure, doubled after each (MaxContainerBackOff, imageBackOff of a kubelet)."""
LONGEST_PAUSE: Final = 300.0
BELIEVED: Final = 60.0
"""Seconds for which an image that was there is held to be there still, unless the policy is Always."""
SHOWN: Final = 3.0
"""Seconds for which a failure is shown as itself, before it is one that is waited after."""
FORGOTTEN: Final = 2 * LONGEST_PAUSE
"""Seconds after which a failure counts as the first again."""
LONGEST_MESSAGE: Final = 1000
MOST_WORDS: Final = 2000
MOST_BYTES: Final = 256 << 10
"""Of an image's configuration: it is kept in memory, and comes from whoever made the image."""
_SOONEST, _LATEST = 1.0, 10.0
"""Seconds between two questions about an image that is being pulled."""
_ALWAYS: Final = "Always"
_REASONS: Final = frozenset(
    {
        REASON_ERR_IMAGE_PULL,
        REASON_ERR_IMAGE_NEVER_PULL,
        REASON_INVALID_IMAGE_NAME,
        REASON_REGISTRY_UNAVAILABLE,
    }
)
_NO_BACK_OFF: Final = frozenset({REASON_ERR_IMAGE_NEVER_PULL, REASON_INVALID_IMAGE_NAME, REASON_REGISTRY_UNAVAILABLE})
"""Shown as they are however often they come again: nothing was pulled, and ImagePullBackOff would say to correct the image."""
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_SOURCE: Final = re.compile(r"docker://[^\x00-\x20\x7f]{1,512}@sha256:[0-9a-f]{64}")
_PATH: Final = re.compile(r"/[^\x00-\x1f\x7f]{1,4095}")
_LIBRARIES: Final = "LD_LIBRARY_PATH"
"""Left to the runtime, which puts the host's GPU libraries before the image's own."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked about one image, for one user.

    :param image: as the Job names it
    :param file: the site's own file for it; then nothing is pulled
    :param cache: the user's directory of images
    :param policy: imagePullPolicy
    :param when: ``host``: the image is to be there; ``job``: only what it is, and where it is to be
    :param runtime: the program that pulls
    :param insecure: its registry is asked over plain http
    :param auths: user names and passwords, tried in turn
    """

    image: str
    file: str | None
    cache: str
    policy: str
    when: Literal["host", "job"] = "host"
    runtime: str = "apptainer"
    insecure: bool = False
    auths: tuple[tuple[str, str], ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class Config:
    """What an image says of its process. ``env`` are words ``NAME=value``; of ``workdir`` an empty one is not set."""

    env: tuple[str, ...] = ()
    entrypoint: tuple[str, ...] = ()
    cmd: tuple[str, ...] = ()
    workdir: str = ""


@dataclass(frozen=True, slots=True)
class ImageState:
    """How an image stands. ``path`` is its file, there where it is ready and was asked for ``host``.

    ``source`` is what a job would pull, ``config`` None where it is not known. ``silent``: imagepull itself gave none.
    """

    state: str
    path: str = ""
    source: str = ""
    digest: str = ""
    config: Config | None = None
    reason: str = ""
    message: str = ""
    silent: bool = False

    @property
    def image_id(self) -> str:
        """What a kubelet shows as imageID: repository and digest; empty for a file of the site."""
        return self.source.removeprefix("docker://") or self.digest


@dataclass(frozen=True, slots=True)
class Seen:
    """An answer and what is remembered with it. Times are seconds since 1970, by the agent's clock.

    :param asked: when the question was put, ``at`` when it was answered
    :param since: when it was first answered that the image is being pulled, since it last was anything else
    :param waited: seconds that the pull took, of an image that was seen to become ready; else None
    :param failures: in a row
    :param until: it is not asked again before, where it is not ready
    """

    answer: ImageState
    asked: float
    at: float
    since: float | None = None
    waited: float | None = None
    failures: int = 0
    until: float = 0.0


@dataclass(frozen=True, slots=True)
class Wait:
    """Why a container waits for its image, with a kubelet's reason (empty: it is being pulled), and until when."""

    reason: str
    message: str
    until: float


@dataclass(frozen=True, slots=True)
class Used:
    """The image of a container about to be submitted.

    ``cache`` is where the job pulls ``answer.source`` to, empty where it pulls nothing. ``waited``: see ``Seen``, of an
    image that became ready after the Pod was made.
    """

    answer: ImageState
    cache: str = ""
    insecure: bool = False
    waited: float | None = None


def pull_policy(container: Mapping[str, Any]) -> str:
    """The imagePullPolicy of a container of a Pod, by Kubernetes' default where it is not set."""
    if policy := container.get("imagePullPolicy"):
        return str(policy)
    name, _, digest = str(container.get("image") or "").partition("@")
    tag = name.rpartition("/")[2].partition(":")[2]
    return _ALWAYS if not digest and tag in {"", "latest"} else "IfNotPresent"


# --- question and answer ------------------------------------------------------------------------------------------


def request(question: Question) -> bytes:
    """What imagepull reads."""
    return json.dumps(
        {
            "version": VERSION,
            "image": question.image,
            "file": question.file,
            "cache": question.cache,
            "policy": question.policy,
            "when": question.when,
            "runtime": question.runtime,
            "insecure": question.insecure,
            "auths": [{"username": user, "password": password} for user, password in question.auths],
        }
    ).encode()


def unanswered(words: str) -> ImageState:
    """The answer of a program that could not be asked, or gave none."""
    return ImageState(FAILED, reason=REASON_ERR_IMAGE_PULL, message=_short(words), silent=True)


def read(stdout: bytes) -> ImageState:
    """What imagepull has written. ValueError where it is not of the form that it should be of."""
    try:
        found = json.loads(stdout)
    except (ValueError, RecursionError):
        raise ValueError("is no JSON") from None
    if not isinstance(found, dict) or found.get("version") != VERSION:
        raise ValueError(f"is no object with version {VERSION}")
    state = found.get("state")
    if state not in {READY, PULLING, FAILED}:
        raise ValueError("has no state ready, pulling or failed")
    reason = found.get("reason") if found.get("reason") in _REASONS else REASON_ERR_IMAGE_PULL
    answer = ImageState(
        state,
        path=_matching(found, "path", _PATH),
        source=_matching(found, "source", _SOURCE),
        digest=_matching(found, "digest", _DIGEST),
        config=_config(found.get("config")),
        reason=str(reason) if state == FAILED else "",
        message=_short(str(found.get("message") or "")),
    )
    if state == READY and not answer.path:
        raise ValueError("has no path of an image that is ready")
    return answer


def _matching(found: Mapping[str, Any], key: str, pattern: re.Pattern[str]) -> str:
    value = found.get(key)
    if value in (None, ""):
        return ""
    if not _is_word(value) or pattern.fullmatch(value) is None:
        raise ValueError(f"has a {key} that is none")
    return value


def _config(value: object) -> Config | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise ValueError("has a config that is none")
    workdir = value.get("workdir") or ""
    if not _is_word(workdir):
        raise ValueError("has a workdir that is none")
    found = Config(_words(value, "env"), _words(value, "entrypoint"), _words(value, "cmd"), workdir)
    said = (*found.env, *found.entrypoint, *found.cmd, workdir)
    if len(said) - 1 > MOST_WORDS or sum(len(word.encode(errors="surrogateescape")) for word in said) > MOST_BYTES:
        raise ValueError(f"has a config of more than {MOST_WORDS} words or {MOST_BYTES} bytes")
    return found


def _words(value: Mapping[str, Any], key: str) -> tuple[str, ...]:
    found = value.get(key) or []
    if not isinstance(found, list) or not all(_is_word(word) for word in found):
        raise ValueError(f"has a config whose {key} is no list of words")
    return tuple(found)


def _is_word(value: object) -> TypeGuard[str]:
    """Whether it can be an argument or a variable of a process: JSON also has halves of characters, and NUL."""
    if not isinstance(value, str) or "\0" in value:
        return False
    with suppress(UnicodeEncodeError):
        value.encode(errors="surrogateescape")
        return True
    return False


def _short(message: str) -> str:
    """A message for people: one line, without control characters."""
    line = " ".join("".join(one if one.isprintable() else " " for one in message).split())
    return line if len(line) <= LONGEST_MESSAGE else line[: LONGEST_MESSAGE - 1] + "…"


# --- how long an answer is believed -------------------------------------------------------------------------------


def seen(before: Seen | None, answer: ImageState, asked: float, now: float) -> Seen:
    """What is known after an answer."""
    if before is not None and now - before.at > FORGOTTEN:
        before = None
    failures = before.failures if before is not None else 0
    since = before.since if before is not None else None
    if answer.state == READY:
        waited = now - since if since is not None else before.waited if before is not None else None
        return Seen(answer, asked, now, waited=waited)
    if answer.state == PULLING:
        since = now if since is None else since
        pause = min(max((now - since) / 4, _SOONEST), _LATEST)
        return Seen(answer, asked, now, since=since, failures=failures, until=now + pause)
    pause = min(FIRST_PAUSE * (1 << min(failures, 16)), LONGEST_PAUSE)
    return Seen(answer, asked, now, failures=failures + 1, until=now + pause)


def stands(known: Seen, question: Question, created: float, now: float) -> bool:
    """Whether nothing has to be asked again for a Pod of that age.

    With Always the registry is asked for each Pod, as by a kubelet; an answer to a question that was put after the Pod
    was made serves as well, so that a burst of Pods is one question at a time.
    """
    if known.answer.state != READY:
        return now < known.until
    if question.policy == _ALWAYS and question.file is None:
        return known.asked >= created
    return now - known.at < BELIEVED


def wait_for(known: Seen, image: str, now: float) -> Wait | None:
    """What a container waits for; None where its image is ready."""
    answer = known.answer
    if answer.state == READY:
        return None
    if answer.state == PULLING:
        return Wait("", f'Pulling image "{image}"', known.until)
    if answer.reason in _NO_BACK_OFF:
        return Wait(answer.reason, answer.message, known.until)
    if now < known.at + SHOWN:
        return Wait(answer.reason, answer.message, min(known.at + SHOWN, known.until))
    words = f'Back-off pulling image "{image}": {answer.reason}: {answer.message}'
    return Wait(REASON_IMAGE_PULL_BACK_OFF, words, known.until)


def asked_now(known: Seen | None, image: str, now: float) -> Wait:
    """The same while the question is under way: what was said before holds until it is answered."""
    if known is None or known.answer.state == READY:
        return Wait("", "", now + _SOONEST)
    found = wait_for(replace(known, at=now - SHOWN), image, now)
    return replace(found, until=now + _SOONEST) if found is not None else Wait("", "", now + _SOONEST)


# --- what a container runs ----------------------------------------------------------------------------------------


def words(config: Config, command: Sequence[str] | None, args: Sequence[str] | None) -> tuple[str, ...]:
    """What is run, by Kubernetes' table of ENTRYPOINT and CMD against command and args; empty where that is nothing."""
    if command:
        return (*command, *(args or ()))
    return (*config.entrypoint, *(args or config.cmd))


def environment(config: Config) -> tuple[str, ...]:
    """The image's variables, as ``NAME=value``, the last of a name only."""
    found = dict(_variables(config))
    return tuple(f"{name}={value}" for name, value in found.items())


def _variables(config: Config) -> Iterator[tuple[str, str]]:
    for word in config.env:
        name, equals, value = word.partition("=")
        if name and equals and name != _LIBRARIES:
            yield name, value


def staged(used: Used, *, complete: bool) -> tuple[str, ...]:
    """What the script is told of a container's image, as ``key=value``.

    :param complete: the container's argv is all that is run
    """
    answer, config = used.answer, used.answer.config
    found = [f"path={answer.path}"]
    if used.cache:
        found += [f"source={answer.source}", f"cache={used.cache}"]
    if used.insecure:
        found.append("insecure=1")
    if config is not None and config.workdir:
        found.append(f"workdir={config.workdir}")
    if complete:
        found.append("command=1")
    return tuple(found)
