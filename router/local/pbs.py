"""A program for OpenPBS' commands and the daemon that starts fast: it is run by path, without site-packages.

``python -I -S …/router/local/pbs.py qsub …``: see ``router.local.client.program``. No module imports this file.
"""

import sys

if __name__ == "__main__":
    sys.path.insert(0, __file__.rpartition("/router/")[0])
    from router.local import calling, client

    if sys.argv[1:2] == ["serve"]:
        from router.local.daemon import main

        sys.exit(main(sys.argv[2], int(sys.argv[3])))
    if sys.argv[1:2] == [] or sys.argv[1] not in calling.COMMANDS:
        sys.exit(f"usage: pbs.py {'|'.join(sorted(calling.COMMANDS))} ...")
    sys.exit(calling.run(client.default_directory(), sys.argv[1], sys.argv[2:]))
