"""A site with Pods and logs, an API server's answers, certificates, and a running kubelet API before them."""

from __future__ import annotations

import base64
import contextlib
import http.client
import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from router.certs import issuing
from router.certs.issuing import Pair
from router.errors import ApiError, ApiUnavailable, Conflict, RequestError
from router.host import Host
from router.host.local import LocalHost
from router.kubelet.figures import NodeUsage
from router.kubelet.indexes import Indexes
from router.kubelet.runs import LoggedContainer, LoggedPod, RunState
from router.kubelet.serve import Kubelet, KubeletSettings
from router.kubelet.source import Entered
from router.kubelet.streaming import Pace
from router.pod.layout import PodDirectory

NODE = "batch.demo.batchgate"
TOKEN = "of somebody with nodes/proxy".replace(" ", "-")
CLIENT_CA = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
QUICK = Pace(poll_seconds=0.05)

T = TypeVar("T")


def until(look: Callable[[], T | None], seconds: float = 60) -> T:
    """What ``look`` finds, once it finds something."""
    deadline = time.monotonic() + seconds
    while True:
        found = look()
        if found:
            return found
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.01)


class Site:
    """Pods whose logs lie in a directory, as the agent knows them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.host: Host = LocalHost(root)
        self.known: dict[tuple[str, str], LoggedPod] = {}
        self.entrance: Sequence[str] | None = None
        self.contained = False
        self.entered: list[tuple[str, str, str]] = []
        self.figures = NodeUsage(NODE, 1_700_000_000)

    def pod(self, namespace: str, name: str) -> LoggedPod | None:
        return self.known.get((namespace, name))

    def files(self, pod: LoggedPod) -> Host:
        return self.host

    def pods(self, node: str) -> Sequence[dict[str, Any]]:
        pods = [pod for pod in self.known.values() if node in {"", pod.node}]
        return [{"metadata": {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid}} for pod in pods]

    def usage(self, node: str) -> NodeUsage:
        return self.figures

    def allow(self, what: str) -> None:
        if self.entrance is None:
            raise RequestError(501, f"{what} is not possible, as site demo does not allow it")

    def enter(self, pod: LoggedPod, container: str, program: str) -> Entered:
        assert self.entrance is not None
        self.entered.append((pod.name, container, program))
        return Entered(self.host.pipe(self.entrance), self.contained)

    def add(
        self, *containers: LoggedContainer, name: str = "pod", namespace: str = "ada", node: str = NODE
    ) -> LoggedPod:
        uid = f"uid-of-{namespace}-{name}"
        directory = PodDirectory(str(self.root), "job", "noindex", uid)
        pod = LoggedPod(namespace, name, uid, node, directory, containers)
        self.known[namespace, name] = pod
        Path(directory.log("any")).parent.mkdir(parents=True, exist_ok=True)
        return pod

    def change(self, pod: LoggedPod, *containers: LoggedContainer) -> None:
        self.known[pod.namespace, pod.name] = replace(pod, containers=containers)

    def running(self, name: str = "pod", content: bytes = b"", *, namespace: str = "ada") -> LoggedPod:
        """A Pod with one container that runs."""
        pod = self.add(LoggedContainer("main", RunState.RUNNING, 0), name=name, namespace=namespace)
        self.append(pod, content)
        return pod

    def ended(self, name: str = "pod", content: bytes = b"", size: int = 0) -> LoggedPod:
        """A Pod with one container that has ended; ``size``: what its script has said of the log."""
        pod = self.running(name, content)
        self.end(pod, size)
        return pod

    def end(self, pod: LoggedPod, size: int = 0) -> None:
        self.change(pod, LoggedContainer("main", RunState.TERMINATED, 0, size=size))

    def append(self, pod: LoggedPod, content: bytes, run: int = 0, container: str = "main") -> None:
        with Path(pod.directory.log(container, run)).open("ab") as file:
            file.write(content)


class Cluster:
    """Of an API server, what a kubelet API asks: reviews, the CA of clients, requests for certificates."""

    def __init__(self, client_ca: bytes | None) -> None:
        self.client_ca = client_ca
        self.tokens = {TOKEN: "prometheus"}
        self.rights = {("prometheus", "get", "proxy", NODE), ("kube-apiserver", "get", "proxy", NODE)}
        self.asked: list[str] = []
        self.trouble: ApiError | None = None
        self.requests: dict[str, dict[str, Any]] = {}

    def create(self, path: str, body: dict[str, Any], seconds: float = 30) -> dict[str, Any]:
        self._answerable(path)
        kind, spec = body["kind"], body["spec"]
        if kind == "CertificateSigningRequest":
            name = body["metadata"]["name"]
            if name in self.requests:
                raise Conflict(409, "AlreadyExists", "exists", path)
            self.requests[name] = body
            return body
        self.asked.append(kind)
        if kind == "TokenReview":
            name = self.tokens.get(spec["token"])
            status = {"authenticated": True, "user": {"username": name}} if name else {"authenticated": False}
            return body | {"status": status}
        attributes = spec["resourceAttributes"]
        right = (spec["user"], attributes["verb"], attributes["subresource"], attributes["name"])
        return body | {"status": {"allowed": right in self.rights}}

    def get(self, path: str, seconds: float = 30, **query: object) -> dict[str, Any]:
        self._answerable(path)
        assert path == CLIENT_CA
        return {"data": {"client-ca-file": self.client_ca.decode()} if self.client_ca else {}}

    def find(self, path: str, seconds: float = 30) -> dict[str, Any] | None:
        self._answerable(path)
        return self.requests.get(path.rpartition("/")[2])

    def _answerable(self, path: str) -> None:
        if self.trouble is not None:
            raise self.trouble

    def sign(self, ca: Pair, name: str, days: float = 1) -> None:
        """What an admin's approval and the signer do."""
        request = self.requests[name]
        signed = x509.load_pem_x509_csr(base64.b64decode(request["spec"]["request"]))
        names = signed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        certificate = signed_by(ca, signed.subject, signed.public_key(), [names, serving()], days)
        request["status"] = {
            "conditions": [{"type": "Approved"}],
            "certificate": base64.b64encode(certificate).decode(),
        }

    def down(self) -> None:
        self.trouble = ApiUnavailable(0, "no answer", "connection refused", "anything")


def serving() -> x509.ExtendedKeyUsage:
    return x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])


def signed_by(
    ca: Pair, subject: x509.Name, public_key: Any, extensions: Sequence[x509.ExtensionType], days: float
) -> bytes:
    authority = x509.load_pem_x509_certificate(ca.public)
    key: Any = serialization.load_pem_private_key(ca.private, None)
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(authority.subject)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
    )
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def client_pair(ca: Pair, name: str, *, days: float = 1, usage: x509.ObjectIdentifier | None = None) -> Pair:
    """A client's certificate, by default one that is for clients and lasts a day."""
    key = ec.generate_private_key(ec.SECP256R1())
    kind = NameOID.COMMON_NAME if name else NameOID.ORGANIZATION_NAME
    subject = x509.Name([x509.NameAttribute(kind, name or "nobody")])
    usages = x509.ExtendedKeyUsage([usage or ExtendedKeyUsageOID.CLIENT_AUTH])
    public = signed_by(ca, subject, key.public_key(), [usages], days)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return Pair(public, private)


def client_tls(directory: Path, pair: Pair | None = None) -> ssl.SSLContext:
    """Trusts anybody: the server's certificate is another test's subject."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if pair is not None:
        file = directory / "client.pem"
        file.write_bytes(pair.public + pair.private)
        context.load_cert_chain(file)
    return context


class Served:
    """A running kubelet API, and requests to it."""

    def __init__(self, site: Site, cluster: Cluster, kubelet: Kubelet, port: int, directory: Path) -> None:
        self.site = site
        self.cluster = cluster
        self.kubelet = kubelet
        self.port = port
        self.tls = client_tls(directory)

    def connect(self, tls: ssl.SSLContext | None = None, timeout: float = 60) -> http.client.HTTPSConnection:
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=tls or self.tls, timeout=timeout)
        connection.connect()
        return connection

    @contextlib.contextmanager
    def asking(
        self, path: str, *, method: str = "GET", token: str | None = TOKEN, tls: ssl.SSLContext | None = None
    ) -> Iterator[http.client.HTTPResponse]:
        """A request whose answer is still coming."""
        with contextlib.closing(self.connect(tls)) as connection:
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            connection.request(method, path, headers=headers)
            response = connection.getresponse()
            with response:
                yield response

    def ask(self, path: str, **how: Any) -> tuple[int, bytes]:
        with self.asking(path, **how) as response:
            return response.status, response.read()

    def logs(self, query: str = "", pod: str = "ada/pod", container: str = "main") -> tuple[int, bytes]:
        return self.ask(f"/containerLogs/{pod}/{container}?{query}")


@contextlib.contextmanager
def served(directory: Path, trouble: ApiError | None = None, **settings: Any) -> Iterator[Served]:
    """A kubelet API on a free port, with a site and a cluster that tests change."""
    ca = issuing.make_ca(datetime.now(UTC))
    (directory / "site").mkdir(mode=0o700)
    site, cluster = Site(directory / "site"), Cluster(ca.public)
    cluster.trouble = trouble
    options: dict[str, Any] = {"self_signed": True, "pace": QUICK} | settings
    kubelet = Kubelet(
        cluster,  # type: ignore[arg-type]  # what it asks of an Api, this answers
        site,
        Indexes(),
        KubeletSettings(NODE, ("127.0.0.1",), **options),
    )
    kubelet.start()
    try:
        port = kubelet.listen("127.0.0.1", 0, NODE)
        yield Served(site, cluster, kubelet, port, directory)
    finally:
        kubelet.stop()
