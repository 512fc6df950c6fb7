"""The kubelet API in a process of its own, so that its memory can be measured.

``python -m tests.kubelet.alone DIRECTORY`` serves a Pod ``ada/pod`` that runs and writes nothing itself; prints its
port, and ends with its standard input.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.kubelet.site import served

if __name__ == "__main__":
    with served(Path(sys.argv[1])) as running:
        running.site.running()
        sys.stdout.write(f"{running.port}\n")
        sys.stdout.flush()
        sys.stdin.read()
