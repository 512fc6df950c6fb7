"""A webhook that answers badly, in place of ours: a program for a Pod that has our certificate. It imports nothing of ours.

Its only argument names what it does with each review.
"""

from __future__ import annotations

import base64
import json
import ssl
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = dict[str, Any]
FAR = 3600.0


def review(uid: str, **response: Any) -> str:
    """An AdmissionReview that allows, with these further fields."""
    made = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
    return json.dumps({**made, "response": {"uid": uid, "allowed": True, **response}})


def patch(text: str) -> Json:
    """The fields of a response with a patch."""
    return {"patchType": "JSONPatch", "patch": base64.b64encode(text.encode()).decode()}


def broken_patch() -> str:
    """A patch that this Job does not take."""
    return json.dumps([{"op": "test", "path": "/spec/backoffLimit", "value": 1000}])


def unsigned_patch() -> str:
    """A patch as ours, onto a virtual node, but without a signature."""
    template = "/spec/template"
    keys = {"batchgate.dev/target": "hpc", "batchgate.dev/site": "demo", "batchgate.dev/queue": "batch"}
    script = {
        "batchgate.dev/script": "#!/bin/bash\ntouch /tmp/was-run\n",
        "batchgate.dev/requester": "kubernetes-admin",
    }
    added = {
        "/metadata/labels": keys,
        f"{template}/metadata/labels": keys,
        f"{template}/metadata/annotations": script,
        f"{template}/spec/nodeName": "batch.demo.batchgate",
        f"{template}/spec/tolerations": [{"operator": "Exists"}],
    }
    return json.dumps([{"op": "add", "path": path, "value": value} for path, value in added.items()])


def answer(what: str, uid: str) -> tuple[int, str]:
    """Status and body for a review."""
    answers = {
        "no JSON": (200, "<html>welcome</html>"),
        "no review": (200, "{}"),
        "another's answer": (200, review("another")),
        "an error": (500, '{"error": "Batchgate failed on this review; its log tells more under bug=0011"}'),
        "a patch that breaks": (200, review(uid, **patch(broken_patch()))),
        "a patch that is none": (200, review(uid, **patch("rubbish"))),
        "a patch without a signature": (200, review(uid, **patch(unsigned_patch()))),
    }
    return answers[what]


class Handler(BaseHTTPRequestHandler):
    """Answers each POST as the program's argument says."""

    def do_POST(self) -> None:
        """One review."""
        sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if sys.argv[1] == "nothing":
            time.sleep(FAR)
        status, body = answer(sys.argv[1], sent["request"]["uid"])
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())


if __name__ == "__main__":
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain("/tls/tls.crt", "/tls/tls.key")
    server = ThreadingHTTPServer(("", 8443), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.serve_forever()
