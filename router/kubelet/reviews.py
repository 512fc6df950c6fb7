"""Asks the API server whose a token is and who may what, and remembers the answers briefly.

Shell: the clock, and calls to the API server, which block. Any thread may ask.
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
"""How long a yes is remembered: a right that was taken away lasts as long. Kubelets remember it for 5 minutes."""

NO_SECONDS: Final = 10.0
"""How long a no is remembered: a right that was just given is waited for as long."""

MOST: Final = 1000
"""Answers that are remembered at most, of either kind."""

ASK_SECONDS: Final = 10.0
"""How long the API server may take to answer."""


class Creator(Protocol):
    """Of ``router.kube.client.Api``, what is needed here."""

    def create(self, path: str, body: dict[str, Any], seconds: float = ...) -> dict[str, Any]:
        """Create an object; the object as the server answers it."""


@dataclass(frozen=True, slots=True)
class Caller:
    """What a request brings to prove who sends it.

    :param certificate: DER, verified by TLS; None where the client brought none
    :param authorization: the header of that name
    """

    certificate: bytes | None
    authorization: str | None


V = TypeVar("V")


class Reviews:
    """Who may use the kubelet API, by the API server's word.

    :param clock: seconds that only grow
    """

    def __init__(self, api: Creator, clock: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._users: _Recent[User | None] = _Recent(clock)
        self._rights: _Recent[bool] = _Recent(clock)

    def check(self, caller: Caller, asked: tuple[Access, ...]) -> None:
        """See that the caller is somebody, and may do one of these.

        :raises RequestError: 401, 403; 500 or 503 where that cannot be found out, which is no better than a no
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
        # Not the token itself: what is in memory could end up in a core file.
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
    """Answers with the time until which they hold; the oldest make place for new ones."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._answers: OrderedDict[Hashable, tuple[float, V]] = OrderedDict()

    def get(self, key: Hashable) -> tuple[bool, V | None]:
        """Whether there is an answer that holds, and it."""
        with self._lock:
            until, answer = self._answers.get(key, (0.0, None))
            return (True, answer) if self._clock() < until else (False, None)

    def put(self, key: Hashable, answer: V, seconds: float) -> None:
        """Remember an answer for so long."""
        with self._lock:
            self._answers.pop(key, None)
            self._answers[key] = (self._clock() + seconds, answer)
            while len(self._answers) > MOST:
                self._answers.popitem(last=False)
