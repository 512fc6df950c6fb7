"""Handles OCI images on a site: imagepull's questions and answers, how long an answer holds, what a container runs.

Pure. The program imagepull (docs/images.md) reads one JSON object and writes one. Its answer contains data from a
registry, so only an answer of the right form is accepted. Pauses and reasons are a kubelet's (pkg/kubelet/images).
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
"""Pause in seconds after the first failure, doubled after each (the kubelet's MaxContainerBackOff, imageBackOff)."""
LONGEST_PAUSE: Final = 300.0
BELIEVED: Final = 60.0
"""Seconds for which an image that was ready counts as still ready, unless the policy is Always."""
SHOWN: Final = 3.0
"""Seconds for which a failure is shown with its own reason, before it is shown as ImagePullBackOff."""
FORGOTTEN: Final = 2 * LONGEST_PAUSE
"""Seconds since the last answer after which a failure counts as the first again."""
LONGEST_MESSAGE: Final = 1000
MOST_WORDS: Final = 2000
MOST_BYTES: Final = 256 << 10
"""Most bytes of an image's configuration: it is kept in memory, and the author of the image chooses its size."""
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
"""Reasons shown as they are after each failure: nothing was pulled, and ImagePullBackOff would blame the image."""
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_SOURCE: Final = re.compile(r"docker://[^\x00-\x20\x7f]{1,512}@sha256:[0-9a-f]{64}")
_PATH: Final = re.compile(r"/[^\x00-\x1f\x7f]{1,4095}")
_LIBRARIES: Final = "LD_LIBRARY_PATH"
"""A variable left to the runtime, which puts the host's GPU libraries before the image's own."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question to imagepull about one image, for one user.

    :param image: as the Job names it
    :param file: the site's own file for the image; if set, nothing is pulled
    :param cache: the user's directory of images
    :param policy: imagePullPolicy
    :param when: ``host``: pull the image now. ``job``: only say what the image is, and where its file will be
    :param runtime: the program that pulls
    :param insecure: whether to ask the image's registry over plain http
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
    """The process that an image describes. ``env`` holds words ``NAME=value``; an empty ``workdir`` is not set."""

    env: tuple[str, ...] = ()
    entrypoint: tuple[str, ...] = ()
    cmd: tuple[str, ...] = ()
    workdir: str = ""


@dataclass(frozen=True, slots=True)
class ImageState:
    """imagepull's answer: the state of an image on the site.

    :param state: READY, PULLING or FAILED
    :param path: the image's file; it exists if the image is ready and the question said ``host``
    :param source: what a job would pull
    :param config: None if unknown
    :param silent: whether imagepull itself gave no answer
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
        """The imageID as a kubelet shows it: repository and digest; without a repository, the digest alone."""
        return self.source.removeprefix("docker://") or self.digest


@dataclass(frozen=True, slots=True)
class Seen:
    """An answer and what the agent remembers with it. Times are seconds since 1970, by the agent's clock.

    :param asked: when the question was put
    :param at: when it was answered
    :param since: when an answer first said that the image is being pulled, after its last other state
    :param waited: seconds that the pull took, if the agent saw the image become ready; else None
    :param failures: number of failures in a row
    :param until: if the image is not ready, when to ask again at the earliest
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

    :param cache: the directory into which the job pulls ``answer.source``; empty if it pulls nothing
    :param insecure: whether the registry is asked over plain http
    :param waited: see ``Seen``; set for an image that became ready after the Pod was created
    """

    answer: ImageState
    cache: str = ""
    insecure: bool = False
    waited: float | None = None


def pull_policy(container: Mapping[str, Any]) -> str:
    """The imagePullPolicy of a container of a Pod, or Kubernetes' default if it is not set."""
    if policy := container.get("imagePullPolicy"):
        return str(policy)
    name, _, digest = str(container.get("image") or "").partition("@")
    tag = name.rpartition("/")[2].partition(":")[2]
    return _ALWAYS if not digest and tag in {"", "latest"} else "IfNotPresent"


# --- question and answer ------------------------------------------------------------------------------------------


def request(question: Question) -> bytes:
    """The question as imagepull reads it."""
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
    """The answer in place of imagepull's: the agent failed to ask it, or its answer was invalid."""
    return ImageState(FAILED, reason=REASON_ERR_IMAGE_PULL, message=_short(words), silent=True)


def read(stdout: bytes) -> ImageState:
    """The answer that imagepull has written. Raises ValueError, which says what is wrong with it."""
    try:
        found = json.loads(stdout)
    except (ValueError, RecursionError):
        raise ValueError("is not JSON") from None
    if not isinstance(found, dict) or found.get("version") != VERSION:
        raise ValueError(f"is not an object with version {VERSION}")
    state = found.get("state")
    if state not in {READY, PULLING, FAILED}:
        raise ValueError("has none of the states ready, pulling and failed")
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
        raise ValueError("says that the image is ready, but not its path")
    return answer


def _matching(found: Mapping[str, Any], key: str, pattern: re.Pattern[str]) -> str:
    value = found.get(key)
    if value in (None, ""):
        return ""
    if not _is_word(value) or pattern.fullmatch(value) is None:
        raise ValueError(f"has an invalid {key}")
    return value


def _config(value: object) -> Config | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise ValueError("has an invalid config")
    workdir = value.get("workdir") or ""
    if not _is_word(workdir):
        raise ValueError("has an invalid workdir")
    found = Config(_words(value, "env"), _words(value, "entrypoint"), _words(value, "cmd"), workdir)
    said = (*found.env, *found.entrypoint, *found.cmd, workdir)
    if len(said) - 1 > MOST_WORDS or sum(len(word.encode(errors="surrogateescape")) for word in said) > MOST_BYTES:
        raise ValueError(f"has a config of more than {MOST_WORDS} words or {MOST_BYTES} bytes")
    return found


def _words(value: Mapping[str, Any], key: str) -> tuple[str, ...]:
    found = value.get(key) or []
    if not isinstance(found, list) or not all(_is_word(word) for word in found):
        raise ValueError(f"has a config whose {key} is not a list of words")
    return tuple(found)


def _is_word(value: object) -> TypeGuard[str]:
    """Whether a value can be an argument or a variable of a process. JSON also allows lone surrogates, and NUL."""
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
    """What the agent remembers after an answer."""
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
    """Whether the known answer is good enough for a Pod that was created at that time.

    With the policy Always, the registry is asked for each Pod, as a kubelet does. An answer to a question that was put
    after the Pod was created also serves, so a burst of Pods makes one question at a time.
    """
    if known.answer.state != READY:
        return now < known.until
    if question.policy == _ALWAYS and question.file is None:
        return known.asked >= created
    return now - known.at < BELIEVED


def wait_for(known: Seen, image: str, now: float) -> Wait | None:
    """Why a container waits for its image, and until when; None if the image is ready."""
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
    """Why a container waits while a question is under way: the last reason holds until the answer comes."""
    if known is None or known.answer.state == READY:
        return Wait("", "", now + _SOONEST)
    found = wait_for(replace(known, at=now - SHOWN), image, now)
    return replace(found, until=now + _SOONEST) if found is not None else Wait("", "", now + _SOONEST)


# --- what a container runs ----------------------------------------------------------------------------------------


def words(config: Config, command: Sequence[str] | None, args: Sequence[str] | None) -> tuple[str, ...]:
    """The argv by Kubernetes' rules for ENTRYPOINT and CMD against command and args; empty if all are empty."""
    if command:
        return (*command, *(args or ()))
    return (*config.entrypoint, *(args or config.cmd))


def environment(config: Config) -> tuple[str, ...]:
    """The image's variables as ``NAME=value``; of several with one name, the last."""
    found = dict(_variables(config))
    return tuple(f"{name}={value}" for name, value in found.items())


def _variables(config: Config) -> Iterator[tuple[str, str]]:
    for word in config.env:
        name, equals, value = word.partition("=")
        if name and equals and name != _LIBRARIES:
            yield name, value


def staged(used: Used, *, complete: bool) -> tuple[str, ...]:
    """What the script needs to know of a container's image, as ``key=value``.

    :param complete: whether the container's argv is complete without the image's entrypoint
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
