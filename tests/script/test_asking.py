"""Probes over the network against real servers, with and without TLS: what a kubelet makes of their answers.

The rules are those of Kubernetes' pkg/probe/http: a status from 200 to 399 is a success, certificates are not checked,
redirections are followed to the same host name, with ten requests at most, and elsewhere they are a success with a
warning.
"""

from __future__ import annotations

import os
import ssl
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from router.script import lifecycle, rendering
from router.script.quoting import words
from tests.script.builders import container, workload
from tests.script.tls import self_signed

ASKING = Path(rendering.__file__).with_name("runtime") / "1" / "asking.sh"
Asked = list[tuple[str, str, dict[str, str]]]


@dataclass(frozen=True)
class Servers:
    """Two servers of one host; every request as scheme, path and headers, in the order of its coming."""

    http: int
    https: int
    asked: Asked

    def paths(self) -> list[tuple[str, str]]:
        return [(scheme, path) for scheme, path, _ in self.asked]


def moved(code: int, to: str) -> tuple[int, dict[str, str]]:
    return code, {"Location": to}


ANSWERS: Mapping[str, tuple[int, dict[str, str]]] = {
    "/200": (200, {}),
    "/204": (204, {}),
    "/304": (304, {}),
    "/404": (404, {}),
    "/503": (503, {}),
    "/nowhere": (302, {}),
    "/good": moved(301, "/200"),
    "/bad": moved(302, "/503"),
    "/a/relative?x=1": moved(303, "b"),
    "/a/b": moved(307, "?y=2"),
    "/a/b?y=2": moved(308, "/503#top"),
    "/same-host": moved(302, "{scheme}://127.0.0.1:{port}/503"),
    "/same-scheme": moved(302, "//127.0.0.1:{port}/503"),
    "/other-host": moved(302, "http://localhost:{port}/503"),
    "/other-address": moved(302, "https://127.0.0.2/"),
    "/no-address": moved(302, "https://127.0.0.1:a[$(touch planted)]/"),
    "/quoted": moved(302, '/"\\$(touch planted)`touch planted`'),
    "/to-https": moved(302, "https://127.0.0.1:{https}/503"),
    "/to-http": moved(302, "HTTP://127.0.0.1:{http}/503"),
    "/loop": moved(302, "/loop"),
}


@contextmanager
def serving(asked: Asked, scheme: str, ports: dict[str, int], tls: ssl.SSLContext | None) -> Iterator[None]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append((scheme, self.path, {name.lower(): value for name, value in self.headers.items()}))
            code, headers = ANSWERS.get(self.path, (404, {}))
            self.send_response(code)
            for name, value in headers.items():
                self.send_header(name, value.format(scheme=scheme, port=ports[scheme], **ports))
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    found = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        found.socket = tls.wrap_socket(found.socket, server_side=True)
    ports[scheme] = found.server_port
    threading.Thread(target=found.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    try:
        yield
    finally:
        found.shutdown()
        found.server_close()


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    asked: Asked = []
    ports: dict[str, int] = {}
    with ExitStack() as ending:
        ending.enter_context(serving(asked, "http", ports, None))
        ending.enter_context(serving(asked, "https", ports, self_signed(tmp_path_factory.mktemp("tls"))))
        yield Servers(ports["http"], ports["https"], asked)


@pytest.fixture
def servers(standing: Servers) -> Servers:
    standing.asked.clear()
    return standing


def ask(
    servers: Servers, scheme: str, path: str, *, hook: bool = False, directory: Path | None = None, **get: object
) -> tuple[int, str]:
    """The exit code of a probe, or of a hook, and what it says: by the lines that the script of such a Job has."""
    port = servers.https if scheme == "https" else servers.http
    handler = {"httpGet": {"scheme": scheme.upper(), "port": port, "path": path, **get}}
    around = {"lifecycle": {"preStop": handler}} if hook else {"readinessProbe": handler}
    ((_, _, (line,)),) = lifecycle.blocks(workload(container("true", **around)))
    text = (
        'source "$1"; probe() { wanted=("${@:8}"); }; pre_stop() { wanted=("$@"); }; eval "$2"; '
        '"run_${wanted[0]}" 30 "${wanted[@]:1}"'
    )
    done = subprocess.run(
        ["/bin/bash", "-c", text, "bash", str(ASKING), line],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        cwd=directory,
    )
    return done.returncode, done.stdout.strip()


def failed(code: int) -> tuple[int, str]:
    return 1, f"HTTP probe failed with statuscode: {code}"


SENT_ON = (0, "Probe terminated redirects")
BOTH = ("http", "https")


@pytest.mark.parametrize("scheme", BOTH)
@pytest.mark.parametrize(
    ("path", "expected", "further"),
    [
        ("/200", (0, ""), []),
        ("/204", (0, ""), []),
        ("/304", SENT_ON, []),
        ("/404", failed(404), []),
        ("/503", failed(503), []),
        ("/nowhere", SENT_ON, []),
        ("/good", (0, ""), ["/200"]),
        ("/bad", failed(503), ["/503"]),
        ("/a/relative?x=1", failed(503), ["/a/b", "/a/b?y=2", "/503"]),
        ("/same-host", failed(503), ["/503"]),
        ("/same-scheme", failed(503), ["/503"]),
        ("/other-host", SENT_ON, []),
        ("/other-address", SENT_ON, []),
        ("/loop", (1, "stopped after 10 redirects"), ["/loop"] * 9),
    ],
)
def test_an_answer_counts_as_with_a_kubelet(
    servers: Servers, scheme: str, path: str, expected: tuple[int, str], further: list[str]
) -> None:
    assert ask(servers, scheme, path) == expected
    assert servers.paths() == [(scheme, one) for one in (path, *further)]


def test_a_redirection_may_lead_to_tls_and_back(servers: Servers) -> None:
    assert ask(servers, "http", "/to-https") == failed(503)
    assert ask(servers, "https", "/to-http") == failed(503)
    assert servers.paths() == [("http", "/to-https"), ("https", "/503"), ("https", "/to-http"), ("http", "/503")]


@pytest.mark.parametrize("scheme", BOTH)
def test_what_a_server_says_is_never_run(servers: Servers, scheme: str, tmp_path: Path) -> None:
    assert ask(servers, scheme, "/no-address", directory=tmp_path) == SENT_ON
    assert ask(servers, scheme, "/quoted", directory=tmp_path) == failed(404)
    assert [path for _, path in servers.paths()][:2] == ["/no-address", "/quoted"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("scheme", BOTH)
def test_headers_are_those_of_the_job_also_where_it_is_sent_on(servers: Servers, scheme: str) -> None:
    given = {"X-Quoted": 'it\'s "5": \\ $HOME: ;', "Host": "own.example", "X-Empty": ""}

    ask(servers, scheme, "/good", httpHeaders=[{"name": name, "value": value} for name, value in given.items()])

    sent = {name.lower(): value for name, value in given.items()} | {"accept": "*/*", "connection": "close"}
    shown = [{name: headers.get(name) for name in sent} for _, _, headers in servers.asked]
    assert shown == [sent, sent]


def test_a_new_port_is_named_to_the_server_that_has_it(servers: Servers) -> None:
    ask(servers, "http", "/to-https")

    assert [headers["host"] for _, _, headers in servers.asked] == [
        f"127.0.0.1:{servers.http}",
        f"127.0.0.1:{servers.https}",
    ]


@pytest.mark.parametrize("scheme", BOTH)
def test_of_a_hook_any_answer_is_a_good_one(servers: Servers, scheme: str) -> None:
    assert [ask(servers, scheme, path, hook=True) for path in ("/503", "/bad", "/other-host")] == [(0, "")] * 3


def test_a_server_without_tls_is_no_server_of_https(servers: Servers) -> None:
    code, said = ask(servers, "https", "/200", port=servers.http)

    assert code != 0
    assert said.startswith("curl: (35)")


def test_curl_is_not_needed_for_http(servers: Servers, tmp_path: Path) -> None:
    (tmp_path / "timeout").symlink_to("/usr/bin/timeout")
    text = f'PATH={tmp_path}; source "$1"; run_http 30 127.0.0.1 {servers.http} "$2"'
    asks = {
        "/200": (0, ""),
        "/to-https": (1, f"the server sends on to HTTPS, and there is no curl on {os.uname().nodename}"),
    }

    for path, expected in asks.items():
        request = f"GET {path} HTTP/1.1\r\nHost: h\r\n\r\n"
        done = subprocess.run(
            ["/bin/bash", "-c", text, "bash", str(ASKING), request], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stdout.strip()) == expected, done.stderr


def test_words_of_a_request_stay_out_of_other_programs_arguments() -> None:
    handler = {"httpGet": {"scheme": "HTTPS", "port": 1, "httpHeaders": [{"name": "Authorization", "value": "secret"}]}}
    ((_, _, (line,)),) = lifecycle.blocks(workload(container("true", readinessProbe=handler)))

    headers = ["Host: 127.0.0.1:1", "User-Agent: kube-probe/batchgate", "Accept: */*", "Authorization: secret"]
    request = "".join([f"{one}\r\n" for one in ("GET / HTTP/1.1", *headers, "Connection: close", "")])
    assert line == "probe readiness 0 10 1 1 3 '' " + words(("https", "127.0.0.1", "1", request))
