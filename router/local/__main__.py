"""``python -m router.local``: the commands of the embedded queue; ``serve`` is its daemon, without the command line."""

import sys

if sys.argv[1:2] == ["serve"]:
    from router.local.daemon import main

    main(sys.argv[2], int(sys.argv[3]))
else:
    from router.errors import BatchgateError
    from router.local.commands import local

    try:
        local.main(prog_name="batchgate local")
    except BatchgateError as error:
        sys.exit(f"Error: {error}")
