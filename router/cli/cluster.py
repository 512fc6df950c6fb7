"""Reads a cluster's objects with the caller's own credentials and rights.

Shell (the API). A refused list does not end the command: it becomes a sentence that tells the caller what is missing.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar

import click

from router import names
from router.errors import ApiError, ConfigError, Gone
from router.kube.client import Api, Json, connect

P = ParamSpec("P")
T = TypeVar("T")
LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces"
_PAGE: Final = 500
_TRIES: Final = 3
_HOME_FILE: Final = Path(".kube", "config")


@dataclass(slots=True)
class Cluster:
    """One cluster as the caller sees it.

    ``named``: whether the caller has named the namespace. ``system``: the agents' namespace. ``missed`` collects a
    sentence for each object or list that could not be read. ``page``: objects of a list that are in memory together.
    ``left`` is told before each page of a list how many objects are to come; None if that is unknown.
    """

    api: Api
    namespace: str
    named: bool
    system: str
    missed: list[str] = field(default_factory=list)
    page: int = _PAGE
    left: Callable[[int | None], None] = lambda _: None

    def every(self, what: str, path: str, keep: Callable[[Json], T], **query: object) -> tuple[T, ...] | None:
        """``keep`` of each object of a list; None if listing is forbidden. Raises ApiError for other errors."""
        return self._allowed(what, lambda: self._listed(path, keep, query))

    def everywhere(self, kind: str, group: str, keep: Callable[[Json], T], **query: object) -> tuple[T, ...]:
        """``keep`` of each object of a kind, in all namespaces or in the named one.

        If listing all namespaces is forbidden, only the context's namespace is listed, and if that is forbidden too,
        the result is empty.

        :param kind: its plural, as in paths: ``jobs``
        :param group: the path of its group: ``/apis/batch/v1``
        """
        if not self.named:
            found = self.every(f"{kind} of all namespaces", f"{group}/{kind}", keep, **query)
            if found is not None:
                return found
        path = f"{group}/namespaces/{self.namespace}/{kind}"
        return self.every(f"{kind} of namespace {self.namespace}", path, keep, **query) or ()

    def one(self, what: str, path: str) -> Json | None:
        """One object; None if it is missing or forbidden."""
        return self._allowed(what, lambda: self.api.find(path))

    def ask(self, what: str, path: str, body: Json) -> Json | None:
        """The answer to a review, which is stored nowhere; None if asking is forbidden."""
        return self._allowed(what, lambda: self.api.create(path, body))

    def _allowed(self, what: str, ask: Callable[[], T]) -> T | None:
        try:
            return ask()
        except ApiError as error:
            if error.status != 403:  # without authentication (401) or an answer there is nothing to show
                raise
            sentence = f"{what} could not be looked at: {error.message}"
            if sentence not in self.missed:
                self.missed.append(sentence)
            return None

    def _listed(self, path: str, keep: Callable[[Json], T], query: dict[str, object]) -> tuple[T, ...]:
        for tried in range(1, _TRIES + 1):
            pages = self.api.pages(path, self.left, limit=self.page, **query)
            try:
                return tuple(keep(one) for page, _ in pages for one in page)
            except Gone:  # reading took longer than the API server keeps the list's version
                if tried == _TRIES:
                    raise
        raise AssertionError("unreachable")

    def without_policy(self, what: str, directory: str, error: ConfigError) -> str:
        """Note that ``what`` is left out, as it needs a policy that cannot be used; returns the sentence."""
        why = str(error).partition("\n")[0]
        sentence = (
            f"{what} could not be looked at: {why}; batchgate policy check {shlex.quote(directory)} tells all of it"
        )
        self.missed.append(sentence)
        return sentence

    def say_missed(self) -> None:
        """Name on standard error what could not be read."""
        for sentence in self.missed:
            click.echo(f"Warning: {sentence}", err=True)


_WHERE: Final = (
    click.option(
        "--kubeconfig", metavar="FILE", help="Else $KUBECONFIG, ~/.kube/config, the cluster whose Pod this is."
    ),
    click.option("--context", metavar="NAME", help="Of the kubeconfig; its current one by default."),
    click.option("-n", "--namespace", metavar="NAME", help="Of Jobs; by default the context's."),
    click.option(
        "--system-namespace",
        default=names.SYSTEM_NAMESPACE,
        show_default=True,
        metavar="NAME",
        help="Where the agents have their Leases and the state of their queues.",
    ),
)


def reach(kubeconfig: str | None, context: str | None, namespace: str | None, system_namespace: str) -> Cluster:
    """The cluster of these options, with the caller's credentials. Raises ConfigError without usable ones."""
    file = kubeconfig_of(kubeconfig)
    # Imported here, so that `--help` does not import the Kubernetes client.
    from router.kube.credentials import namespace_of  # noqa: PLC0415

    chosen = namespace or namespace_of(file, context)
    return Cluster(connect(file, context), chosen, namespace is not None, system_namespace)


_CONNECTION: Final = ("kubeconfig", "context", "namespace", "system_namespace")


def connecting_options(command: Callable[P, T]) -> Callable[..., T]:
    """The options by which a command reaches a cluster, for ``reach``; it gets their values as ``connection``."""

    @wraps(command)
    def given(*arguments: Any, **options: Any) -> T:
        connection = {name: options.pop(name) for name in _CONNECTION}
        return command(*arguments, connection=connection, **options)  # type: ignore[arg-type]

    for option in reversed(_WHERE):
        option(given)
    return given


def cluster_options(command: Callable[P, T]) -> Callable[..., T]:
    """``connecting_options``, for a command that always reaches the cluster: it gets it as its first argument."""

    @connecting_options
    @wraps(command)
    def reached(*arguments: Any, connection: Mapping[str, Any], **options: Any) -> T:
        return command(reach(**connection), *arguments, **options)  # type: ignore[arg-type]

    return reached


def kubeconfig_of(named: str | None) -> str | None:
    """The kubeconfig to use; None if ``connect`` shall look for $KUBECONFIG or a Pod's own. Raises ConfigError."""
    return named or usual_file()


def usual_file() -> str | None:
    """The default kubeconfig of kubectl; None if $KUBECONFIG is set or the file is missing."""
    if os.environ.get("KUBECONFIG"):
        return None
    try:
        file = Path.home() / _HOME_FILE
    except RuntimeError as error:
        raise ConfigError(f"there is no home directory ({error}); name a kubeconfig file: --kubeconfig FILE") from None
    return str(file) if file.is_file() else None
