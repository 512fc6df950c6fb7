"""``python -m router.local``: the commands of the embedded queue; ``serve`` is its daemon, without the command line."""

import sys

if sys.argv[1:2] == ["serve"]:
    from router.local.daemon import main

    main(sys.argv[2], int(sys.argv[3]))
else:
    from router.local.commands import local

    local.main(prog_name="batchgate local")
