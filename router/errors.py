"""Defines the exceptions of Batchgate. Pure.

::

    BatchgateError
     - ConfigError        start-up: settings, certificate, a file    -> exit 2
       - PolicyError      an invalid policy directory; carries every problem found
     - InputError         a manifest file that cannot be read        -> exit 2; carries file and line
     - ReviewError        not a valid AdmissionReview                -> HTTP 400
     - JobError           this Job is not valid; carries field path  -> denied
       - TooLarge         its Pod is too large to be run             -> Pod Failed, reason
     - OtherRelease       a script of a webhook too new or too old   -> Pod Pending, until a fitting agent runs
     - SignatureError     differs from what the webhook signed       -> never run
     - BatchError         argv, exit code, the batch system's words
       - Unavailable      time-out, cannot connect                   -> again, with back-off; Pod untouched
       - Refused          the batch system refuses the job for good  -> Pod Failed, reason, its words
       - Full             a limit on queued jobs                     -> Pod Pending, back-off per user and queue
       - OutputError      output not understood                      -> as Unavailable, logged as an error
     - ApiError           the Kubernetes API server refused          -> the caller decides: 403 and 422 need a person
       - ApiUnavailable   cannot connect, time-out, 429, 5xx         -> again; a write may have succeeded nevertheless
       - NotFound         404                                        -> the object does not exist
       - Conflict         409: changed meanwhile, or exists already  -> read again, decide again
       - Gone             410: this version is too old               -> list again
     - RequestError       a request to the kubelet API is refused    -> its HTTP status, one sentence

They are caught only in the Flask error handler, in the agent's step for one Pod, and (for people) at the top of the
command line. Every message says what is wrong, where, and what to do about it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class BatchgateError(Exception):
    """Base of all Batchgate's errors; catch it only at the top of a program."""


class ConfigError(BatchgateError):
    """Settings, a certificate or a file that the program needs are unusable. Ends the program with exit code 2."""


class InputError(BatchgateError):
    """A file given by the user is unreadable or has invalid content. The message says file and line."""


class ReviewError(BatchgateError):
    """The request is not a valid AdmissionReview (HTTP 400)."""


class JobError(BatchgateError):
    """An invalid Job.

    :param path: the field, as the API server names it, e.g. ``spec.template.spec.containers[0].resources``
    :param message: what is wrong with it and what to do
    """

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}")
        self.path = path
        self.message = message


class OtherRelease(BatchgateError):
    """The script is of a release that this agent cannot complete. The message says which is older."""


class TooLarge(JobError):
    """A Pod's environment, words or files are too large for a process or a site. It is not run."""


class SignatureError(BatchgateError):
    """A signature does not prove what it should. The message says what differs; such a Pod is never run."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a policy directory.

    ``line`` and ``column`` count from 1; they are 0 if the problem has no place in a file. ``excerpt`` is the line of
    the file with a caret below the column, or empty.
    """

    file: str
    line: int
    column: int
    where: str
    message: str
    excerpt: str = ""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        head = f"{place}: {self.where}: {self.message}" if self.where else f"{place}: {self.message}"
        return f"{head}\n{self.excerpt}" if self.excerpt else head


class PolicyError(ConfigError):
    """An invalid policy directory. ``problems`` holds all problems, in file order."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


class BatchError(BatchgateError):
    """A command of the batch system failed.

    :param argv: the command as it was run
    :param returncode: its exit code; None if it failed to start or to end
    :param words: the batch system's message
    """

    def __init__(self, argv: Sequence[str], returncode: int | None, words: str) -> None:
        super().__init__(f"{argv[0] if argv else '(no command)'} (exit {returncode}): {words}")
        self.argv = tuple(argv)
        self.returncode = returncode
        self.words = words


class Unavailable(BatchError):
    """The batch system cannot be asked now: try again later. Nothing is known of the job."""


class Refused(BatchError):
    """The batch system refuses this job for good."""


class Full(BatchError):
    """A limit on queued jobs, or a queue disabled for now: submit again later."""


class OutputError(BatchError):
    """The batch system's output has an unknown form."""


class ApiError(BatchgateError):
    """The Kubernetes API server did not do what it was asked.

    :param status: the HTTP status; 0 without an answer
    :param reason: the reason of the answer's Status object (``Forbidden``, ``AlreadyExists``), or Batchgate's own
    :param message: the server's message
    :param path: the request, e.g. ``PATCH /api/v1/nodes/x/status``
    :param retry_after: seconds that the server asks to wait before the next try; None if unset
    :param cause: of the first cause of the Status object, such as ``NamespaceTerminating``; empty without one
    """

    def __init__(
        self, status: int, reason: str, message: str, path: str, *, retry_after: float | None = None, cause: str = ""
    ) -> None:
        words = f"{status} {reason}" if status else reason
        super().__init__(f"{path}: {message} ({words})")
        self.status = status
        self.reason = reason
        self.message = message
        self.path = path
        self.retry_after = retry_after
        self.cause = cause


class ApiUnavailable(ApiError):
    """The API server cannot be asked now: try again later. It is unknown whether a write was done."""


class NotFound(ApiError):
    """The object, or its kind, does not exist."""


class Conflict(ApiError):
    """The object changed since it was read, is another (uid), or exists already."""


class Gone(ApiError):
    """The resourceVersion or the page asked for is too old: list again."""


class RequestError(BatchgateError):
    """A request to the kubelet API is refused.

    :param status: HTTP status of the answer
    :param text: body of the answer: one sentence, which kubectl shows
    """

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status}: {text}")
        self.status = status
        self.text = text
