"""``python -m router.local``: the commands of the embedded queue."""

import sys

from router.local import calling, client

_words = sys.argv[1:]
if _words and _words[0] in calling.COMMANDS and _words[1:] != ["--help"]:
    sys.exit(calling.run(client.default_directory(), _words[0], _words[1:]))
else:
    from router.errors import BatchgateError
    from router.local.commands import local

    try:
        local.main(prog_name="batchgate local")
    except BatchgateError as error:
        sys.exit(f"Error: {error}")
