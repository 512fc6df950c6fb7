"""The exceptions of Batchgate.

::

    BatchgateError
     x ConfigError        start-up: settings, certificate, a file    -> exit 2
       + PolicyError      a policy directory that does not check; carries every problem found
     x InputError         a manifest file that cannot be read        -> exit 2; carries file and line
     x ReviewError        not an AdmissionReview we understand       -> HTTP 400
     x JobError           this Job is not valid; carries field path  -> denied
       + TooLarge         its Pod holds more than can be run         -> Pod Failed, reason
     x OtherRelease       a script of a webhook too new or too old  -> Pod Pending, until the agent is the right one
     x SignatureError     not what the webhook signed                -> never run
     x BatchError         argv, exit code, the batch system's words
       + Unavailable      time-out, cannot connect                   -> again, with back-off; Pod untouched
       + Refused          the batch system refuses the job for good  -> Pod Failed, reason, its words
       + Full             a limit on queued jobs                     -> Pod Pending, back-off per user and queue
       + OutputError      output not understood                      -> as Unavailable, logged as an error
     x ApiError           the Kubernetes API server said no          -> as the caller can: 403 and 422 need a person
       + ApiUnavailable   cannot connect, time-out, 429, 5xx         -> again; a write may have been done all the same
       + NotFound         404                                        -> it is not there
       + Conflict         409: changed meanwhile, or exists already  -> read again, decide again
       + Gone             410: this version is too old               -> list again
     x RequestError       a request to the kubelet API is refused    -> its HTTP status, one sentence

Caught in two places only: the Flask error handler and the agent's step for one Pod (and, for people, at the very
top of the command line). Every message says what is wrong, where, and what to do about it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class BatchgateError(Exception):
    """Base of all our errors: good to catch at the top of a program, nowhere else."""


class ConfigError(BatchgateError):
    """Settings, a certificate or a file that the program needs are unusable. Ends the program with exit code 2."""


class InputError(BatchgateError):
    """A file given by the user is not readable, not YAML, or holds what it may not. Says file and line."""


class ReviewError(BatchgateError):
    """The request is not an AdmissionReview that we understand (HTTP 400)."""


class JobError(BatchgateError):
    """A Job that cannot be right.

    :param path: the field, as the API server names it, e.g. ``spec.template.spec.containers[0].resources``
    :param message: what is wrong with it and what to do
    """

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}")
        self.path = path
        self.message = message


class OtherRelease(BatchgateError):
    """A script comes from a webhook of a release whose scripts this one does not complete. Says which is older."""


class TooLarge(JobError):
    """A Pod whose environment, words or files are more than a process or a site can be given. Never run as it is."""


class SignatureError(BatchgateError):
    """A signature that does not prove what it should. Says what differs; such a Pod is never run."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a policy directory.

    ``line`` and ``column`` count from 1; 0 where the problem belongs to no place in a file. ``excerpt`` is the line
    of the file with a caret below the column, or empty.
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
    """A policy directory that does not check. ``problems`` holds all of them, in file order."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


class BatchError(BatchgateError):
    """A command of the batch system failed.

    :param argv: the command as it was run
    :param returncode: its exit code, or None where it was not reached or did not end
    :param words: what the batch system said
    """

    def __init__(self, argv: Sequence[str], returncode: int | None, words: str) -> None:
        super().__init__(f"{argv[0] if argv else '(no command)'} (exit {returncode}): {words}")
        self.argv = tuple(argv)
        self.returncode = returncode
        self.words = words


class Unavailable(BatchError):
    """The batch system cannot be asked: try again later; it says nothing about the job."""


class Refused(BatchError):
    """The batch system refuses this job for good."""


class Full(BatchError):
    """A limit on queued jobs, or a queue disabled for now: submit again later."""


class OutputError(BatchError):
    """The batch system's output is not understood."""


class ApiError(BatchgateError):
    """The Kubernetes API server did not do what it was asked.

    :param status: the HTTP status, or 0 where no answer came
    :param reason: the reason of the answer's Status object (``Forbidden``, ``AlreadyExists``), or our own word
    :param message: the server's words
    :param path: what was asked, e.g. ``PATCH /api/v1/nodes/x/status``
    :param retry_after: seconds the server asks to wait before the next try, None where it names none
    """

    def __init__(self, status: int, reason: str, message: str, path: str, *, retry_after: float | None = None) -> None:
        words = f"{status} {reason}" if status else reason
        super().__init__(f"{path}: {message} ({words})")
        self.status = status
        self.reason = reason
        self.message = message
        self.path = path
        self.retry_after = retry_after


class ApiUnavailable(ApiError):
    """The API server cannot be asked now: try again later. Whether a write was done is not known."""


class NotFound(ApiError):
    """There is no such object (or no such kind of object)."""


class Conflict(ApiError):
    """The object changed since it was read, is another (uid), or exists already."""


class Gone(ApiError):
    """The resourceVersion or the page asked for is too old: list again."""


class RequestError(BatchgateError):
    """A request to the kubelet API that is not granted.

    :param status: HTTP status of the answer
    :param text: its body: one sentence, which kubectl shows
    """

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status}: {text}")
        self.status = status
        self.text = text
