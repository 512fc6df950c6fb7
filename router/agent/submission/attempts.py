"""Decides what a failed submission means for its Pod: it fails for good, or waits with a reason and is tried again.

Pure.
"""

from __future__ import annotations

import re
from typing import Final

from router import names
from router.agent.approval import UnknownKey
from router.agent.submission.images import ImageWait
from router.agent.submission.secrets import NotAllowed
from router.agent.submission.submitting import FORBIDDEN_SECONDS, Added, SiteStorage, Withdrawn, WrongUser
from router.errors import (
    ApiError,
    BatchError,
    BatchgateError,
    JobError,
    OtherRelease,
    Refused,
    SignatureError,
    TooLarge,
)
from router.reconcile.model import Attempt

SOON: Final = 10.0
"""Seconds before the next try after an error that a person or a controller may mend: a kubelet's time."""
AT_ONCE: Final = 2.0
"""Seconds before the next try if the plan first looks whether a job was made after all."""
LATER: Final = 300.0
"""Seconds before the next try if only another Pod, or another agent, can succeed."""
_MEANING: Final[tuple[tuple[type[Exception], str, float | None], ...]] = (
    (WrongUser, names.REASON_WRONG_USER, None),
    (Refused, names.REASON_REFUSED, None),
    (UnknownKey, names.REASON_NOT_VERIFIED, SOON),  # the public key may still be on its way to the agent
    (SignatureError, names.REASON_NOT_VERIFIED, None),
    (TooLarge, names.REASON_TOO_LARGE, None),
    (OtherRelease, names.REASON_OTHER_RELEASE, LATER),
    (Added, names.REASON_CONFIG_ERROR, LATER),
    (NotAllowed, names.REASON_CONFIG_ERROR, FORBIDDEN_SECONDS),
    (Withdrawn, names.REASON_CREATING, SOON),
    (ApiError, names.REASON_CREATING, SOON),
    (BatchError, names.REASON_HPC_UNAVAILABLE, AT_ONCE),
    (SiteStorage, names.REASON_SITE_STORAGE, SOON),
    (OSError, names.REASON_SITE_STORAGE, SOON),
    (Exception, names.REASON_CONFIG_ERROR, SOON),
)
"""The first class that fits gives the reason and the pause; None as the pause: final."""
_VOLUME: Final = re.compile(r"spec\.volumes\[([^\]]*)\]")


def attempt_of(error: BatchgateError | OSError, now: float) -> Attempt:
    """The outcome of a submission that failed, with the pause before the next try.

    :param now: seconds since 1970
    """
    if isinstance(error, ImageWait):
        return Attempt(error.reason, str(error), not_before=error.until, image=error.image)
    if isinstance(error, JobError) and not isinstance(error, TooLarge) and (volume := _VOLUME.match(error.path)):
        words = f'{names.MOUNT_FAILED} "{volume[1]}" : {error}'
        return Attempt(names.REASON_CREATING, words, not_before=now + SOON)
    reason, pause = next((reason, pause) for kind, reason, pause in _MEANING if isinstance(error, kind))
    words = error.words.strip() if isinstance(error, BatchError) else ""
    if pause is None:
        return Attempt(reason, words or str(error), final=True)
    return Attempt(reason, words or str(error), not_before=now + pause)
