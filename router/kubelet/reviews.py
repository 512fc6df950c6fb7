"""Asks the API server for a token's user and a user's rights, and caches the answers briefly.

Shell: the clock, and calls to the API server, which block. Thread-safe.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar

from router.errors import ApiError, ApiUnavailable, RequestError
from router.kubelet import access
from router.kubelet.access import Access, User

TOKEN_REVIEWS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105 - a path
ACCESS_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"

YES_SECONDS: Final = 60.0
"""How long a yes is cached: a revoked right lasts as long. Kubelets cache it for 5 minutes."""

NO_SECONDS: Final = 10.0
"""How long a no is cached: a new right takes effect after this time."""

MOST: Final = 1000
"""The most answers of each kind in the cache."""

ASK_SECONDS: Final = 10.0
"""How long the API server may take to answer."""


class Creator(Protocol):
    """The part of ``router.kube.client.Api`` that is needed here."""

    def create(self, path: str, body: dict[str, Any], seconds: float = ...) -> dict[str, Any]:
        """Create an object; returns it as the server answers."""


@dataclass(frozen=True, slots=True)
class Caller:
    """A request's credentials.

    :param certificate: the client's certificate, DER, verified by TLS; or None
    :param authorization: the Authorization header; or None
    """

    certificate: bytes | None
    authorization: str | None


V = TypeVar("V")


class Reviews:
    """Decides who may use the kubelet API, by the API server's answers.

    :param clock: monotonic time in seconds
    """

    def __init__(self, api: Creator, clock: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._users: _Recent[User | None] = _Recent(clock)
        self._rights: _Recent[bool] = _Recent(clock)

    def check(self, caller: Caller, asked: tuple[Access, ...]) -> None:
        """Check that the caller is an authenticated user and has one of these accesses.

        :raises RequestError: 401, 403; 500 or 503 if the API server does not decide
        """
        user = self._user(caller)
        if user is None:
            raise RequestError(401, "Unauthorized")
        if not any(self._is_allowed(user, one) for one in asked):
            raise RequestError(403, access.forbidden(user, asked))

    def _user(self, caller: Caller) -> User | None:
        if caller.certificate is not None:
            user = access.user_of_certificate(caller.certificate)
            if user is not None:
                return user
        token = access.bearer_token(caller.authorization)
        if token is None:
            return None
        # The cache holds a hash of the token: memory could end up in a core file.
        key = hashlib.sha256(token.encode(errors="surrogateescape")).digest()
        known, user = self._users.get(key)
        if not known:
            user = access.user_of_review(self._ask(TOKEN_REVIEWS, access.token_review(token), "who you are"))
            self._users.put(key, user, YES_SECONDS if user else NO_SECONDS)
        return user

    def _is_allowed(self, user: User, asked: Access) -> bool:
        known, allowed = self._rights.get((user, asked))
        if not known or allowed is None:
            answer = self._ask(ACCESS_REVIEWS, access.access_review(user, asked), "what you may do")
            allowed = access.is_allowed(answer)
            self._rights.put((user, asked), allowed, YES_SECONDS if allowed else NO_SECONDS)
        return allowed

    def _ask(self, path: str, body: dict[str, Any], what: str) -> dict[str, Any]:
        try:
            return self._api.create(path, body, seconds=ASK_SECONDS)
        except ApiUnavailable:
            raise RequestError(503, f"{what} cannot be found out now: the API server does not answer") from None
        except ApiError as error:
            raise RequestError(
                500, f"{what} cannot be found out: the API server refuses the agent's question ({error.reason})"
            ) from None


class _Recent(Generic[V]):
    """A cache of answers, each with its expiry; when full it drops the oldest."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._answers: OrderedDict[Hashable, tuple[float, V]] = OrderedDict()

    def get(self, key: Hashable) -> tuple[bool, V | None]:
        """Whether there is a valid answer, and the answer."""
        with self._lock:
            until, answer = self._answers.get(key, (0.0, None))
            return (True, answer) if self._clock() < until else (False, None)

    def put(self, key: Hashable, answer: V, seconds: float) -> None:
        """Cache an answer for ``seconds``."""
        with self._lock:
            self._answers.pop(key, None)
            self._answers[key] = (self._clock() + seconds, answer)
            while len(self._answers) > MOST:
                self._answers.popitem(last=False)
