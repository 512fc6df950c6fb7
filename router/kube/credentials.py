"""The API server's address and our credentials, from a kubeconfig file or from the Pod in which this program runs.

Shell (files, TLS). Uses only the configuration part of the ``kubernetes`` client. Importing that client takes most of a
second, so ``router.kube.client.connect`` imports this module only when needed.

OpenSSL loads private keys only from files. So a kubeconfig's inline key is written to a temporary file, loaded into one
TLS context that all connections share, and the file is removed.
"""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import urllib3
import yaml
from kubernetes.client import Configuration
from kubernetes.client.rest import should_bypass_proxies
from kubernetes.config import ConfigException, list_kube_config_contexts, load_incluster_config, load_kube_config
from urllib3.connection import HTTPConnection
from urllib3.exceptions import HTTPError

from router.errors import ConfigError

# Finds a dead peer within a minute, also on an idle connection, which a firewall may forget.
SOCKET_OPTIONS: Final = (
    *HTTPConnection.default_socket_options,
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
)
CONNECTIONS: Final = 32
"""Idle connections that are kept; more may be open at once."""

_TOKEN_SECONDS: Final = 60.0
"""A token's file is read again after this time, as Kubernetes' own clients do: somebody may renew it."""

_POD_CA: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/ca.crt")
_UNREADABLE: Final = (ConfigException, yaml.YAMLError, OSError, ValueError, TypeError, KeyError, AttributeError)
"""Exceptions of the client for a broken kubeconfig: it checks few of the types in it."""

_LOADING: Final = threading.Lock()


@dataclass(frozen=True, slots=True)
class Access:
    """Access to one API server.

    ``host`` is a URL without a slash at its end. ``authorization`` returns the value of the header, or None if a client
    certificate (in ``pool``) is used; it renews an expired token, and may run a program for that.
    """

    host: str
    pool: urllib3.PoolManager
    authorization: Callable[[], str | None]


def load(kubeconfig: str | None, context: str | None = None) -> Access:
    """Read the credentials: of this file, else of ``$KUBECONFIG``, else of the Pod in which this program runs.

    :param context: of the kubeconfig; its current one by default
    :raises ConfigError: no usable credentials; says which file and what to do
    """
    source = kubeconfig or os.environ.get("KUBECONFIG") or ""
    configuration = Configuration()
    if not source:
        _from_pod(configuration)
        return _access(configuration, "the Pod's service account")
    with _directory(source) as directory:
        _from_file(configuration, source, directory, context)
        return _access(configuration, source)


def with_tokens(kubeconfig: str | None, context: str | None = None) -> Callable[[str], Access]:
    """Access to an API server with the token of whoever asks: a kubeconfig's, else that of the cluster of this Pod.

    A kubeconfig's own credentials are left unused, and a Pod needs none.

    :raises ConfigError: the file is unreadable or lacks a server, or this is no Pod
    """
    source = kubeconfig or os.environ.get("KUBECONFIG") or ""
    configuration = Configuration()
    if not source:
        _address_of_pod(configuration)
        return _with_token(configuration, _pool(configuration, "the Pod's cluster"))
    with _directory(source) as directory:
        _from_file(configuration, source, directory, context)
        # A client certificate would make every viewer whoever it names.
        configuration.cert_file = configuration.key_file = None
        return _with_token(configuration, _pool(configuration, source))


def _with_token(configuration: Any, pool: urllib3.PoolManager) -> Callable[[str], Access]:
    host = configuration.host.rstrip("/")
    return lambda token: Access(host, pool, lambda: f"Bearer {token}")


def _address_of_pod(configuration: Any) -> None:
    """The address by which Kubernetes tells every container its API server, and the CA where clients look for it."""
    host, port = (os.environ.get(f"KUBERNETES_SERVICE_{name}", "") for name in ("HOST", "PORT"))
    if not host or not port:
        raise ConfigError("name a kubeconfig file that says where the API server is: --kubeconfig FILE; this is no Pod")
    configuration.host = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    configuration.ssl_ca_cert = str(_POD_CA)


@dataclass(frozen=True, slots=True)
class Server:
    """An API server, for others who shall reach it.

    ``ca`` is PEM, empty if the system's CAs are used; ``name``: the name in its certificate, empty for the URL's.
    ``verified``: whether the certificate is verified at all.
    """

    url: str
    ca: str
    name: str
    verified: bool


def server_of(kubeconfig: str | None, context: str | None = None) -> Server:
    """The API server of a kubeconfig, without credentials; the arguments are those of ``load``.

    :raises ConfigError: as ``load``
    """
    source = kubeconfig or os.environ.get("KUBECONFIG") or ""
    configuration = Configuration()
    with _directory(source or "of the Pod") as directory:
        if source:
            _from_file(configuration, source, directory, context)
        else:
            _from_pod(configuration)
        try:
            ca = Path(configuration.ssl_ca_cert).read_text() if configuration.ssl_ca_cert else ""
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{source}: the cluster's CA cannot be read: {_one_line(error)}") from error
    name = configuration.tls_server_name or ""
    return Server(configuration.host.rstrip("/"), ca, name, bool(configuration.verify_ssl))


def token_file(kubeconfig: str | None) -> Path | None:
    """The ``tokenFile`` of a kubeconfig's current user; None without one. Raises ConfigError as ``load``."""
    source = kubeconfig or os.environ.get("KUBECONFIG") or ""
    try:
        return _token_file(source, None)
    except _UNREADABLE as error:
        raise ConfigError(f"kubeconfig {source}: {_one_line(error)}; see 'kubectl config view'") from error


def namespace_of(kubeconfig: str | None, context: str | None = None) -> str:
    """The namespace of a kubeconfig's context; ``default`` without a namespace or a kubeconfig.

    :raises ConfigError: the file is unreadable, or lacks the context
    """
    source = kubeconfig or os.environ.get("KUBECONFIG") or ""
    if not source:
        return "default"
    try:
        known, current = list_kube_config_contexts(config_file=source)  # type: ignore[no-untyped-call]
        chosen = current if context is None else next(one for one in known if one["name"] == context)
        return str((chosen.get("context") or {}).get("namespace") or "default")
    except StopIteration:
        raise ConfigError(
            f"kubeconfig {source}: has no context {context!r}; see 'kubectl config get-contexts'"
        ) from None
    except _UNREADABLE as error:
        raise ConfigError(f"kubeconfig {source}: {_one_line(error)}; see 'kubectl config view'") from error


@contextlib.contextmanager
def _directory(source: str) -> Iterator[str]:
    """A directory for the client's temporary files, by one thread at a time: the client remembers and reuses its files."""
    with _LOADING:
        try:
            made = tempfile.TemporaryDirectory(prefix="batchgate-")
        except OSError as error:
            raise ConfigError(
                f"kubeconfig {source}: there is no place for a temporary file ({_one_line(error)}); give TMPDIR a directory"
            ) from error
        with made as directory:
            yield directory


def _access(configuration: Any, source: str) -> Access:
    _check_proof(configuration, source)
    return Access(configuration.host.rstrip("/"), _pool(configuration, source), _authorization(configuration))


def _from_file(configuration: Any, source: str, directory: str, context: str | None) -> None:
    if not any(os.access(path, os.R_OK) for path in source.split(os.pathsep) if path):
        raise ConfigError(f"kubeconfig {source}: cannot be read; name a file with --kubeconfig or KUBECONFIG")
    try:
        load_kube_config(  # type: ignore[no-untyped-call]  # untyped part of the client
            config_file=source,
            context=context,
            client_configuration=configuration,
            persist_config=False,
            temp_file_path=directory,
        )
        file = _token_file(source, context)
    except _UNREADABLE as error:
        raise ConfigError(f"kubeconfig {source}: {_one_line(error)}; see 'kubectl config view'") from error
    if file is not None:
        configuration.refresh_api_key_hook = _reading(file)


def _token_file(source: str, context: str | None) -> Path | None:
    """The ``tokenFile`` of the context's user; the client has read it once and has forgotten where it was."""
    found = list(_documents(source))
    name = context or next((one["current-context"] for _, one in found if one.get("current-context")), "")
    user = next((one["context"].get("user") for _, one in _entries(found, "contexts") if one.get("name") == name), None)
    for path, one in _entries(found, "users"):
        if one.get("name") == user:
            known = one.get("user") or {}
            named = known.get("tokenFile") if not known.get("token") else None
            return path.parent / named if named else None
    return None


def _documents(source: str) -> Iterator[tuple[Path, dict[str, Any]]]:
    for path in filter(None, source.split(os.pathsep)):
        if os.access(path, os.R_OK):
            yield Path(path).absolute(), yaml.safe_load(Path(path).read_text()) or {}


def _entries(found: list[tuple[Path, dict[str, Any]]], key: str) -> Iterator[tuple[Path, dict[str, Any]]]:
    return ((path, one) for path, document in found for one in document.get(key) or ())


def _reading(file: Path) -> Callable[[Any], None]:
    """Reads a token's file again when the last look is too old. A file that cannot be read leaves the token as it is."""
    looked = time.monotonic()

    def refresh(configuration: Any) -> None:
        nonlocal looked
        if time.monotonic() - looked < _TOKEN_SECONDS:
            return
        looked = time.monotonic()
        with contextlib.suppress(OSError):
            token = file.read_text().strip()
            if token:
                configuration.api_key["BearerToken"] = f"Bearer {token}"

    return refresh


def _from_pod(configuration: Any) -> None:
    try:
        load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
    except (ConfigException, OSError) as error:
        raise ConfigError(
            "no Kubernetes cluster: neither --kubeconfig nor KUBECONFIG is given, and this is no Pod with a service "
            f"account ({_one_line(error)}); name a kubeconfig file (~/.kube/config is not read by itself)"
        ) from error


def _check_proof(configuration: Any, source: str) -> None:
    """Stop if there are no credentials: the client only logs a failed plug-in and would go on as anonymous."""
    if configuration.host.startswith("http://"):
        return  # `kubectl proxy`, which adds its own credentials
    if not configuration.api_key and not configuration.cert_file:
        raise ConfigError(
            f"{source}: its user has no credentials: no token, no client certificate, or an exec plug-in that failed "
            "(its own words are above); try 'kubectl auth whoami' with it"
        )


def _pool(configuration: Any, source: str) -> urllib3.PoolManager:
    options: dict[str, Any] = {"maxsize": CONNECTIONS, "socket_options": SOCKET_OPTIONS}
    if configuration.host.startswith("https://"):
        options["ssl_context"] = _tls(configuration, source)
    if configuration.tls_server_name:
        options["server_hostname"] = configuration.tls_server_name
    if not configuration.proxy or should_bypass_proxies(configuration.host, configuration.no_proxy or ""):
        return urllib3.PoolManager(**options)
    try:
        return urllib3.ProxyManager(configuration.proxy, **options)
    except HTTPError as error:
        raise ConfigError(
            f"proxy {configuration.proxy}: {_one_line(error)}; give an http:// or https:// URL"
        ) from error


def _tls(configuration: Any, source: str) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
        # Since 3.13 Python requires an authority key id in certificates. Go does not, so some clusters lack it.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if not configuration.verify_ssl:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if configuration.cert_file:
            context.load_cert_chain(configuration.cert_file, configuration.key_file)
    except OSError as error:
        raise ConfigError(f"{source}: certificate or key cannot be used: {_one_line(error)}") from error
    return context


def _authorization(configuration: Any) -> Callable[[], str | None]:
    lock = threading.Lock()

    def header() -> str | None:
        with lock:  # the client's renewal is not thread-safe
            try:
                value = configuration.get_api_key_with_prefix("BearerToken")
            except _UNREADABLE as error:
                raise ConfigError(f"the token cannot be renewed: {_one_line(error)}") from error
        return str(value).strip() if value else None

    return header


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
