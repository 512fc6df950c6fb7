"""Serves a Flask app that always answers "allowed", to measure the cost of admission without judgement.

Run as ``python -m bench.noop CERT KEY``; the same gunicorn settings, worker and TLS as ``batchgate webhook``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from flask import Flask, Response, request

from router.startup import logs
from router.startup.settings import LogFormat, WebhookSettings, parse_address
from router.webhook import serve, tls


class Application(serve.Application):
    """The webhook's arbiter and worker with another app."""

    def load(self) -> Flask:
        app = Flask("noop", static_folder=None)

        def mutate() -> Response:
            review = json.loads(request.get_data(cache=False))
            answer = {
                "apiVersion": "admission.k8s.io/v1",
                "kind": "AdmissionReview",
                "response": {"uid": review["request"]["uid"], "allowed": True},
            }
            return Response(json.dumps(answer), content_type="application/json")

        app.add_url_rule("/mutate", view_func=mutate, methods=["POST"])
        return app


def main() -> None:
    certificate, key = Path(sys.argv[1]), Path(sys.argv[2])
    settings = WebhookSettings(parse_address("127.0.0.1:0"), ("localhost",), certificate, key, Path())
    log = logs.configure(LogFormat.JSON)
    current = tls.load(certificate, key, settings.host_names)
    listeners = serve.bind_all(settings)
    log.info("listening", extra={"fields": {"address": f"127.0.0.1:{listeners.reviews.getsockname()[1]}"}})
    Application(serve.options(settings, listeners, lambda: current), lambda: NotImplemented).run()


if __name__ == "__main__":
    main()
