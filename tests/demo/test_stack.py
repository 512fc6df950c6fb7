"""What the programs of a demo get of whoever starts it."""

from __future__ import annotations

from pathlib import Path

from router.demo.stack import environment_of


def test_the_environment_of_a_program() -> None:
    """Traces go where its variables say; all else, such as a kubeconfig, is left out."""
    caller = {
        "PATH": "/bin",
        "HOME": "/root",
        "KUBECONFIG": "/k",
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318",
    }

    assert environment_of(caller, Path("/work")) == {
        "PATH": "/bin",
        "HOME": "/work",
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318",
    }
