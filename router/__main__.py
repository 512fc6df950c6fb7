"""``python -m router`` is the command ``batchgate``."""

from router.cli import main

main()
