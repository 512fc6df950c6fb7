"""What a submission that came to nothing means for its Pod: it fails for good, or waits in words and is tried again.

Pure.
"""

from __future__ import annotations

from typing import Final

from router import names
from router.agent.approval import UnknownKey
from router.agent.submission.images import ImageWait
from router.agent.submission.submitting import Added, SiteStorage, Withdrawn, WrongUser
from router.errors import (
    ApiError,
    BatchError,
    BatchgateError,
    OtherRelease,
    Refused,
    SignatureError,
    TooLarge,
)
from router.reconcile.model import Attempt

SOON: Final = 10.0
"""Seconds before what a person or a controller may have put right is looked at again: what a kubelet takes."""
AT_ONCE: Final = 2.0
"""The same where the plan first looks whether a job was made after all."""
LATER: Final = 300.0
"""The same where only another Pod would be right, or another agent."""
_MEANING: Final[tuple[tuple[type[Exception], str, float | None], ...]] = (
    (WrongUser, names.REASON_WRONG_USER, None),
    (Refused, names.REASON_REFUSED, None),
    (UnknownKey, names.REASON_NOT_VERIFIED, SOON),  # its public half may be on its way to us
    (SignatureError, names.REASON_NOT_VERIFIED, None),
    (TooLarge, names.REASON_TOO_LARGE, None),
    (OtherRelease, names.REASON_OTHER_RELEASE, LATER),
    (Added, names.REASON_CONFIG_ERROR, LATER),
    (Withdrawn, names.REASON_CREATING, SOON),
    (ApiError, names.REASON_CREATING, SOON),
    (BatchError, names.REASON_HPC_UNAVAILABLE, AT_ONCE),
    (SiteStorage, names.REASON_SITE_STORAGE, SOON),
    (OSError, names.REASON_SITE_STORAGE, SOON),
    (Exception, names.REASON_CONFIG_ERROR, SOON),
)
"""The first class that fits gives reason and pause; no pause: never again."""


def attempt_of(error: BatchgateError | OSError, now: float) -> Attempt:
    """How a submission came out that made no job, surely.

    :param now: seconds since 1970
    """
    if isinstance(error, ImageWait):
        return Attempt(error.reason, str(error), not_before=error.until, image=error.image)
    reason, pause = next((reason, pause) for kind, reason, pause in _MEANING if isinstance(error, kind))
    words = error.words.strip() if isinstance(error, BatchError) else ""
    if pause is None:
        return Attempt(reason, words or str(error), final=True)
    return Attempt(reason, words or str(error), not_before=now + pause)
