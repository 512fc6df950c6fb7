"""``python -m router.local``: the commands of the embedded queue; ``serve`` is its daemon, without the command line."""

import sys

from router.local import calling, client

_words = sys.argv[1:]
if _words[:1] == ["serve"]:
    from router.local.daemon import main

    main(_words[1], int(_words[2]))
elif _words and _words[0] in calling.COMMANDS and _words[1:] != ["--help"]:
    sys.exit(calling.run(client.default_directory(), _words[0], _words[1:]))
else:
    from router.errors import BatchgateError
    from router.local.commands import local

    try:
        local.main(prog_name="batchgate local")
    except BatchgateError as error:
        sys.exit(f"Error: {error}")
