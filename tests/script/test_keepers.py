"""The processes that look after a container with hooks or probes: they end with it, whenever it ends."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

from router.script import rendering
from tests.local.queue import until

RUNTIME = Path(rendering.__file__).with_name("runtime") / "1"
SECONDS = 60.0
# The container's name takes time to read, so that the keeper opens its pipe late, as on a machine that is busy.
ENDED_AT_ONCE = """
source "$1/base.sh"
wrap() { :; }
source "$1/lifecycle.sh"
find_container() { return 1; }
scratch=$2 spool=$2 uid=u notes=0 job_id=1 names=(main) pipe=$2/x.0 grace=1 own=(main)
mkfifo "$scratch/never"
exec 7>"$scratch/groups" 8<>"$scratch/never"
declare -n name='own[$(sleep 0.2; echo 0)]'
sleep 0 &
wait
accompany 0 "$!"
rm -f "$scratch/main.0.events"
wait
"""


def test_a_container_that_ends_before_its_keeper_begins_leaves_none(tmp_path: Path) -> None:
    subprocess.run(["/bin/bash", "-c", ENDED_AT_ONCE, "bash", str(RUNTIME), str(tmp_path)], check=True, timeout=SECONDS)

    word, group = (tmp_path / "groups").read_text().split()
    assert word == "group"
    try:
        until(lambda: _gone(int(group)), seconds=SECONDS)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(int(group), signal.SIGKILL)


def _gone(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False
