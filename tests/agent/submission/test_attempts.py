"""What a submission that came to nothing means for its Pod."""

from __future__ import annotations

import pytest

from router.agent.approval import UnknownKey
from router.agent.submission.attempts import AT_ONCE, LATER, SOON, attempt_of
from router.agent.submission.submitting import Added, SiteStorage, Withdrawn, WrongUser
from router.errors import (
    ApiUnavailable,
    BatchgateError,
    ConfigError,
    JobError,
    OtherRelease,
    OutputError,
    Refused,
    SignatureError,
    TooLarge,
    Unavailable,
)
from router.reconcile.model import Attempt

NOW = 1_000.0
QSUB = ("qsub",)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (SignatureError("altered"), Attempt("NotVerified", "altered", final=True)),
        (UnknownKey("other key"), Attempt("NotVerified", "other key", not_before=NOW + SOON)),
        (WrongUser("ben"), Attempt("WrongUser", "ben", final=True)),
        (OtherRelease("newer"), Attempt("OtherRelease", "newer", not_before=NOW + LATER)),
        (Added("sidecar"), Attempt("CreateContainerConfigError", "sidecar", not_before=NOW + LATER)),
        (TooLarge("spec.x", "is long"), Attempt("TooLarge", "spec.x: is long", final=True)),
        (JobError("spec", "no map"), Attempt("CreateContainerConfigError", "spec: no map", not_before=NOW + SOON)),
        (ConfigError("bad workDir"), Attempt("CreateContainerConfigError", "bad workDir", not_before=NOW + SOON)),
        (SiteStorage("full"), Attempt("SiteStorage", "full", not_before=NOW + SOON)),
        (OSError("disk full"), Attempt("SiteStorage", "disk full", not_before=NOW + SOON)),
        (Withdrawn("gone"), Attempt("ContainerCreating", "gone", not_before=NOW + SOON)),
        (Refused(QSUB, 188, " too many\n"), Attempt("Refused", "too many", final=True)),
        (Unavailable(QSUB, None, "no answer"), Attempt("HPCUnavailable", "no answer", not_before=NOW + AT_ONCE)),
        (OutputError(QSUB, 0, "no id"), Attempt("HPCUnavailable", "no id", not_before=NOW + AT_ONCE)),
        (
            ApiUnavailable(0, "no answer", "cut", "GET /x"),
            Attempt("ContainerCreating", "GET /x: cut (no answer)", not_before=NOW + SOON),
        ),
    ],
)
def test_what_an_error_means(error: BatchgateError | OSError, expected: Attempt) -> None:
    assert attempt_of(error, NOW) == expected
