"""``python -m router.controlplane``: builds and installs the needs of a control plane and a real cloud node, once.

Progress goes to standard output. Without the programs it exits with code 2 and the reason.
"""

from __future__ import annotations

import sys

from router.controlplane import building, packages, programs
from router.errors import ConfigError


def main() -> int:
    """Build the programs and install the packages; returns the exit code."""
    try:
        building.ensure(_tell)
        programs.find()
        building.ensure_helm(_tell)
    except ConfigError as error:
        sys.stderr.write(f"Error: {error}\n")
        return 2
    packages.ensure(_tell)
    return 0


def _tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
