"""``python -m router.controlplane``: get what a control plane and a real node of the cloud need, once.

Progress goes to standard output. Exit code 2, with the reason, where the programs cannot be had.
"""

from __future__ import annotations

import sys

from router.controlplane import building, packages, programs
from router.errors import ConfigError


def main() -> int:
    """Build the programs, install the packages; the exit code."""
    try:
        building.ensure(_tell)
        programs.find()
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
