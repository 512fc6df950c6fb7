"""Site helpers as an admin would install them, with the constants set that an admin may set."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from router.host import sitehelper
from router.host.sentences import Place
from router.host.sudo import LocalOpener


def installed(
    directory: Path,
    *,
    programs: Sequence[str] = (),
    least_uid: int = 0,
    roots: Sequence[str] = (),
    python: str = sys.executable,
) -> Path:
    """A site helper in that directory, for any user to run."""
    path = directory / "sitehelper"
    text = Path(sitehelper.__file__).read_text()
    for name, value in (("LEAST_UID", least_uid), ("FURTHER_PROGRAMS", tuple(programs)), ("ROOTS", tuple(roots))):
        text, count = re.subn(rf"^{name} = [^#]*", f"{name} = {value!r}  ", text, flags=re.MULTILINE)
        assert count == 1
    path.write_text(re.sub(r"^#!.*", f"#!{python} -I", text))
    path.chmod(0o755)
    return path


def piped(helper: Path) -> LocalOpener:
    """The way to a site helper that is this very user's."""
    return LocalOpener((str(helper),), Place(str(os.getuid()), "this machine", str(helper)))
