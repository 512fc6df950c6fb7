"""What the containers of drawn Jobs print: all that a program can see of the fields by which it was started.

Pure. Texts for busybox's ``sh``. A Job takes each through ``word``, so that a dollar in it is the shell's own.
"""

from __future__ import annotations

import shlex
from typing import Final

ITSELF: Final = r"""
echo "$# words"; for word; do printf '[%s]\n' "$word"; done
echo "in `pwd`"
tr '\000\n' '\n\001' </proc/$$/environ | sort
"""
"""Words, directory, and the environment as the program got it: a line each, with a line's end as byte 1."""
_TREE: Final = r"""
tree() {
	echo "at $1"
	find -L "$1" ! -path '*/..*' | sort | while read -r found; do
		printf '%s %s' "$found" "`stat -L -c '%F %A' "$found" | sed 's/......$//'`"
		if test -f "$found"; then printf ' %s\n' "`wc -c <"$found"`"; cat -v "$found"; fi; echo
	done
}
"""
HOST: Final = r"""
hostname; grep -w "`hostname`" /etc/hosts | tr -s '\t ' ' ' | cut -d ' ' -f 2- | sort; grep -F 10.1.2. /etc/hosts | tr -s '\t ' ' '
"""
"""The host's name, its names in ``/etc/hosts``, and aliases that begin with 10.1.2."""
RESOLVING: Final = "\ngrep -v '^#' /etc/resolv.conf | tr ' ' '\\n' | sort\n"
"""For a Pod whose settings of DNS are its own: words in an order of their own, as a kubelet draws that of options."""
MANY_LINES: Final = "seq 1001 1100\n"
"""More than a message from the log has, so that it begins behind what may differ."""


def word(text: str) -> str:
    """A text as ``command`` and ``args`` hold it, where Kubernetes takes ``$$`` for a dollar."""
    return text.replace("$", "$$")


def trees(paths: list[str]) -> str:
    """Files and directories at mounts: kind, the owner's bits, content. A missing one is one line."""
    return _TREE + "".join([f"tree {shlex.quote(path)} 2>&1\n" for path in paths]) if paths else ""


def writing(path: str, name: str) -> str:
    """Write below a mount, and say whether it could be done."""
    file = shlex.quote(f"{path}/{name}")
    return f"if (echo {name} >{file}) 2>/dev/null; then echo wrote; else echo refused; fi\n"


def message(path: str, text: str, times: int) -> str:
    """Leave a last word, so many times after each other."""
    return f"for i in `seq {times}`; do printf %s {shlex.quote(text)}; done >{shlex.quote(path)}\n"


def counted(times: int, code: int) -> str:
    """Fail with a code in each run before the last; the runs are counted at ``/count``."""
    return (
        'n=`cat /count/n 2>/dev/null || echo 0`; n=$((n + 1)); echo $n >/count/n; echo "run $n"\n'
        f"[ $n -ge {times} ] || exit {code}\n"
    )


def waiting(name: str, code: int) -> str:
    """Wait for the end, which comes by TERM."""
    return f"trap 'echo {name} ends; exit {code}' TERM\nwhile :; do sleep 0.1; done\n"
